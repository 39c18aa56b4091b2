# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers about all kinds of flows between two ends that the policies distinguish. No I/O."""

from __future__ import annotations

import itertools
import typing as t

from ...base.ports import PortRange
from ...policy.model import DefinedPort, Entity, PolicyRule, PolicySet
from ...state.policy_state import PolicySettings
from ..sources import Data
from .flow_answer import FlowAnswer
from .flow_question import Asked, FlowQuestion, question
from .known_network import KnownNetwork

#: The most kinds of flows that are asked about; of the others the answer says how many there are.
MOST = 300
_ALWAYS = ("tcp", "udp")
_LAST = 65535


class FlowSweep:
    """Answers about a ping and all ports of the protocols, as far as rules tell them apart, made like a FlowAnswer.

    `asked` has "" as its port. Errors are those of `question`, raised when it is made.
    """

    def __init__(self, known: KnownNetwork, asked: Asked, notices: t.Sequence[str] = ()) -> None:
        first = question(known, asked._replace(port="icmp"))
        texts = list(_kinds(first))
        self._left_out = len(texts) - MOST
        self._first = FlowAnswer(first, notices)
        self._ends = f"from {first.source.label} to {first.destination.label}"
        self._kinds = [
            (text, FlowAnswer(question(known, asked._replace(port=port)), notices)) for text, port in texts[:MOST]
        ]

    def lines(self, all_policies: bool = False) -> list[str]:
        """Return the lines to print: first the kinds of flows that pass, then the others. `all_policies` is ignored."""
        documents = self._documents()
        passing = [one for one in documents if one["verdict"] == "allow"]
        verdict = self.document()["verdict"]
        told = {"allow": "ALLOW  every kind of flow", "deny": "DENY   every kind of flow"}
        if self._first.document()["policy"] is False:
            return self._first.lines()
        lines = [f"{told.get(verdict, 'SOME   flows pass, and others do not,')} {self._ends}"]
        for one in [*passing, *(one for one in documents if one["verdict"] != "allow")]:
            lines += [f"  {one['text']}", *_wrapped(one["kinds"])]
        lines.append(f"path   {self._first.way()}")
        lines += [f"note   {note}" for note in self.document()["notes"]]
        return lines

    def document(self) -> Data:
        """Return the answer as data for JSON.

        It has policy, from, to, path and known of FlowAnswer.document, and all notes. `verdict` is "allow", "deny", or
        "some" if flows of both kinds are there. `flows` has text, verdict and kinds (5432/tcp, 8000-8999/tcp) of those
        that one rule decides.
        """
        whole = self._first.document()
        flows = self._documents()
        verdicts = {one["verdict"] for one in flows}
        notes = dict.fromkeys(note for dummy, answer in self._kinds for note in answer.notes())
        if self._left_out > 0:
            notes[f"{self._left_out} more ranges of ports are told apart by rules: ask for a port"] = None
        return {
            **{key: whole[key] for key in ("policy", "from", "to", "path", "known")},
            "verdict": verdicts.pop() if len(verdicts) == 1 else "some",
            "flows": flows,
            "notes": list(notes),
        }

    def _documents(self) -> list[Data]:
        found: dict[str, Data] = {}
        for text, answer in self._kinds:
            headline = answer.lines()[0]
            one = found.setdefault(headline, {"text": headline, "verdict": answer.document()["verdict"], "kinds": []})
            one["kinds"].append(text)
        return [{**one, "kinds": list(_joined(one["kinds"]))} for one in found.values()]


def answer(known: KnownNetwork, asked: Asked, notices: t.Sequence[str] = ()) -> t.Union[FlowAnswer, FlowSweep]:
    """Return the answer to a question, about all kinds of flows if it names no port. Errors are those of `question`."""
    if asked.port:
        return FlowAnswer(question(known, asked), notices)
    return FlowSweep(known, asked, notices)


def _kinds(asked: FlowQuestion) -> t.Iterator[tuple[str, str]]:
    """Yield (text, `--port` of one of them) for each kind of flows that rules of the flow's nodes may tell apart."""
    edges: dict[str, set[int]] = {protocol: {1, _LAST + 1} for protocol in _ALWAYS}
    types: set[int] = set()
    ports = asked.destination.endpoint.ports if asked.destination.endpoint else ()
    icmp = "icmp" if asked.kind.protocol == "icmp" else "icmpv6"
    for name in (*asked.nodes, asked.here):
        policy = asked.policy_of(name)
        if policy is None:
            continue
        _note_failsafes(edges, policy.settings)
        for rule in _rules(policy.policy_set):
            for one in (rule.icmp, rule.not_icmp):
                if one is not None and one.type is not None and icmp in (rule.protocol, rule.not_protocol):
                    types.add(one.type)
            if isinstance(rule.protocol, str) and (rule.protocol in edges or _has_ports(rule.destination)):
                of_protocol = edges.setdefault(rule.protocol, {1, _LAST + 1})
                for first, last in _ranges(rule.destination, rule.protocol, ports):
                    of_protocol |= {first, last + 1}
    yield "ping", "icmp"
    for number in sorted(types - {8, 128}):
        yield f"{number}/{icmp}", f"{number}/{icmp}"
    for protocol in (*_ALWAYS, *sorted(set(edges) - set(_ALWAYS))):
        cuts = sorted(edge for edge in edges[protocol] if 1 <= edge <= _LAST + 1)
        for first, after in itertools.pairwise(cuts):
            yield _range_text(first, after - 1, protocol), f"{first}/{protocol}"


def _rules(policies: PolicySet) -> t.Iterator[PolicyRule]:
    for policy in policies.policies:
        yield from (*policy.ingress, *policy.egress)
    for profile in policies.profiles:
        yield from (*profile.ingress, *profile.egress)


def _has_ports(entity: Entity) -> bool:
    return bool(entity.ports or entity.not_ports)


def _ranges(entity: Entity, protocol: str, named: t.Sequence[DefinedPort]) -> t.Iterator[tuple[int, int]]:
    for port in (*entity.ports, *entity.not_ports):
        if isinstance(port, PortRange):
            yield port.first, port.last
        else:
            yield from ((one.port, one.port) for one in named if (one.name, one.protocol) == (port.name, protocol))


def _note_failsafes(edges: dict[str, set[int]], settings: PolicySettings) -> None:
    for one in (*(settings.failsafe_inbound or ()), *(settings.failsafe_outbound or ())):
        if one.protocol in edges:
            edges[one.protocol] |= {one.port, one.port + 1}


def _range_text(first: int, last: int, protocol: str) -> str:
    return f"{first}/{protocol}" if first == last else f"{first}-{last}/{protocol}"


def _joined(kinds: t.Sequence[str]) -> t.Iterator[str]:
    """Yield these texts; ranges of one protocol that follow each other are one, and all its ports are `all tcp`."""
    run: t.Optional[tuple[int, int, str]] = None
    for text in [*kinds, ""]:
        ports, slash, protocol = text.partition("/")
        first, dummy, last = ports.partition("-")
        if slash and not protocol.startswith("icmp"):
            now = (int(first), int(last or first), protocol)
            if run is not None and (run[1] + 1, run[2]) == (now[0], now[2]):
                run = (run[0], now[1], protocol)
                continue
        else:
            now = None
        if run is not None:
            yield f"all {run[2]}" if run[:2] == (1, _LAST) else _range_text(*run)
        run = now
        if now is None and text:
            yield text


def _wrapped(kinds: t.Sequence[str]) -> t.Iterator[str]:
    """Yield lines of at most 100 characters with these texts."""
    line = ""
    for kind in kinds:
        if line and len(line) + len(kind) + 2 > 90:
            yield f"         {line},"
            line = ""
        line = f"{line}, {kind}" if line else kind
    if line:
        yield f"         {line}"
