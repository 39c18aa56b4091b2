# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_status_info reads the status of a node."""

from __future__ import annotations

import datetime
import glob
import os
import typing as t

from ...bird import dropped_segments, refusals, status
from ...bird.errors import BirdError
from ...bird.status import Session
from ...cli.errors import CommandError
from ...cli.sources import Sources
from ...dataplane.change import ObserveError
from ...dataplane.kernel.port import KernelError
from ...dataplane.planning.bird_routes import bird_changes
from ...node import machine
from ...node.change import missing_files
from ...node.engine import bundle, engine_start
from ...node.store.store import Store, Stored
from ...node.store.stored_file import StoreError
from ...node.store.unconfirmed import UnconfirmedStore
from ...state.node_state import NodeState
from ..module_call import ModuleCall

Data = dict[str, t.Any]

_ABSENT = Session("", "none", "", error="not in BIRD's configuration")
_NOT_READ = "BIRD has not read its last bird.cfg. Run playbooks/site.yml, which has it read that."


def gather(here: machine.Machine, now: datetime.datetime) -> Data:
    problems: list[str] = []
    # Warnings are dropped. The usual one says that the agent does not run, which `agent` of the result says as well.
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
            found.update(node=state.node, plan=state.plan, phase=str(state.phase), complete=stored.complete)
            found.update(bgp=bgp(here, state, problems), routes=routes(here, state, problems))
            found["blocks"] = addresses(sources, problems)
            found["workloads"] = workloads(sources, state, problems)
            problems += confirmation(here)
            problems += files(here, stored)
    return {**found, "problems": problems}


def engine(here: machine.Machine) -> t.Iterator[str]:
    """Yield the alarm that the engine's last start raised; without one, a sentence on what is damaged, if anything."""
    alarm = engine_start.read_alarm(here.engine_alarm)
    damage = bundle.damage(here.engine)
    if alarm:
        yield alarm
    elif damage:
        yield (
            f"the engine in {here.engine} is not as it was installed: {', '.join(damage[:3])}. Run site.yml, which "
            "installs it again, and find out who changed it."
        )


def files(here: machine.Machine, stored: Stored) -> t.Iterator[str]:
    """Yield a sentence on files of the node that others changed, and one if nobody watches for missing ones."""
    try:
        yield from filter(None, (missing_files.drift(here, stored), missing_files.unwatched(here, stored)))
    except (OSError, ObserveError) as error:
        yield str(error)


def confirmation(here: machine.Machine) -> t.Iterator[str]:
    """Yield a sentence if a change waits for its confirmation, and one for a revert that no run has shown yet."""
    waiting = UnconfirmedStore(here.store)
    try:
        pending, news = waiting.load(), waiting.unseen_revert()
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
        said = sources.agent.status() if sources.agent.runs() else None
    except CommandError as error:
        problems.append(str(error))
        said = None
    found: Data = {"wanted": wants_agent(sources.machine.root), "running": said is not None}
    if said is None:
        return found
    since = datetime.datetime.strptime(said["since"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    kept = ("version", "since", "in_sync", "problems", "drift")
    answer = {**found, "uptime": int((now - since).total_seconds()), **{name: said[name] for name in kept}}
    # An agent of an earlier release, which was not restarted yet, says nothing of paths.
    return {**answer, "paths": said["paths"]} if "paths" in said else answer


def wants_agent(root: str) -> bool:
    """Return whether the agent's unit is enabled in the file system `root`, so that the agent starts with the host."""
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
        # A surplus route is no problem: it goes away by itself after the graceful restart.
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


def run(module: ModuleCall) -> t.NoReturn:
    """Read the status of a node, and answer as the module node_status_info.

    `problems` of the answer says what cannot be read; what depends on it is left out. Wait up to 3 seconds for the
    agent to be in sync or report problems, and 5 seconds for the kernel's counters if a session is down for an unknown
    reason.
    """
    here = machine.here()
    try:
        found = gather(here, datetime.datetime.now(datetime.timezone.utc))
    finally:
        here.kernel.close()
    module.exit_json(changed=False, **found)
