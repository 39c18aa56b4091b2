# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `Kernel` port: all that the drivers read from a kernel and write to it.

It has two implementations: `linux.LinuxKernel` and, for tests, `tests/fakes/kernel.py`. Addresses are strings, of both
IP versions; devices are named, not numbered, except in `Link`; MTUs are bytes.
"""

from __future__ import annotations

import dataclasses
import errno
import os
import typing as t

if t.TYPE_CHECKING:
    from ...policy.model import Flow

# Routing protocol numbers (rtnetlink(7), /etc/iproute2/rt_protos).
PROTOCOL_KERNEL = 2
PROTOCOL_BOOT = 3
PROTOCOL_RA = 9
PROTOCOL_BIRD = 12

# Scopes of routes and addresses (rtnetlink(7)).
SCOPE_UNIVERSE = 0
SCOPE_LINK = 253
SCOPE_HOST = 254

#: The metric that the kernel gives an IPv6 route without one. An IPv4 route then has none (0).
METRIC_IPV6 = 1024


class KernelError(OSError):
    """A refusal of the kernel.

    `errno` is its number, `operation` what was attempted, `extack` a text that explains it, "" if there is none.
    """

    def __init__(self, number: int, operation: str, extack: str = "") -> None:
        super().__init__(number, os.strerror(number))
        self.operation = operation
        self.extack = extack

    def __str__(self) -> str:
        return f"{self.operation}: {self.said}"

    @property
    def said(self) -> str:
        """The kernel's words: `File exists`, or `Invalid argument (Unknown device type)`."""
        said = os.strerror(self.errno or errno.EIO)
        return f"{said} ({self.extack.rstrip('.')})" if self.extack else said


class NamespaceRefused(KernelError):
    """The error for a path that leads to no network namespace that can be used.

    `errno` is EINVAL if it is no network namespace, EPERM if it is the host's own or the caller's, and ESTALE if it is
    another one than expected.
    """


#: The beginning of a namespace identity that no other namespace gets before the next boot.
COOKIE = "cookie:"


class MissingLibrary(Exception):
    """The error for a write that needs the library pyroute2, which is not installed."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A network interface.

    `kind` is "" for hardware and for lo. The fields from `peer_index` to `external` belong to single kinds. MTU in
    bytes.
    """

    name: str
    index: int
    kind: str = ""
    mtu: int = 1500
    mac: str = ""
    up: bool = False  # administratively (IFF_UP)
    running: bool = False  # has carrier as well (IFF_RUNNING)
    alias: str = ""
    peer_index: int = 0  # veth: index of the other end, in its namespace
    peer_elsewhere: bool = False  # veth: the other end, others: the lower device is in another namespace
    vni: t.Optional[int] = None  # vxlan: its network identifier
    port: t.Optional[int] = None  # vxlan: UDP port
    local: t.Optional[str] = None  # vxlan, ipip: address of this host that the tunnel uses
    learning: bool = False  # vxlan: learns forwarding entries from packets that arrive
    external: bool = False  # vxlan: collects metadata, its VNI is chosen by route or OVS
    open_settings: tuple[tuple[str, int], ...] = ()  # the hardening.SETTINGS above 0, as (name, value)


@dataclasses.dataclass(frozen=True)
class NewLink:
    """A device that `link_add` makes: down, without alias.

    MTU in bytes. The other end of a veth pair is created in the namespace `peer_netns`, if that is not "".
    """

    name: str
    kind: str  # veth, vxlan, ipip, bridge
    mtu: t.Optional[int] = None
    mac: t.Optional[str] = None
    vni: t.Optional[int] = None
    port: t.Optional[int] = None
    local: t.Optional[str] = None
    learning: bool = False
    peer_name: str = ""
    peer_netns: str = ""
    peer_mac: t.Optional[str] = None


class InterfaceAddress(t.NamedTuple):
    """An address of an interface.

    An IPv6 address is added without duplicate address detection (RFC 4862), so that it can be used at once. An address
    that is not `permanent` has a lifetime, as those of router advertisements and DHCP may have. Such an address is
    never added.
    """

    device: str
    address: str
    prefix_length: int
    scope: int = SCOPE_UNIVERSE
    permanent: bool = True


class RouteAttributes(t.NamedTuple):
    """All of a route but its destination.

    Many routes share one object, which makes bulk work cheap. `device` and `gateway` are those of the first next hop;
    the gateway of an IPv4 route may be an IPv6 address. `hops` is the number of next hops, or 1 if there is none. `mtu`
    is in bytes, None if the route sets none. An IPv6 route has no scope, and always a metric. A route of a type such as
    blackhole has no device, though the kernel shows lo for IPv6.
    """

    type: str = "unicast"
    device: t.Optional[str] = None
    gateway: t.Optional[str] = None
    onlink: bool = False
    mtu: t.Optional[int] = None
    table: int = 254
    protocol: int = PROTOCOL_BOOT
    scope: int = SCOPE_UNIVERSE
    metric: int = 0
    source: t.Optional[str] = None
    hops: int = 1


#: A route: (destination CIDR, attributes).
KernelRoute = tuple[str, RouteAttributes]


class RouteOperation(t.NamedTuple):
    """A write of one route.

    `action` is add (fails if destination and metric exist), replace (changes the route in place, or adds it) or delete.
    """

    action: str
    destination: str
    attributes: RouteAttributes


class RouteFailure(t.NamedTuple):
    position: int  # index of the failed operation in the batch, from 0
    error: KernelError


class NeighborEntry(t.NamedTuple):
    device: str
    address: str
    mac: str
    permanent: bool = True


class ForwardingEntry(t.NamedTuple):
    """An entry of a device's forwarding database; `destination` is a VXLAN remote's address, "" for other entries."""

    device: str
    mac: str
    destination: str
    permanent: bool = True


class RuleEntry(t.NamedTuple):
    """A policy routing rule.

    `plain` is False if it has selectors or actions besides mark, table and priority. `source` is the one address whose
    packets it applies to, "" if the rule selects no source or a network. An inverted rule, which applies to all other
    packets, has it as well.
    """

    priority: int
    table: int
    fwmark: int = 0
    fwmask: int = 0xFFFFFFFF
    protocol: int = 0
    plain: bool = True
    family: int = 4
    source: str = ""


class Interior(t.NamedTuple):
    """The content of a network namespace, read in one visit.

    `routes` are those of the main table, and those of another table if one was requested. `rules` are then the policy
    rules, otherwise empty.
    """

    links: list[Link]
    addresses: list[InterfaceAddress]
    routes: list[KernelRoute]
    rules: tuple[RuleEntry, ...] = ()


class LinkChange(t.NamedTuple):
    """A change of a device for `write`, with the values that `link_set` takes.

    None leaves a value as it is. MTU in bytes.
    """

    name: str
    up: t.Optional[bool] = None
    mtu: t.Optional[int] = None
    mac: t.Optional[str] = None
    alias: t.Optional[str] = None


class Connection(t.NamedTuple):
    """A connection that the kernel tracks.

    `sent` is its first packet as it arrived, `flow` the same after DNAT, which policy is applied to. `ends` and `name`
    are attributes by which the kernel identifies it. If another connection brought it about (RELATED, as FTP's data),
    `master` has the `ends` of that one; otherwise it is empty. `reply_to` is the address that replaces the source, and
    that replies are sent to; it is "" if the source is not translated.
    """

    sent: Flow
    flow: Flow
    ends: bytes = b""
    name: bytes = b""
    master: bytes = b""
    mark: int = 0
    reply_to: str = ""


class ConnectionFilter(t.NamedTuple):
    """A selection of tracked connections by their first packet, as it arrived.

    `family` is the IP version, `protocol` an IANA number, and `port` the destination port, None for any.
    """

    family: int
    protocol: int
    port: t.Optional[int] = None

    def selects(self, sent: Flow) -> bool:
        """Return whether a connection with this first packet is selected."""
        if sent.protocol != self.protocol or sent.ip_version != self.family:
            return False
        return self.port is None or sent.destination_port == self.port


#: One write of `Kernel.write`: a change of a link, an address to add, a route operation, or a rule for a source address
#: to add. A rule that exists already is no error.
Write = t.Union[LinkChange, InterfaceAddress, RouteOperation, RuleEntry]


class Completed(t.NamedTuple):
    """The result of a command.

    `code` is its exit status: 127 if there is no such program, 126 if it cannot be started, 124 if its time ran out,
    and below 0 if a signal ended it.
    """

    code: int
    output: str
    errors: str


class Kernel(t.Protocol):
    """The operations on the kernel of one network namespace.

    Methods without a docstring raise KernelError if the kernel refuses, as it does for a write to a missing device.
    `link_add` (except for veth) and the writes of neighbours, forwarding entries and rules by mark raise MissingLibrary
    if pyroute2 is missing. `link` returns None for a device that does not exist, and `fdb` returns [] then.
    `ipset_mark` returns 0 for a set that does not exist. For a text that is no address or no MAC, writes raise another
    error: ValueError, TypeError or OSError.
    """

    @property
    def netlink_port(self) -> int:
        """The netlink port number that rtnetlink's notifications of changes made through this object carry.

        It is 0 while no socket for changes is open.
        """

    # ---- These methods observe, and they mark and delete tracked connections

    def links(self, kind: t.Optional[str] = None) -> list[Link]:
        """Return all devices, or those of one kind (such as `vxlan`).

        Raise KernelError if the kernel refuses.
        """

    def link(self, name: str) -> t.Optional[Link]: ...

    def addresses(self, device: t.Optional[str] = None, family: int = 4) -> list[InterfaceAddress]:
        """Return the addresses of one IP version (4 or 6), of all devices or of one.

        The result is [] for a device that does not exist. Raise KernelError if the kernel refuses.
        """

    def routes(
        self, table: t.Optional[int] = None, protocol: t.Optional[int] = None, family: int = 4
    ) -> list[KernelRoute]:
        """Return the routes of one IP version (4 or 6) with this table and protocol number; None matches any.

        Routes with a TOS are left out, because this collection writes none. The result is [] for a table that does not
        exist. Raise KernelError if the kernel refuses.
        """

    def route_to(self, address: str) -> t.Optional[RouteAttributes]:
        """Return the route that a packet of this host to `address` takes, or None if it cannot be sent.

        Only type, device and gateway of the result are set. Raise KernelError if the kernel refuses for another reason,
        and OSError if `address` is not an address.
        """

    def neighbors(self, device: str) -> list[NeighborEntry]:
        """Return the device's neighbour entries that have a MAC, of both IP versions.

        Those of state NOARP, as multicast addresses have, are left out. The result is [] for a device that does not
        exist. Raise KernelError if the kernel refuses.
        """

    def fdb(self, device: str) -> list[ForwardingEntry]: ...

    def rules(self, family: int = 4) -> list[RuleEntry]:
        """Return the policy routing rules of one IP version (4 or 6); [] if the kernel lacks IPv6.

        Raise KernelError if the kernel refuses.
        """

    def sysctl_read(self, key: str) -> t.Optional[str]:
        """Return the value of a sysctl, without white space around it, or None if it does not exist.

        `key` is a path below /proc/sys that begins with `net/`. Raise KernelError for any other key, or one that cannot
        be encoded, and if the value cannot be read.
        """

    def sockets_using(self, address: str) -> int:
        """Return the number of open TCP and UDP sockets bound to this local address.

        TCP sockets in the states TIME_WAIT and CLOSE do not count. Raise OSError if it is not an address, and
        KernelError if this kernel's namespace cannot be entered.
        """

    def conntrack_flush(self, addresses: t.Collection[str]) -> int:
        """Delete the tracked connections that these addresses opened or answer, and return the number deleted.

        It is 0 if the kernel tracks nothing. Raise KernelError if the kernel refuses, and OSError if a text is not an
        address.
        """

    def connections(self, wanted: t.Optional[ConnectionFilter] = None) -> t.Iterator[Connection]:
        """Yield each connection in the kernel's table of tracked connections (conntrack) that has not ended.

        With `wanted` yield only those that it selects. Yield nothing if the kernel tracks no connections. Connections
        in a conntrack zone are left out, and so are those for which the kernel sends no complete addresses or protocol.
        Raise KernelError if the kernel refuses.
        """

    def connections_delete(self, connections: t.Collection[Connection]) -> int:
        """Delete these connections, and return how many of them still existed.

        The next packet of such a flow is translated as that of a new one. Raise KernelError if the kernel refuses.
        """

    def connections_mark(self, connections: t.Collection[Connection], bits: int, marked: bool) -> int:
        """Set (`marked` True) or clear the bits `bits` of these connections' marks.

        Return how many of them still existed. Raise KernelError if the kernel refuses.
        """

    # ---- marks, cheap enough to be read every second: while a mark stays equal, nothing has changed, except for
    # legacy_mark: rules that were replaced by others of the same size

    def ruleset_mark(self) -> t.Optional[int]:
        """Return the mark of all rules of iptables-nft and nft, or None if the kernel has no nf_tables.

        Raise KernelError if the kernel refuses.
        """

    def legacy_mark(self) -> t.Hashable:
        """Return the mark of the tables of iptables-legacy, made of their sizes.

        A rule that replaces another one of its size does not change it. Raise KernelError if a table cannot be read.
        """

    def ipset_mark(self, name: str) -> int: ...

    def routes_mark(self, protocol: int) -> int:
        """Return the mark of the routes with this protocol number, of both IP versions.

        Raise KernelError if the kernel refuses.
        """

    # ---- write

    def ipset_member(self, action: str, name: str, kind: str, member: str) -> None:
        """Add a member to an IP set or remove it.

        `action` is add or del, `kind` the set's type, `member` a text as `ipset save` prints it. Adding a present
        member, or removing an absent one, is no error. Raise ValueError if `member` has no form that this type can
        have, and KernelError if the kernel refuses.
        """

    def ready_to_write(self) -> None:
        """Raise MissingLibrary if pyroute2, which writes tunnel devices, neighbours and rules, is missing."""

    def link_add(self, link: NewLink) -> None: ...

    def link_set(
        self,
        name: str,
        *,
        up: t.Optional[bool] = None,
        mtu: t.Optional[int] = None,
        mac: t.Optional[str] = None,
        alias: t.Optional[str] = None,
    ) -> None: ...

    def link_delete(self, name: str) -> None:
        """Delete a device. One that does not exist is ignored. Raise KernelError if the kernel refuses."""

    def links_delete(self, names: t.Sequence[str]) -> None:
        """Delete devices, all in about the time of one.

        Devices that do not exist are ignored. Each deletion waits until all processors have released the device (RCU):
        20 to 30 ms, spent once here. Raise KernelError if the kernel refuses.
        """

    def address_add(self, address: InterfaceAddress) -> None: ...

    def address_delete(self, address: InterfaceAddress) -> None: ...

    def write(self, writes: t.Sequence[Write]) -> None:
        """Make all of these writes in order, in one system call if possible.

        Raise KernelError with the first refusal. Writes behind a refused one may have been made nevertheless, and those
        before it may be missing if it names a device that does not exist.
        """

    def route_batch(self, operations: t.Sequence[RouteOperation]) -> list[RouteFailure]:
        """Make these route operations in order, many per system call.

        Return those that failed, [] if none did. A failed operation does not stop the others. Raise KernelError if the
        operations cannot be sent, or the kernel does not answer.
        """

    def neighbor_replace(self, entry: NeighborEntry) -> None: ...

    def neighbor_delete(self, entry: NeighborEntry) -> None: ...

    def fdb_replace(self, entry: ForwardingEntry) -> None: ...

    def fdb_delete(self, entry: ForwardingEntry) -> None: ...

    def rule_add(self, rule: RuleEntry) -> None: ...

    def rule_delete(self, rule: RuleEntry) -> None: ...

    def sysctl_write(self, key: str, value: str) -> None: ...

    # ---- programs and namespaces

    def run(self, argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> Completed:
        """Run a program in this kernel's network namespace, without a shell, and return its exit status and output.

        `stdin` is its input. After `timeout` seconds it is killed, and its output is lost. That is no exception, nor is
        a program that is missing or cannot be started; see `Completed`. Raise KernelError if the namespace cannot be
        entered.
        """

    def netns_list(self) -> list[str]:
        """Return the names below /run/netns, sorted; [] if there are none.

        Empty files that an interrupted `netns_add` (with an owner) or `netns_delete` (of such a namespace) left are not
        among them. Raise KernelError if the folder cannot be read.
        """

    def netns_add(self, name: str, owner: str) -> None:
        """Make a named network namespace and, unless `owner` is "", a marker that it is ours and for whom it was made.

        Raise KernelError if the name exists or is no file name, or if the kernel refuses.
        """

    def netns_delete(self, name: str) -> None:
        """Delete a named network namespace and its marker. Do nothing if they do not exist.

        Another file of this name in the folder of namespaces is removed, too. What `inside` returned for this name may
        be closed by it. Raise KernelError if the name is no file name, or if the kernel refuses.
        """

    def netns_owners(self) -> dict[str, str]:
        """Return a mapping from name to owner of the namespaces that `netns_add` marked and that are still the same.

        Names that an interrupted `netns_add` or `netns_delete` left are in it, too. It is empty if there is no folder
        of markers yet. Raise KernelError if the folder cannot be read. Markers that cannot be read are skipped.
        """

    def netns_exists(self, netns: str) -> bool:
        """Return whether a name below /run/netns or an absolute path leads to a namespace of any kind.

        It is False for any other file or none.
        """

    def netns_is(self, netns: str, identity: str) -> bool:
        """Return whether a name or path leads to the namespace with this `identity`; False for any other file or none.

        It is False also for the namespace of the caller or the host, and for one that cannot be entered.
        """

    def inside(self, netns: str, identity: str = "") -> Kernel:
        """Return the kernel as seen from a namespace, which is given by its name below /run/netns or an absolute path.

        The namespace is opened once. All later calls on the result use the same one, wherever the path leads by then.
        So does `link_add` on this object, until `leave`, for the other end of a pair. Raise NamespaceRefused if the
        path leads to no network namespace, to that of the caller or the host, or to one whose identity is not
        `identity` ("": any). Raise KernelError if it cannot be opened. This object owns the result and closes it. The
        result keeps the namespace alive: see `leave`.
        """

    @property
    def identity(self) -> str:
        """The text that distinguishes the namespace from others; "" for a kernel that `inside` did not return.

        It begins with COOKIE if the kernel has cookies, and is then unique until the next boot. Otherwise a later
        namespace may have the same one.
        """

    def leave(self, netns: str) -> None:
        """Close and forget the kernel that `inside` returned, so that the namespace can end.

        Do nothing if there is none.
        """

    def look_inside(
        self,
        netns: str,
        families: t.Collection[int] = (4,),
        table: t.Optional[int] = None,
        *,
        identity: str = "",
    ) -> Interior:
        """Return the links of a namespace, and of these IP versions its addresses and the routes of its main table.

        The namespace is opened for this call only. With `table`, the routes of that table and the policy rules are read
        as well. Raise NamespaceRefused as `inside` does, and KernelError if the namespace cannot be opened or read.
        """

    def close(self) -> None: ...
