# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node
short_description: Bring a whole node to its state
version_added: 0.1.0
description:
  - Changes devices, addresses, workloads, routes, rules, sysctls, IP sets, iptables, bird.cfg and files of a node so
    that they match one NodeState, in one call and in an order that interrupts nothing. BIRD reloads a changed bird.cfg
    without a restart.
  - If the node's agent runs, the module sends the state to the agent, which changes the kernel. Workloads that were
    added between runs stay, with and without an agent.
  - Objects that are not marked as the collection's own are never changed. If one of them conflicts with the state,
    nothing is changed.
  - The state is stored on the node, where the boot unit applies it after a restart. It is also kept as a generation for
    rollbacks.
  - Without O(state), the action compiles the inventory on the controller and determines the state of this host. Without
    O(observed), it first reads what the host has.
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
  - baremetal.host_routing.node.generations_kept
  - baremetal.host_routing.node.lock_timeout
options:
  state:
    description:
      - The NodeState, as M(baremetal.host_routing.node_info) returns it.
      - By default the action takes the host's state from O(fleet), or compiles the inventory.
    type: dict
  by_phase:
    description:
      - In check mode, plan each phase of the change that leads to the state as well. Used by the action.
    type: bool
    default: false
  phases:
    description:
      - The phases that lead to the state, for their plans in check mode. Filled in by the action.
    type: list
    elements: dict
    suboptions:
      phase:
        description: Name of the phase.
        type: str
        required: true
      state:
        description: The NodeState of the phase.
        type: dict
        required: true
      bird_config:
        description: Content of bird.cfg in the phase.
        type: str
  bird_config:
    description:
      - Content of bird.cfg. BIRD checks it before anything is changed. Without it BIRD is not touched.
    type: str
  bgp_passwords:
    description:
      - Passwords of the BGP sessions in O(state), packed. Filled in by the action from C(calico_bgp_secrets).
      - They are written only to a separate file beside bird.cfg, which only root and the group of BIRD can read.
        Passwords that the node already has can be left out.
    type: str
  files:
    description:
      - Files that belong to the node. Files of an earlier call that are not in this list are removed.
      - Without this option they stay as they are.
    type: list
    elements: dict
    suboptions:
      path:
        description: Path of the file on the node.
        type: str
        required: true
      content:
        description: Content of the file.
        type: str
      src:
        description: A file of the role calico_node with the content. Used by the action.
        type: str
      mode:
        description: Permissions of the file, octal.
        type: str
        default: "0644"
      last:
        description: Whether the file shows that the node is ready. It is written last and removed first.
        type: bool
        default: false
  units:
    description:
      - Systemd units that the node needs, in the order of their start, after all other changes.
      - Systemd reloads its units first if their files have changed.
    type: list
    elements: dict
    suboptions:
      name:
        description: The unit.
        type: str
        required: true
      enabled:
        description: Whether it starts with the host. By default this stays as it is.
        type: bool
      started:
        description: Whether it runs. By default this stays as it is.
        type: bool
      masked:
        description: Whether it is masked, so that it never starts. Units are never unmasked.
        type: bool
        default: false
      bgp:
        description:
          - Enable and start the unit if the state has BGP, disable and stop it otherwise. Used by the action.
        type: bool
  engine:
    description:
      - Path on the node of the bundle with the engine that the boot unit runs. The action sends it if it differs.
    type: path
  engine_digest:
    description:
      - Digest of the engine that the node shall have.
    type: str
  who:
    description:
      - Name of the person or tool that applies this state, for the list of generations.
    type: str
    default: ansible
  confirm_timeout:
    description:
      - Seconds after which the node reverts the change by itself, unless a new connection confirms it. The action
        confirms it for each host as soon as the host is changed; V(0) switches this off.
      - Only the changes of O(state) and O(bird_config) are reverted; files, units and the engine stay. A node that had
        no state before reverts to the same state without policy.
      - If a run fails for another reason and the node can be reached, the node stays as the failure left it.
    type: int
    default: 0
  change:
    description:
      - Name of this change, with which it is confirmed. Filled in by the action.
    type: str
seealso:
  - module: baremetal.host_routing.node_confirm
  - module: baremetal.host_routing.node_info
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Apply the inventory to the host
  baremetal.host_routing.node:

- name: Show what this would change
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
  description: The differences, one line each. Interruptions come first, then changes, then additions.
  returned: always
  type: list
  elements: str
  sample: ["+ route    10.244.12.64/26  blackhole    own block"]
changes:
  description: The differences as data.
  returned: always
  type: list
  elements: dict
  contains:
    kind: {description: "Kind: device, address, route, sysctl, file, bird, session...", type: str, sample: route}
    action:
      description: V(+) added, V(~) changed, V(-) removed, V(=) kept on purpose, V(!) in the way, or interrupted.
      type: str
    subject: {description: The object., type: str, sample: 10.244.12.64/26}
    before: {description: Its value before., type: str}
    after: {description: Its value after., type: str, sample: blackhole}
    note: {description: The reason., type: str, sample: own block}
    by: {description: "Which program makes the change, V(node) or V(bird).", type: str, sample: node}
phases:
  description: For each phase of a change, in order, what it will change after the phase before it.
  returned: in check mode, with O(by_phase)
  type: list
  elements: dict
  contains:
    phase: {description: Its name., type: str, sample: prepare}
    plan: {description: "As RV(plan).", type: list, elements: str}
    changes: {description: "As RV(changes).", type: list, elements: dict}
new:
  description: Whether the node had no state before.
  returned: always
  type: bool
sessions_begun:
  description: Number of BGP sessions that this change adds.
  returned: always
  type: int
sessions_reset:
  description: Number of BGP sessions that this change ends or restarts.
  returned: always
  type: int
routes_withdrawn:
  description: Number of routes that this node loses.
  returned: always
  type: int
kept:
  description: Objects that stay although nothing needs them any more, and the reasons.
  returned: always
  type: list
  elements: str
  sample: ["10.244.3.0/32 kept: 2 open sockets use it"]
units_changed:
  description: Whether systemd has to reload its units.
  returned: always
  type: bool
generation:
  description: Number of the recorded generation, V(null) if the state is already the newest one.
  returned: always
  type: int
cut:
  description:
    - SSH connections to this host that could not be opened again under the new policy, and the reasons.
  returned: always
  type: list
  elements: str
  sample: ["a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by no-ssh#1 (ingress,
           HostEndpoint node1-eth0)"]
unconfirmed:
  description: The change that waits for a confirmation, V("") if none does. Used by the action.
  returned: always
  type: str
confirmed:
  description: Whether the change was confirmed by a new connection.
  returned: when a change waited for that
  type: bool
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import agent_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change, change_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine, units
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import apply, lockout_check, phases
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.comparison import Engine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change.plan import ChangePlan, plan_change
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.errors import ERRORS, InTheWay
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import unconfirmed
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import File, Stored, StoreError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

ARGUMENT_SPEC: dict[str, t.Any] = {
    "state": {"type": "dict"},
    "fleet": {"type": "str"},
    "observed": {"type": "str"},
    "phase": {
        "type": "str",
        "choices": [str(phase) for phase in Phase],
        "default": str(Phase.CONVERGE),
    },
    "pool": {"type": "str"},
    "mode": {"type": "str", "choices": ["ipip", "ipip-crosssubnet", "vxlan", "vxlan-crosssubnet", "direct"]},
    "by_phase": {"type": "bool", "default": False},
    "phases": {
        "type": "list",
        "elements": "dict",
        "options": {
            "phase": {"type": "str", "required": True},
            "state": {"type": "dict", "required": True},
            "bird_config": {"type": "str"},
        },
    },
    "bird_config": {"type": "str"},
    "bgp_passwords": {"type": "str", "no_log": True},
    "files": {
        "type": "list",
        "elements": "dict",
        "options": {
            "path": {"type": "str", "required": True},
            "content": {"type": "str"},
            "src": {"type": "str"},
            "mode": {"type": "str", "default": "0644"},
            "last": {"type": "bool", "default": False},
        },
    },
    "units": {
        "type": "list",
        "elements": "dict",
        "options": {
            "name": {"type": "str", "required": True},
            "enabled": {"type": "bool"},
            "started": {"type": "bool"},
            "masked": {"type": "bool", "default": False},
            "bgp": {"type": "bool"},
        },
    },
    "engine": {"type": "path"},
    "engine_digest": {"type": "str"},
    "who": {"type": "str", "default": "ansible"},
    "generations_kept": {"type": "int", "default": 10},
    "lock_timeout": {"type": "int", "default": 60},
    "confirm_timeout": {"type": "int", "default": 0},
    "change": {"type": "str"},
}


def target_of(params: t.Mapping[str, t.Any]) -> Stored:
    """Return the state, bird.cfg and files to apply; raise ValueError for a state that this release cannot read."""
    if params["state"] is None:
        raise ValueError("state is missing. It is worked out by the module's action, on the controller.")
    files = None
    if params["files"] is not None:
        files = tuple(
            File(entry["path"], entry["content"] or "", entry["mode"], entry["last"]) for entry in params["files"]
        )
    state = NodeState.from_dict(params["state"])
    return Stored(state, params["bird_config"] if state.bird else None, files, params["who"])


def units_of(params: t.Mapping[str, t.Any]) -> tuple[units.WantedUnit, ...]:
    """Return the units that have something to be set."""
    wanted = [
        units.WantedUnit(entry["name"], entry["enabled"], entry["started"], entry["masked"])
        for entry in params["units"] or ()
    ]
    return tuple(unit for unit in wanted if unit != units.WantedUnit(unit.name))


def engine_of(params: t.Mapping[str, t.Any]) -> t.Optional[Engine]:
    if params["engine_digest"] is None:
        return None
    data = None
    if params["engine"] is not None:
        with open(params["engine"], "rb") as stream:
            data = stream.read()
    return Engine(params["engine_digest"], data)


def confirm_of(here: machine.Machine, params: t.Mapping[str, t.Any]) -> t.Optional[unconfirmed.Confirm]:
    if params["confirm_timeout"] <= 0:
        return None
    own = next(iter(here.sessions()), None)
    return unconfirmed.Confirm(params["change"] or params["who"], params["confirm_timeout"], own.text if own else "")


def waiting_change(here: machine.Machine) -> str:
    """Return the name of the change that waits for its confirmation, even if the change failed; "" if none waits."""
    try:
        pending = unconfirmed.UnconfirmedStore(here.store).load()
    except StoreError:
        return ""
    return pending.change if pending else ""


def phases_of(here: machine.Machine, params: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return what each phase will change, as data and in lines."""
    plans = []
    for entry in params["phases"] or ():
        state = NodeState.from_dict(entry["state"])
        stored = Stored(state, entry["bird_config"] if state.bird else None)
        plans.append(plan_change(here, stored, passwords=passwords.unpack(params["bgp_passwords"])))
    return [
        {
            "phase": entry["phase"],
            "plan": change_lines(step),
            "changes": changes_of(step),
        }
        for entry, step in zip(params["phases"] or (), phases.steps(plans))
    ]


def prepared_diff(plan: ChangePlan, steps: t.Sequence[t.Mapping[str, t.Any]] = ()) -> str:
    """Return the plan for people: the phases on the way, the plan's lines, then the differences of texts."""
    node, lines = plan.target.state.node, []
    for step in steps:
        lines.append(
            f"{node}  {step['phase']:<8} {_count((change['kind'], change['action']) for change in step['changes'])}"
        )
        lines += [f"  {line}" for line in step["plan"]]
    head = f"{node}  {_count((change.kind, change.action) for change in plan.shown if change not in plan.cut)}"
    lines.append(f"{head:<58} plan {plan.target.state.plan[:12]}".rstrip())
    lines += [f"  {line}" for line in plan.lines]
    details = [terminal_text.text(change.detail.rstrip("\n")) for change in plan.shown if change.detail]
    return "\n".join([*lines, *details]) + "\n"


def _count(changes: t.Iterable[tuple[str, str]]) -> str:
    """Return the number of changes in words, from pairs (kind, action).

    A session that restarts is not counted, since another change causes it.
    """
    count = sum(action != "=" and kind != "session" for kind, action in changes)
    return f"{count} change{'' if count == 1 else 's'}"


def changes_of(changes: t.Iterable[Change]) -> list[dict[str, t.Any]]:
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
        for change in changes
    ]


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENT_SPEC, required_together=[("pool", "mode")], supports_check_mode=True)
    here = machine.here(agent_start.connect)
    steps: list[dict[str, t.Any]] = []
    try:
        if module.check_mode:
            steps = phases_of(here, module.params)
        result = apply.bring_to(
            here,
            target_of(module.params),
            engine=engine_of(module.params),
            wanted_units=units_of(module.params),
            check=module.check_mode,
            keep=module.params["generations_kept"],
            lock_timeout=module.params["lock_timeout"],
            confirm=confirm_of(here, module.params),
            passwords=passwords.unpack(module.params["bgp_passwords"]),
        )
    except (*ERRORS, InTheWay, bundle.BundleError, ValueError) as error:
        module.fail_json(msg=str(error), unconfirmed=waiting_change(here))
    finally:
        here.kernel.close()
    plan = result.plan
    answer: dict[str, t.Any] = {
        "changed": plan.changed,
        "plan": plan.lines,
        "changes": changes_of(plan.shown),
        "new": plan.stored is None,
        "sessions_begun": plan.sessions_begun,
        "sessions_reset": plan.sessions_reset,
        "routes_withdrawn": plan.routes_withdrawn,
        "kept": plan.kept,
        "units_changed": plan.units_changed,
        "generation": result.generation,
        "cut": [lockout_check.sentence(change) for change in plan.cut],
        "unconfirmed": result.unconfirmed,
    }
    if steps:
        answer["phases"] = steps
    if module._diff and plan.changed:
        answer["diff"] = {"prepared": prepared_diff(plan, steps)}
    for change in plan.node.problems:
        module.warn(f"{plan.target.state.node}: {change.note}")
    for change in plan.node.kept:
        if change.kind == "ipset":
            module.warn(f"{plan.target.state.node}: {change.subject}: {change.note}")
    policy = plan.target.state.policy
    standing = "" if policy is not None and policy.settings.cut_denied_flows else " Connections that stand go on."
    for sentence in answer["cut"]:
        module.warn(f"{plan.target.state.node}: {sentence}.{standing}")
    for change in plan.news:
        module.warn(f"{plan.target.state.node} {change.note}")
    module.exit_json(**answer)


if __name__ == "__main__":
    main()
