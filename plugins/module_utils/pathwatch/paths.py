# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths that a node watches, as arrays: a fleet of a thousand nodes has thousands of them."""

from __future__ import annotations

import array
import ipaddress
import typing as t

from ..state.derived.probe_paths import ProbePath

#: The states of a path.
UNTRIED, UP, DOWN = 0, 1, 2
#: The most addresses that are kept as those that gave a reason.
_SPEAKERS = 256


class PathTable:
    """Some paths, ordered by pool, and what is known of each: one entry in each array. `names` are those of pools.

    Times are in seconds of the clock of the caller. `position` finds a path by its packed address.
    """

    #: {array: its type}: the size of a probe, positions of pool, node and source; then the number of the last probe,
    #: and of the last answered one; losses and answers in a row; the number and time of the first loss in a row; when
    #: it went down; why (a number of REASONS) and who said so; how many losses ago; on which way (a number of
    #: DIRECTIONS), by what the other end told, and how many losses ago; its session, the number of its last probe that
    #: came here, and when.
    _ARRAYS: t.Mapping[str, str] = {
        "size": "H",
        "pool": "H",
        "node": "H",
        "source": "B",
        "state": "B",
        "waiting": "B",
        "number": "I",
        "answered": "I",
        "sent_at": "d",
        "lost": "B",
        "good": "B",
        "lost_number": "I",
        "lost_at": "d",
        "since": "d",
        "reason": "B",
        "by": "H",
        "quiet": "B",
        "way": "B",
        "untold": "B",
        "heard_session": "I",
        "heard": "I",
        "heard_at": "d",
    }
    _OF_PATH = ("size", "pool", "node", "source")

    size: array.array[int]
    pool: array.array[int]
    node: array.array[int]
    source: array.array[int]
    state: array.array[int]
    waiting: array.array[int]
    number: array.array[int]
    answered: array.array[int]
    sent_at: array.array[float]
    lost: array.array[int]
    good: array.array[int]
    lost_number: array.array[int]
    lost_at: array.array[float]
    since: array.array[float]
    reason: array.array[int]
    by: array.array[int]
    quiet: array.array[int]
    way: array.array[int]
    untold: array.array[int]
    heard_session: array.array[int]
    heard: array.array[int]
    heard_at: array.array[float]

    def __init__(self, paths: t.Sequence[ProbePath] = ()) -> None:
        """Make the table. Raise ValueError for a text that is no address."""
        self.names = list(dict.fromkeys(path.pool for path in paths))
        pools = {name: position for position, name in enumerate(self.names)}
        order = sorted(range(len(paths)), key=lambda number: pools[paths[number].pool])
        self.nodes = list(dict.fromkeys(path.node for path in paths))
        self.sources = list(dict.fromkeys(path.source for path in paths))
        nodes = {name: position for position, name in enumerate(self.nodes)}
        sources = {name: position for position, name in enumerate(self.sources)}
        self.addresses = [packed(paths[number].address) for number in order]
        self.position = {address: position for position, address in enumerate(self.addresses)}
        self.speakers = [""]
        for name, kind in self._ARRAYS.items():
            setattr(self, name, array.array(kind, bytes(array.array(kind).itemsize * len(order))))
        for position, number in enumerate(order):
            path = paths[number]
            self.size[position] = min(path.size, 65535)
            self.pool[position] = pools[path.pool]
            self.node[position] = nodes[path.node]
            self.source[position] = sources[path.source]

    def __len__(self) -> int:
        return len(self.addresses)

    def ranges(self) -> list[tuple[int, int]]:
        """Return the first path of each pool and the one after its last."""
        ends = [0] * len(self.names)
        for position, pool in enumerate(self.pool):
            ends[pool] = position + 1
        return list(zip([0, *ends], ends))

    def keep(self, earlier: PathTable) -> None:
        """Take over what `earlier` knows of the paths that both have: the same source and address."""
        self.speakers = earlier.speakers
        kept = [name for name in self._ARRAYS if name not in self._OF_PATH]
        pairs = [(getattr(self, name), getattr(earlier, name)) for name in kept]
        for position, address in enumerate(self.addresses):
            before = earlier.position.get(address)
            if before is None or earlier.sources[earlier.source[before]] != self.sources[self.source[position]]:
                continue
            for own, other in pairs:
                own[position] = other[before]

    def speaker(self, address: str) -> int:
        """Return the number of an address that gave a reason; 0, for nobody, if there are too many."""
        try:
            return self.speakers.index(address)
        except ValueError:
            pass
        if len(self.speakers) >= _SPEAKERS:
            return 0
        self.speakers.append(address)
        return len(self.speakers) - 1


def packed(address: str) -> bytes:
    """Return the 4 or 16 bytes of an address. Raise ValueError for another text."""
    return ipaddress.ip_address(address).packed
