# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict on the paths of a run: which ones carry packets, and whether the run has failed by that.

All playbooks that probe go by this one. A path between two nodes that took part and that answers no probe is an error.
Single losses are one if there are more than a limit. A silent path to a node that took no part is none.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from . import probed
from .probed import ProbedPath, Results


@dataclasses.dataclass(frozen=True)
class PathVerdict:
    """The verdict on `paths`. Each of them is in at most one of `dead`, `lossy` and `absent`.

    `dead` are those between nodes that took part on which no probe was answered, and `lossy` those between them with a
    loss, in both cases in the order of `paths`. `absent` are the silent ones to nodes that took no part. `limit` is the
    number of lost probes, over all `lossy` paths, up to which a loss is no error.

    `count`, `answered`, `sent` and `lost` also count the paths and probes of hosts that gave sums alone.
    """

    paths: tuple[ProbedPath, ...]
    dead: tuple[ProbedPath, ...]
    lossy: tuple[ProbedPath, ...]
    absent: tuple[ProbedPath, ...]
    limit: int
    count: int
    answered: int
    sent: int
    lost: int

    @property
    def single_losses(self) -> int:
        """The probes that were lost on lossy paths."""
        return sum(path.lost for path in self.lossy)

    @property
    def tolerated(self) -> bool:
        """Whether probes were lost on lossy paths, within the limit."""
        return 0 < self.single_losses <= self.limit

    @property
    def failed(self) -> bool:
        """Whether the run has failed: a path is dead, or more probes are lost than `limit` permits."""
        return bool(self.dead) or self.single_losses > self.limit

    @property
    def failing(self) -> tuple[ProbedPath, ...]:
        """The paths to blame: the dead ones, and the lossy ones if these lost more than the limit."""
        return (*self.dead, *self.lossy) if self.single_losses > self.limit else self.dead


def of_run(results: Results, took_part: t.Collection[str], limit: int = 0) -> PathVerdict:
    """Return the verdict by the answers of `probe` or `soak` by host; `took_part` are the hosts that did not fail.

    A host's answer may be the field `settled` of the module `node` instead, which has sums, and of its paths those with
    losses. An answer with sums alone has no path that answers if one probe is lost.
    """
    paths = probed.probed(results)
    members = frozenset(took_part)
    between = [path for path in paths if path.host in members and path.other in members and path.other != path.host]
    single = [path for path in paths if "paths" not in results[path.host]]
    count, answered = len(single), sum(path.lost < path.sent and not path.silent for path in single)
    sent, lost = sum(path.sent for path in single), sum(path.lost for path in single)
    silent = collections.Counter(path.host for path in paths if path.silent)
    for host, answer in results.items():
        if "paths" in answer:
            count += answer["paths"]
            known = not answer["lost"] or answer.get("targets")
            answered += max(0, answer["paths"] - silent[host]) if known else 0
            sent += answer["sent"]
            lost += answer["lost"]
    return PathVerdict(
        tuple(paths),
        dead=tuple(path for path in between if path.silent),
        lossy=tuple(path for path in between if path.lost and not path.silent),
        absent=tuple(path for path in paths if path.silent and path.host in members and path.other not in members),
        limit=limit,
        count=count,
        answered=answered,
        sent=sent,
        lost=lost,
    )


#: The most paths with losses that a task's result names.
_PATHS = 100


def to_data(verdict: PathVerdict) -> list[dict[str, t.Any]]:
    """Return at most 100 paths with losses as plain data for a task's result, the dead ones first.

    Each has pool, from, to, address, sent, lost, dead, reason, by and direction; see path_loss.PathLoss.
    """
    return [
        {
            "pool": path.pool,
            "from": path.host,
            "to": path.other,
            "address": path.address,
            "sent": path.sent,
            "lost": path.lost,
            "dead": path.silent,
            **(path.loss._asdict() if path.loss is not None else {}),
        }
        for path in (*verdict.dead, *verdict.lossy, *verdict.absent)[:_PATHS]
    ]
