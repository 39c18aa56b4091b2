# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy explain`: the verdict of policy on a flow, the rule that decides, and the packet's path.

The answer is computed from this node's state, from which its kernel was programmed, or on a controller from an
inventory. No packet is sent and nothing is changed.
"""

from __future__ import annotations

import argparse
import sys
import time

from ...base import terminal_text
from ...dataplane.kernel.port import KernelError
from ...node.desired import host_interfaces
from ...policy.explain.evaluator import DENIED
from ...policy.model import Endpoint
from ...state.attachment import with_workloads
from ...state.node_policy_tables import all_endpoints
from ...state.node_state import NodeState
from ...state.policy_state import PolicyState
from ..errors import DONE, PROBLEMS, NoVerdict
from ..flow import container_names, elsewhere, flow_sweep, inventory_question
from ..flow.flow_question import Asked
from ..flow.known_network import KnownNetwork, Place
from ..flow.packet_way import HOST, leg_to, member_at
from ..render import structured
from ..render.age import dated
from ..sources import Sources

#: The clock that ages are computed with: a function that returns seconds since 1970.
now = time.time


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    asked = Asked(arguments.source, arguments.destination, arguments.port, arguments.source_port)
    asked.check()
    if arguments.inventory:
        lines, document = inventory_question.ask(
            arguments.inventory, asked, arguments.all, arguments.vault_password_file
        )
    else:
        try:
            known = _known(sources)
            answer = flow_sweep.answer(known, asked, _doubts(sources, known.who))
        except KernelError as error:
            raise NoVerdict(f"the addresses of this host cannot be read: {error}.") from error
        lines, document = answer.lines(arguments.all), answer.document()
    if not structured.written(arguments.output, document):
        sys.stdout.write(terminal_text.lines(lines))
    return PROBLEMS if document["verdict"] == DENIED else DONE


def _doubts(sources: Sources, node: str) -> list[str]:
    """Return at most one text: why the kernel may decide otherwise than the node's state says.

    There is none if no agent answers, or if it is in sync and has no problems; see `AgentSource.status`.
    """
    if not sources.agent.runs():
        return []
    status = sources.agent.status()
    if status["in_sync"] and not status["problems"]:
        return []
    first = next(iter(status["problems"]), "its agent is bringing it there")
    more = len(status["problems"]) - 1
    rest = f" And {more} more: calicoctl status says them." if more > 0 else ""
    return [f"{node} differs from its state, and its kernel may decide otherwise: {first}{rest}"]


def _known(sources: Sources) -> KnownNetwork:
    """Return the network as this node knows it: its own workloads and interfaces, and what it knows of other nodes.

    Raise what Sources does, and KernelError if addresses cannot be read. `device_to` of the result raises that, too.
    """
    stored, live = sources.stored_with_names()
    attached = sources.workloads()
    state = with_workloads(stored.state, attached, ())
    kernel = sources.machine.kernel
    interfaces = host_interfaces(kernel)
    own = {address for held in interfaces.values() for address in held}
    known = elsewhere.known(sources, state)
    datastore = known.datastore
    run = f"the run of {dated(stored.when, now())}" if stored.when else "a run that is not dated"

    def place(address: str) -> Place:
        leg = leg_to(state, address)
        if leg.kind == HOST or address in own:
            return Place(state.node, True)
        return Place(leg.node, member_at(state, address) is not None)

    def device_to(address: str) -> str:
        route = kernel.route_to(address)
        return (route.device if route else "") or ""

    def since(endpoint: Endpoint) -> str:
        if endpoint.node == state.node:
            return ""
        if datastore is not None and datastore.has(endpoint):
            found = "has it" if datastore.synced else f"had it at {dated(datastore.known_until, now())}"
            return f"on {endpoint.node}, as the datastore {found}"
        asked = known.reports.when(endpoint)
        collected = f"as playbooks/sync_workloads.yml found it at {dated(asked, now())}" if asked else f"from {run}"
        return f"on {endpoint.node}, {collected}"

    return KnownNetwork(
        who=state.node,
        at=state.node,
        members=_members(state),
        states={state.node: state},
        endpoints=tuple(
            all_endpoints(
                state,
                state.policy or PolicyState(),
                known.others.endpoints(state.node),
                known.others.live,
            )
        ),
        place=place,
        interfaces={state.node: {name: tuple(held) for name, held in interfaces.items()}},
        device_to=device_to,
        since=since,
        members6=_members(state, "address6"),
        attached="Other nodes' workloads are those that the datastore has." if datastore is not None else "",
        containers=container_names.by_container(attached),
        live=live,
    )


def _members(state: NodeState, held: str = "address") -> dict[str, str]:
    found = {member.name: getattr(member, held) for member in state.nodes}
    everybody = {**found, state.node: getattr(state, held)}
    return {name: address.partition("/")[0] for name, address in everybody.items() if address}
