# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heartbeat of a node: how its agent does, in the key keys.heartbeat_key, which the agent rewrites every 10 s.

    {"written": 1795770000.5, "version": "0.1.0", "plan": "7f3a91c2", "phase": "converge", "in_sync": true,
     "problems": 0, "first_problem": "", "drift_day": 0, "sessions_established": 10, "sessions_total": 11,
     "sessions_down": ["node7"], "workloads": 41, "revision": 5120, "cluster": 14841639068965178418,
     "feed_synced": true, "feed_age": 0.4}

It is information only: nothing is ever removed or changed because a heartbeat is old. A node writes it as it likes, so
readers check types and sizes, and skip fields that their release does not know.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ..base.typed_json import shown
from ..state.phase import Phase
from . import documents, keys
from .documents import RefusedDocument

#: Seconds between two heartbeats of a node.
INTERVAL_SECONDS = 10.0
#: The most characters of the first problem that a heartbeat has.
PROBLEM_LIMIT = 200
#: The most nodes that `sessions_down` names, and the most characters of their names together.
DOWN_LIMIT, _NAMES_LIMIT = 32, 4000
_MOST = 1 << 32  # of what is counted
_LARGEST = (1 << 64) - 1  # of etcd's numbers
_LATEST = 1e11  # seconds since 1970
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}", re.ASCII)
_PLAN = re.compile(r"[0-9A-Za-z]{0,64}", re.ASCII)
_PHASES = ("", *map(str, Phase))


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """How the agent of `node` did at the time `written`, in seconds of the node's clock time.time().

    `version` is the release of the agent; `plan` and `phase` are those of the node's state, "" without a state.
    `problems` counts problems, and `first_problem` is the text of one of them, cut to PROBLEM_LIMIT characters.
    `drift_day` counts changes by other programs within a day. `sessions_established` of `sessions_total` BGP sessions
    are Established, and `sessions_down` names the nodes at the other ends of those that are not. A node is named once
    for each such session, a long list is cut, and routers outside the fleet are not named. `workloads` counts those of
    the inventory, too. The node's policy knows the store of `cluster` up to, and with, `revision`; both are 0 if it has
    never read one. `feed_synced` means that changes arrive as they happen, and `feed_age` is how many seconds ago a
    member was heard last, None for never.
    """

    node: str
    written: float
    version: str
    plan: str = ""
    phase: str = ""
    in_sync: bool = False
    problems: int = 0
    first_problem: str = ""
    drift_day: int = 0
    sessions_established: int = 0
    sessions_total: int = 0
    sessions_down: t.Sequence[str] = ()
    workloads: int = 0
    revision: int = 0
    cluster: int = 0
    feed_synced: bool = False
    feed_age: t.Optional[float] = None

    def age(self, now: float) -> float:
        """Return how many seconds ago the heartbeat was written; negative if the node's clock is ahead of `now`."""
        return now - self.written


def encode(heartbeat: Heartbeat) -> bytes:
    """Return the document of a heartbeat. A text or a list over its limit is cut; the key has the node's name."""
    body = dataclasses.asdict(heartbeat)
    del body["node"]
    body["first_problem"] = heartbeat.first_problem[:PROBLEM_LIMIT]
    body["sessions_down"] = _first_names(heartbeat.sessions_down)
    return documents.encoded(body)


def decode(node: str, value: bytes) -> Heartbeat:
    """Return the heartbeat in the document `value` of the key of `node`.

    Raise RefusedDocument if a field is missing, has another type, or is too large. Unknown fields are skipped.
    """
    body = documents.decoded(value, keys.HEARTBEAT_BYTES)
    found = {name: read(name, body.get(name)) for name, read in _READERS.items()}
    if found["sessions_established"] > found["sessions_total"]:
        raise RefusedDocument("more of its BGP sessions are established than there are.")
    if len(found["sessions_down"]) > found["sessions_total"] - found["sessions_established"]:
        raise RefusedDocument("it names more BGP sessions that are down than there are.")
    return Heartbeat(node=node, **found)


def decode_all(values: t.Mapping[str, bytes]) -> tuple[dict[str, Heartbeat], dict[str, str]]:
    """Return the heartbeats in the values of keys, and why others are left out, both by node.

    Keys that are no heartbeat's are skipped.
    """
    found: dict[str, Heartbeat] = {}
    refused: dict[str, str] = {}
    for key, value in sorted(values.items()):
        node = keys.parse_heartbeat_key(key)
        if node is None:
            continue
        try:
            found[node] = decode(node, value)
        except RefusedDocument as refusal:
            refused[node] = str(refusal)
    return found, refused


def _first_names(names: t.Sequence[str]) -> list[str]:
    """Return the first of the names: at most DOWN_LIMIT, which together have at most _NAMES_LIMIT characters."""
    first = list(names[:DOWN_LIMIT])
    while sum(map(len, first)) > _NAMES_LIMIT:
        first.pop()
    return first


_FieldReader = t.Callable[[str, t.Any], t.Any]


def _refuse(name: str, value: t.Any, wanted: str) -> t.NoReturn:
    raise RefusedDocument(f"its field {name} is {shown(value)}, not {wanted}.")


def _flag(name: str, value: t.Any) -> bool:
    if not isinstance(value, bool):
        _refuse(name, value, "true or false")
    return value


def _count(most: int) -> _FieldReader:
    def read(name: str, value: t.Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
            _refuse(name, value, f"a whole number from 0 to {most}")
        return value

    return read


def _seconds(name: str, value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST:
        _refuse(name, value, "a number of seconds")
    return float(value)


def _age(name: str, value: t.Any) -> t.Optional[float]:
    return None if value is None else _seconds(name, value)


def _text(form: re.Pattern[str], wanted: str) -> _FieldReader:
    def read(name: str, value: t.Any) -> str:
        if not isinstance(value, str) or not form.fullmatch(value):
            _refuse(name, value, wanted)
        return value

    return read


def _phase(name: str, value: t.Any) -> str:
    if not isinstance(value, str) or value not in _PHASES:
        _refuse(name, value, "a phase")
    return value


def _problem(name: str, value: t.Any) -> str:
    if not isinstance(value, str) or len(value) > PROBLEM_LIMIT:
        _refuse(name, value, f"a text of at most {PROBLEM_LIMIT} characters")
    return value


def _nodes(name: str, value: t.Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > DOWN_LIMIT:
        _refuse(name, value, f"a list of at most {DOWN_LIMIT} names of nodes")
    for one in value:
        if not isinstance(one, str) or not keys.is_node(one):
            _refuse(name, one, "the name of a node")
    return tuple(value)


_READERS: t.Mapping[str, _FieldReader] = {
    "written": _seconds,
    "version": _text(_VERSION, "the number of a release"),
    "plan": _text(_PLAN, "the name of a plan"),
    "phase": _phase,
    "in_sync": _flag,
    "problems": _count(_MOST),
    "first_problem": _problem,
    "drift_day": _count(_MOST),
    "sessions_established": _count(_MOST),
    "sessions_total": _count(_MOST),
    "sessions_down": _nodes,
    "workloads": _count(_MOST),
    "revision": _count(_LARGEST),
    "cluster": _count(_LARGEST),
    "feed_synced": _flag,
    "feed_age": _age,
}
