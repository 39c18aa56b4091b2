# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentences about the paths of a run that lose packets: few of them, however many paths those are."""

from __future__ import annotations

import collections
import typing as t

from ...fleet.paths.probed import ProbedPath
from ...fleet.paths.verdict import PathVerdict
from ...state.derived.path_loss import NO_ANSWER, PathLoss

#: The most sentences about dead paths, and about paths with single losses.
MOST, MOST_LOSSY = 20, 10
#: The most dead paths that have a sentence each.
_SINGLE = 10
#: The least dead paths of a node that one sentence names together, and the most nodes with a sentence each.
_TOGETHER, _NODES = 3, 3
_NAMED = 3

Names = t.Mapping[str, str]


class _Finding(t.NamedTuple):
    """A sentence about so many dead `paths` of a pool, without the pool's name."""

    text: str
    paths: int


def why(loss: t.Optional[PathLoss], names: Names) -> str:
    """Return why a path loses packets: `unreachable, says node2 (10.10.1.12)`. `names` has nodes by address.

    The direction is said only where no ICMP error says what happened.
    """
    if loss is None:
        return ""
    by = f"{names[loss.by]} ({loss.by})" if loss.by in names else loss.by
    return str(loss._replace(by=by, direction=loss.direction if loss.reason == NO_ANSWER else ""))


def problems(verdict: PathVerdict, names: Names) -> list[str]:
    """Return sentences about the paths that make a run fail, at most 32; [] if it has not failed by them."""
    found = dead(verdict, names)
    if verdict.single_losses > verdict.limit:
        found += lossy(verdict, names)
    return found


def failure(verdict: PathVerdict) -> str:
    """Return why a run has failed by its paths, as the message of its last task; "" if it has not."""
    if not verdict.failed:
        return ""
    count = len(verdict.dead)
    if count:
        what = f"{count:,} {'path gets' if count == 1 else 'paths get'} no answer"
    else:
        count = verdict.single_losses
        what = (
            f"{count:,} {'probe was' if count == 1 else 'probes were'} lost, more than calico_node_max_lost_probes "
            f"({verdict.limit:,})"
        )
    return (
        f"{what}, see above: packets of workloads may not arrive there. docs/troubleshooting.md says what each reason "
        "means. Correct what is named there, and run again."
    )


def dead(verdict: PathVerdict, names: Names) -> list[str]:
    """Return sentences about the dead paths: `pool default: node1 -> node3: no answer (lost on the way there)`.

    If there are more than ten, the paths of a node are named together, and in a pool those of several nodes as well.
    What is alike in several pools has one sentence. There are at most MOST, and one more that counts what is left out.
    """
    tried: dict[str, list[ProbedPath]] = {}
    for path in verdict.paths:
        tried.setdefault(path.pool, []).append(path)
    by_pool: dict[str, list[ProbedPath]] = {}
    for path in verdict.dead:
        by_pool.setdefault(path.pool, []).append(path)
    pools: dict[_Finding, list[str]] = {}
    for pool, paths in sorted(by_pool.items()):
        single = len(verdict.dead) <= _SINGLE
        for finding in _each(paths, names) if single else _together(paths, tried[pool], names):
            pools.setdefault(finding, []).append(pool)
    sentences = [f"{_pools(having)}{finding.text}" for finding, having in pools.items()]
    if len(sentences) <= MOST:
        return sentences
    left = sum(finding.paths * len(having) for finding, having in list(pools.items())[MOST:])
    return [*sentences[:MOST], f"... and {left:,} more {'path' if left == 1 else 'paths'} without an answer."]


def lossy(verdict: PathVerdict, names: Names) -> list[str]:
    """Return sentences about paths with single losses, the worst first, at most ten and one that counts the others."""
    paths = sorted(verdict.lossy, key=lambda path: (-path.lost, -path.gap, str(path), path.pool))
    found = [f"{_pools([path.pool])}{path}: {lost(path, names)}" for path in paths[:MOST_LOSSY]]
    if len(paths) > MOST_LOSSY:
        left = len(paths) - MOST_LOSSY
        found.append(f"... and {left:,} more {'path' if left == 1 else 'paths'} with losses.")
    return found


def lost(path: ProbedPath, names: Names) -> str:
    """Return how many probes of a lossy path were lost, why if that is known, and the longest gap."""
    said = f" ({why(path.loss, names)})" if path.loss is not None and path.loss.reason != NO_ANSWER else ""
    gap = f", longest gap {path.gap:.1f} ms" if path.gap else ""
    return f"{path.lost:,} of {path.sent:,} lost{said}{gap}"


def absent(verdict: PathVerdict) -> list[str]:
    """Return one line about silent paths to nodes that took no part, [] without any."""
    if not verdict.absent:
        return []
    nodes = sorted({path.other or path.address for path in verdict.absent})
    return [f"no answer  on {_counted(len(verdict.absent))} to {_some(nodes)}, not in this run or failed in it"]


def _pools(pools: t.Sequence[str]) -> str:
    named = [pool for pool in pools if pool]
    if not named:
        return ""
    if len(named) > _NAMED:
        return f"{_some(named, 'pools')}: "
    return f"pool{'' if len(named) == 1 else 's'} {_some(named)}: "


def _each(paths: t.Iterable[ProbedPath], names: Names) -> list[_Finding]:
    return [_Finding(f"{path}: {why(path.loss, names)}", 1) for path in paths]


def _together(paths: t.Sequence[ProbedPath], tried: t.Sequence[ProbedPath], names: Names) -> list[_Finding]:
    """Return findings about the dead `paths` of a pool whose `tried` paths were tried; those of a node are one."""
    if len(paths) == len(tried) and len(paths) > _SINGLE:
        return [_finding(f"none of {_counted(len(paths))} answers", paths, names)]
    found = []
    groups, rest = _by_node(paths)
    for kind in _KINDS:
        alike = [(node, own) for (node, own) in groups if _kind(node, own) == kind]
        if len(alike) > _NODES:
            alike_paths = [path for dummy, own in alike for path in own]
            found.append(_of_nodes(kind, [node for node, dummy in alike], alike_paths, tried, names))
        else:
            found += [_of_nodes(kind, [node], own, tried, names) for node, own in alike]
    if len(rest) > _SINGLE:
        nodes = sorted({node for path in rest for node in (path.host, path.other)})
        found.append(_finding(f"{len(rest):,} of {_counted(len(tried))}, between {_some(nodes)}", rest, names))
        return found
    return [*found, *_each(rest, names)]


_KINDS = ("to", "from", "from and to")


def _by_node(paths: t.Sequence[ProbedPath]) -> tuple[list[tuple[str, list[ProbedPath]]], list[ProbedPath]]:
    """Return nodes with the dead paths that they explain, those with the most first, and the paths that are left.

    Each path is in one of them. A node that explains fewer than _TOGETHER paths gets none.
    """
    left: dict[str, set[int]] = {}
    for index, path in enumerate(paths):
        for node in (path.host, path.other):
            left.setdefault(node, set()).add(index)
    groups = []
    while left:
        node = min(left, key=lambda node: (-len(left[node]), node))
        if len(left[node]) < _TOGETHER:
            break
        own = sorted(left[node])
        for index in own:
            for end in (paths[index].host, paths[index].other):
                left[end].discard(index)
        groups.append((node, [paths[index] for index in own]))
    rest = sorted(set().union(*left.values()))
    return groups, [paths[index] for index in rest]


def _kind(node: str, paths: t.Sequence[ProbedPath]) -> str:
    if all(path.other == node for path in paths):
        return "to"
    return "from" if all(path.host == node for path in paths) else "from and to"


def _of_nodes(
    kind: str,
    nodes: t.Sequence[str],
    paths: t.Sequence[ProbedPath],
    tried: t.Sequence[ProbedPath],
    names: Names,
) -> _Finding:
    ends = frozenset(nodes)
    own = sum((kind != "from" and path.other in ends) or (kind != "to" and path.host in ends) for path in tried)
    count = f"all {_counted(own)}" if own == len(paths) else f"{len(paths):,} of {_counted(own)}"
    return _finding(f"{count} {kind} {_some(sorted(nodes))}", paths, names)


def _finding(what: str, paths: t.Sequence[ProbedPath], names: Names) -> _Finding:
    """Return the finding `what` with the reasons of its paths, the most frequent ones if there are many."""
    counts = collections.Counter(why(path.loss, names) for path in paths)
    reasons = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if len(reasons) == 1:
        return _Finding(f"{what}: {reasons[0][0]}", len(paths))
    shown = reasons if len(reasons) <= _NAMED else reasons[: _NAMED - 1]
    parts = [f"{count:,} {reason}" for reason, count in shown]
    others = len(paths) - sum(count for dummy, count in shown)
    if others:
        parts.append(f"{others:,} for other reasons")
    return _Finding(f"{what}: {'; '.join(parts)}", len(paths))


def _counted(paths: int) -> str:
    return f"{paths:,} {'path' if paths == 1 else 'paths'}"


def _some(names: t.Sequence[str], noun: str = "nodes") -> str:
    """Return at most three of the names, and how many there are if there are more."""
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names):,} {noun} ({', '.join(names[:_NAMED])} and {len(names) - _NAMED:,} more)"
