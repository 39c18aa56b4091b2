# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of packets that policy dropped, would drop or logged: recent ones by flow, and their number by policy.

Packets of a flow that differ only in their source port are one entry with a count. Packets that are repeated or come
from many ports therefore do not push out all other entries. Memory and work are bounded: a packet of a known flow takes
two microseconds, and only some new flows become entries in a turn. The packets of the others are counted.
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
from ..known.known import Known
from .policy_names import Decider, PolicyNames

#: The most entries that are kept. An entry is about one flow that one rule decided.
ROOM = 1000
#: The most lookups of names in one call of `take`: for new flows, for known ones after a change of names, and for each
#: packet that becomes no entry. Further such packets are only counted.
NEWCOMERS = 50
#: The most prefixes of rules that are counted separately: above it, the counts since the last `counted` are dropped.
#: Rules of other programs may have any number of prefixes.
_PREFIXES = 20_000

#: The verdicts of policy in entries and counts
DENIED, WOULD_DENY, LOGGED = "deny", "would deny", "log"
_VERDICTS = {log_prefix.DENY: DENIED, log_prefix.AUDIT: WOULD_DENY, log_prefix.LOG: LOGGED}
_WITH_PORTS = frozenset({6, 17, 132, 136})
_PLAIN_IPV4 = 0x45  # the first byte of an IPv4 header without options
_FRAGMENT = struct.Struct("!H")

#: The key of a count: (verdict, direction, kind, tier, name), the last three as in Decider
Counted = tuple[str, str, str, str, str]


class PolicyLogEntry:
    """The packets of one flow that one rule decided. Times are in seconds since 1970.

    `order` is the number of the entry's last packet in the log; it grows with each packet. `source` and `destination`
    are pairs (workload, node), "" where unknown.
    """

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
        self.source: tuple[str, str] = ("", "")  # as PolicyNames.workload returns it
        self.destination: tuple[str, str] = ("", "")
        self.generation = self.order = self.packets = 0

    def about(self, workload: str) -> bool:
        """Return whether `workload` is at one end; "" matches an end that is no known workload."""
        return workload in (self.source[0], self.destination[0])

    def to_dict(self) -> dict[str, t.Any]:
        """Return the entry in JSON-ready form: its times, count, verdict, decider, flow and interfaces.

        Times are texts in ISO 8601 and UTC; `verdict` is "deny", "would deny" or "log", `direction` "Ingress" or
        "Egress". `protocol` is its name, or its number as text. Ports and ICMP fields are None where the packet has
        none. The source port is that of the packet that made the entry, or of one after a change of policy or
        workloads. Interfaces without a known name are numbers as text; "" is none.
        """
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
    """The log of one node's policy, with `room` entries, on one event loop. `clock` returns seconds since 1970."""

    def __init__(self, names: PolicyNames, clock: t.Callable[[], float] = time.time, room: int = ROOM) -> None:
        self.names = names
        self.group = 0  # the NFLOG group that is listened to, 0 for none
        self.lost = 0  # packets whose records the kernel could not deliver, or whose counts were dropped
        self.unlisted = 0  # packets counted and added to no entry, because too many flows had to be looked up
        self._clock = clock
        self._room = room
        self._entries: collections.OrderedDict[t.Any, PolicyLogEntry] = (
            collections.OrderedDict()
        )  # the log's entries; the one with the latest packet is last
        self._order = 0
        self._due: collections.Counter[bytes] = collections.Counter()  # packets by prefix since the last `counted`
        self._next: t.Optional[int] = None  # the expected number of the next record; None: any

    @classmethod
    def from_known(cls, known: Known) -> PolicyLog:
        """Return the log of the policy of the state that is known."""
        persisted, desired = known.persisted, known.desired
        return cls(PolicyNames(desired.planned, lambda: known.table, lambda: desired.version, persisted.others))

    # --- records from the kernel

    def restarted(self) -> None:
        """Expect records with a new numbering, so that the next one does not show a loss."""
        self._next = None

    def take(self, records: t.Iterable[Record], device: t.Callable[[int], str]) -> None:
        """Add the records of one turn to the log; `device` returns the name of an interface by its number.

        Gaps in the numbers of records count as lost packets. Names are looked up for at most 50 flows: new ones, and
        known ones after a change of policy or workloads. A packet of another program's rule, or without complete IP
        addresses, takes one of them too. Further such packets are only counted, in `unlisted` too. Above 20,000
        prefixes all counts that `counted` has not returned yet are dropped, and policy's packets among them count as
        lost.
        """
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
            self.lost += sum(self.counted().values())

    def _entered(
        self, key: t.Any, record: Record, known: t.Optional[PolicyLogEntry], device: t.Callable[[int], str], now: float
    ) -> t.Optional[PolicyLogEntry]:
        """Return the entry of a packet: `known` if it means the same, or a new one; None if policy did not log it."""
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
            self._entries[key, known.order] = self._entries.pop(key)  # The entry stays, with its former names.
        indev, outdev = (device(index) if index else "" for index in (record.indev, record.outdev))
        entry = PolicyLogEntry(_VERDICTS[reason.verdict], reason.direction, decider, flow, indev, outdev, now)
        entry.source, entry.destination, entry.generation = source, destination, self.names.generation
        self._entries[key] = entry
        while len(self._entries) > self._room:
            self._entries.popitem(last=False)
        return entry

    # --- queries

    def entries(
        self, workload: t.Optional[str] = None, since: t.Optional[float] = None, after: int = 0
    ) -> t.List[PolicyLogEntry]:
        """Return the entries that match all given conditions, in the order of their last packets; None is no condition.

        `workload` is at one end, as in `PolicyLogEntry.about`. The last packet came at `since` (seconds since 1970) or
        later, and its order is greater than `after`.
        """
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
        """The order of the last packet added to an entry, even if that entry was dropped since; 0 before the first."""
        return self._order

    def counted(self) -> dict[Counted, int]:
        """Return {(verdict, direction, kind, tier, name): packets of policy's rules since the last call}."""
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
    """Return the hashable key of a packet's log entry, which is the same for packets that differ in the source port."""
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
