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

from ..base.typed_json import Unreadable, flag, items, matching, maybe, number, open_table, refuse, text, whole
from ..state.derived import path_status
from ..state.derived.path_status import PathStatus, PoolCounts
from ..state.phase import Phase
from . import documents, keys
from .documents import RefusedDocument

#: Seconds between two heartbeats of a node.
INTERVAL_SECONDS = 10.0
#: The most characters of the first problem that a heartbeat has.
PROBLEM_LIMIT = 200
#: The most nodes that `sessions_down` names, and the most characters of their names together.
DOWN_LIMIT, _NAMES_LIMIT = 32, 4000
#: The most paths and nodes that `paths` names.
PATH_LIMIT = 8
_MOST = 1 << 32  # of what is counted
_LARGEST = (1 << 64) - 1  # of etcd's numbers
_LATEST = 1e11  # seconds since 1970
_VERSION = re.compile(r"[0-9A-Za-z.+-]{1,40}", re.ASCII)
_PLAN = re.compile(r"[0-9A-Za-z]{0,64}", re.ASCII)
_PHASES = ("", *map(str, Phase))


@dataclasses.dataclass(frozen=True)
class Heartbeat:
    """How the agent of `node` did at the time `written`, in seconds of the node's clock time.time().

    `version` is the agent's release; `plan` and `phase` are those of the node's state, "" without one. `first_problem`
    is one of `problems`, cut to PROBLEM_LIMIT characters. `drift_day` counts changes by other programs within a day.
    `sessions_down` names the nodes at the other ends of BGP sessions that are not Established, once for each session; a
    long list is cut, and routers outside the fleet are left out. `workloads` counts those of the inventory, too. The
    node's policy knows the store of `cluster` up to, and with, `revision`; both are 0 if it has never read one.
    `feed_synced` means that changes arrive as they happen, and `feed_age` is how many seconds ago a member was heard,
    None for never. `paths` has those to other nodes, with at most PATH_LIMIT names. It is None for an agent of an
    earlier release, which does not say anything of them.
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
    paths: t.Optional[PathStatus] = None

    def age(self, now: float) -> float:
        """Return its age in seconds; negative if the node's clock is ahead of `now`."""
        return now - self.written


def encode(heartbeat: Heartbeat) -> bytes:
    """Return the document of a heartbeat. A text or a list over its limit is cut; the key has the node's name."""
    body = dataclasses.asdict(heartbeat)
    del body["node"]
    body["first_problem"] = heartbeat.first_problem[:PROBLEM_LIMIT]
    body["sessions_down"] = _first_names(heartbeat.sessions_down)
    if heartbeat.paths is None:
        del body["paths"]
        return documents.encoded(body)
    paths = heartbeat.paths
    for most in (PATH_LIMIT, PATH_LIMIT // 2, 1, 0):
        body["paths"] = _with_at_most(paths, most).to_dict()
        encoded = documents.encoded(body)
        if len(encoded) <= keys.HEARTBEAT_BYTES:
            return encoded
    del body["paths"]
    return documents.encoded(body)


def _with_at_most(paths: PathStatus, most: int) -> PathStatus:
    """Return paths with at most this many paths and nodes by name, and at most twice as many pools."""
    return dataclasses.replace(
        paths,
        reason=paths.reason[:PROBLEM_LIMIT],
        down=paths.down[:most],
        nodes=paths.nodes[:most],
        pools=_summed(paths.pools) if len(paths.pools) > 2 * most else paths.pools,
    )


def _summed(pools: t.Sequence[PoolCounts]) -> tuple[PoolCounts, ...]:
    """Return the counts of all pools together, without a name."""
    names = ("paths", "up", "down", "untested", "absent")
    sums = {name: sum(getattr(pool, name) for pool in pools) for name in names}
    return (PoolCounts("", **sums, seconds=max((pool.seconds for pool in pools), default=0)),) if pools else ()


def decode(node: str, value: bytes) -> Heartbeat:
    """Return the heartbeat in the document `value` of `node`'s key. Raise RefusedDocument; skip unknown fields."""
    try:
        found = _HEARTBEAT(documents.decoded(value, keys.HEARTBEAT_BYTES))
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    if found["sessions_established"] > found["sessions_total"]:
        raise RefusedDocument("more of its BGP sessions are established than there are.")
    if len(found["sessions_down"]) > found["sessions_total"] - found["sessions_established"]:
        raise RefusedDocument("it names more BGP sessions that are down than there are.")
    paths = path_status.decode(found["paths"]) if found.get("paths") is not None else None
    return Heartbeat(node=node, **{**found, "sessions_down": tuple(found["sessions_down"]), "paths": paths})


def decode_all(values: t.Mapping[str, bytes]) -> tuple[dict[str, Heartbeat], dict[str, str]]:
    """Return the heartbeats among keys and values, and why others are left out, both by node. Skip other keys."""
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


def _node(value: t.Any) -> str:
    if not isinstance(value, str) or not keys.is_node(value):
        refuse(value, "the name of a node")
    return value


def _phase(value: t.Any) -> str:
    if not isinstance(value, str) or value not in _PHASES:
        refuse(value, "a phase")
    return value


_COUNT, _NUMBER, _SECONDS = whole(0, _MOST), whole(0, _LARGEST), number(0.0, _LATEST)
# Later releases may add fields.
_HEARTBEAT = open_table(
    {
        "written": _SECONDS,
        "version": matching(_VERSION, "the number of a release"),
        "plan": matching(_PLAN, "the name of a plan"),
        "phase": _phase,
        "in_sync": flag,
        "problems": _COUNT,
        "first_problem": text(PROBLEM_LIMIT),
        "drift_day": _COUNT,
        "sessions_established": _COUNT,
        "sessions_total": _COUNT,
        "sessions_down": items(_node, DOWN_LIMIT),
        "workloads": _COUNT,
        "revision": _NUMBER,
        "cluster": _NUMBER,
        "feed_synced": flag,
    },
    {"feed_age": maybe(_SECONDS), "paths": maybe(path_status.read)},
)
