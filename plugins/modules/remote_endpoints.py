# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: remote_endpoints
short_description: What a node knows of other nodes' workloads
version_added: 0.2.0
description:
  - Tells a node of the workloads that came to other nodes between runs, so that selectors in rules find them. Policy
    is in force with them when the module returns, by the agent where one runs.
  - The node keeps what it was told, also over a reboot, and forgets nodes that left the fleet. Of nodes that it is told
    nothing of it keeps what it knew.
  - That a node was asked again, and is as it was, is written down and is no change.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
options:
  exchange:
    description:
      - The folder that M(baremetal.host_routing.endpoint_sync) returned, in which stands what this node is told.
    type: str
  told:
    description:
      - By the name of a node, when it was asked (C(collected)), and its workloads (C(endpoints)) as
        M(baremetal.host_routing.remote_endpoints_info) returns them. Without C(endpoints) they are as they were.
      - C(blocks) are the node's blocks by the lockfile. Addresses outside of them are left out, with a warning.
    type: dict
  nodes:
    description:
      - Names of all nodes of the fleet.
    type: list
    elements: str
  who:
    description:
      - Who does it, for others who wait for the node meanwhile.
    type: str
    default: ansible
  lock_timeout:
    description:
      - Seconds to wait while another run changes this node.
    type: int
    default: 60
seealso:
  - module: baremetal.host_routing.remote_endpoints_info
  - module: baremetal.host_routing.endpoint_sync
"""

EXAMPLES = r"""
- name: Tell the node of the others
  baremetal.host_routing.remote_endpoints:
    exchange: "{{ exchange.path }}"

- name: Tell it of one workload, by hand
  baremetal.host_routing.remote_endpoints:
    nodes: [node1, node2]
    told:
      node2:
        collected: "2026-11-22T06:00:00Z"
        blocks: [10.244.3.0/26]
        endpoints:
          - kind: WorkloadEndpoint
            name: default/web-1
            node: node2
            interface: cali1f2e3d4c5b6
            addresses: [10.244.3.2]
            labels: {app: web, projectcalico.org/namespace: default}
            namespace: default
"""

RETURN = r"""
plan:
  description: What differed, one line each.
  returned: always
  type: list
  elements: str
  sample: ["+ endpoint default/web-1 on node2  10.244.3.2  labels app=web"]
changes:
  description: The same for programs.
  returned: always
  type: list
  elements: dict
  sample: [{action: "+", subject: default/web-1 on node2}]
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import agent_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import change_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.errors import ERRORS
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import endpoint_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import sentences


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "exchange": {"type": "str"},
            "told": {"type": "dict"},
            "nodes": {"type": "list", "elements": "str"},
            "who": {"type": "str", "default": "ansible"},
            "lock_timeout": {"type": "int", "default": 60},
        },
        required_together=[("told", "nodes")],
        required_one_of=[("exchange", "told")],
        mutually_exclusive=[("exchange", "told")],
        supports_check_mode=True,
    )
    here = machine.here(agent_start.connect)
    try:
        taken = endpoint_sync.take(
            here,
            module.params["told"] or {},
            module.params["nodes"] or [],
            who=module.params["who"],
            check=module.check_mode,
            lock_timeout=module.params["lock_timeout"],
        )
    except ValueError as error:
        module.fail_json(msg=f"told: {error}. Tell what remote_endpoints_info of this release returned.")
    except ERRORS as error:
        module.fail_json(msg=str(error))
    finally:
        here.kernel.close()
    for sentence in sentences(taken.left_out):
        module.warn(sentence)
    lines = change_lines(taken.changes)
    answer = {
        "changed": taken.changed,
        "plan": lines,
        "changes": [{"action": change.action, "subject": change.subject} for change in taken.changes],
    }
    if module._diff and lines:
        answer["diff"] = {"prepared": "".join(f"{line}\n" for line in lines)}
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
