# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter for rtnetlink notifications: which ones call for a look, and at which kinds of objects.

A notification is never taken for the kernel's content: it only says where to look. The filter remembers what the last
notification said of each device, to tell changes from repetitions. A device that gets its carrier, or that
is just being attached, is announced several times.

Message layouts: rtnetlink(7), linux/netconf.h. Each function takes microseconds, because tens of thousands of routes of
another routing daemon may pass.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from ...base.addresses import Network, network
from ...dataplane.drivers import tunnel, workload
from ...dataplane.kernel import rtnetlink as rt
from ...dataplane.kernel.port import SCOPE_LINK
from ...state.attachment import STRICT, UNCHECKED
from ...state.node_state import PROBE_PRIORITY, ROUTE_PROTOCOL, TABLE_MAIN, TABLE_PROBE, NodeState

RTM_NEWNETCONF, RTM_DELNETCONF = 80, 81

#: For so many seconds after its first notification, a host end that is not finished yet causes no look unless it
#: disappears: an add may be making it.
YOUNG = 0.3

_TABLES = (TABLE_MAIN, TABLE_PROBE)
_U32 = struct.Struct("=I")
_I32 = struct.Struct("=i")
_IFF_UP = 0x1
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MTU, _IFLA_IFALIAS = 1, 3, 4, 20
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_TABLE = 1, 15
_FRA_PRIORITY, _FRA_PROTOCOL = 6, 21
_NETCONFA_IFINDEX, _NETCONFA_FORWARDING, _NETCONFA_RP_FILTER, _NETCONFA_PROXY_NEIGH = 1, 2, 3, 5
_ALL_DEVICES = -1  # NETCONFA_IFINDEX_ALL: the sysctls of `conf/all`

_HOST_END = "cali"


#: A device: (name, whether it is up, MTU in bytes, MAC address, alias)
Link = tuple[str, bool, int, bytes, str]


class _End:
    """What notifications, or a list of the devices, last said of a host end, or of a device that may be one.

    `seen` is the time of the first notification, in seconds of the loop's clock, or 0 if it was listed before.
    """

    __slots__ = ("checked", "forwarding", "link", "proxy", "seen")

    def __init__(self, seen: float) -> None:
        self.seen = seen
        self.link: t.Optional[Link] = None
        self.forwarding: t.Optional[bool] = None
        self.proxy: t.Optional[bool] = None
        self.checked: t.Optional[bool] = None  # whether rp_filter is as desired

    @property
    def finished(self) -> bool:
        return self.link is not None and self.link[1] and self.link[4].startswith(workload.MARK) and not self.missing

    @property
    def missing(self) -> bool:
        """Whether forwarding or proxy_arp was last reported as off, or rp_filter with another value than desired.

        proxy_arp is off for a workload without an IPv4 address too, which counts as missing it.
        """
        return False in (self.forwarding, self.proxy, self.checked)


class EventFilter:
    """The filter: call `feed` with messages, then `due` for the kinds to look at.

    `state` returns the desired state of the reconciler's last look, `devices` the devices that its routes lead through.
    `wanted` returns whether a host end belongs to a workload now; link messages about other host ends mark nothing.
    `addresses_changed` becomes true when an address of the host, other than an IPv6 link-local one, may have changed;
    the caller resets it. Times are in seconds of the event loop's clock.
    """

    def __init__(
        self,
        state: t.Callable[[], t.Optional[NodeState]],
        devices: t.Callable[[], t.Collection[str]] = tuple,
        wanted: t.Callable[[str], bool] = lambda interface: True,
    ) -> None:
        self._state = state
        self._routed = devices
        self._wanted = wanted
        self._known: t.Optional[NodeState] = None
        self._pools: tuple[Network, ...] = ()
        self._own: frozenset[bytes] = frozenset()  # the node's own addresses on the underlay, packed
        self._gateways: t.Optional[list[Network]] = None
        self._marks: set[str] = set()
        self.addresses_changed = False
        self._ends: dict[int, _End] = {}
        self._young: dict[int, float] = {}  # {index of an unfinished host end: loop time from which it causes a look}
        self._devices: dict[int, tuple[str, bool]] = {}  # {index: (name, whether up)} of devices but host ends
        self._changed: set[int] = set()

    # ---- interface of the monitor

    def due(self, now: float) -> tuple[set[str], t.Optional[float]]:
        """Return (kinds to look at now, which are forgotten; when to call again without a message, or None)."""
        for index in self._changed:
            self._judge(index, now)
        self._changed.clear()
        for index, at in list(self._young.items()):
            if at <= now:
                del self._young[index]
                self._judge(index, now)
        marks, self._marks = self._marks, set()
        return marks, min(self._young.values(), default=None)

    def forget(self) -> None:
        """Forget all devices, because notifications were lost. Marked kinds are not forgotten."""
        self._ends.clear()
        self._young.clear()
        self._devices.clear()
        self._changed.clear()

    def expect(self, devices: t.Iterable[tuple[int, Link]]) -> None:
        """Record devices by index, as listed from the kernel. Devices known from notifications stay as those said."""
        for index, link in devices:
            if not link[0].startswith(_HOST_END):
                self._devices.setdefault(index, link[:2])
            elif index not in self._ends or self._ends[index].link is None:
                self._ends.setdefault(index, _End(0.0)).link = link

    # ---- messages

    def feed(self, data: bytes, now: float) -> None:
        """Read one datagram of notifications, and mark the kinds that they concern for the next `due`.

        Unknown types are ignored. A message that is too short to be read marks tunnels, workloads and routes. A header
        whose length is below 16 bytes ends the datagram: the rest is ignored.
        """
        offset, end = 0, len(data)
        while offset + 16 <= end:
            length, kind = struct.unpack_from("=IH", data, offset)
            if length < 16:
                return
            handler = _HANDLERS.get(kind)
            if handler is not None:
                message = data if length == end else data[offset : offset + length]
                try:
                    handler(self, message, now)
                except (struct.error, IndexError):  # The message is too short: have the reconciler look.
                    self._marks.update(("tunnel", "workload", "route"))
            offset += (length + 3) & ~3

    def _refresh(self) -> None:
        """Derive pools, own addresses and gateways again if the desired state is another object, but not None."""
        state = self._state()
        if state is self._known or state is None:
            return
        if self._known is None or state.pools is not self._known.pools:
            self._pools = tuple(network(pool.cidr) for pool in state.pools)
        self._known = state
        own = (cidr.partition("/")[0] for cidr in (state.address, state.address6) if cidr)
        self._own = frozenset(map(rt.packed_address, own))
        self._gateways = None

    def _route(self, message: bytes, _now: float) -> None:
        family = message[16]
        if family not in _DESTINATIONS:
            return
        table, protocol = message[20], message[21]
        if protocol == ROUTE_PROTOCOL:
            self._marks.add("route")
            return
        if "route" in self._marks:
            return
        if message[28:32] == _TABLE:
            table = _U32.unpack_from(message, 32)[0]
        if table not in _TABLES:
            return
        length, (head, size) = message[17], _DESTINATIONS[family]
        if message[36:40] == head:
            destination = int.from_bytes(message[40 : 40 + size], "big")
        else:
            destination = int.from_bytes(rt.attributes(message, 28).get(_RTA_DST, b""), "big")
        bits = 8 * size
        route = Network(bits, destination >> (bits - length), length)
        self._refresh()
        # The announced route may replace a route of ours, be preferred to it, or decide its gateway.
        if any(pool.holds(route) for pool in self._pools) or self._leads_to_a_gateway(route):
            self._marks.add("route")

    def _leads_to_a_gateway(self, route: Network) -> bool:
        """Return whether `route` holds an address whose gateway our routes use; False before a state is known."""
        if self._gateways is None:
            state = self._known
            self._gateways = [network(address) for address in state.underlay_gateways] if state is not None else []
        return any(route.holds(gateway) for gateway in self._gateways)

    def _link(self, message: bytes, now: float) -> None:
        if message[16] != socket.AF_UNSPEC:  # not about a device itself: a bridge reports one of its ports
            return
        index, link = device(message)
        if index in self._ends and self._ends[index].link is None and not link[0].startswith(_HOST_END):
            del self._ends[index]
        if index in self._ends or link[0].startswith(_HOST_END):
            self._host_end(self._ends.setdefault(index, _End(now)), index, link)
            return
        before = self._devices.get(index)
        self._devices[index] = link[:2]
        if link[0] in tunnel.NAMES or (before is not None and before[0] in tunnel.NAMES):
            self._marks.update(("tunnel", "neighbor", "route"))
        elif before != link[:2] and not {link[0], before[0] if before else ""}.isdisjoint(self._routed()):
            # The kernel sends no notification for an IPv4 route that disappears because its device goes down.
            self._marks.add("route")

    def _host_end(self, end: _End, index: int, link: Link) -> None:
        if end.link == link:
            return
        was_finished = end.finished
        name = end.link[0] if end.link is not None else link[0]
        end.link = link
        if self._wanted(name):
            self._changed.add(index)
            if was_finished:
                self._marks.add("workload")

    def _link_gone(self, message: bytes, _now: float) -> None:
        if message[16] != socket.AF_UNSPEC:
            return
        index, (name, *_rest) = device(message)
        self._gone(index)
        if name.startswith(_HOST_END):
            if self._wanted(name):
                self._marks.add("workload")
        elif name in tunnel.NAMES:
            self._marks.update(("tunnel", "neighbor", "route"))
        elif name in self._routed():
            self._marks.add("route")

    def _gone(self, index: int) -> None:
        self._young.pop(index, None)
        self._changed.discard(index)
        self._devices.pop(index, None)
        self._ends.pop(index, None)

    def _netconf_gone(self, message: bytes, _now: float) -> None:
        index = rt.attributes(message, 20).get(_NETCONFA_IFINDEX)
        if message[16] == socket.AF_INET and index is not None:
            self._gone(_I32.unpack(index)[0])

    def _judge(self, index: int, now: float) -> None:
        """Mark workloads and sysctls for a look if this host end is unfinished and not young; wait if it is young."""
        end = self._ends.get(index)
        if end is None or end.finished:
            self._young.pop(index, None)
        elif now < end.seen + YOUNG:
            self._young.setdefault(index, end.seen + YOUNG)
        elif end.link is not None:
            self._marks.update(("workload", "sysctl"))
        else:
            del self._ends[index]  # No RTM_NEWLINK has named it a host end: probably another program's device.

    def _address_changed(self, message: bytes, _now: float) -> None:
        if message[16] not in _DESTINATIONS:
            return
        found = rt.attributes(message, 24)
        self._refresh()
        if (found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)) in self._own:
            self._marks.update(_ALL_KINDS)
        index, scope = _U32.unpack_from(message, 20)[0], message[19]
        if message[16] == socket.AF_INET6 and scope == SCOPE_LINK:
            return  # an IPv6 link-local address, such as the kernel itself adds to host ends
        name, _up = self._devices.get(index, ("", False))
        if name in tunnel.NAMES:
            self._marks.update(("tunnel", "route"))
        self.addresses_changed = True

    def _neighbor(self, message: bytes, _now: float) -> None:
        """Mark neighbours for a look if the message is about a neighbour or a forwarding entry of any device."""
        if message[16] in (*_DESTINATIONS, rt.AF_BRIDGE):
            self._marks.add("neighbor")

    def _rule(self, message: bytes, _now: float) -> None:
        if message[16] not in _DESTINATIONS:
            return
        found = rt.attributes(message, 28)
        priority = _U32.unpack(found[_FRA_PRIORITY])[0] if _FRA_PRIORITY in found else 0
        if found.get(_FRA_PROTOCOL) == bytes((ROUTE_PROTOCOL,)) or priority == PROBE_PRIORITY:
            self._marks.add("rule")

    def _netconf(self, message: bytes, now: float) -> None:
        """Record the settings of a device: notifications call some of the sysctls below net/ipv4/conf netconf.

        A host end whose settings are wrong, or were before, is marked as changed. For another known device, or `all`,
        the sysctls are looked at. An unknown device is noted as a possible host end.
        """
        if message[16] != socket.AF_INET:
            return
        found = rt.attributes(message, 20)
        if _NETCONFA_IFINDEX not in found:
            return
        index = _I32.unpack(found[_NETCONFA_IFINDEX])[0]
        end = self._ends.get(index)
        if end is None:
            if index == _ALL_DEVICES or index in self._devices:
                self._marks.add("sysctl")
            elif index > 0:
                end = self._ends[index] = _End(now)  # perhaps a host end, whose RTM_NEWLINK follows or was filtered out
        if end is None:
            return
        was = end.missing
        if _NETCONFA_FORWARDING in found:
            end.forwarding = bool(_I32.unpack(found[_NETCONFA_FORWARDING])[0])
        if _NETCONFA_PROXY_NEIGH in found:
            end.proxy = bool(_I32.unpack(found[_NETCONFA_PROXY_NEIGH])[0])
        if _NETCONFA_RP_FILTER in found:
            state = self._state()
            spoofing = state is not None and state.workload_source_spoofing
            end.checked = _I32.unpack(found[_NETCONFA_RP_FILTER])[0] == int(UNCHECKED if spoofing else STRICT)
        if was or end.missing:
            self._changed.add(index)


_ALL_KINDS = ("tunnel", "workload", "sysctl", "neighbor", "rule", "route")
_TABLE = struct.pack("=HH", 8, _RTA_TABLE)
#: For each address family: the header of the attribute RTA_DST, and the length of an address in bytes.
_DESTINATIONS: t.Mapping[int, tuple[bytes, int]] = {
    socket.AF_INET: (struct.pack("=HH", 8, _RTA_DST), 4),
    socket.AF_INET6: (struct.pack("=HH", 20, _RTA_DST), 16),
}


def device(message: bytes) -> tuple[int, Link]:
    """Return (index, (name, whether up, MTU, MAC address, alias)) of an RTM_NEWLINK or RTM_DELLINK message.

    The MTU is in bytes, the MAC address packed. What the message does not say is 0 or empty. Raise struct.error for a
    message that is too short.
    """
    found = rt.attributes(message, 32)
    return _I32.unpack_from(message, 20)[0], (
        found.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode(errors="replace"),
        bool(_U32.unpack_from(message, 24)[0] & _IFF_UP),
        _U32.unpack(found[_IFLA_MTU])[0] if _IFLA_MTU in found else 0,
        found.get(_IFLA_ADDRESS, b""),
        found.get(_IFLA_IFALIAS, b"").rstrip(b"\0").decode(errors="replace"),
    )


_HANDLERS: t.Mapping[int, t.Callable[[EventFilter, bytes, float], None]] = {
    rt.RTM_NEWLINK: EventFilter._link,
    rt.RTM_DELLINK: EventFilter._link_gone,
    rt.RTM_NEWADDR: EventFilter._address_changed,
    rt.RTM_DELADDR: EventFilter._address_changed,
    rt.RTM_NEWROUTE: EventFilter._route,
    rt.RTM_DELROUTE: EventFilter._route,
    rt.RTM_NEWNEIGH: EventFilter._neighbor,
    rt.RTM_DELNEIGH: EventFilter._neighbor,
    rt.RTM_NEWRULE: EventFilter._rule,
    rt.RTM_DELRULE: EventFilter._rule,
    RTM_NEWNETCONF: EventFilter._netconf,
    RTM_DELNETCONF: EventFilter._netconf_gone,
}
