# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a change of live policy as nodes have computed it: tables, JSON, and the hash of what was seen.

Nodes write their answers as they like. Their texts are escaped where they are shown.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ..base import terminal_text
from ..cli.render import tables
from ..datastore.keys import DocumentKey, document_key
from ..datastore.live.change_answer import ANSWERED, ChangeAnswer
from ..datastore.live.change_effect import ChangeEffect, DeniedFlow
from ..editing.live.live_plan import DocumentChange
from ..policy.model import PROTOCOL_NAMES

Data = dict[str, t.Any]

#: The most rows of a table of connections, the most objects, and the most nodes that a line names.
_FLOWS, _OBJECTS, _NAMED = 20, 200, 5
_ACTIONS = {"+": "added", "~": "changed", "-": "removed"}
_HASH = 16  # hex digits


class FleetAnswer(t.NamedTuple):
    """What the nodes would do with `changes`.

    `answers` are those that could be read, `silent` says why there is none of other nodes, and `unasked` why some nodes
    were not asked.
    """

    changes: tuple[DocumentChange, ...]
    answers: t.Mapping[str, ChangeAnswer]
    silent: t.Mapping[str, str]
    unasked: t.Mapping[str, str]

    @property
    def hash(self) -> str:
        """The name of what was seen: it differs if the documents, their revisions or the answers do.

        Connections come and go, so of them it has only whether a node has any that would be denied.
        """
        documents = [
            [
                document_key(DocumentKey(*one.key)),
                one.before.revision if one.before else 0,
                None if one.value is None else one.value.decode("utf-8"),
            ]
            for one in sorted(self.changes)
        ]
        answers = [[node, *_content(answer)] for node, answer in sorted(self.answers.items())]
        seen = [documents, answers, sorted(self.silent), sorted(self.unasked)]
        return hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:_HASH]

    @property
    def refusing(self) -> dict[str, str]:
        """The nodes that would hold the change back, each with the reason."""
        return {node: answer.reason for node, answer in sorted(self.answers.items()) if answer.state != ANSWERED}

    @property
    def is_complete(self) -> bool:
        """Whether nodes were asked, and all of them would do it and know what it does."""
        whole = all(answer.effect is not None and not answer.effect.unknown for answer in self.answers.values())
        return bool(self.answers) and whole and not self.refusing and not self.silent

    @property
    def denied(self) -> int:
        """The number of connections that would be denied, as far as it is known."""
        return sum(effect.denied or 0 for dummy, effect in self._effects())

    def _effects(self) -> t.Iterator[tuple[str, ChangeEffect]]:
        for node, answer in sorted(self.answers.items()):
            if answer.effect is not None:
                yield node, answer.effect

    def text(self) -> str:
        """Return the plan for people."""
        parts = []
        rows = self._rows()
        if rows:
            parts.append(tables.columns(("KIND", "NAME", "CHANGE", "ENDPOINTS", "NODES"), rows[:_OBJECTS]))
        if len(rows) > _OBJECTS:
            parts.append(f"and {len(rows) - _OBJECTS} more\n")
        parts.append(terminal_text.lines(self._sentences()))
        flows = [(node, _connection(flow), flow.by) for node, effect in self._effects() for flow in effect.flows]
        if flows:
            parts.append(tables.columns(("NODE", "CONNECTION", "DENIED BY"), flows[:_FLOWS]))
        return "".join(parts)

    def problems(self) -> list[str]:
        """Return a sentence about each node that would not do it, or does not say all of it."""
        found = [f"{node} would hold it back: {reason.rstrip('.')}." for node, reason in self.refusing.items()]
        found += [f"{node} gives no answer: {reason.rstrip('.')}." for node, reason in sorted(self.silent.items())]
        found += [f"{node} is not asked: {reason.rstrip('.')}." for node, reason in sorted(self.unasked.items())]
        found += [
            f"{node} does not know all of it: {effect.unknown.rstrip('.')}."
            for node, effect in self._effects()
            if effect.unknown
        ]
        return found

    def _rows(self) -> list[tables.Row]:
        """Return a row for each object that changes: kind, name, change, endpoints, and the nodes that have some."""
        found: dict[tuple[str, str, str], dict[str, int]] = {}
        for node, effect in self._effects():
            for one in effect.objects:
                found.setdefault((one.kind, one.name, one.action), {})[node] = one.endpoints
        rows: list[tables.Row] = []
        for (kind, name, action), counts in sorted(found.items()):
            concerned = [f"{node} ({count})" for node, count in counts.items() if count]
            more = f" and {len(concerned) - _NAMED} more" if len(concerned) > _NAMED else ""
            total = str(sum(counts.values()))
            rows.append((kind, name, _ACTIONS[action], total, ", ".join(concerned[:_NAMED]) + more or "none"))
        return rows

    def _sentences(self) -> t.Iterator[str]:
        effects = [effect for dummy, effect in self._effects()]
        hidden = sum(effect.count_objects - len(effect.objects) for effect in effects)
        if hidden > 0:
            yield f"{hidden} more changes on nodes are not named."
        if not any(effect.count_objects for effect in effects):
            yield "Nothing changes in what is in force."
        chains, members = (sum(getattr(effect, name) or 0 for effect in effects) for name in ("chains", "members"))
        yield f"Rules: {chains} chains and {members} members of sets change on {_nodes(len(effects))}."
        cut = any(effect.cut and effect.denied for effect in effects)
        with_some = sum(bool(effect.denied) for effect in effects)
        what = "They would be cut." if cut else "They would go on, and could not be opened again."
        where = f" on {_nodes(with_some)}. {what}" if self.denied else "."
        yield f"Connections that stand and would be denied: {self.denied}{where}"

    def to_dict(self) -> Data:
        """Return the plan as plain data."""
        nodes = {}
        for node, answer in sorted(self.answers.items()):
            effect = answer.effect
            found: Data = {"state": answer.state, "reason": answer.reason}
            if effect is not None:
                found.update(effect._asdict())
                found["objects"] = [one._asdict() for one in effect.objects]
                found["flows"] = [one._asdict() for one in effect.flows]
            nodes[node] = found
        documents = [
            {"kind": one.key.kind, "namespace": one.key.namespace, "name": one.key.name, "action": _action(one)}
            for one in self.changes
        ]
        return {
            "plan": self.hash,
            "documents": documents,
            "nodes": nodes,
            "silent": dict(self.silent),
            "unasked": dict(self.unasked),
            "denied": self.denied,
        }


def _content(answer: ChangeAnswer) -> list[t.Any]:
    """Return what an answer says, without what changes by itself."""
    effect = answer.effect
    if effect is None:
        return [answer.state, answer.reason]
    objects = [list(one) for one in effect.objects]
    numbers = [effect.count_objects, effect.endpoints, effect.chains, effect.members]
    denied = None if effect.denied is None else effect.denied > 0
    return [answer.state, answer.reason, objects, numbers, denied, effect.cut]


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _action(change: DocumentChange) -> str:
    return _ACTIONS["-" if change.value is None else "~" if change.before else "+"]


def _connection(flow: DeniedFlow) -> str:
    """Return a connection as text: tcp 10.0.0.1:40000 > 10.0.0.2:5432."""
    ends = [
        address if port is None else f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        for address, port in ((flow.source, flow.source_port), (flow.destination, flow.destination_port))
    ]
    return f"{PROTOCOL_NAMES.get(flow.protocol, flow.protocol)} {ends[0]} > {ends[1]}"
