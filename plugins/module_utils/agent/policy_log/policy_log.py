# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What policy dropped, would drop or was told to log: the last of it by flow, and how much of it by policy.

Packets of the same flow that differ in nothing but their source port are one entry with a count, so that what is sent
again and again, or by many, does not push everything else out. The memory is bounded, and so is the work: a packet of
a known flow costs two microseconds, and of flows that are new only so many are taken in a turn; all are counted.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import struct
import time
import typing as t

from ...dataplane.kernel import packet_headers
from ...dataplane.kernel.nflog import Record
from ...policy.chains.rules import log_prefix
from ...policy.model import PROTOCOL_NAMES, Flow
from .policy_names import Decider, PolicyNames

#: Entries that are kept.
ROOM = 1000
#: New flows that are taken in a turn; those beyond it are counted only.
NEWCOMERS = 50
#: Different prefixes that are counted apart. They are those of our rules; of others' there may be any.
_PREFIXES = 20_000

#: Verdicts as they are told.
DENIED, WOULD_DENY, LOGGED = "deny", "would deny", "log"
_VERDICTS = {log_prefix.DENY: DENIED, log_prefix.AUDIT: WOULD_DENY, log_prefix.LOG: LOGGED}
_WITH_PORTS = frozenset({6, 17, 132, 136})
_PLAIN_IPV4 = 0x45  # no options
_FRAGMENT = struct.Struct("!H")

#: (verdict, direction, kind, tier, policy): what is counted apart.
Counted = tuple[str, str, str, str, str]


class PolicyLogEntry:
    """One flow and who decided on it. Times are in seconds since 1970; `order` grows with each packet that comes."""

    __slots__ = (
        "decider", "destination", "direction", "first", "flow", "generation", "indev", "last", "order", "outdev",
        "packets", "source", "verdict",
    )  # fmt: skip

    def __init__(
        self, verdict: str, direction: str, decider: Decider, flow: Flow, indev: str, outdev: str, now: float
    ) -> None:
        self.verdict, self.direction, self.decider = verdict, direction, decider
        self.flow, self.indev, self.outdev = flow, indev, outdev
        self.first = self.last = now
        self.source: tuple[str, str] = ("", "")  # (workload, node)
        self.destination: tuple[str, str] = ("", "")
        self.generation = self.order = self.packets = 0

    def about(self, workload: str) -> bool:
        return workload in (self.source[0], self.destination[0])

    def to_dict(self) -> dict[str, t.Any]:
        """JSON-ready. The source port is that of the last packet that was new."""
        flow = self.flow
        return {
            "first": _when(self.first),
            "last": _when(self.last),
            "packets": self.packets,
            "verdict": self.verdict,
            "direction": self.direction,
            "kind": self.decider.kind,
            "tier": self.decider.tier,
            "name": self.decider.name,
            "rule": self.decider.rule,
            "source": {"address": flow.source, "workload": self.source[0], "node": self.source[1]},
            "destination": {"address": flow.destination, "workload": self.destination[0], "node": self.destination[1]},
            "protocol": PROTOCOL_NAMES.get(flow.protocol, str(flow.protocol)),
            "source_port": flow.source_port,
            "destination_port": flow.destination_port,
            "icmp_type": flow.icmp_type,
            "icmp_code": flow.icmp_code,
            "in_interface": self.indev,
            "out_interface": self.outdev,
        }


class PolicyLog:
    """Belongs to one loop. `clock` gives seconds since 1970."""

    def __init__(self, names: PolicyNames, clock: t.Callable[[], float] = time.time, room: int = ROOM) -> None:
        self.names = names
        self.group = 0  # that is listened to now
        self.lost = 0  # packets of which the kernel could not tell us
        self.unlisted = 0  # packets that were counted and are of no entry
        self._clock = clock
        self._room = room
        self._entries: collections.OrderedDict[t.Any, PolicyLogEntry] = (
            collections.OrderedDict()
        )  # the last touched is last
        self._order = 0
        self._due: collections.Counter[bytes] = collections.Counter()  # by prefix, since `counted` was asked
        self._next: t.Optional[int] = None

    # --- what comes

    def restarted(self) -> None:
        """The next record begins another numbering."""
        self._next = None

    def take(self, records: t.Iterable[Record], device: t.Callable[[int], str]) -> None:
        """One turn's records. `device` gives the name of an interface by its number."""
        now = self._clock()
        entries, due, newcomers = self._entries, self._due, NEWCOMERS
        generation = self.names.generation
        for record in records:
            if self._next is not None and record.sequence != self._next:
                self.lost += (record.sequence - self._next) & 0xFFFFFFFF
            self._next = (record.sequence + 1) & 0xFFFFFFFF
            due[record.prefix] += 1
            key = _key(record)
            entry = entries.get(key)
            if entry is None or entry.generation != generation:
                if not newcomers:
                    self.unlisted += 1
                    continue
                newcomers -= 1
                entry = self._entered(key, record, entry, device, now)
                if entry is None:
                    continue
            entry.packets += 1
            entry.last = now
            self._order += 1
            entry.order = self._order
            entries.move_to_end(key)
        if len(due) > _PREFIXES:
            due.clear()

    def _entered(
        self, key: t.Any, record: Record, known: t.Optional[PolicyLogEntry], device: t.Callable[[int], str], now: float
    ) -> t.Optional[PolicyLogEntry]:
        """A new entry, or the one that was there if it still means the same. None for what is not of policy."""
        reason = log_prefix.reason(record.prefix.decode("ascii", "replace"))
        flow = packet_headers.flow(record.packet)
        if reason is None or reason.verdict not in _VERDICTS or flow is None:
            return None
        decider = self.names.decider(reason)
        source, destination = self.names.workload(flow.source), self.names.workload(flow.destination)
        if known is not None:
            known.generation = self.names.generation
            if (known.decider, known.source, known.destination) == (decider, source, destination):
                known.flow = flow
                return known
            self._entries[key, known.order] = self._entries.pop(key)  # what it was of others stays what it was
        indev, outdev = (device(index) if index else "" for index in (record.indev, record.outdev))
        entry = PolicyLogEntry(_VERDICTS[reason.verdict], reason.direction, decider, flow, indev, outdev, now)
        entry.source, entry.destination, entry.generation = source, destination, self.names.generation
        self._entries[key] = entry
        while len(self._entries) > self._room:
            self._entries.popitem(last=False)
        return entry

    # --- what is asked

    def entries(
        self, workload: t.Optional[str] = None, since: t.Optional[float] = None, after: int = 0
    ) -> t.List[PolicyLogEntry]:
        """Those that had packets later than `since` (seconds since 1970) and `after` (an order), the latest last."""
        found = [
            entry
            for entry in self._entries.values()
            if entry.order > after
            and (since is None or entry.last >= since)
            and (workload is None or entry.about(workload))
        ]
        return sorted(found, key=lambda entry: entry.order)

    @property
    def order(self) -> int:
        """Of the last packet."""
        return self._order

    def counted(self) -> dict[Counted, int]:
        """Packets since this was asked last."""
        due, self._due = self._due, collections.Counter()
        found: collections.Counter[Counted] = collections.Counter()
        for prefix, packets in due.items():
            reason = log_prefix.reason(prefix.decode("ascii", "replace"))
            if reason is not None and reason.verdict in _VERDICTS:
                decider = self.names.decider(reason)
                label = (_VERDICTS[reason.verdict], reason.direction, decider.kind, decider.tier, decider.name)
                found[label] += packets
        return dict(found)


def _key(record: Record) -> t.Any:
    """What makes packets one entry: all but the source port."""
    packet = record.packet
    if len(packet) >= 24 and packet[0] == _PLAIN_IPV4 and not _FRAGMENT.unpack_from(packet, 6)[0] & 0x1FFF:
        protocol = packet[9]
        rest = packet[22:24] if protocol in _WITH_PORTS else packet[20:22] if protocol == 1 else b""
        return record.prefix, record.indev, record.outdev, protocol, packet[12:20], rest
    flow = packet_headers.flow(packet)
    if flow is None:
        return record.prefix
    return record.prefix, record.indev, record.outdev, dataclasses.replace(flow, source_port=None)


def _when(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
