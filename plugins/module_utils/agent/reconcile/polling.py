# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling for what the kernel tells nobody when it changes, about once a second. It marks; the reconciler looks.

- sysctls, a slice at a time, but for those that the monitor hears of (rtnetlink calls them netconf), as are all those
  that are desired of the underlay's device;
- iptables: on the nft backend the number that every change of the ruleset moves; on the legacy one the sizes of the
  tables, and now and then, for a rule may stand in the place of another, it is marked unseen;
- IP sets and our routes, by checksums of what the kernel sends of them: a route of ours that was replaced by one with
  BIRD's protocol number is announced as a route of BIRD, and those are kept from the monitor;
- the insides of the workloads' namespaces, some at a time, and with them whether their host ends take advertisements;
- whether a tunnel device takes advertisements.

What is as it was at the last poll is not marked again: if it is wrong the reconciler knows, and tries in its own time.
If it has changed something of that kind since, it may have been broken anew in the same way, and is marked.

Of most nodes all that is read in one go: a node that is as it should be pays for little but the way into the drivers'
thread and back.
"""

from __future__ import annotations

import asyncio
import bisect
import re
import typing as t

from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel
from ...state.node_state import ROUTE_PROTOCOL, UNDERLAY, NodeState, Sysctl, VethEndpoint
from . import timer_alignment

INTERIORS = 25  # namespaces looked into in a period

_VISITS = 5  # namespaces visited at a time
_SLICE = 200  # sysctls read at a time: a millisecond or two
_HEARD_OF = re.compile(r"net/ipv4/(?:ip_forward|conf/.+/(?:forwarding|rp_filter|proxy_arp))")
#: What matters while an interface gets its addresses; a forwarding one takes no advertisements anyhow.
_FOR_THE_START = re.compile(r"net/ipv6/conf/.+/(?:accept_dad|accept_ra|addr_gen_mode)")

_T = t.TypeVar("_T")
_What = t.TypeVar("_What")


class PolledReconciler(t.Protocol):
    """What polling needs of the reconciler."""

    @property
    def changed(self) -> t.Mapping[str, int]:
        """{kind: changes made}, 0 for any other."""

    def desired(self) -> t.Optional[NodeState]: ...

    def whole(self, state: NodeState) -> t.Callable[[], NodeState]:
        """Puts in what takes time to make of it, in the drivers' thread."""

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """In the drivers' thread: another one when rules of iptables may have changed."""

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None: ...

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T: ...


class Polling:
    def __init__(
        self, reconciler: PolledReconciler, *, period: float = timer_alignment.PERIOD, interiors: int = INTERIORS
    ) -> None:
        self._reconciler = reconciler
        self._period = period
        self._interiors = interiors
        self._next = ""  # interface after which the turn goes on
        self._marks: dict[str, t.Any] = {}
        # What was not as it should be, and how many changes the reconciler had made by then.
        self._wrong: tuple[dict[str, str], int] = ({}, 0)  # {key: value} of sysctls
        self._troubled: dict[str, int] = {}  # workloads, by interface
        self._readers: dict[str, t.Callable[[Kernel, NodeState], t.Any]] = {
            "iptables": self._read_rules,
            "ipset": _read_sets,
            "route": _read_routes,
            "tunnel": _read_tunnels,
        }
        # Of the state that was polled last, which is seldom another one.
        self._state: t.Optional[NodeState] = None
        self._sysctls: tuple[Sysctl, ...] = ()
        self._endpoints: list[VethEndpoint] = []  # by interface
        self._interfaces: list[str] = []

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            state = self._reconciler.desired()
            if state is not None:
                await self.poll(state)
            now = loop.time()
            await asyncio.sleep(timer_alignment.after(now, self._period) - now)

    async def poll(self, state: NodeState) -> None:
        """Once all of it. What cannot be read now is left to the next time, and to the reconciler's own looks."""
        self._take(state)
        make, sysctls, turn = self._reconciler.whole(state), self._sysctls, self._turn()
        first = await self._reconciler.ask(lambda kernel: self._look(kernel, make, sysctls[:_SLICE], turn[:_VISITS]))
        for kind, mark in first.marks.items():
            self._compare(kind, mark)
        self._judge_interiors(turn[:_VISITS], first.troubled)
        await self._poll_interiors(turn[_VISITS:])
        await self._poll_sysctls(sysctls[_SLICE:], first.wrong)

    def _take(self, state: NodeState) -> None:
        if state is self._state:
            return
        self._state = state
        self._sysctls = tuple(sysctl for sysctl in state.sysctls if _polled(sysctl))
        self._endpoints = sorted(state.workloads, key=lambda endpoint: endpoint.interface)
        self._interfaces = [endpoint.interface for endpoint in self._endpoints]
        for interface in self._troubled.keys() - set(self._interfaces):  # nobody will look there again
            del self._troubled[interface]

    def _look(
        self,
        kernel: Kernel,
        make: t.Callable[[], NodeState],
        sysctls: t.Sequence[Sysctl],
        endpoints: t.Sequence[VethEndpoint],
    ) -> _Seen:
        """In the drivers' thread. All that a small node has: the way there and back costs as much as what is read."""
        whole = make()
        marks = {kind: _readable(read, kernel, whole) for kind, read in self._readers.items()}
        return _Seen(marks, _readable(_wrong, kernel, sysctls), _troubled(kernel, endpoints))

    async def _poll_sysctls(self, sysctls: t.Sequence[Sysctl], wrong: t.Optional[dict[str, str]]) -> None:
        """The rest of them, slice by slice; `wrong` was found in the first one, None where that could not be read."""
        pause = self._period / 2 / (len(sysctls) // _SLICE + 1)
        for start in range(0, len(sysctls), _SLICE):
            await asyncio.sleep(pause)
            part = sysctls[start : start + _SLICE]
            more = await self._reconciler.ask(lambda kernel: _readable(_wrong, kernel, part))  # noqa: B023 awaited
            wrong = None if wrong is None or more is None else {**wrong, **more}
        if wrong is None:
            return
        found = wrong, self._reconciler.changed["sysctl"]
        if wrong and found != self._wrong:
            self._reconciler.mark("sysctl")
        self._wrong = found

    async def _poll_interiors(self, endpoints: t.Sequence[VethEndpoint]) -> None:
        """A few at a time: each takes half a millisecond, and the loop shares the interpreter."""
        for start in range(0, len(endpoints), _VISITS):
            part = endpoints[start : start + _VISITS]
            self._judge_interiors(part, await self._reconciler.ask(lambda kernel: _troubled(kernel, part)))  # noqa: B023 awaited

    def _judge_interiors(self, endpoints: t.Sequence[VethEndpoint], troubled: t.Sequence[str]) -> None:
        changed = self._reconciler.changed["workload"]
        news = [interface for interface in troubled if self._troubled.get(interface) != changed]
        for endpoint in endpoints:
            self._troubled.pop(endpoint.interface, None)
        self._troubled.update(dict.fromkeys(troubled, changed))
        if news:
            self._reconciler.mark("workload", news)

    def _compare(self, kind: str, mark: t.Any) -> None:
        if mark is None:  # there is nothing of it, or it cannot be read now
            return
        found = mark, self._reconciler.changed[kind]
        if kind in self._marks and self._marks[kind] != found:
            self._reconciler.mark(kind)
        self._marks[kind] = found

    def _read_rules(self, kernel: Kernel, state: NodeState) -> t.Any:
        return self._reconciler.rules_mark(kernel) if state.iptables else None

    def _turn(self) -> list[VethEndpoint]:
        """The next workloads whose namespaces are to be looked into, all of them in turn."""
        first = bisect.bisect_right(self._interfaces, self._next)
        turn = [*self._endpoints[first:], *self._endpoints[:first]][: self._interiors]
        if turn:
            self._next = turn[-1].interface
        return turn


class _Seen(t.NamedTuple):
    """Marks by kind and sysctls with a wrong value, None for what cannot be read; interfaces of troubled workloads."""

    marks: dict[str, t.Any]
    wrong: t.Optional[dict[str, str]]
    troubled: list[str]


def _readable(read: t.Callable[[Kernel, _What], _T], kernel: Kernel, what: _What) -> t.Optional[_T]:
    try:
        return read(kernel, what)
    except OSError:
        return None


def _polled(sysctl: Sysctl) -> bool:
    known = _HEARD_OF.fullmatch(sysctl.key) or _FOR_THE_START.fullmatch(sysctl.key)
    return UNDERLAY not in sysctl.key and not known


def _wrong(kernel: Kernel, sysctls: t.Iterable[Sysctl]) -> dict[str, str]:
    """{key: value} of those that are there and have another value."""
    found: dict[str, str] = {}
    for sysctl in sysctls:
        have = kernel.sysctl_read(sysctl.key)
        if have is not None and have.split() != sysctl.value.split():
            found[sysctl.key] = have
    return found


def _troubled(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> list[str]:
    """Interfaces of those that are not as desired, of all where that cannot be told: the reconciler says why then."""
    try:
        return list(workload.unlike(kernel, endpoints))
    except OSError:
        return [endpoint.interface for endpoint in endpoints]


def _read_sets(kernel: Kernel, state: NodeState) -> t.Any:
    return tuple(kernel.ipset_mark(ipset.name) for ipset in state.ipsets)


def _read_tunnels(kernel: Kernel, state: NodeState) -> t.Any:
    """What each tunnel device takes of what its neighbours advertise: nothing, if it is as it should be."""
    links = [kernel.link(device.name) for device in state.devices]
    return tuple((link.name, link.open_settings) for link in links if link is not None and link.open_settings)


def _read_routes(kernel: Kernel, dummy: NodeState) -> t.Any:
    return kernel.routes_mark(ROUTE_PROTOCOL)
