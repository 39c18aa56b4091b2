# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer to a FlowQuestion, as text and as data. No I/O."""

from __future__ import annotations

import dataclasses
import typing as t

from ...policy.explain import explanation
from ...policy.explain.evaluator import ALLOWED, DENIED
from ...policy.explain.packet_path import Path
from ..sources import Data
from .flow_ends import FlowEnd
from .flow_question import FlowQuestion
from .packet_way import DIRECT, HOST, NOWHERE, OUTSIDE, TUNNEL, WORKLOAD, hop_text, own_address


class FlowAnswer:
    """The answer to a question, whose errors it raises when it is made. `notices` on the network are repeated in it."""

    def __init__(self, asked: FlowQuestion, notices: t.Sequence[str] = ()) -> None:
        self._asked = asked
        self._notices = notices
        self._answer = asked.answer()

    @property
    def path(self) -> Path:
        return self._answer

    def lines(self, all_policies: bool = False) -> list[str]:
        asked = self._asked
        way = [f"path   {self.way()}", *(f"note   {note}" for note in self.notes())]
        if asked.policy is None:
            return [f"ALLOW  {asked.known.who} has no policy: all that can be routed passes", *way]
        return explanation.explain(
            self._answer,
            asked.flow,
            asked.evaluator,
            self.knowledge(),
            way=way,
            all_policies=all_policies,
            live=asked.known.live,
        )

    def document(self) -> Data:
        """Return the answer as data for JSON.

        Its keys are policy, from, to, flow, path, known, notes and those of explanation.to_document. `policy` is False
        if neither this node nor one that the flow passes has policy: the flow is allowed then. `from` and `to` have
        address, node and workload, the last two None for none. `path` has text, and mtu in bytes or None.
        """
        asked = self._asked
        return {
            "policy": asked.policy is not None,
            "from": _end_document(asked.source),
            "to": _end_document(asked.destination),
            "flow": dataclasses.asdict(asked.flow),
            **explanation.to_document(self._answer, asked.known.live),
            "path": {"text": self._steps(), "mtu": self._mtu()},
            "known": self.knowledge(),
            "notes": list(self.notes()),
        }

    def knowledge(self) -> dict[str, str]:
        """Return {name of an endpoint: text} for the endpoints at the two ends that are not observed now.

        The text says where the endpoint is known from and as of when.
        """
        asked = self._asked
        ends = dict.fromkeys(end.endpoint for end in (asked.source, asked.destination) if end.endpoint)
        found = {one.name: asked.known.since(one) for one in ends}
        return {name: text for name, text in found.items() if text}

    def notes(self) -> t.Iterator[str]:
        asked = self._asked
        for node in asked.nodes:
            policy = asked.policy_of(node)
            if node in asked.known.states and policy is not None and policy.settings.audit:
                yield f"{node} is in audit mode: what policy denies is logged and let through"
        if asked.passes and asked.masqueraded:
            yield f"natOutgoing: beyond {asked.source.node} it comes from {asked.masqueraded}"
        if asked.published is not None:
            to = asked.published
            yield f"port {_port(asked)} of {asked.destination.node} leads to {to.end.label}, port {to.port}"
        elif asked.passes and asked.may_lead_on:
            yield (
                f"which ports {asked.destination.node} publishes is known there alone: if {_port(asked)} leads to a "
                "workload, its policy decides. Run calicoctl policy explain there"
            )
        if asked.passes and asked.policy is not None:
            yield from self._by_ports()
        if asked.passes and not asked.arrives:
            yield "whatever policy says, it does not arrive"
        for end in () if asked.policy is None else dict.fromkeys((asked.source, asked.destination)):
            yield from self._notes_on(end)
        yield from self._notices

    def _by_ports(self) -> t.Iterator[str]:
        """Yield what policy says of the same flow by a published port of the destination's node.

        Where the ports are not known, there is a note only if a port lets in what is denied otherwise.
        """
        asked = self._asked
        for other in asked.by_ports():
            verdict = other.answer().action
            known = asked.known.at == asked.destination.node
            if known or (verdict, self._answer.action) == (ALLOWED, DENIED):
                which = f"port {_port(other)}" if known else "a published port"
                seen = other.masqueraded or asked.source.address
                yield (
                    f"by {which} of {other.destination.node} it comes from {seen}: policy "
                    f"{'allows' if verdict == ALLOWED else 'denies'} it"
                )
                if not known:
                    yield (
                        f"which ports {other.destination.node} publishes is known there alone: {_port(other)}, that of "
                        "the workload, stands for them. Run calicoctl policy explain there"
                    )

    def _notes_on(self, end: FlowEnd) -> t.Iterator[str]:
        asked = self._asked
        if end.node in ("", asked.known.at):
            return
        if end.endpoint is None and not end.is_node:
            whose, how = (
                ("of nobody that is known here", "this there, or playbooks/sync_workloads.yml")
                if asked.known.at
                else ("of no workload of the inventory", "calicoctl policy explain there")
            )
            yield f"{end.address} is in a block of {end.node} and {whose}: {end.node} asks policy of its own. Run {how}"
        elif end.node not in asked.known.states and self._answer.action == ALLOWED:
            yield (
                f"of HostEndpoints and settings of {end.node} is known here what rules mean. "
                "Run this there to be certain"
            )
        elif end.node in asked.known.states and asked.source.node != asked.destination.node:
            yield from self._assumed_underlay(end.node)
        if end.node not in asked.known.states and end is asked.source and end.is_node and asked.passes:
            if asked.leg.kind == TUNNEL:
                yield (
                    f"{end.node} sends from the address of its {asked.leg.device}, which is not known here. "
                    "Give that to --from"
                )

    def _assumed_underlay(self, node: str) -> t.Iterator[str]:
        underlay = self._asked.known.underlay(node)
        if underlay.assumed:
            address = self._asked.known.addresses(node)[0]
            yield (
                f"{underlay.interface} of HostEndpoint {underlay.assumed.name} is taken to be where {node} has "
                f"{address}; with expectedIPs: [{address}] it would be certain"
            )

    def way(self) -> str:
        mtu = self._mtu()
        return self._steps() + (f"   mtu {mtu}" if mtu else "")

    def _steps(self) -> str:
        asked = self._asked
        if not asked.passes:
            return f"not through {asked.here}: from {asked.source.label} to {asked.destination.label}"
        steps = [self._end(asked.source), asked.source.node]
        leg = asked.leg
        if not asked.sends:
            coming = leg.kind in (TUNNEL, DIRECT)
            own = own_address(asked.state, like=asked.source.address)
            steps += [hop_text(leg, back_to=own) if coming else asked.device, asked.here]
        elif leg.kind in (TUNNEL, DIRECT):
            steps += [hop_text(leg, asked.device), asked.destination.node]
        elif leg.kind == NOWHERE:
            where = f"blackhole {leg.destination}" if leg.destination else "no route"
            return " -> ".join(filter(None, [*steps, f"{where}: nobody has {asked.destination.address}"]))
        elif leg.kind == OUTSIDE:
            steps.append(asked.device or "the underlay")
        end = asked.published.end if asked.published else asked.destination
        steps.append(self._end(end, first="interface"))
        return " -> ".join(step for step in steps if step)

    def _end(self, end: FlowEnd, first: str = "name") -> str:
        """Return an end's label and its interface, if known, `first` the "name" or the "interface"; "" for a node."""
        if end.is_node:
            return ""
        words = [end.label, end.endpoint.interface if end.endpoint else ""]
        return " ".join(word for word in (words if first == "name" else words[::-1]) if word)

    def _mtu(self) -> t.Optional[int]:
        """Return the smallest known MTU of the path in bytes, None if none is known or this node does not see the flow.

        Known are those of this node's workloads and of its leg to the remote end.
        """
        asked = self._asked
        if not asked.passes:
            return None
        mtus = {one.interface: one.mtu for one in asked.state.endpoints}
        ends = [asked.source, asked.destination, *([asked.published.end] if asked.published else [])]
        interfaces = [end.endpoint.interface for end in ends if end.endpoint]
        found = [mtus[name] for name in interfaces if name in mtus]
        if asked.leg.mtu is not None and asked.leg.kind not in (HOST, WORKLOAD):
            found.append(asked.leg.mtu)
        return min(found) if found else None


def _port(asked: FlowQuestion) -> str:
    return f"{asked.kind.port}/{asked.kind.protocol}"


def _end_document(end: FlowEnd) -> Data:
    return {
        "address": end.address,
        "node": end.node or None,
        "workload": end.endpoint.name if end.endpoint else None,
    }
