# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_status_info
short_description: Read the status of a node
version_added: 0.2.0
description:
  - Returns the status of a node in one call, with its BGP sessions, the routes that BIRD writes, its blocks and
    workloads, its agent and the agent's repairs.
  - Changes nothing. It waits a few seconds if the agent is repairing something. If sessions are down and BIRD does not
    know why, it waits as long again, to see which of their packets the kernel drops.
  - Parts that cannot be read are listed in RV(problems) and do not fail the task.
author:
  - baremetal.host_routing contributors (@baremetal-host-routing)
extends_documentation_fragment:
  - baremetal.host_routing.attributes
  - baremetal.host_routing.attributes.actiongroup_host_routing
  - baremetal.host_routing.attributes.info_module
seealso:
  - module: baremetal.host_routing.fleet_status
  - module: baremetal.host_routing.convergence_info
"""

EXAMPLES = r"""
- name: Read the status of a node
  baremetal.host_routing.node_status_info:
  register: node
"""

RETURN = r"""
node:
  description: Name of the node in its stored state, V(null) on a host that has none.
  returned: always
  type: str
  sample: node7
plan:
  description: Hash of the fleet that its state was compiled from.
  returned: when there is a state
  type: str
  sample: 7f3a91
complete:
  description: Whether all of that state was applied. V(false) after an interrupted run.
  returned: when there is a state
  type: bool
bgp:
  description: Whether the fleet has BGP, and its sessions that the node shall have.
  returned: when there is a state
  type: dict
  contains:
    enabled: {description: Whether the fleet has BGP., type: bool}
    running: {description: Whether the node's BIRD answers., type: bool}
    sessions:
      description: The sessions, as planned.
      type: list
      elements: dict
      sample: [{name: Mesh_10_10_2_14, node: node4, address: 10.10.2.14, established: false, state: Active,
                since: "14:02:11", error: Hold timer expired, reason: nothing was heard of the peer for 90 s...,
                routes_kept: true}]
routes:
  description: Number of routes that BIRD shall write, number that are in the kernel as planned, and the others.
  returned: when there is a state
  type: dict
  sample: {expected: 11, present: 10, missing: [route 10.244.7.0/26 of node2 is missing]}
blocks:
  description: Number of used and free addresses of each block of the node.
  returned: when there is a state
  type: list
  elements: dict
  sample: [{cidr: 10.244.9.64/26, pool: default-ipv4-ippool, size: 64, in_use: 12, reserved: 0, free: 52, spare: false}]
workloads:
  description: Number of workloads on the node, including the inventory's.
  returned: when there is a state
  type: int
agent:
  description:
    - Whether the node shall have an agent, the status that the agent reports, and the seconds since its start.
  returned: always
  type: dict
  sample: {wanted: true, running: true, version: 0.2.0, uptime: 777600, in_sync: true, problems: [],
           drift: {total: 9, day: 3, kinds: {route: 3}}}
problems:
  description: Parts that could not be read, and a change that the node has reverted or is about to revert, in words.
  returned: always
  type: list
  elements: str
"""

import datetime
import glob
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import dropped_segments, refusals, status
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import BirdError
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.status import Session
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.sources import Sources
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.bird_routes import bird_changes
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import machine
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle, engine_start
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store, StoreError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import UnconfirmedStore
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

Data = dict[str, t.Any]

_ABSENT = Session("", "none", "", error="not in BIRD's configuration")
_NOT_READ = "BIRD has not read its last bird.cfg. Run playbooks/site.yml, which has it read that."


def gather(here: machine.Machine, now: datetime.datetime) -> Data:
    problems: list[str] = []
    # `agent` alone reports that the agent does not run.
    with Sources(here, lambda dummy: None) as sources:
        found: Data = {"node": None, "agent": agent(sources, now, problems)}
        problems += engine(here)
        try:
            stored = Store(here.store).load()
        except (StoreError, OSError) as error:
            problems.append(str(error))
            stored = None
        if stored is not None:
            state = stored.state
            found.update(node=state.node, plan=state.plan, complete=stored.complete)
            found.update(bgp=bgp(here, state, problems), routes=routes(here, state, problems))
            found["blocks"] = addresses(sources, problems)
            found["workloads"] = workloads(sources, state, problems)
            problems += confirmation(here)
    return {**found, "problems": problems}


def engine(here: machine.Machine) -> t.Iterator[str]:
    """Yield the alarm that the engine's last start raised, and what is damaged of the engine now."""
    alarm = engine_start.read_alarm(here.engine_alarm)
    damage = bundle.damage(here.engine)
    if alarm:
        yield alarm
    elif damage:
        yield (
            f"the engine in {here.engine} is not as it was installed: {', '.join(damage[:3])}. Run site.yml, which "
            "installs it again, and find out who changed it."
        )


def confirmation(here: machine.Machine) -> t.Iterator[str]:
    """Yield a sentence if a change waits for its confirmation, and one if the node reverted a change by itself."""
    waiting = UnconfirmedStore(here.store)
    try:
        pending, news = waiting.load(), waiting.news()
    except StoreError as error:
        yield str(error)
        return
    if pending is not None:
        left = max(pending.left(here.uptime()), 0.0)
        yield (
            f"the change to plan {pending.plan[:12]} is not confirmed: the node goes back to plan"
            f" {pending.previous.state.plan[:12]} in {left:.0f} s."
        )
    if news is not None:
        yield news.sentence


def agent(sources: Sources, now: datetime.datetime, problems: list[str]) -> Data:
    try:
        said = sources.agent_status() if sources.agent_runs() else None
    except CommandError as error:
        problems.append(str(error))
        said = None
    found: Data = {"wanted": wants_agent(sources.machine.root), "running": said is not None}
    if said is None:
        return found
    since = datetime.datetime.strptime(said["since"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    kept = ("version", "since", "in_sync", "problems", "drift")
    return {**found, "uptime": int((now - since).total_seconds()), **{name: said[name] for name in kept}}


def wants_agent(root: str) -> bool:
    """Return whether the agent starts with the host.

    The unit is on every node, and enabled where calico_node_agent is set.
    """
    return bool(glob.glob(os.path.join(root, "etc/systemd/system/*.wants/calico-agent.service")))


def bgp(here: machine.Machine, state: NodeState, problems: list[str]) -> Data:
    if state.bird is None:
        return {"enabled": False, "running": False, "sessions": []}
    try:
        observed = {session.name: session for session in status.observe(here.bird_socket).sessions}
        running = True
    except BirdError as error:
        problems.append(str(error))
        observed, running = {}, False
    sessions = []
    unexplained = refusals.unexplained(observed.values())
    dropped = dropped_segments.during(here.watched if unexplained else 0.0, here.netstat)
    for peer in state.bird.peers:
        session = observed.get(peer.name, _ABSENT if running else Session(peer.name, "none", ""))
        known = peer.name in observed
        sessions.append(
            {
                "name": peer.name,
                "node": peer.node,
                "address": peer.address,
                "established": session.established,
                "state": session.bgp_state or session.state,
                "since": session.since,
                "error": session.error,
                "reason": refusals.why(session, state.bird, peer, dropped) if known else _NOT_READ if running else "",
                "routes_kept": session.neighbor_restarting,
            }
        )
    return {"enabled": True, "running": running, "sessions": sessions}


def routes(here: machine.Machine, state: NodeState, problems: list[str]) -> Data:
    owners = {route.destination: route.node for route in state.bird_routes}
    try:
        # A surplus route goes away by itself after the graceful restart.
        absent = [change for change in bird_changes(here.kernel, state) if change.action != "-"]
    except KernelError as error:
        problems.append(str(error))
        return {"expected": len(owners), "present": 0, "missing": []}
    missing = [
        f"route {change.subject} of {owners[change.subject]} is {change.before or 'missing'}, expected {change.after}"
        for change in absent
    ]
    return {"expected": len(owners), "present": len(owners) - len(absent), "missing": missing}


def addresses(sources: Sources, problems: list[str]) -> list[Data]:
    try:
        return t.cast("list[Data]", sources.ipam()["usage"])
    except CommandError as error:
        problems.append(str(error))
        return []


def workloads(sources: Sources, state: NodeState, problems: list[str]) -> int:
    try:
        return len(state.workloads) + len(sources.workloads())
    except CommandError as error:
        problems.append(str(error))
        return len(state.workloads)


def main() -> None:
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    here = machine.here()
    try:
        found = gather(here, datetime.datetime.now(datetime.timezone.utc))
    finally:
        here.kernel.close()
    module.exit_json(changed=False, **found)


if __name__ == "__main__":
    main()
