# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""FakeKernel: the Kernel port in memory, for tests without root.

It behaves like the real kernel where that matters to drivers. The device of a unicast route has to be up. A device that
disappears takes its routes, addresses and neighbours along. IPv6 addresses disappear when their device goes down or its
IPv6 is disabled. tunl0 cannot be deleted. A device's sysctls disappear with it. Rules of iptables are returned in
another order of their words than they may have been written in. The same test suite runs on it and on LinuxKernel,
which keeps both alike.

For tests: `fail_next` makes one operation fail. `watch` sets a function that is called after each write, except those
of tracked connections, with the FakeKernel whose method wrote. `violations` has a text for each write of another value
than 0 to proxy_arp while the device's proxy_delay was not 0. `sockets` maps an address to the number of sockets that
use it. `kinds` and `programs` are the kinds of devices that can be made and the programs that the machine has.
"""

from __future__ import annotations

import dataclasses
import errno
import ipaddress
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import ipset_writes, port
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.lookup import Lookup
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import (
    ForwardingEntry,
    InterfaceAddress,
    NeighborEntry,
)

from tests.fakes.netfilter import PROGRAMS, FakeNetfilter

_T = t.TypeVar("_T")

_INTERFACE_SYSCTLS = {
    "net/ipv4/conf/{}/accept_local": "0",
    "net/ipv4/conf/{}/accept_redirects": "1",
    "net/ipv4/conf/{}/accept_source_route": "1",
    "net/ipv4/conf/{}/arp_accept": "0",
    "net/ipv4/conf/{}/bc_forwarding": "0",
    "net/ipv4/conf/{}/forwarding": "0",
    "net/ipv4/conf/{}/proxy_arp": "0",
    "net/ipv4/conf/{}/route_localnet": "0",
    "net/ipv4/conf/{}/rp_filter": "0",
    "net/ipv4/conf/{}/send_redirects": "1",
    "net/ipv4/neigh/{}/proxy_delay": "80",
    "net/ipv6/conf/{}/accept_dad": "1",
    "net/ipv6/conf/{}/accept_ra": "1",
    "net/ipv6/conf/{}/accept_redirects": "1",
    "net/ipv6/conf/{}/accept_source_route": "0",
    "net/ipv6/conf/{}/accept_untracked_na": "0",
    "net/ipv6/conf/{}/addr_gen_mode": "0",
    "net/ipv6/conf/{}/autoconf": "1",
    "net/ipv6/conf/{}/disable_ipv6": "0",
    "net/ipv6/conf/{}/forwarding": "0",
    "net/ipv6/conf/{}/hop_limit": "64",
    "net/ipv6/conf/{}/ioam6_enabled": "0",
    "net/ipv6/conf/{}/rpl_seg_enabled": "0",
    "net/ipv6/conf/{}/seg6_enabled": "0",
}
_SCOPE_HOST = 254
_OFF = re.compile("net/ipv6/conf/(.+)/disable_ipv6")
_NOWHERE = ("blackhole", "unreachable", "prohibit", "throw")


@dataclasses.dataclass
class _Link:
    name: str
    index: int
    kind: str
    mtu: int
    mac: str
    up: bool = False
    alias: str = ""
    vni: t.Optional[int] = None
    port: t.Optional[int] = None
    local: t.Optional[str] = None
    learning: bool = False
    peer: t.Optional[_Link] = None
    home: t.Optional[FakeKernel] = None
    addresses: list[InterfaceAddress] = dataclasses.field(default_factory=list)
    neighbors: dict[str, NeighborEntry] = dataclasses.field(default_factory=dict)
    fdb: list[ForwardingEntry] = dataclasses.field(default_factory=list)


def _socket(link: t.Union[_Link, port.NewLink]) -> tuple[t.Any, ...]:
    """Return (VNI, UDP port, whether its local address is IPv6) of a VXLAN device; two in one namespace must differ."""
    return link.vni, link.port, ":" in (link.local or "")


class _Machine:
    """The state that all namespaces share."""

    def __init__(self) -> None:
        self.namespaces: dict[str, FakeKernel] = {}
        self.owners: dict[str, str] = {}
        self.failures: list[tuple[str, int, str]] = []
        self.violations: list[str] = []
        self.sockets: dict[str, int] = {}
        self.connections: list[tuple[str, str]] = []
        self.tracked: list[port.Connection] = []
        self.kinds = {"veth", "vxlan", "ipip", "bridge"}
        self.loaded: set[str] = set()
        self.programs = set(PROGRAMS)
        self.watch: t.Optional[t.Callable[[FakeKernel], None]] = None
        self.macs = 0
        self.cookies = 0
        self.files: set[str] = set()  # names and paths that lead to something other than a namespace


def _same_hops(one: port.RouteAttributes, other: port.RouteAttributes) -> bool:
    """Return whether two routes have the same devices and gateways, in the same order."""
    return [(hop.device, hop.gateway) for hop in one.next_hops] == [
        (hop.device, hop.gateway) for hop in other.next_hops
    ]


class FakeKernel:
    """The Kernel port for the host's own network namespace, or, with a `_machine`, for another one on that machine.

    `inside` returns those others, which `netns_add` makes.
    """

    def __init__(self, _machine: t.Optional[_Machine] = None) -> None:
        self.machine = _machine or _Machine()
        self._links: dict[str, _Link] = {}
        self._routes: dict[tuple[int, str, int], port.RouteAttributes] = {}
        self._rules: list[port.RuleEntry] = [
            port.RuleEntry(0, 255, fwmask=0, protocol=2),
            port.RuleEntry(32766, 254, fwmask=0, protocol=2),
            port.RuleEntry(32767, 253, fwmask=0, protocol=2),
            port.RuleEntry(0, 255, fwmask=0, protocol=2, family=6),
            port.RuleEntry(32766, 254, fwmask=0, protocol=2, family=6),
        ]
        self._sysctls: dict[str, str] = {"net/ipv4/ip_forward": "0", "net/ipv4/udp_early_demux": "1"}
        self.netfilter = FakeNetfilter()
        self._listening = False  # to changes of the ruleset
        self._host = _machine is None
        self.machine.cookies += 1
        self._cookie = f"{port.COOKIE}{self.machine.cookies}"
        self._next_index = 1
        for name in ("all", "default"):
            self._sysctls.update({key.format(name): value for key, value in _INTERFACE_SYSCTLS.items()})
        self._make(_Link("lo", 0, "", 65536, "00:00:00:00:00:00"))
        if "ipip" in self.machine.loaded:
            self._make(_Link("tunl0", 0, "ipip", 1480, ""), ipv6=False)

    # ---- for tests

    @property
    def violations(self) -> list[str]:
        return self.machine.violations

    @property
    def sockets(self) -> dict[str, int]:
        return self.machine.sockets

    @property
    def kinds(self) -> set[str]:
        return self.machine.kinds

    @property
    def programs(self) -> set[str]:
        return self.machine.programs

    def watch(self, callback: t.Optional[t.Callable[[FakeKernel], None]]) -> None:
        self.machine.watch = callback

    def fail_next(self, operation: str, number: int, match: str = "") -> None:
        """Let the next call of the method named `operation`, in any namespace, raise KernelError with errno `number`.

        Methods that do not call `_may_fail`, such as `links` and most others that only read, do not fail by it.
        route_batch returns a RouteFailure for one of its operations instead, and run returns code 1. If `match` is not
        "", only a call about this object fails: its device, address, destination, MAC address, rule priority, sysctl
        key, namespace or program is `match`.
        """
        self.machine.failures.append((operation, number, match))

    def remove_ipv6(self) -> None:
        """Remove all IPv6 sysctls of this namespace, as in a kernel that was started with ipv6.disable=1."""
        self._sysctls = {key: value for key, value in self._sysctls.items() if not key.startswith("net/ipv6/")}

    def _may_fail(self, operation: str, subject: str, words: str) -> None:
        for entry in self.machine.failures:
            if entry[0] == operation and entry[2] in ("", subject):
                self.machine.failures.remove(entry)
                raise port.KernelError(entry[1], words)

    def _written(self) -> None:
        if self.machine.watch is not None:
            self.machine.watch(self)

    def snapshot(self) -> t.Any:
        """Return the state of this namespace as a dict to compare with `==`.

        It has links (with index 0), addresses, routes, neighbours, forwarding entries, rules, sysctls, tables and sets.
        For the host's own namespace it has a snapshot of each other namespace under "namespaces"; for one that has a
        name "namespaces" is {}.
        """
        return {
            "links": [dataclasses.replace(link, index=0, peer_index=0) for link in self.links()],
            "addresses": sorted(self.addresses() + self.addresses(family=6)),
            "routes": sorted(self.routes() + self.routes(family=6), key=repr),
            "neighbors": sorted(entry for name in self._links for entry in self.neighbors(name)),
            "fdb": sorted(entry for name in self._links for entry in self.fdb(name)),
            "rules": sorted(self.rules() + self.rules(6)),
            "sysctls": dict(self._sysctls),
            **self.netfilter.snapshot(),
            "namespaces": {
                name: inner.snapshot() for name, inner in self.machine.namespaces.items() if inner is not self
            }
            if self not in self.machine.namespaces.values()
            else {},
        }

    # ---- These functions are for links, and writes of several kinds

    def _make(self, link: _Link, ipv6: bool = True) -> _Link:
        """Add a device and its sysctls, give it the next index, and return it.

        With `ipv6` False it has no IPv6 sysctls until its MTU changes or it comes up (addrconf_notify of the kernel).
        """
        link.index = self._next_index
        self._next_index += 1
        link.home = self
        self._links[link.name] = link
        self._add_sysctls(link.name, "net/" if ipv6 else "net/ipv4/")
        return link

    def _add_sysctls(self, name: str, below: str) -> None:
        for key in _INTERFACE_SYSCTLS:
            if key.startswith(below) and key.format("default") in self._sysctls:
                self._sysctls.setdefault(key.format(name), self._sysctls[key.format("default")])

    def _drop(self, link: _Link) -> None:
        del self._links[link.name]
        for key in _INTERFACE_SYSCTLS:
            self._sysctls.pop(key.format(link.name), None)
        self._routes = dict(self._without_device(link.name))

    def _without_device(self, name: str) -> t.Iterator[tuple[tuple[int, str, int], port.RouteAttributes]]:
        """Yield the routes that are left when a device is deleted.

        An IPv4 route ends with the device of any of its next hops, an IPv6 route loses only that next hop.
        """
        for key, value in self._routes.items():
            left = [hop for hop in value.next_hops if hop.device != name]
            if len(left) == len(value.next_hops):
                yield key, value
            elif left and ":" in key[1]:
                yield key, value.over(left)

    def _get(self, name: str, operation: str) -> _Link:
        link = self._links.get(name)
        if link is None:
            raise port.KernelError(errno.ENODEV, operation, f"there is no device {name}")
        return link

    def _shown(self, link: _Link) -> port.Link:
        return port.Link(
            name=link.name,
            index=link.index,
            kind=link.kind,
            mtu=link.mtu,
            mac=link.mac,
            up=link.up,
            running=link.up and (link.peer is None or link.peer.up),
            alias=link.alias,
            peer_index=link.peer.index if link.peer else 0,
            peer_elsewhere=link.peer is not None and link.peer.home is not self,
            vni=link.vni,
            port=link.port,
            local=link.local,
            learning=link.learning,
            open_settings=tuple(self._open_settings(link.name)),
        )

    def _open_settings(self, device: str) -> t.Iterator[tuple[str, int]]:
        for setting in hardening.SETTINGS:
            value = int(self._sysctls.get(hardening.key(setting, device), "0"))
            if value > 0:
                yield setting, value

    def links(self, kind: t.Optional[str] = None) -> list[port.Link]:
        return [self._shown(link) for link in self._links.values() if kind in (None, link.kind)]

    def link(self, name: str) -> t.Optional[port.Link]:
        link = self._links.get(name)
        return self._shown(link) if link else None

    def ready_to_write(self) -> None:
        """Do nothing, because the fake needs no library."""

    def _new_mac(self) -> str:
        self.machine.macs += 1
        return f"02:00:00:00:{self.machine.macs >> 8:02x}:{self.machine.macs & 255:02x}"

    def link_add(self, link: port.NewLink) -> None:
        operation = f"make device {link.name}"
        self._may_fail("link_add", link.name, operation)
        if link.kind not in self.machine.kinds:
            raise port.KernelError(errno.EOPNOTSUPP, operation, "Unknown device type")
        if len(link.name) > 15:
            raise port.KernelError(errno.EINVAL, operation, "Attribute failed policy validation")
        if link.kind == "ipip" and "ipip" not in self.machine.loaded:
            self.machine.loaded.add("ipip")
            for namespace in (self, *self.machine.namespaces.values()):
                if "tunl0" not in namespace._links:
                    namespace._make(_Link("tunl0", 0, "ipip", 1480, ""), ipv6=False)
        if link.name in self._links:
            raise port.KernelError(errno.EEXIST, operation)
        if link.mtu is not None and not 68 <= link.mtu <= 65535:
            raise port.KernelError(errno.EINVAL, operation, "mtu less than device minimum")
        mtu = link.mtu or {"ipip": 1480}.get(link.kind, 1500)
        made = _Link(link.name, 0, link.kind, mtu, link.mac or self._new_mac())
        if link.kind == "vxlan":
            for other in self._links.values():
                if other.kind == "vxlan" and _socket(other) == _socket(link):
                    words = "A VXLAN device with the specified VNI already exists"
                    raise port.KernelError(errno.EEXIST, operation, words)
            made.vni, made.port, made.local, made.learning = link.vni, link.port, link.local, link.learning
        elif link.kind == "ipip":
            made.mac, made.local = "", link.local
        elif link.kind == "veth":
            there = self
            if link.peer_netns:
                if link.peer_netns not in self.machine.namespaces:
                    words = f"there is no network namespace {link.peer_netns}"
                    raise port.KernelError(errno.ENOENT, operation, words)
                there = self.machine.namespaces[link.peer_netns]
            if link.peer_name in there._links:
                raise port.KernelError(errno.EEXIST, operation)
            made.peer = there._make(_Link(link.peer_name, 0, "veth", mtu, link.peer_mac or self._new_mac(), peer=made))
        self._make(made)
        self._written()

    def link_set(
        self,
        name: str,
        *,
        up: t.Optional[bool] = None,
        mtu: t.Optional[int] = None,
        mac: t.Optional[str] = None,
        alias: t.Optional[str] = None,
        local: t.Optional[str] = None,
    ) -> None:
        operation = f"change device {name}"
        self._may_fail("link_set", name, operation)
        link = self._get(name, operation)
        if local is not None:
            self._check_local(link, local, operation)
            link.local = local
        if mtu is not None:
            if not 68 <= mtu <= 65535:
                raise port.KernelError(errno.EINVAL, operation, "mtu less than device minimum")
            if mtu != link.mtu:
                self._add_sysctls(name, "net/ipv6/")
            link.mtu = mtu
        if mac is not None:
            link.mac = mac
        if up is not None and up != link.up:
            link.up = up
            if up:
                self._add_sysctls(name, "net/ipv6/")
                for address in link.addresses:
                    self._connect(address)
            else:
                # The kernel keeps a route with a next hop by another device, and still lists the dead one.
                self._routes = {
                    key: value
                    for key, value in self._routes.items()
                    if any(hop.device != name for hop in value.next_hops)
                }
                self._lose_ipv6(link)
                link.neighbors.clear()
                link.fdb = [entry for entry in link.fdb if entry.permanent]
        if alias is not None:
            if len(alias) > 255:  # IFALIASZ, with the NUL at its end
                raise port.KernelError(errno.ERANGE, f"change device {name}")
            link.alias = alias
        self._written()

    @staticmethod
    def _check_local(link: _Link, local: str, operation: str) -> None:
        """Raise KernelError if the device cannot get this local address: another kind of device, or IP version."""
        if link.kind != "vxlan":
            raise port.KernelError(errno.EOPNOTSUPP, operation)
        if (":" in local) != (":" in (link.local or "")):
            words = "New local address family does not match old"
            raise port.KernelError(errno.EOPNOTSUPP, operation, words)

    def link_delete(self, name: str) -> None:
        operation = f"delete device {name}"
        self._may_fail("link_delete", name, operation)
        link = self._links.get(name)
        if link is None:
            return
        if not link.kind:
            raise port.KernelError(errno.EOPNOTSUPP, operation)
        if link.kind == "ipip" and name == "tunl0":
            return  # The kernel does not delete tunl0, the module's own device, and reports success.
        self._drop(link)
        if link.peer is not None and link.peer.home is not None:
            link.peer.home._drop(link.peer)
        self._written()

    def links_delete(self, names: t.Sequence[str]) -> None:
        for name in names:
            if name in self._links:
                self.link_delete(name)

    def write(self, writes: t.Sequence[port.Write]) -> None:
        refused: t.Optional[port.KernelError] = None
        for item in writes:
            try:
                self._write_one(item)
            except port.KernelError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def _write_one(self, item: port.Write) -> None:
        if isinstance(item, port.LinkChange):
            self.link_set(item.name, up=item.up, mtu=item.mtu, mac=item.mac, alias=item.alias, local=item.local)
        elif isinstance(item, port.InterfaceAddress):
            self.address_add(item)
        elif isinstance(item, port.RuleEntry):
            if item not in self._rules:
                self.rule_add(item)
        else:
            for failure in self.route_batch([item]):
                raise failure.error

    # ---- addresses

    def _lose_ipv6(self, link: _Link) -> None:
        """Remove the device's IPv6 addresses and routes, as when it goes down or loses IPv6.

        The setting keep_addr_on_down is taken to be off.
        """
        link.addresses = [address for address in link.addresses if ":" not in address.address]
        self._routes = {
            key: value
            for key, value in self._routes.items()
            if ":" not in key[1] or any(hop.device != link.name for hop in value.next_hops)
        }

    def addresses(self, device: t.Optional[str] = None, family: int = 4) -> list[port.InterfaceAddress]:
        links = [link for link in self._links.values() if device in (None, link.name)]
        held = [address for link in links for address in link.addresses]
        return [address for address in held if (6 if ":" in address.address else 4) == family]

    def _connected(self, address: port.InterfaceAddress) -> tuple[int, str, int]:
        network = ipaddress.ip_interface(f"{address.address}/{address.prefix_length}").network
        return 254, str(network), 0

    def _connect(self, address: port.InterfaceAddress) -> None:
        if ":" in address.address:
            # A /128 gets a connected route as well. 256 is the metric of the kernel's own IPv6 routes.
            key = (254, self._connected(address)[1], 256)
            attributes = port.RouteAttributes(device=address.device, protocol=port.PROTOCOL_KERNEL, metric=256)
            self._routes.setdefault(key, attributes)
            return
        if address.prefix_length < 32 and address.scope != _SCOPE_HOST:
            self._routes.setdefault(
                self._connected(address),
                port.RouteAttributes(
                    device=address.device,
                    protocol=port.PROTOCOL_KERNEL,
                    scope=port.SCOPE_LINK,
                    source=address.address,
                ),
            )

    def address_add(self, address: port.InterfaceAddress) -> None:
        operation = f"add address {address.address}/{address.prefix_length} to {address.device}"
        self._may_fail("address_add", address.address, operation)
        link = self._get(address.device, operation)
        if any(other[1:3] == address[1:3] for other in link.addresses):
            raise port.KernelError(errno.EEXIST, operation, "Address already assigned")
        if ":" in address.address and self._sysctls[f"net/ipv6/conf/{address.device}/disable_ipv6"] != "0":
            raise port.KernelError(errno.EACCES, operation, "IPv6 is disabled on this device")
        link.addresses.append(address)
        if link.up:
            self._connect(address)
        self._written()

    def address_delete(self, address: port.InterfaceAddress) -> None:
        operation = f"delete address {address.address}/{address.prefix_length} from {address.device}"
        self._may_fail("address_delete", address.address, operation)
        link = self._get(address.device, operation)
        for other in link.addresses:
            if other[1:3] == address[1:3]:
                link.addresses.remove(other)
                break
        else:
            raise port.KernelError(errno.EADDRNOTAVAIL, operation, "Address not found")
        if ":" in address.address:
            self._routes.pop((254, self._connected(address)[1], 256), None)
        connected = self._routes.get(self._connected(address))
        if connected is not None and connected.source == address.address:
            del self._routes[self._connected(address)]
        self._routes = {key: value for key, value in self._routes.items() if value.source != address.address}
        self._written()

    # ---- routes

    def routes(
        self, table: t.Optional[int] = None, protocol: t.Optional[int] = None, family: int = 4
    ) -> list[port.KernelRoute]:
        return [
            (key[1], attributes)
            for key, attributes in self._routes.items()
            if table in (None, key[0]) and protocol in (None, attributes.protocol) and (":" in key[1]) == (family == 6)
        ]

    def _with_subnet_of(self, address: str) -> t.Iterator[str]:
        for name, link in self._links.items():
            for mine in link.addresses:
                net = ipaddress.ip_network(f"{mine.address}/{mine.prefix_length}", strict=False)
                if ipaddress.ip_address(address) in net:
                    yield name

    def route_to(self, address: str) -> t.Optional[port.RouteAttributes]:
        for link in self._links.values():
            if any(mine.address == address for mine in link.addresses):
                return port.RouteAttributes("local", device="lo")
        if ":" in address:
            on_link = next((port.RouteAttributes(device=name) for name in self._with_subnet_of(address)), None)
            if on_link is not None:
                return on_link
        found = Lookup(self.routes(table=254, family=6 if ":" in address else 4)).route(address)
        if found is None or found.type != "unicast":
            return None
        return port.RouteAttributes(device=found.device, gateway=found.gateway)

    def route_batch(self, operations: t.Sequence[port.RouteOperation]) -> list[port.RouteFailure]:
        failures = []
        for position, operation in enumerate(operations):
            try:
                self._may_fail(
                    "route_batch", operation.destination, f"{operation.action} route {operation.destination}"
                )
                self._route(operation)
                self._written()
            except port.KernelError as error:
                failures.append(port.RouteFailure(position, error))
        return failures

    def _route(self, operation: port.RouteOperation) -> None:
        action, destination, wanted = operation
        words = f"{action} route {destination}"
        family6 = ":" in destination
        if family6:  # Store the route in the form in which the kernel shows it.
            wanted = wanted._replace(metric=wanted.metric or port.METRIC_IPV6, scope=port.SCOPE_UNIVERSE)
            wanted = wanted._replace(device=None if wanted.type in _NOWHERE else wanted.device)
        key = (wanted.table, destination, wanted.metric)
        missing = next((hop.device for hop in wanted.next_hops if hop.device and hop.device not in self._links), None)
        if missing:
            number = errno.ESRCH if action == "delete" else errno.ENODEV
            raise port.KernelError(number, words, f"there is no device {missing}")
        have = self._routes.get(key)
        if action == "delete":
            same = have is not None and (have.type, have.protocol) == (wanted.type, wanted.protocol)
            if have is None or not same or not _same_hops(have, wanted):
                raise port.KernelError(errno.ESRCH, words)
            del self._routes[key]
            return
        if str(ipaddress.ip_network(destination, strict=False)) != destination:
            raise port.KernelError(errno.EINVAL, words, "Invalid prefix for given prefix length")
        if wanted.type == "unicast":
            for hop in wanted.next_hops:
                self._check_next_hop(hop, family6, words)
        if action == "add" and have is not None:
            raise port.KernelError(errno.EEXIST, words)
        self._routes[key] = wanted

    def _check_next_hop(self, hop: port.NextHop, family6: bool, words: str) -> None:
        """Raise KernelError with `words` if the kernel refuses the next hop of a route, of IPv6 if `family6`."""
        link = self._links.get(hop.device) if hop.device else None
        if link is None and not hop.gateway:
            raise port.KernelError(errno.EINVAL, words)
        if link is not None and not link.up:
            raise port.KernelError(errno.ENETDOWN, words, "Device for nexthop is not up")
        gateway6 = ":" in (hop.gateway or "")  # An IPv4 route may have one: the checks are those of IPv6.
        needs6 = link if family6 or gateway6 else None
        if needs6 is not None and self._sysctls[f"net/ipv6/conf/{needs6.name}/disable_ipv6"] != "0":
            raise port.KernelError(errno.EACCES, words, "IPv6 is disabled on nexthop device")
        if gateway6 and hop.gateway and hop.onlink and self._is_elsewhere(hop.gateway, hop.device):
            raise port.KernelError(errno.EINVAL, words, "Nexthop has invalid gateway or device mismatch")
        if hop.gateway and not hop.onlink and not self._on_link(hop.gateway, hop.device):
            number = errno.EHOSTUNREACH if gateway6 else errno.ENETUNREACH
            raise port.KernelError(number, words, "" if gateway6 else "Nexthop has invalid gateway")

    def _on_link(self, gateway: str, device: t.Optional[str]) -> bool:
        target = ipaddress.ip_address(gateway)
        if target.version == 6 and target.is_link_local:
            return True
        return any(
            (attributes.scope == port.SCOPE_LINK or (target.version == 6 and not attributes.gateway))
            and attributes.device == device
            and target in ipaddress.ip_network(key[1])
            for key, attributes in self._routes.items()
        )

    def _is_elsewhere(self, gateway: str, device: t.Optional[str]) -> bool:
        """Return whether the main table leads to the IPv6 address `gateway` without a gateway and not through `device`.

        The kernel then refuses `gateway` for an onlink route through `device`. A route that leads nowhere, such as a
        blackhole, counts too. For a link-local address the result is False: such addresses are on every device.
        """
        if ipaddress.ip_address(gateway).is_link_local:
            return False
        found = Lookup(self.routes(table=254, family=6)).route(gateway)
        return found is not None and found.device != device and found.gateway is None

    # ---- neighbours, forwarding entries, rules

    def neighbors(self, device: str) -> list[port.NeighborEntry]:
        link = self._links.get(device)
        return list(link.neighbors.values()) if link else []

    def neighbor_replace(self, entry: port.NeighborEntry) -> None:
        operation = f"set neighbour {entry.address} on {entry.device}"
        self._may_fail("neighbor_replace", entry.address, operation)
        self._get(entry.device, operation).neighbors[entry.address] = entry
        self._written()

    def neighbor_delete(self, entry: port.NeighborEntry) -> None:
        operation = f"delete neighbour {entry.address} from {entry.device}"
        self._may_fail("neighbor_delete", entry.address, operation)
        if self._get(entry.device, operation).neighbors.pop(entry.address, None) is None:
            raise port.KernelError(errno.ENOENT, operation)
        self._written()

    def fdb(self, device: str) -> list[port.ForwardingEntry]:
        link = self._links.get(device)
        return list(link.fdb) if link else []

    def fdb_replace(self, entry: port.ForwardingEntry) -> None:
        operation = f"set forwarding entry {entry.mac} on {entry.device}"
        self._may_fail("fdb_replace", entry.mac, operation)
        link = self._get(entry.device, operation)
        if link.kind != "vxlan":
            raise port.KernelError(errno.EOPNOTSUPP, operation)
        for position, other in enumerate(link.fdb):
            if other.mac == entry.mac:
                link.fdb[position] = entry
                break
        else:
            link.fdb.append(entry)
        self._written()

    def fdb_delete(self, entry: port.ForwardingEntry) -> None:
        operation = f"delete forwarding entry {entry.mac} from {entry.device}"
        self._may_fail("fdb_delete", entry.mac, operation)
        link = self._get(entry.device, operation)
        for other in link.fdb:
            if (other.mac, other.destination, other.via) == (entry.mac, entry.destination, entry.via):
                link.fdb.remove(other)
                self._written()
                return
        raise port.KernelError(errno.ENOENT, operation)

    def rules(self, family: int = 4) -> list[port.RuleEntry]:
        return sorted((rule for rule in self._rules if rule.family == family), key=lambda rule: rule.priority)

    def rule_add(self, rule: port.RuleEntry) -> None:
        operation = f"add rule {rule.priority} ({rule.selector})"
        self._may_fail("rule_add", str(rule.priority), operation)
        if any(other[:4] == rule[:4] and other[5:] == rule[5:] for other in self._rules):
            raise port.KernelError(errno.EEXIST, operation)
        self._rules.append(rule)
        self._written()

    def rule_delete(self, rule: port.RuleEntry) -> None:
        operation = f"delete rule {rule.priority} ({rule.selector})"
        self._may_fail("rule_delete", str(rule.priority), operation)
        if rule not in self._rules:
            raise port.KernelError(errno.ENOENT, operation)
        self._rules.remove(rule)
        self._written()

    # ---- These functions are for sysctls, sockets, marks of changes by programs, members of sets, and connections

    def sysctl_read(self, key: str) -> t.Optional[str]:
        return self._sysctls.get(key)

    def sysctl_write(self, key: str, value: str) -> None:
        operation = f"write sysctl {key}"
        self._may_fail("sysctl_write", key, operation)
        if key not in self._sysctls:
            raise port.KernelError(errno.ENOENT, operation)
        if key == "net/ipv4/ip_forward" and value != self._sysctls[key]:
            redirects = "0" if value == "1" else "1"
            for name in self._sysctls:
                if re.fullmatch("net/ipv4/conf/.+/forwarding", name):
                    self._sysctls[name] = value
                elif name == "net/ipv4/conf/all/accept_redirects":
                    self._sysctls[name] = redirects
        if key == "net/ipv6/conf/all/forwarding" and value != self._sysctls[key]:
            for name in self._sysctls:
                if re.fullmatch("net/ipv6/conf/.+/forwarding", name):
                    self._sysctls[name] = value
        self._sysctls[key] = value
        off = _OFF.fullmatch(key)
        if off and value != "0" and off.group(1) in self._links:
            self._lose_ipv6(self._links[off.group(1)])
        found = re.fullmatch(r"net/ipv4/conf/(.+)/proxy_arp", key)
        if found and value != "0" and self._sysctls.get(f"net/ipv4/neigh/{found.group(1)}/proxy_delay") != "0":
            self.violations.append(f"{key} = {value} was written before proxy_delay = 0")
        self._written()

    def sockets_using(self, address: str) -> int:
        return self.machine.sockets.get(address, 0)

    def ruleset_mark(self) -> t.Optional[int]:
        return self.netfilter.generation

    def ruleset_changes(self, since: int, until: int) -> t.Optional[frozenset[port.ChangedChain]]:
        listening, self._listening = self._listening, True
        generations = range(since + 1, until + 1)
        if not listening or not all(number in self.netfilter.changes for number in generations):
            return None
        return frozenset(port.ChangedChain(*one) for number in generations for one in self.netfilter.changes[number])

    def legacy_mark(self) -> t.Hashable:
        return self.netfilter.legacy_sizes()

    def programs_mark(self, names: t.Sequence[str]) -> t.Hashable:
        return tuple(self.netfilter.backend(name) for name in names)

    def ipset_mark(self, name: str) -> int:
        return hash(repr(self.netfilter.sets.get(name)))

    def ipset_headers(self) -> dict[str, port.SetHeader]:
        return {
            name: port.SetHeader(found.type, len(found.members), str(found.made).encode())
            for name, found in self.netfilter.sets.items()
        }

    def ipset_members(self, name: str) -> t.Optional[frozenset[str]]:
        found = self.netfilter.sets.get(name)
        return None if found is None else frozenset(found.members)

    def ipset_write(self, writes: t.Sequence[port.SetWrite]) -> None:
        for one in writes:
            if isinstance(one, port.MemberWrite):
                ipset_writes.data(one.kind, one.member)
        for one in writes:
            self._may_fail("ipset_write", one.name, one.line)
            done = self.netfilter.run(["ipset", "-exist", *one.line.split(" ")], "", self._written)
            if done is None or done.code != 0:
                raise port.KernelError(errno.EINVAL, one.line)

    def routes_mark(self, protocol: int) -> int:
        return hash(frozenset(self.routes(protocol=protocol) + self.routes(protocol=protocol, family=6)))

    def links_mark(self, names: t.Container[str]) -> int:
        return hash(frozenset(link for link in self.links() if link.name in names))

    def conntrack_flush(self, addresses: t.Collection[str]) -> int:
        self._may_fail("conntrack_flush", "", f"delete tracked connections of {', '.join(sorted(addresses))}")
        connections = self.machine.connections
        self.machine.connections = [found for found in connections if not {*addresses} & {*found}]
        return len(connections) - len(self.machine.connections)

    def connections(self, wanted: t.Optional[port.ConnectionFilter] = None) -> t.Iterator[port.Connection]:
        self._may_fail("connections", "", "list tracked connections")
        return iter([one for one in self.machine.tracked if wanted is None or wanted.selects(one.sent)])

    def connections_delete(self, connections: t.Collection[port.Connection]) -> int:
        self._may_fail("connections_delete", "", f"delete {len(connections)} tracked connections")
        before = len(self.machine.tracked)
        self.machine.tracked = [one for one in self.machine.tracked if one not in connections]
        return before - len(self.machine.tracked)

    def connections_mark(self, connections: t.Collection[port.Connection], bits: int, marked: bool) -> int:
        self._may_fail("connections_mark", "", f"mark {len(connections)} tracked connections")

        def changed(one: port.Connection) -> port.Connection:
            return one._replace(mark=one.mark & ~bits | (bits if marked else 0)) if one in connections else one

        found = sum(one in connections for one in self.machine.tracked)
        self.machine.tracked = [changed(one) for one in self.machine.tracked]
        return found

    # ---- These functions are for namespaces, and the end of use

    def netns_list(self) -> list[str]:
        return sorted(name for name in self.machine.namespaces if not name.startswith("/"))

    def netns_add(self, name: str, owner: str) -> None:
        self._may_fail("netns_add", name, f"make network namespace {name}")
        if name in self.machine.namespaces:
            raise port.KernelError(errno.EEXIST, f"make network namespace {name}")
        self.machine.namespaces[name] = FakeKernel(self.machine)
        if owner:
            self.machine.owners[name] = owner
        self._written()

    def netns_delete(self, name: str) -> None:
        self._may_fail("netns_delete", name, f"delete network namespace {name}")
        inner = self.machine.namespaces.pop(name, None)
        self.machine.owners.pop(name, None)
        if inner is None:
            return
        for link in list(inner._links.values()):
            if link.peer is not None and link.peer.home is not None and link.peer.home is not inner:
                link.peer.home._drop(link.peer)
        self._written()

    def netns_owners(self) -> dict[str, str]:
        self._may_fail("netns_owners", "", "list the markers of network namespaces")
        return dict(self.machine.owners)

    def netns_exists(self, netns: str) -> bool:
        return netns in self.machine.namespaces

    def netns_is(self, netns: str, identity: str) -> bool:
        found = self.machine.namespaces.get(netns)
        return found is not None and not found._host and found._cookie == identity

    def inside(self, netns: str, identity: str = "") -> FakeKernel:
        if netns in self.machine.files:
            words = "it is not a network namespace"
            raise port.NamespaceRefused(errno.EINVAL, f"open network namespace {netns}", words)
        found = self.machine.namespaces.get(netns)
        if found is None:
            raise port.KernelError(errno.ENOENT, f"open network namespace {netns}")
        if found._host:
            words = "it is that of the host itself"
            raise port.NamespaceRefused(errno.EPERM, f"enter network namespace {netns}", words)
        if identity and identity != found._cookie:
            words = "it is another one than the workload was attached to"
            raise port.NamespaceRefused(errno.ESTALE, f"enter network namespace {netns}", words)
        return found

    def in_namespace(self, work: t.Callable[[], _T]) -> _T:
        return work()

    @property
    def identity(self) -> str:
        return "" if self._host else self._cookie

    def leave(self, netns: str) -> None:
        """Do nothing, because the fake opens nothing."""

    def observe_namespace(
        self,
        netns: str,
        families: t.Collection[int] = (4,),
        table: t.Optional[int] = None,
        *,
        identity: str = "",
    ) -> port.Interior:
        inner = self.inside(netns, identity)
        addresses = [address for family in families for address in inner.addresses(family=family)]
        tables = (254,) if table is None else (254, table)
        routes = [entry for family in families for one in tables for entry in inner.routes(table=one, family=family)]
        rules = () if table is None else tuple(rule for family in families for rule in inner.rules(family))
        return port.Interior(inner.links(), addresses, routes, rules)

    @property
    def netlink_port(self) -> int:
        return 0

    def close(self) -> None:
        """Do nothing, because the fake opens nothing."""

    # ---- programs

    def run(self, argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> port.Completed:
        if argv[0] not in self.machine.programs:
            return port.Completed(127, "", f"there is no program {argv[0]}")
        try:
            self._may_fail("run", argv[0], argv[0])
        except port.KernelError as error:
            return port.Completed(1, "", f"{argv[0]}: {error.said}")
        done = self.netfilter.run(argv, stdin, self._written)
        return done or port.Completed(2, "", f"{argv[0]}: FakeKernel does not know {' '.join(argv)!r}")


def _is_a_kernel(kernel: FakeKernel) -> port.Kernel:
    return kernel  # The type checker verifies here that the class implements the port.
