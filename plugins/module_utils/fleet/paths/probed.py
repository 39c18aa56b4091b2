# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that nodes probed, in the answers of the modules `probe` and `soak` together.

An answer is a node's word about its own probes, and a node of another release may leave fields out. What an answer does
not say is not known; nothing in it can raise an error here.
"""

from __future__ import annotations

import typing as t

from ...base.addresses import parse_address
from ...state.derived.path_loss import NO_ANSWER, REASONS, THERE, PathLoss
from . import directions

Results = t.Mapping[str, t.Mapping[str, t.Any]]
#: {(host, source, address): how many probes that came from the address to the source the host heard}
_Heard = t.Mapping[tuple[str, str, str], t.Optional[int]]
#: The least probes of a round by which its length is known.
_LEAST = 3


class ProbedPath(t.NamedTuple):
    """A path from `host` to the node `other` ("" if it is not known) in `pool` ("" as well), and the probes on it.

    `address` is the one that was probed. `gap` is the longest time without an answer in milliseconds. `late` says that
    the path answered only since the flip, and `dead` that the last probes were all lost. `loss` is None if no probe was
    lost.
    """

    host: str
    other: str
    address: str
    pool: str
    sent: int
    lost: int
    gap: float = 0.0
    late: bool = False
    loss: t.Optional[PathLoss] = None
    dead: bool = False

    @property
    def silent(self) -> bool:
        """Whether probes were sent and none was answered, or no later one."""
        return 0 < self.sent <= self.lost or (self.dead and self.lost > 0)

    def __str__(self) -> str:
        return f"{self.host} -> {self.other or self.address}"


def probed(results: Results) -> list[ProbedPath]:
    """Return the paths in the answers by host, in the order of hosts. Of one that an answer repeats, the first counts.

    Where the probes of a silent path were lost follows from how many of them its other end heard, by its answer.
    """
    heard: dict[tuple[str, str, str], t.Optional[int]] = {}
    for host, answer in results.items():
        for target in answer.get("targets", ()):
            if target.get("source"):
                heard.setdefault((host, target["source"], target["address"]), target.get("heard"))
    listened = set(_listened(results, heard))
    found: dict[tuple[str, str, str, str], ProbedPath] = {}
    for host, answer in sorted(results.items()):
        for target in answer.get("targets", ()):
            path = _path(host, target)
            if path.loss is not None and path.loss.reason == NO_ANSWER and path.silent:
                back = heard.get((path.other, path.address, target.get("source") or ""))
                other = results.get(path.other, {})
                where = directions.direction(back, answer, other, (host, path.other) in listened)
                path = path._replace(loss=path.loss._replace(direction=where))
            found.setdefault((host, path.other, path.pool, path.address), path)
    return list(found.values())


def _listened(results: Results, heard: _Heard) -> t.Iterator[tuple[str, str]]:
    """Yield each host and other node that heard a whole round of its probes on a path where none was lost.

    The probes of a round go to all targets in turn. So the other node listened between probes on every path.
    """
    for host, answer in results.items():
        for target in answer.get("targets", ()):
            key = (target.get("name") or "", target["address"], target.get("source") or "")
            if not target["lost"] and _LEAST <= target["sent"] <= (heard.get(key) or 0):
                yield host, key[0]


def _path(host: str, target: t.Mapping[str, t.Any]) -> ProbedPath:
    path = ProbedPath(
        host,
        target.get("name") or "",
        target["address"],
        target.get("pool") or "",
        target["sent"],
        target["lost"],
        target.get("longest_gap", 0.0),
        bool(target.get("silent")),
        dead=bool(target.get("dead")),
    )
    if not path.lost:
        return path
    reason, by = target.get("reason"), target.get("by") or ""
    # What an ICMP error reports is a request.
    where = THERE if reason in REASONS and reason != NO_ANSWER else ""
    loss = PathLoss(reason if reason in REASONS else NO_ANSWER, by if parse_address(by) else "", where)
    return path._replace(loss=loss)


def unwatched(results: Results) -> list[str]:
    """Return "name (reason)" for each host that sent probes, but did not count them from before the flip on."""
    found = []
    for host, answer in sorted(results.items()):
        watch = answer.get("watch") or {}
        if answer.get("targets") and not watch.get("complete"):
            found.append(f"{host} ({watch.get('reason') or 'no watch was running'})")
    return found
