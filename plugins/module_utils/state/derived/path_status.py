# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's agent says of the paths that it watches: counts, paths that are down, and nodes that are down.

The agent writes it, and calicoctl, the controller and other readers of heartbeats read it, with bounds.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ...base.typed_json import flag, items, matching, maybe, number, one_of, open_table, refuse, text, whole
from . import path_loss
from .path_loss import PathLoss

#: The reason of a node that has nothing to watch, such as a pure reflector.
NO_ENDPOINT = "this node has no probe endpoint"
#: The most paths and nodes that an agent names, and the most pools that it counts apart.
NAMED, POOLS = 16, 64
_NAME = re.compile(r"[!-~]{0,253}")  # of a node or a pool
_TIME = re.compile(r"[0-9TZ:-]{0,32}", re.ASCII)
_MOST = 1 << 32
#: Seconds by which what two nodes say may differ in age.
_APART = 2.0
#: Seconds between two probes of a path that is down, at least, and for each path of its node that is down.
_RETRY, _RETRY_EACH = 5.0, 0.5
#: The number of a path's last probes that show, if none of them was heard, that the way there is closed.
_UNHEARD = 6


@dataclasses.dataclass(frozen=True)
class PoolCounts:
    """The paths of one pool: how many there are, are up, are down, and were never tried; those of absent nodes apart.

    `down` leaves out the paths to nodes that are down as a whole, whose number is `absent`. Each path is tried within
    `seconds` while none is down.
    """

    pool: str
    paths: int
    up: int
    down: int
    untested: int
    absent: int
    seconds: int


@dataclasses.dataclass(frozen=True)
class PathDown:
    """A path in `pool` to `node` that is down since `since`, a UTC time as text, `seconds` ago.

    Probes have `size` bytes and go from `source` to `address`. `heard` is how many seconds ago the last probe came from
    `address`, None for never.
    """

    pool: str
    node: str
    source: str
    address: str
    size: int
    reason: str
    by: str
    direction: str
    since: str
    seconds: float
    heard: t.Optional[float]

    @property
    def loss(self) -> PathLoss:
        return PathLoss(self.reason, self.by, self.direction)


@dataclasses.dataclass(frozen=True)
class Fragmenting:
    """The MTU of the underlay's `device`, which is less than the `planned` one: larger packets are fragmented or lost.

    `slower` means that the kernel fragments what is too large for a tunnel, so that no path of it is down.
    """

    device: str
    mtu: int
    planned: int
    slower: bool

    def __str__(self) -> str:
        what = (
            "packets in VXLAN tunnels over IPv4 are fragmented: slower, not down"
            if self.slower
            else "larger packets are lost"
        )
        return (
            f"{self.device} has MTU {self.mtu}, but the fleet uses {self.planned}: {what}. Raise its MTU, or set"
            f" calico_underlay_mtu: {self.mtu} and run playbooks/site.yml."
        )


@dataclasses.dataclass(frozen=True)
class PathStatus:
    """What an agent knows of its paths. `watched` False: it tries none, for the `reason`.

    `down` has at most NAMED paths of all that are down, `nodes` at most NAMED of the `count_nodes` nodes that are down
    as a whole. `fragmenting` is None if the underlay's device has the MTU that the fleet uses. `reassembled` is the
    number of IPv4 packets that the host put together from fragments between two looks, a minute apart. It is no alarm:
    other programs' datagrams count too. It is None without a VXLAN tunnel over IPv4.
    """

    watched: bool = False
    reason: str = ""
    pools: tuple[PoolCounts, ...] = ()
    down: tuple[PathDown, ...] = ()
    nodes: tuple[str, ...] = ()
    count_nodes: int = 0
    fragmenting: t.Optional[Fragmenting] = None
    reassembled: t.Optional[int] = None

    @property
    def count(self) -> int:
        """The number of paths."""
        return sum(pool.paths for pool in self.pools)

    @property
    def count_down(self) -> int:
        return sum(pool.down for pool in self.pools)

    @property
    def count_untested(self) -> int:
        return sum(pool.untested for pool in self.pools)

    @property
    def seconds(self) -> int:
        """The seconds within which each path is tried."""
        return max((pool.seconds for pool in self.pools), default=0)

    def to_dict(self) -> dict[str, t.Any]:
        """Return it as plain data for JSON; `read` checks it, and `decode` reads it."""
        return dataclasses.asdict(self)

    def summary(self) -> str:
        """Return the counts in words."""
        if not self.watched:
            return f"not watched: {self.reason}" if self.reason else "not watched"
        if not self.count:
            return "none to watch"
        up = sum(pool.up for pool in self.pools)
        parts = [f"{up} of {self.count} up"]
        parts += [f"{self.count_down} down"] if self.count_down else []
        absent = sum(pool.absent for pool in self.pools)
        parts += [f"{absent} to nodes that are down"] if absent else []
        parts += [f"{self.count_untested} not tried yet"] if self.count_untested else []
        return f"{', '.join(parts)}; each is tried within {self.seconds} s"


def sentence(node: str, path: PathDown) -> str:
    """Return a sentence without a full stop about a path from `node` that is down."""
    return (
        f"{node} -> {path.node} in pool {path.pool}: {path.loss}, since {path.since} ({path.source} -> {path.address},"
        f" {path.size} bytes)"
    )


def problems(node: str, status: PathStatus) -> list[str]:
    """Return a sentence for each path from `node` that is down and for each node that is, and one for the MTU."""
    found = [f"{node} -> {name}: the node is down, its session and all its paths" for name in status.nodes]
    found += [sentence(node, path) for path in status.down]
    more = status.count_down - len(status.down) + status.count_nodes - len(status.nodes)
    found += [f"{node}: {more} more paths or nodes are down"] if more > 0 else []
    if status.watched and status.reason:
        found.append(f"{node}: {status.reason}")
    return [*found, f"{node}: {status.fragmenting}"] if status.fragmenting else found


def with_directions(statuses: t.Mapping[str, PathStatus]) -> dict[str, PathStatus]:
    """Return the statuses of nodes with the directions of losses that follow from both ends of a path.

    An end that hears nothing of the other one does not know where its probes are lost. The other end does: it says when
    it last heard one.
    """
    heard = {(path.source, path.address): path.heard for status in statuses.values() for path in status.down}

    def directed(path: PathDown, lately: float) -> PathDown:
        if path.direction or (path.address, path.source) not in heard:
            return path
        seconds = heard[path.address, path.source]
        # A probe that came after the first loss, and lately, shows that the way there is open.
        since = seconds is not None and seconds + _APART < min(path.seconds, lately)
        return dataclasses.replace(path, direction=path_loss.direction_of(int(since)))

    return {
        node: dataclasses.replace(status, down=tuple(directed(path, _lately(status)) for path in status.down))
        for node, status in statuses.items()
    }


def _lately(status: PathStatus) -> float:
    """Return within how many seconds the node sends _UNHEARD probes on each path that is down."""
    silent = sum(pool.down + pool.absent for pool in status.pools)
    return _APART + _UNHEARD * max(_RETRY, _RETRY_EACH * silent)


def _address(value: t.Any) -> str:
    try:
        return str(ipaddress.ip_address(text(64)(value)))
    except ValueError:
        refuse(value, "an address")


def _address_or_nothing(value: t.Any) -> str:
    return "" if value == "" else _address(value)


_COUNT = whole(0, _MOST)
_NAMED_THING = matching(_NAME, "a name")
# Later releases may add fields.
_POOL = open_table(
    {
        "pool": _NAMED_THING,
        **dict.fromkeys(("paths", "up", "down", "untested", "absent", "seconds"), _COUNT),
    }
)
_DOWN = open_table(
    {
        "pool": _NAMED_THING,
        "node": _NAMED_THING,
        "source": _address,
        "address": _address,
        "size": whole(0, 65535),
        "reason": one_of(*path_loss.REASONS),
        "by": _address_or_nothing,
        "direction": one_of(*path_loss.DIRECTIONS),
        "since": matching(_TIME, "a time"),
        "seconds": number(0.0, 1e9),
        "heard": maybe(number(0.0, 1e9)),
    }
)
_FRAGMENTING = open_table({"device": text(15), "mtu": whole(0, _MOST), "planned": whole(0, _MOST), "slower": flag})

#: The reader of what `PathStatus.to_dict` returns, as a dict of the known fields. It raises Unreadable.
read = open_table(
    {"watched": flag, "reason": text(500)},
    {
        "pools": items(_POOL, POOLS),
        "down": items(_DOWN, NAMED),
        "nodes": items(_NAMED_THING, NAMED),
        "count_nodes": _COUNT,
        "fragmenting": maybe(_FRAGMENTING),
        "reassembled": maybe(_COUNT),
    },
)


def decode(value: t.Any) -> PathStatus:
    """Return the status in plain data. Raise Unreadable for another type or size."""
    found = read(value)
    return PathStatus(
        found["watched"],
        found["reason"],
        tuple(PoolCounts(**pool) for pool in found.get("pools", ())),
        tuple(PathDown(**path) for path in found.get("down", ())),
        tuple(found.get("nodes", ())),
        found.get("count_nodes", 0),
        Fragmenting(**found["fragmenting"]) if found.get("fragmenting") else None,
        found.get("reassembled"),
    )
