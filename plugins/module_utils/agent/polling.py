# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling for what the kernel tells nobody when it changes, about once a second. It marks; the reconciler looks.

- sysctls, a slice at a time, but for those that the monitor hears of (rtnetlink calls them netconf), as are all those
  that are desired of the underlay's device;
- iptables: on the nft backend the number that every change of the ruleset moves; on the legacy one the rules
  themselves, for there is no such number;
- IP sets and our routes, by checksums of what the kernel sends of them: a route of ours that was replaced by one with
  BIRD's protocol number is announced as a route of BIRD, and those are kept from the monitor;
- the insides of the workloads' namespaces, some at a time.

What is as it was at the last poll is not marked again: if it is wrong the reconciler knows, and tries in its own time.
If it has changed something of that kind since, it may have been broken anew in the same way, and is marked.
"""

from __future__ import annotations

import asyncio
import bisect
import re
import typing as t
import zlib

from ..dataplane import workload
from ..dataplane.kernel import Kernel
from ..fleet.node_state import ROUTE_PROTOCOL, UNDERLAY, NodeState, Sysctl, WorkloadEndpoint

PERIOD = 1.0  # seconds
INTERIORS = 25  # namespaces looked into in a period

_VISITS = 5  # namespaces visited at a time
_SLICE = 200  # sysctls read at a time: a millisecond or two
_HEARD_OF = re.compile(r"net/ipv4/(?:ip_forward|conf/.+/(?:forwarding|rp_filter|proxy_arp))")
_COUNTERS = re.compile(r"\[\d+:\d+\]")

_T = t.TypeVar("_T")


class Marked(t.Protocol):
    """What polling needs of the reconciler."""

    @property
    def changed(self) -> t.Mapping[str, int]:
        """{kind: changes made}, 0 for any other."""

    def desired(self) -> t.Optional[NodeState]: ...

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None: ...

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T: ...


class Polling:
    def __init__(self, reconciler: Marked, *, period: float = PERIOD, interiors: int = INTERIORS) -> None:
        self._reconciler = reconciler
        self._period = period
        self._interiors = interiors
        self._next = ""  # interface after which the turn goes on
        self._marks: dict[str, t.Any] = {}
        # What was not as it should be, and how many changes the reconciler had made by then.
        self._wrong: tuple[dict[str, str], int] = ({}, 0)  # {key: value} of sysctls
        self._troubled: dict[str, int] = {}  # workloads, by interface
        self._nft: t.Optional[bool] = None  # whether this host's iptables writes nftables

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            state = self._reconciler.desired()
            if state is not None:
                await self.poll(state)
            await asyncio.sleep(max(0.0, began + self._period - loop.time()))

    async def poll(self, state: NodeState) -> None:
        """Once all of it. What cannot be read now is left to the next time, and to the reconciler's own looks."""
        await self._poll_sysctls(tuple(sysctl for sysctl in state.sysctls if _polled(sysctl)))
        for kind, read in (("iptables", self._read_rules), ("ipset", _read_sets), ("route", _read_routes)):
            await self._poll_mark(kind, read, state)
        await self._poll_interiors(self._turn(state))

    async def _poll_sysctls(self, sysctls: t.Sequence[Sysctl]) -> None:
        pause = self._period / 2 / (len(sysctls) // _SLICE + 1)
        wrong: dict[str, str] = {}
        for start in range(0, len(sysctls), _SLICE):
            part = sysctls[start : start + _SLICE]
            try:
                wrong.update(await self._reconciler.ask(lambda kernel: _wrong(kernel, part)))  # noqa: B023 awaited
            except OSError:
                return
            if start + _SLICE < len(sysctls):
                await asyncio.sleep(pause)
        found = wrong, self._reconciler.changed["sysctl"]
        if wrong and found != self._wrong:
            self._reconciler.mark("sysctl")
        self._wrong = found

    async def _poll_interiors(self, endpoints: t.Sequence[WorkloadEndpoint]) -> None:
        """A few at a time: each takes half a millisecond, and the loop shares the interpreter."""
        for start in range(0, len(endpoints), _VISITS):
            part = endpoints[start : start + _VISITS]
            try:
                wrong = await self._reconciler.ask(lambda kernel: workload.unlike(kernel, part))  # noqa: B023 awaited
            except OSError:
                wrong = [endpoint.interface for endpoint in part]  # the reconciler says what is the matter
            changed = self._reconciler.changed["workload"]
            news = [interface for interface in wrong if self._troubled.get(interface) != changed]
            for endpoint in part:
                self._troubled.pop(endpoint.interface, None)
            self._troubled.update(dict.fromkeys(wrong, changed))
            if news:
                self._reconciler.mark("workload", news)

    async def _poll_mark(self, kind: str, read: t.Callable[[Kernel, NodeState], t.Any], state: NodeState) -> None:
        try:
            mark = await self._reconciler.ask(lambda kernel: read(kernel, state))
        except OSError:
            return
        found = mark, self._reconciler.changed[kind]
        if kind in self._marks and self._marks[kind] != found:
            self._reconciler.mark(kind)
        self._marks[kind] = found

    def _read_rules(self, kernel: Kernel, state: NodeState) -> t.Any:
        if not state.iptables:
            return None
        if self._nft is None:
            self._nft = "nf_tables" in kernel.run(["iptables", "-V"]).output
        generation = kernel.ruleset_mark() if self._nft else None
        if generation is not None:
            return generation
        saved = kernel.run(["iptables-save"]).output
        return zlib.crc32(
            "\n".join(_COUNTERS.sub("", line) for line in saved.splitlines() if not line.startswith("#")).encode()
        )

    def _turn(self, state: NodeState) -> list[WorkloadEndpoint]:
        """The next workloads whose namespaces are to be looked into, all of them in turn."""
        endpoints = {endpoint.interface: endpoint for endpoint in state.workloads}
        for interface in self._troubled.keys() - endpoints.keys():  # nobody will look there again
            del self._troubled[interface]
        names = sorted(endpoints)
        first = bisect.bisect_right(names, self._next)
        turn = [*names[first:], *names[:first]][: self._interiors]
        if turn:
            self._next = turn[-1]
        return [endpoints[name] for name in turn]


def _polled(sysctl: Sysctl) -> bool:
    return UNDERLAY not in sysctl.key and not _HEARD_OF.fullmatch(sysctl.key)


def _wrong(kernel: Kernel, sysctls: t.Iterable[Sysctl]) -> dict[str, str]:
    """{key: value} of those that are there and have another value."""
    found: dict[str, str] = {}
    for sysctl in sysctls:
        have = kernel.sysctl_read(sysctl.key)
        if have is not None and have.split() != sysctl.value.split():
            found[sysctl.key] = have
    return found


def _read_sets(kernel: Kernel, state: NodeState) -> t.Any:
    return tuple(kernel.ipset_mark(ipset.name) for ipset in state.ipsets)


def _read_routes(kernel: Kernel, dummy: NodeState) -> t.Any:
    return kernel.routes_mark(ROUTE_PROTOCOL)
