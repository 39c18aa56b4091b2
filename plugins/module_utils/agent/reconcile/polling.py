# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Polling, about once a second, for changes that the kernel does not announce. Polling marks; the reconciler looks.

- Sysctls, some at a time, except those that matter only at the start, and those that the monitor hears of (rtnetlink
  calls them netconf). All sysctls that are desired for the underlay's device are among the latter.
- iptables: on the nft backend, the generation number that every change of the ruleset increases. On the legacy backend,
  the sizes of the tables. Since a rule may be replaced by another, that is also marked unseen from time to time.
- IP sets: their numbers of members, and in a round of 90 s their members, compared with what the reconciler last read
  and wrote. So its own writes are not doubted.
- Our routes, by a checksum of what the kernel sends. The kernel announces one that was replaced by a route with BIRD's
  protocol number as BIRD's, and the monitor does not receive those.
- Whether our tunnel devices and host ends accept router advertisements, by a checksum of these devices.
- The insides of the workloads' namespaces, some at a time.

Both checksums are read as often as a thousandth of a processor allows. What is read some at a time is read once in a
round of 90 s, and in less on a node with few workloads: an idle agent costs little, however many there are.

What has not changed since the last poll is not marked again: if it is wrong, the reconciler knows and retries at its
own pace. If the reconciler has changed objects of that kind since, the same fault may be a new one, and is marked.

On a node with up to 450 workloads, one call in the drivers' thread reads everything, so a node in order costs little
more than that hop.
"""

from __future__ import annotations

import asyncio
import bisect
import math
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

#: Seconds in which each sysctl, and the inside of each namespace, is read once, or fewer on a node with few of them.
ROUND = 90.0
INTERIORS = 2  # namespaces that are looked into per poll, at least
SYSCTLS = 100  # sysctls that are read per poll, at least

#: Reading routes, or devices, takes at most one in so many seconds of a processor, but is done every _LATEST polls at
#: least.
_SHARE, _LATEST = 1000, 90
_VISITS = 5  # the most network namespaces that are looked into in one call of the drivers' thread
_SUSPECTS = 25  # the most workloads that are looked at in one poll because their host ends have open settings
_HEARD_OF = re.compile(r"net/ipv4/(?:ip_forward|conf/.+/(?:forwarding|rp_filter|proxy_arp))")
#: Sysctls that are not polled one by one: they matter only while an interface gets its addresses, or, accept_ra, are
#: read with the devices (`_read_links`).
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
    """The poller, every `period` seconds; each poll looks into at least `interiors` network namespaces."""

    def __init__(
        self, stages: PolledStages, *, period: float = timer_alignment.PERIOD, interiors: int = INTERIORS
    ) -> None:
        self._stages = stages
        self._period = period
        self._marks: dict[str, t.Any] = {}
        # What differed from the desired state, each with the number of changes of its kind that the reconciler had made
        # when the poll found it.
        self._wrong: dict[str, tuple[str, int]] = {}  # {key of a sysctl: (wrong value, changes of sysctls by then)}
        self._troubled: dict[str, int] = {}  # {host end of a workload with a fault: changes of workloads by then}
        self._open: dict[str, tuple[tuple[str, int], ...]] = {}  # {device of ours: its open settings}
        self._links_mark: t.Optional[int] = None  # the mark of our devices that belongs to `_open`
        self._readers: dict[str, t.Callable[[Kernel, NodeState], t.Any]] = {
            "iptables": self._read_rules,
            "route": self._read_routes,
        }
        self._routes_pace, self._links_pace = _Pace(period), _Pace(period)
        # The state that was polled last, and what is derived from it, because it seldom changes.
        self._state: t.Optional[NodeState] = None
        self._sysctls = _Round[Sysctl](lambda sysctl: sysctl.key, SYSCTLS, period)
        self._endpoints = _Round[VethEndpoint](lambda endpoint: endpoint.interface, interiors, period)
        self._known: dict[str, VethEndpoint] = {}  # the state's workloads by host end
        self._devices: frozenset[str] = frozenset()  # the names of host ends and tunnel devices

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
        is raised.
        """
        self._take(state)
        compiled, sysctls, turn = self._stages.wanted.with_policy(state), self._sysctls.take(), self._endpoints.take()
        first = await self._stages.ask(lambda kernel: self._read(kernel, state, compiled, sysctls, turn[:_VISITS]))
        for kind, mark in first.marks.items():
            self._compare(kind, mark)
        if first.sets:
            self._stages.mark("ipset")
        self._judge_sysctls(sysctls, first.wrong)
        self._judge_interiors(turn[:_VISITS], first.troubled)
        await self._poll_interiors([*turn[_VISITS:], *self._suspects(first.open, turn)])

    def _take(self, state: NodeState) -> None:
        """Derive from `state` what is polled, unless it was last done for this very object."""
        if state is self._state:
            return
        self._state = state
        self._sysctls.replace(filter(_polled, state.sysctls))
        self._endpoints.replace(state.endpoints)
        self._known = {endpoint.interface: endpoint for endpoint in state.endpoints}
        self._devices = frozenset(self._known) | {device.name for device in state.devices}
        # Faults of what is not desired any more are forgotten.
        self._troubled = {name: changes for name, changes in self._troubled.items() if name in self._known}
        keys = {sysctl.key for sysctl in state.sysctls} if self._wrong else ()
        self._wrong = {key: found for key, found in self._wrong.items() if key in keys}

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
        found = _readable(self._read_links, kernel, state)
        if found is not None:
            marks["tunnel"] = tuple((one.name, found[one.name]) for one in state.devices if one.name in found)
        return _Seen(marks, sets, _readable(_wrong, kernel, sysctls), _troubled(kernel, endpoints), found or {})

    def _judge_sysctls(self, sysctls: t.Sequence[Sysctl], wrong: t.Optional[dict[str, str]]) -> None:
        """Mark sysctls if any of these are `wrong` ({key: value}) and that is news; None: they could not be read.

        It is no news if a sysctl had this wrong value when it was last read and the reconciler has changed no sysctl
        since.
        """
        if wrong is None:
            return
        changed = self._stages.changed["sysctl"]
        found = {key: (value, changed) for key, value in wrong.items()}
        if any(self._wrong.get(key) != one for key, one in found.items()):
            self._stages.mark("sysctl")
        if self._wrong:
            for sysctl in sysctls:
                self._wrong.pop(sysctl.key, None)
        self._wrong.update(found)

    def _suspects(
        self, opened: t.Mapping[str, tuple[tuple[str, int], ...]], turn: t.Sequence[VethEndpoint]
    ) -> list[VethEndpoint]:
        """Return workloads whose host ends have settings that must be closed, 25 at most.

        `opened` are the open settings of our devices. Those of `turn` are looked at anyway, and others are left out if
        they were wrong when they were last looked at and the reconciler has changed no workload since.
        """
        changed, looked_at = self._stages.changed["workload"], {endpoint.interface for endpoint in turn}
        found = []
        for interface, settings in opened.items():
            endpoint = self._known.get(interface)
            if endpoint is None or interface in looked_at or self._troubled.get(interface) == changed:
                continue
            closed = workload.closed_settings(endpoint)
            if any(name in closed for name, _value in settings):
                found.append(endpoint)
        return found[:_SUSPECTS]

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
        return self._routes_pace.read(lambda: kernel.routes_mark(ROUTE_PROTOCOL))

    def _read_links(self, kernel: Kernel, dummy: NodeState) -> t.Optional[dict[str, tuple[tuple[str, int], ...]]]:
        """Return {device of ours: its hardening.SETTINGS above 0}, only devices with any; None if it is not their turn.

        All devices are decoded only if the mark of ours has changed: that takes ten times as long.
        """

        def read() -> dict[str, tuple[tuple[str, int], ...]]:
            mark = kernel.links_mark(self._devices)
            if mark != self._links_mark:
                self._open = {
                    link.name: link.open_settings
                    for link in kernel.links()
                    if link.open_settings and link.name in self._devices
                }
                self._links_mark = mark
            return self._open

        return self._links_pace.read(read)

    def _read_sets(self, kernel: Kernel, state: NodeState) -> bool:
        return bool(state.ipsets) and self._stages.are_sets_doubtful(kernel)


class _Pace:
    """A pace for reading something in some of all polls, so that this takes about a thousandth of a processor.

    At least one poll of 90 reads it. `period` is the time between polls in seconds.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._rest = 0  # polls that leave it out, because it took long

    def read(self, what: t.Callable[[], _T]) -> t.Optional[_T]:
        """Return `what()`, or None if its turn has not come. After an error, which comes out, the next poll tries."""
        if self._rest > 0:
            self._rest -= 1
            return None
        began = time.thread_time()
        found = what()
        polls = (time.thread_time() - began) * _SHARE / self._period
        self._rest = min(int(polls), _LATEST - 1)
        return found


class _Round(t.Generic[_T]):
    """A round over items in the order of their keys: at least `least` in a poll, and all of them in ROUND seconds.

    `period` is the time between polls in seconds.
    """

    def __init__(self, key: t.Callable[[_T], str], least: int, period: float) -> None:
        self._key = key
        self._least = least
        self._share = period / ROUND
        self._last = ""  # the key after which the next turn begins
        self._items: list[_T] = []
        self._keys: list[str] = []

    def replace(self, items: t.Iterable[_T]) -> None:
        """Take other items; the round goes on behind the last key."""
        self._items = sorted(items, key=self._key)
        self._keys = [self._key(item) for item in self._items]

    def take(self) -> list[_T]:
        """Return the items whose turn it is."""
        count = max(self._least, math.ceil(len(self._items) * self._share))
        first = bisect.bisect_right(self._keys, self._last)
        turn = self._items[first : first + count]
        turn += self._items[: min(first, count - len(turn))]
        if turn:
            self._last = self._key(turn[-1])
        return turn


class _Seen(t.NamedTuple):
    """The result of one read.

    `marks` has a token for each kind that is polled by tokens, `sets` is whether another process has written IP sets,
    `wrong` has the keys and present values of the wrong sysctls, and `troubled` the host ends of workloads in
    disorder. A token, or all of `wrong`, is None if it could not be read. `open` has the open settings of our devices;
    it is empty if they were not read.
    """

    marks: dict[str, t.Any]
    sets: bool
    wrong: t.Optional[dict[str, str]]
    troubled: list[str]
    open: dict[str, tuple[tuple[str, int], ...]]


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
