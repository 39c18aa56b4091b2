# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Bring a whole node to its state
version_added: 0.1.0
description:
  - Brings devices, addresses, workloads, routes, rules, sysctls, IP sets, iptables, bird.cfg and files of a node to
    one NodeState, in one call and in an order that cuts nothing off. BIRD reads a changed bird.cfg again, it is not
    restarted.
  - What is not marked as the collection's own is never changed. Where it stands in the way nothing is changed at all.
  - The state is stored on the node, where the boot unit applies it after a restart, and kept as a generation to
    return to.
  - Given no O(state), its action compiles the inventory on the controller and works out the state of this host. Where
    O(observed) is not given either it asks the host for what it has.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.changing
  - baremetal.host_routing.fleet.folder
  - baremetal.host_routing.fleet.observed
  - baremetal.host_routing.fleet.phase
  - baremetal.host_routing.fleet.pool_mode
options:
  state:
    description:
      - The NodeState, as M(baremetal.host_routing.node_info) returns it.
      - Without it the action takes the host's state from O(fleet), or compiles the inventory.
    type: dict
  bird_config:
    description:
      - Content of bird.cfg. It is checked by BIRD before anything is changed. Without it BIRD is left alone.
    type: str
  files:
    description:
      - Files that belong to the node. Those that an earlier call had and this one has not are removed.
      - Without this option they stay as they are.
    type: list
    elements: dict
    suboptions:
      path:
        description: Where the file is on the node.
        type: str
        required: true
      content:
        description: What it says.
        type: str
      src:
        description: A file of the role calico_node with its content. Read by the action.
        type: str
      mode:
        description: Its permissions, octal.
        type: str
        default: "0644"
  engine:
    description:
      - Path, on the node, of the engine that the boot unit runs, as a bundle. Sent by the action when it differs.
    type: path
  engine_digest:
    description:
      - Which engine the node shall have.
    type: str
  who:
    description:
      - Who brings the node to this state, for the list of generations.
    type: str
    default: ansible
  generations_kept:
    description:
      - How many of its last states the node keeps.
    type: int
    default: 10
  lock_timeout:
    description:
      - Seconds to wait while another run changes this node.
    type: int
    default: 60
seealso:
  - module: baremetal.host_routing.node_info
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Bring the host to what the inventory says of it
  baremetal.host_routing.node:

- name: Show what that would change
  baremetal.host_routing.node:
  check_mode: true
  diff: true

- name: Return to a stored state
  baremetal.host_routing.node:
    state: "{{ chosen.generation.state }}"
    bird_config: "{{ chosen.generation.bird_config }}"
"""

RETURN = r"""
plan:
  description: What differed, one line each; what breaks comes first, then what changes, then what is added.
  returned: always
  type: list
  elements: str
  sample: ["+ route    10.244.12.64/26  blackhole    own block"]
changes:
  description: The same as data.
  returned: always
  type: list
  elements: dict
  contains:
    kind: {description: "What it is: device, address, route, sysctl, file, bird...", type: str, sample: route}
    action: {description: "V(+) added, V(~) changed, V(-) removed, V(=) kept on purpose, V(!) in the way.", type: str}
    subject: {description: Which one., type: str, sample: 10.244.12.64/26}
    before: {description: What it was., type: str}
    after: {description: What it is now., type: str, sample: blackhole}
    note: {description: Why., type: str, sample: own block}
    by: {description: "Who makes it so, V(node) or V(bird).", type: str, sample: node}
sessions_reset:
  description: Number of BGP sessions that this ends or restarts.
  returned: always
  type: int
routes_withdrawn:
  description: Number of routes of this node that go.
  returned: always
  type: int
kept:
  description: What stays although nothing asks for it any more, and why.
  returned: always
  type: list
  elements: str
  sample: ["10.244.3.0/32 kept: 2 open sockets use it"]
units_changed:
  description: Whether systemd has to read its units again.
  returned: always
  type: bool
generation:
  description: Number of the generation that was recorded, V(null) where the state is the newest one already.
  returned: always
  type: int
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import apply, bundle, command, machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import File, Stored

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "dict"},
    "fleet": {"type": "str"},
    "observed": {"type": "str"},
    "phase": {"type": "str", "choices": ["converge", "prepare", "links", "flip", "retire"], "default": "converge"},
    "pool": {"type": "str"},
    "mode": {"type": "str", "choices": ["ipip", "ipip-crosssubnet", "vxlan", "vxlan-crosssubnet", "direct"]},
    "bird_config": {"type": "str"},
    "files": {
        "type": "list",
        "elements": "dict",
        "options": {
            "path": {"type": "str", "required": True},
            "content": {"type": "str"},
            "src": {"type": "str"},
            "mode": {"type": "str", "default": "0644"},
        },
    },
    "engine": {"type": "path"},
    "engine_digest": {"type": "str"},
    "who": {"type": "str", "default": "ansible"},
    "generations_kept": {"type": "int", "default": 10},
    "lock_timeout": {"type": "int", "default": 60},
}


def target_of(params: t.Mapping[str, t.Any]) -> Stored:
    """Raises ValueError for a state that this release cannot read."""
    if params["state"] is None:
        raise ValueError("state is missing. It is worked out by the module's action, on the controller.")
    files = None
    if params["files"] is not None:
        files = tuple(File(entry["path"], entry["content"] or "", entry["mode"]) for entry in params["files"])
    state = NodeState.from_dict(params["state"])
    return Stored(state, params["bird_config"] if state.bird else None, files, params["who"])


def engine_of(params: t.Mapping[str, t.Any]) -> t.Optional[apply.Engine]:
    if params["engine_digest"] is None:
        return None
    data = None
    if params["engine"] is not None:
        with open(params["engine"], "rb") as stream:
            data = stream.read()
    return apply.Engine(params["engine_digest"], data)


def prepared_diff(plan: apply.Plan) -> str:
    """The plan as people read it, then the texts that change."""
    count = sum(change.action != "=" for change in plan.shown)
    head = f"{plan.target.state.node}  {count} change{'' if count == 1 else 's'}"
    lines = [f"{head:<58} plan {plan.target.state.plan[:12]}".rstrip()]
    lines += [f"  {line}" for line in plan.lines]
    details = [change.detail.rstrip("\n") for change in plan.shown if change.detail]
    return "\n".join([*lines, *details]) + "\n"


def changes_of(plan: apply.Plan) -> list[dict[str, t.Any]]:
    return [
        {
            "kind": change.kind,
            "action": change.action,
            "subject": change.subject,
            "before": change.before,
            "after": change.after,
            "note": change.note,
            "by": "bird" if change.note == "proto bird" else "node",
        }
        for change in plan.shown
    ]


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, required_together=[("pool", "mode")], supports_check_mode=True)
    here = machine.here()
    try:
        result = apply.bring_to(
            here,
            target_of(module.params),
            engine=engine_of(module.params),
            check=module.check_mode,
            keep=module.params["generations_kept"],
            lock_timeout=module.params["lock_timeout"],
        )
    except (*command.ERRORS, apply.InTheWay, bundle.BundleError, ValueError) as error:
        module.fail_json(msg=str(error))
    finally:
        here.kernel.close()
    plan = result.plan
    answer: dict[str, t.Any] = {
        "changed": plan.changed,
        "plan": plan.lines,
        "changes": changes_of(plan),
        "sessions_reset": apply.resets(plan),
        "routes_withdrawn": apply.withdrawals(plan),
        "kept": plan.kept,
        "units_changed": plan.units_changed,
        "generation": result.generation,
    }
    if module._diff and plan.changed:
        answer["diff"] = {"prepared": prepared_diff(plan)}
    for change in plan.node.problems:
        module.warn(f"{plan.target.state.node}: {change.note}")
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
