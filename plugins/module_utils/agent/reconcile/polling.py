# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling, about once a second, for changes that the kernel does not announce. Polling marks; the reconciler looks.

- Sysctls, a slice at a time, except those that matter only at the start, and those that the monitor hears of (rtnetlink
  calls them netconf). All sysctls that are desired for the underlay's device are among the latter.
- iptables: on the nft backend, the generation number that every change of the ruleset increases. On the legacy backend,
  the sizes of the tables. Since a rule may be replaced by another, that is also marked unseen from time to time.
- IP sets: their numbers of members, and in a round of 90 s their members, compared with what the reconciler last read
  and wrote. So its own writes are not doubted.
- Our routes, by a checksum of what the kernel sends, as often as a thousandth of a processor allows. The kernel
  announces one that was replaced by a route with BIRD's protocol number as BIRD's, and the monitor does not receive
  those.
- The insides of the workloads' namespaces, some at a time, and whether their host ends accept router advertisements.
- Whether a tunnel device accepts router advertisements.

What has not changed since the last poll is not marked again: if it is wrong, the reconciler knows and retries at its
own pace. If the reconciler has changed objects of that kind since, the same fault may be a new one, and is marked.

On a node with up to 200 such sysctls and 5 workloads, one call in the drivers' thread reads everything, so a node in
order costs little more than that hop.
"""

from __future__ import annotations

import asyncio
import bisect
import re
import time
import typing as t

from ...dataplane.drivers import workload
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.registry import REGISTRY
from ...state.node_state import ROUTE_PROTOCOL, UNDERLAY, NodeState, Sysctl, VethEndpoint
from ..concurrency import timer_alignment
from ..known.policy_compilers import PolicyNotCompiled
from .stages import Wanted

INTERIORS = 25  # the most network namespaces of workloads that are looked into per period

#: Reading routes takes at most one in so many seconds of a processor, but is done every _ROUTES_LATEST polls at least.
_ROUTES_SHARE, _ROUTES_LATEST = 1000, 90
_VISITS = 5  # the most network namespaces that are looked into in one call of the drivers' thread
_SLICE = 200  # the most sysctls that are read in one call of the drivers' thread, in a millisecond or two
_HEARD_OF = re.compile(r"net/ipv4/(?:ip_forward|conf/.+/(?:forwarding|rp_filter|proxy_arp))")
#: Sysctls that are not polled one by one: they matter only while an interface gets its addresses, or, accept_ra, are
#: read otherwise (`_read_tunnels`, and workload.unlike for host ends).
_FOR_THE_START = re.compile(r"net/ipv6/conf/.+/(?:accept_dad|accept_ra|addr_gen_mode)")

_T = t.TypeVar("_T")
_What = t.TypeVar("_What")


class PolledStages(t.Protocol):
    """The part of the stages that polling uses."""

    @property
    def changed(self) -> t.Mapping[str, int]:
        """A mapping from kind to the number of changes made; 0 for a kind that is not in it."""

    @property
    def wanted(self) -> Wanted:
        """What the node must have."""

    def rules_mark(self, kernel: Kernel) -> t.Hashable:
        """Return a token that changes when rules of iptables may have changed.

        It is None until they were read, and without iptables. Call it in the drivers' thread. Raise KernelError.
        """

    def are_sets_doubtful(self, kernel: Kernel) -> bool:
        """Return whether another process has written IP sets since they were read or written, as far as compared.

        Call it in the drivers' thread. Raise KernelError.
        """

    def mark(self, kind: t.Optional[str] = None, interiors: t.Collection[str] = ()) -> None: ...

    async def ask(self, question: t.Callable[[Kernel], _T]) -> _T: ...


class Polling:
    """The poller, every `period` seconds; each poll looks into at most `interiors` network namespaces."""

    def __init__(
        self, stages: PolledStages, *, period: float = timer_alignment.PERIOD, interiors: int = INTERIORS
    ) -> None:
        self._stages = stages
        self._period = period
        self._interiors = interiors
        self._next = ""  # host end after which, in alphabetical order, the next poll of namespaces begins
        self._marks: dict[str, t.Any] = {}
        # What differed from the desired state, each with the number of changes of its kind that the reconciler had made
        # when the poll found it.
        self._routes_rest = 0  # polls that leave out routes, because reading them took long
        self._wrong: tuple[dict[str, str], int] = ({}, 0)  # ({key: value} of wrong sysctls, changes of sysctls by then)
        self._troubled: dict[str, int] = {}  # {host end of a workload with a fault: changes of workloads by then}
        self._readers: dict[str, t.Callable[[Kernel, NodeState], t.Any]] = {
            "iptables": self._read_rules,
            "route": self._read_routes,
            "tunnel": _read_tunnels,
        }
        # The state that was polled last, and what is derived from it, because it seldom changes.
        self._state: t.Optional[NodeState] = None
        self._sysctls: tuple[Sysctl, ...] = ()
        self._endpoints: list[VethEndpoint] = []  # the state's workloads, sorted by host end
        self._interfaces: list[str] = []

    async def run(self) -> None:
        """Poll the desired state, while it is known, once per period or less often, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            state = self._stages.wanted.state()
            if state is not None:
                await self.poll(state)
            now = loop.time()
            await asyncio.sleep(timer_alignment.after(now, self._period) - now)

    async def poll(self, state: NodeState) -> None:
        """Poll once, and mark the kinds that changed, or are wrong in a way that their last read did not find.

        A fault that it found is marked again if the reconciler has changed objects of its kind since. What cannot be
        read is left to the next poll and to the reconciler's own looks; a namespace that cannot be read counts as
        wrong, and so do those of the same call. Sets and rules are not polled while policy cannot be compiled. Nothing
        is raised. With more than 200 sysctls, it pauses for up to half a period in all.
        """
        self._take(state)
        compiled, sysctls, turn = self._stages.wanted.with_policy(state), self._sysctls, self._turn()
        first = await self._stages.ask(
            lambda kernel: self._read(kernel, state, compiled, sysctls[:_SLICE], turn[:_VISITS])
        )
        for kind, mark in first.marks.items():
            self._compare(kind, mark)
        if first.sets:
            self._stages.mark("ipset")
        self._judge_interiors(turn[:_VISITS], first.troubled)
        await self._poll_interiors(turn[_VISITS:])
        await self._poll_sysctls(sysctls[_SLICE:], first.wrong)

    def _take(self, state: NodeState) -> None:
        """Derive from `state` which sysctls and workloads are polled, unless it was last done for this very object."""
        if state is self._state:
            return
        self._state = state
        self._sysctls = tuple(sysctl for sysctl in state.sysctls if _polled(sysctl))
        self._endpoints = sorted(state.endpoints, key=lambda endpoint: endpoint.interface)
        self._interfaces = [endpoint.interface for endpoint in self._endpoints]
        for interface in self._troubled.keys() - set(self._interfaces):  # of workloads that are not desired any more
            del self._troubled[interface]

    def _read(
        self,
        kernel: Kernel,
        state: NodeState,
        compiled: t.Callable[[], NodeState],
        sysctls: t.Sequence[Sysctl],
        endpoints: t.Sequence[VethEndpoint],
    ) -> _Seen:
        """Read tokens, these sysctls and the namespaces of these workloads, in one hop to the drivers' thread.

        A token or `wrong` is None if it cannot be read. If policy cannot be compiled, its tokens are left out. If a
        namespace cannot be read, all of these workloads count as wrong.
        """
        readers, sets = self._readers, False
        try:
            state = compiled()
        except PolicyNotCompiled:  # The reconciler's own looks report it.
            readers = {kind: read for kind, read in readers.items() if kind not in REGISTRY.guards}
        else:
            sets = bool(_readable(self._read_sets, kernel, state))
        marks = {kind: _readable(read, kernel, state) for kind, read in readers.items()}
        return _Seen(marks, sets, _readable(_wrong, kernel, sysctls), _troubled(kernel, endpoints))

    async def _poll_sysctls(self, sysctls: t.Sequence[Sysctl], wrong: t.Optional[dict[str, str]]) -> None:
        """Read further sysctls slice by slice, with pauses, and mark sysctls if any are wrong and that is news.

        It is no news if the last complete poll found the same wrong values and the reconciler has changed no sysctl
        since. `wrong` are those of the first slice, or None if they could not be read: then nothing is marked.
        """
        pause = self._period / 2 / (len(sysctls) // _SLICE + 1)
        for start in range(0, len(sysctls), _SLICE):
            await asyncio.sleep(pause)
            part = sysctls[start : start + _SLICE]
            more = await self._stages.ask(lambda kernel: _readable(_wrong, kernel, part))  # noqa: B023 awaited
            wrong = None if wrong is None or more is None else {**wrong, **more}
        if wrong is None:
            return
        found = wrong, self._stages.changed["sysctl"]
        if wrong and found != self._wrong:
            self._stages.mark("sysctl")
        self._wrong = found

    async def _poll_interiors(self, endpoints: t.Sequence[VethEndpoint]) -> None:
        """Look into the namespaces of these workloads, five per call, and mark as `_judge_interiors` does."""
        for start in range(0, len(endpoints), _VISITS):
            part = endpoints[start : start + _VISITS]
            self._judge_interiors(part, await self._stages.ask(lambda kernel: _troubled(kernel, part)))  # noqa: B023 awaited

    def _judge_interiors(self, endpoints: t.Sequence[VethEndpoint], troubled: t.Sequence[str]) -> None:
        """Mark the workloads of `troubled` (host ends), except those that were wrong when they were last looked into.

        Those that were wrong then are marked too if the reconciler has changed any workload since.
        """
        changed = self._stages.changed["workload"]
        new = [interface for interface in troubled if self._troubled.get(interface) != changed]
        for endpoint in endpoints:
            self._troubled.pop(endpoint.interface, None)
        self._troubled.update(dict.fromkeys(troubled, changed))
        if new:
            self._stages.mark("workload", new)

    def _compare(self, kind: str, mark: t.Any) -> None:
        """Mark a kind if its token (None: not read) or its number of changes differs from that at the last read."""
        if mark is None:  # No tables are desired, or none were read yet, or the objects cannot be read now.
            return
        found = mark, self._stages.changed[kind]
        if kind in self._marks and self._marks[kind] != found:
            self._stages.mark(kind)
        self._marks[kind] = found

    def _read_rules(self, kernel: Kernel, state: NodeState) -> t.Any:
        return self._stages.rules_mark(kernel) if state.iptables else None

    def _read_routes(self, kernel: Kernel, dummy: NodeState) -> t.Any:
        """Return a checksum of our routes, None if their turn has not come."""
        if self._routes_rest > 0:
            self._routes_rest -= 1
            return None
        began = time.thread_time()
        mark = kernel.routes_mark(ROUTE_PROTOCOL)
        polls = (time.thread_time() - began) * _ROUTES_SHARE / self._period
        self._routes_rest = min(int(polls), _ROUTES_LATEST - 1)
        return mark

    def _read_sets(self, kernel: Kernel, state: NodeState) -> bool:
        return bool(state.ipsets) and self._stages.are_sets_doubtful(kernel)

    def _turn(self) -> list[VethEndpoint]:
        """Return the next workloads whose namespaces are looked into, `interiors` at most, in a round over all."""
        first = bisect.bisect_right(self._interfaces, self._next)
        turn = [*self._endpoints[first:], *self._endpoints[:first]][: self._interiors]
        if turn:
            self._next = turn[-1].interface
        return turn


class _Seen(t.NamedTuple):
    """The result of one read.

    `marks` has a token for each kind that is polled by tokens, `sets` is whether another process has written IP sets,
    `wrong` has the keys and present values of the wrong sysctls, and `troubled` the host ends of workloads in
    disorder. A token, or all of `wrong`, is None if it could not be read.
    """

    marks: dict[str, t.Any]
    sets: bool
    wrong: t.Optional[dict[str, str]]
    troubled: list[str]


def _readable(read: t.Callable[[Kernel, _What], _T], kernel: Kernel, what: _What) -> t.Optional[_T]:
    """Return `read(kernel, what)`, or None if it raised OSError."""
    try:
        return read(kernel, what)
    except OSError:
        return None


def _polled(sysctl: Sysctl) -> bool:
    """Return whether `_wrong` polls a sysctl, which is none of the underlay's, the monitor's or _FOR_THE_START."""
    known = _HEARD_OF.fullmatch(sysctl.key) or _FOR_THE_START.fullmatch(sysctl.key)
    return UNDERLAY not in sysctl.key and not known


def _wrong(kernel: Kernel, sysctls: t.Iterable[Sysctl]) -> dict[str, str]:
    """Return {key: present value} of the sysctls that exist with another value than desired, white space aside."""
    found: dict[str, str] = {}
    for sysctl in sysctls:
        have = kernel.sysctl_read(sysctl.key)
        if have is not None and have.split() != sysctl.value.split():
            found[sysctl.key] = have
    return found


def _troubled(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> list[str]:
    """Return the host ends of workloads that differ, without ended ones; all if the kernel cannot be read."""
    try:
        return list(workload.unlike(kernel, endpoints))
    except OSError:
        return [endpoint.interface for endpoint in endpoints]


def _read_tunnels(kernel: Kernel, state: NodeState) -> t.Any:
    """Return (device, ((name, value), ...)) for desired tunnel devices with hardening.SETTINGS above 0; () for none."""
    links = [kernel.link(device.name) for device in state.devices]
    return tuple((link.name, link.open_settings) for link in links if link is not None and link.open_settings)
