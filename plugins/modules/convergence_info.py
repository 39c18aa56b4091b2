# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: convergence_info
short_description: Wait until a node's sessions and routes are in place
version_added: 0.1.0
description:
  - Waits, on the node, until all of its BGP sessions are Established and all routes that BIRD shall write are in the
    kernel exactly as planned, with gateway, device and C(onlink). Checks several times per second in a single call.
  - Fails when the time is over, and names what is missing.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.phase
options:
  state:
    description:
      - The NodeState whose sessions and routes to wait for. By default the state stored on the node.
      - The action takes it from O(fleet) if that is given.
    type: dict
  timeout:
    description:
      - Seconds to wait; V(0) checks once.
    type: int
    default: 60
  fail:
    description:
      - Whether a node that has not converged is a failure.
    type: bool
    default: true
seealso:
  - module: baremetal.host_routing.node
  - module: baremetal.host_routing.bgp_session_info
"""

EXAMPLES = r"""
- name: Wait until everything is in place
  baremetal.host_routing.convergence_info:
    timeout: 30

- name: Check once and go on
  baremetal.host_routing.convergence_info:
    timeout: 0
    fail: false
  register: convergence
"""

RETURN = r"""
converged:
  description: Whether nothing is missing.
  returned: always
  type: bool
sessions:
  description: Number of BGP sessions that shall exist, and number that are Established.
  returned: always
  type: dict
  sample: {expected: 3, established: 3}
routes:
  description: Number of routes that BIRD shall write, and number that are in the kernel as planned.
  returned: always
  type: dict
  sample: {expected: 3, present: 3}
missing:
  description: Each missing or wrong session or route, in words.
  returned: always
  type: list
  elements: str
  sample: [session with node4 (10.10.2.14) is Active since 14:02:11]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import BirdError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import convergence
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, StoreError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

# Number of missing things that a message names; all are in `missing`.
_NAMED = 5


def state_of(params: t.Mapping[str, t.Any], here: machine.Machine) -> NodeState:
    """Return the state to wait for; raise ValueError or StoreError."""
    if params["state"] is not None:
        return NodeState.from_dict(params["state"])
    stored = Store(here.store).load()
    if stored is None:
        raise ValueError(
            f"there is nothing to wait for: no state was given, and none is stored in {here.store}. "
            "Bring the node to its state first (module baremetal.host_routing.node)."
        )
    return stored.state


def message(found: convergence.Convergence, timeout: int) -> str:
    more = len(found.missing) - _NAMED
    named = "; ".join(text.rstrip(".") for text in found.missing[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return f"not converged after {timeout} s: {named}. See `birdc -s /run/calico/bird.ctl show protocols all` there."


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "dict"},
            "fleet": {"type": "str"},
            "observed": {"type": "str"},
            "phase": {
                "type": "str",
                "choices": [str(phase) for phase in Phase],
                "default": str(Phase.CONVERGE),
            },
            "timeout": {"type": "int", "default": 60},
            "fail": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    here = machine.here()
    try:
        state = state_of(module.params, here)
        found = convergence.wait(here, state, module.params["timeout"])
    except (BirdError, KernelError, ObserveError, StoreError, ValueError) as error:
        module.fail_json(msg=str(error))
    finally:
        here.kernel.close()
    answer: dict[str, t.Any] = {
        "changed": False,
        "converged": found.converged,
        "sessions": {"expected": found.sessions_expected, "established": found.sessions_established},
        "routes": {"expected": found.routes_expected, "present": found.routes_present},
        "missing": list(found.missing),
    }
    if not found.converged and module.params["fail"]:
        module.fail_json(msg=message(found, module.params["timeout"]), **answer)
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
