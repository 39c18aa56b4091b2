# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy explain`: what policy makes of a flow, who decides, and by which way the packet goes.

Worked out from what this node has, which is what its kernel was told. Nothing is sent and nothing is changed.
"""

from __future__ import annotations

import argparse
import json
import sys

from ..dataplane.kernel import KernelError
from ..fleet.attachment import with_workloads
from ..fleet.guard import all_endpoints
from ..fleet.node_state import NodeState
from ..fleet.policy_state import PolicyState
from ..policy.evaluator import DENIED
from .errors import DONE, PROBLEMS, CommandError, NoVerdict, UsageError
from .flow_answer import FlowAnswer
from .flow_ends import FlowEnds
from .flow_kind import FlowKind, flow_kind
from .flow_question import FlowQuestion
from .packet_way import leg_to
from .sources import Sources

#: What a flow is sent from unless it is said: kernels choose from 32768 on (ip_local_port_range).
SOURCE_PORT = 40000


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    kind = flow_kind(arguments.port)
    if not 1 <= arguments.source_port <= 65535:
        raise UsageError(f"--source-port {arguments.source_port} is no port, a number from 1 to 65535.")
    try:
        stored = sources.stored()
        question = _question(arguments, kind, stored.state, sources)
    except KernelError as error:
        raise NoVerdict(f"the addresses of this host cannot be read: {error}.") from error
    except CommandError as error:
        raise NoVerdict(str(error)) from error
    found = question.answer()
    answer = FlowAnswer(question, found, stored.when)
    if arguments.output == "json":
        sys.stdout.write(json.dumps(answer.document(), indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in answer.lines(arguments.all)))
    return PROBLEMS if found.action == DENIED else DONE


def _question(arguments: argparse.Namespace, kind: FlowKind, planned: NodeState, sources: Sources) -> FlowQuestion:
    state = with_workloads(planned, sources.workloads(), ())
    kernel = sources.machine.kernel
    interfaces: dict[str, list[str]] = {}
    for held in kernel.addresses():
        if not held.device.startswith("cali"):
            interfaces.setdefault(held.device, []).append(held.address)
    endpoints = tuple(all_endpoints(state, state.policy or PolicyState()))
    ends = FlowEnds(state, endpoints, {address for held in interfaces.values() for address in held})
    source, destination = ends.find("--from", arguments.source), ends.find("--to", arguments.destination)
    if source.address == destination.address:
        raise NoVerdict(f"--from and --to are both {source.address}: what one sends to itself meets no policy.")
    if (":" in source.address) != (":" in destination.address):
        raise NoVerdict(
            f"--from {source.address} and --to {destination.address} are of different families: there is no such flow."
        )
    remote = destination if source.node == state.node else source
    next_hop = leg_to(state, remote.address).next_hop or remote.address
    route = kernel.route_to(next_hop) if remote.node != state.node else None
    device = (route.device if route else "") or ""
    sport = arguments.source_port if kind.port is not None else None
    return FlowQuestion(
        state, endpoints, {name: tuple(held) for name, held in interfaces.items()}, device,
        source, destination, kind, sport,
    )  # fmt: skip
