# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change of live policy would do to one node, as its answer to a question says it.

    {"objects": [["GlobalNetworkPolicy", "web", "+", 3]], "count_objects": 1, "endpoints": 3, "chains": 2, "members": 0,
     "denied": 1, "cut": true, "flows": [[6, "10.0.0.1", 40000, "10.0.0.2", 5432, "web#1 (ingress, ...)"]],
     "unknown": ""}

A node writes it as it likes, so readers check types and sizes.
"""

from __future__ import annotations

import typing as t

from ...base.addresses import parse_address
from ...base.typed_json import flag, maybe, one_of, open_table, refuse, text, whole
from .. import keys

#: The most objects and connections that an answer names.
MOST_OBJECTS, MOST_FLOWS = keys.CHANGE_DOCUMENTS, 20
_KINDS = tuple(keys.LIVE_KINDS)
_MOST = 1 << 32  # of what is counted
_NAME_LIMIT, _BY_LIMIT, _REASON_LIMIT = 512, 200, 500


class ChangedObject(t.NamedTuple):
    """A tier, policy or network set that comes (+), changes (~) or goes (-), and how many endpoints it concerns."""

    kind: str
    name: str
    action: str
    endpoints: int


class DeniedFlow(t.NamedTuple):
    """A connection that stands and would be denied, by its first packet after DNAT, and what would deny it.

    `protocol` is an IANA number; a port is None if the protocol has none.
    """

    protocol: int
    source: str
    source_port: t.Optional[int]
    destination: str
    destination_port: t.Optional[int]
    by: str


class ChangeEffect(t.NamedTuple):
    """What a change would do to one node.

    `objects` are the first of `count_objects` that change in what is in force there, and `endpoints` how many of the
    node's they concern. `chains` of iptables and `members` of IP sets would be written or removed. `flows` are the
    first of the connections that would be `denied` and are not yet; with `cut` they would be ended. What is None is not
    known, and `unknown` says why.
    """

    objects: tuple[ChangedObject, ...] = ()
    count_objects: int = 0
    endpoints: int = 0
    chains: t.Optional[int] = None
    members: t.Optional[int] = None
    denied: t.Optional[int] = None
    cut: bool = False
    flows: tuple[DeniedFlow, ...] = ()
    unknown: str = ""

    def shorter(self) -> t.Optional[ChangeEffect]:
        """Return the same with half of the objects and of the connections named; None if it names none."""
        objects, flows = self.objects[: len(self.objects) // 2], self.flows[: len(self.flows) // 2]
        return self._replace(objects=objects, flows=flows) if self.objects or self.flows else None

    def to_dict(self) -> dict[str, t.Any]:
        """Return the effect as a table for JSON, with long texts cut."""
        body = self._asdict()
        body["objects"] = [list(one._replace(name=one.name[:_NAME_LIMIT])) for one in self.objects[:MOST_OBJECTS]]
        body["flows"] = [list(one._replace(by=one.by[:_BY_LIMIT])) for one in self.flows[:MOST_FLOWS]]
        body["unknown"] = self.unknown[:_REASON_LIMIT]
        return body


def read(value: t.Any) -> ChangeEffect:
    """Return the effect in a table of JSON, without fields that are not known. Raise Unreadable."""
    return ChangeEffect(**_EFFECT(value))


def _address(value: t.Any) -> str:
    if not isinstance(value, str) or len(value) > 45 or parse_address(value) is None:
        refuse(value, "an address")
    return value


def _row(*readers: t.Callable[[t.Any], t.Any]) -> t.Callable[[t.Any], list[t.Any]]:
    """Return a reader of lists that have an entry for each of `readers`."""

    def read_row(value: t.Any) -> list[t.Any]:
        if not isinstance(value, list) or len(value) != len(readers):
            refuse(value, f"a list of {len(readers)}")
        return [reader(entry) for reader, entry in zip(readers, value)]

    return read_row


def _rows(most: int, row: t.Callable[[t.Any], list[t.Any]], made: t.Callable[..., t.Any]) -> t.Callable[[t.Any], t.Any]:
    def read_rows(value: t.Any) -> tuple[t.Any, ...]:
        if not isinstance(value, list) or len(value) > most:
            refuse(value, f"a list of at most {most}")
        return tuple(made(*row(entry)) for entry in value)

    return read_rows


_COUNT = whole(0, _MOST)
_PORT = maybe(whole(0, 65535))
_OBJECT = _row(one_of(*_KINDS), text(_NAME_LIMIT), one_of("+", "~", "-"), _COUNT)
_FLOW = _row(whole(0, 255), _address, _PORT, _address, _PORT, text(_BY_LIMIT))
_EFFECT = open_table(
    {
        "objects": _rows(MOST_OBJECTS, _OBJECT, ChangedObject),
        "count_objects": _COUNT,
        "endpoints": _COUNT,
        "chains": maybe(_COUNT),
        "members": maybe(_COUNT),
        "denied": maybe(_COUNT),
        "cut": flag,
        "flows": _rows(MOST_FLOWS, _FLOW, DeniedFlow),
        "unknown": text(_REASON_LIMIT),
    }
)
