# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `Kernel` port: all that the drivers read from a kernel and write to it.

It has two implementations: `linux.LinuxKernel` and, for tests, `tests/fakes/kernel.py`. Addresses are strings, of both
IP versions; devices are named, not numbered, except in `Link`; MTUs are bytes.
"""

from __future__ import annotations

import contextlib
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

_T = t.TypeVar("_T")

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


#: The errnos of a kernel that lacks the part of netfilter that was asked: nf_tables, ip_set or conntrack.
NO_NETFILTER = (errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL)


@contextlib.contextmanager
def passing_over(*numbers: int) -> t.Iterator[None]:
    """Ignore a KernelError that is raised inside if its errno is one of `numbers`."""
    try:
        yield
    except KernelError as error:
        if error.errno not in numbers:
            raise


class NamespaceRefused(KernelError):
    """The error for a path that leads to no network namespace that can be used.

    `errno` is EINVAL for no network namespace, EPERM for the host's own or the caller's, ESTALE for an unexpected one.
    """


#: The beginning of a namespace identity that no other namespace gets before the next boot.
COOKIE = "cookie:"


class MissingLibrary(Exception):
    """The error for a write that needs the library pyroute2, which is not installed."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A network interface; `kind` is "" for hardware and for lo, the MTU in bytes.

    The fields from `peer_index` to `external` belong to single kinds.
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
    """A device that `link_add` makes: down, without alias; the MTU in bytes.

    The other end of a veth pair is created in the namespace `peer_netns`, if that is not "".
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

    An IPv6 address is added without duplicate address detection (RFC 4862), so that it can be used at once. One that is
    not `permanent` has a lifetime, as from a router advertisement or DHCP, and is never added.
    """

    device: str
    address: str
    prefix_length: int
    scope: int = SCOPE_UNIVERSE
    permanent: bool = True


class NextHop(t.NamedTuple):
    """One of several next hops of a route; `weight` is its share of the flows, from 1 to 256."""

    device: t.Optional[str] = None
    gateway: t.Optional[str] = None
    onlink: bool = False
    weight: int = 1


class RouteAttributes(t.NamedTuple):
    """All of a route but its destination.

    Many routes share one object, which makes bulk work cheap. The gateway of an IPv4 route may be an IPv6 address. A
    route with several next hops has all of them in `multipath`, and `device`, `gateway` and `onlink` of the first; any
    other has () there. `mtu` is in bytes, None if the route sets none. An IPv6 route has no scope, and always a metric.
    A route of a type such as blackhole has no device, though the kernel shows lo for IPv6.
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
    multipath: tuple[NextHop, ...] = ()

    @property
    def next_hops(self) -> tuple[NextHop, ...]:
        """All next hops: those of `multipath`, or the only one."""
        return self.multipath or (NextHop(self.device, self.gateway, self.onlink),)

    def over(self, next_hops: t.Sequence[NextHop]) -> RouteAttributes:
        """Return this route by way of these next hops, one or more, in their order."""
        first = next_hops[0]
        return self._replace(
            device=first.device,
            gateway=first.gateway,
            onlink=first.onlink,
            multipath=tuple(next_hops) if len(next_hops) > 1 else (),
        )


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
    """An entry of a device's forwarding database; `destination` is a VXLAN remote's address, "" for other entries.

    `via` is the index of the device by which packets to the destination leave, 0 if routes decide it.
    """

    device: str
    mac: str
    destination: str
    permanent: bool = True
    via: int = 0


class RuleEntry(t.NamedTuple):
    """A policy routing rule.

    `plain` is False if it has selectors or actions besides mark, interface, TOS, table and priority. `source` is the
    one address whose packets it applies to (or, inverted, does not), "" if the rule selects no source or a network.
    `interface` is the device by which packets arrive, "" for any, and `tos` their TOS byte, 0 for any. A rule with the
    mark and the mask 0 applies to packets with any mark.
    """

    priority: int
    table: int
    fwmark: int = 0
    fwmask: int = 0xFFFFFFFF
    protocol: int = 0
    plain: bool = True
    family: int = 4
    source: str = ""
    interface: str = ""
    tos: int = 0

    @property
    def selector(self) -> str:
        """The words for the packets that it applies to: `fwmark 0xca11`, or `iif caliprobe tos 0x1c`."""
        if self.source:
            return f"from {self.source}"
        words = [f"fwmark {self.fwmark:#x}"] if self.fwmark else []
        words += [f"iif {self.interface}"] if self.interface else []
        words += [f"tos {self.tos:#x}"] if self.tos else []
        return " ".join(words) or "from all"


class Interior(t.NamedTuple):
    """The content of a network namespace, read in one visit.

    `routes` are those of the main table and, if another one was requested, of that; `rules` are then the policy rules.
    """

    links: list[Link]
    addresses: list[InterfaceAddress]
    routes: list[KernelRoute]
    rules: tuple[RuleEntry, ...] = ()


class LinkChange(t.NamedTuple):
    """A change of a device for `write`. None leaves a value as it is; the MTU is in bytes.

    `local` is for VXLAN alone: packets leave with another address of this host from then on, of the same IP version.
    Over IPv6 those to a forwarding entry that packets have used keep the earlier one, until a change of the entry's
    destination or of a route to it, or the removal of any address of the host.
    """

    name: str
    up: t.Optional[bool] = None
    mtu: t.Optional[int] = None
    mac: t.Optional[str] = None
    alias: t.Optional[str] = None
    local: t.Optional[str] = None


class SetHeader(t.NamedTuple):
    """What the kernel says about an IP set without its members.

    `elements` is the number of members, None if the kernel does not say it. `seed` differs between a set and another
    one of its name that was made later, unless it is empty.
    """

    type: str
    elements: t.Optional[int]
    seed: bytes = b""


class MemberWrite(t.NamedTuple):
    """A member to add to an IP set (`action` add) or to remove (del). Repeating either is no error.

    `kind` is the set's type, `member` a text as `ipset save` prints it.
    """

    action: str
    name: str
    kind: str
    member: str

    @property
    def line(self) -> str:
        """The same as a line of `ipset restore`."""
        return f"{self.action} {self.name} {self.member}"


class NewSet(t.NamedTuple):
    """An IP set to make, of type `kind`, with room for `max_elements` members. Repeating that is no error."""

    name: str
    kind: str
    ipv6: bool
    max_elements: int

    @property
    def line(self) -> str:
        """The same as a line of `ipset restore`."""
        return f"create {self.name} {self.kind} family inet{'6' * self.ipv6} maxelem {self.max_elements}"


class SetRemoval(t.NamedTuple):
    """An IP set to delete. The kernel refuses that if the set does not exist, or if a rule refers to it."""

    name: str

    @property
    def line(self) -> str:
        """The same as a line of `ipset restore`."""
        return f"destroy {self.name}"


SetWrite = t.Union[MemberWrite, NewSet, SetRemoval]


class ChangedChain(t.NamedTuple):
    """A chain of iptables-nft that was written, or with `chain` "" any of its table. `version` is 4 or 6.

    `table` is one of base.iptables_encoding.TABLES. Another program may have chosen any name for the chain.
    """

    version: int
    table: str
    chain: str


class Connection(t.NamedTuple):
    """A connection that the kernel tracks.

    `sent` is its first packet as it arrived, `flow` the same after DNAT, which policy is applied to. `ends` and `name`
    are attributes by which the kernel identifies it. `master` has the `ends` of the connection that brought this one
    about (RELATED, as FTP's data), if any. `reply_to` is the address that replaces the source, and that replies are
    sent to; it is "" if the source is not translated.
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
    """The result of a command, with its exit status as `code`.

    It is 127 if there is no such program, 126 if it cannot be started, 124 if its time ran out, below 0 after a signal.
    """

    code: int
    output: str
    errors: str

    @property
    def first_line(self) -> str:
        """The first line of the command's errors, or of its output if it printed none, without the final full stop.

        Blank lines and warnings are skipped. If there is no other line, it is the exit status in words.
        """
        lines = [line for line in (self.errors or self.output).splitlines() if line.strip() and "Warning" not in line]
        return lines[0].rstrip(".") if lines else f"it ended with status {self.code}"


class Kernel(t.Protocol):
    """The operations on the kernel of one network namespace.

    All methods that read or write, except `netns_exists` and `netns_is`, raise KernelError if the kernel refuses, as it
    does for a write to a missing device, if it does not answer, or if the namespace cannot be entered. `link_add`
    (except for veth) and the writes of neighbours, forwarding entries and rules raise MissingLibrary if
    pyroute2 is missing. For a text that is no address or no MAC, methods raise ValueError, TypeError or OSError. A
    missing device has [] as its objects, `link` returns None for it, and `ipset_mark` returns 0 for a missing set.
    """

    @property
    def netlink_port(self) -> int:
        """The netlink port number in notifications of changes made through this object; 0 without an open socket."""

    # ---- These methods observe, and they mark and delete tracked connections

    def links(self, kind: t.Optional[str] = None) -> list[Link]:
        """Return all devices, or those of one kind (such as `vxlan`)."""

    def link(self, name: str) -> t.Optional[Link]: ...

    def addresses(self, device: t.Optional[str] = None, family: int = 4) -> list[InterfaceAddress]:
        """Return the addresses of one IP version (4 or 6), of all devices or of one."""

    def routes(
        self, table: t.Optional[int] = None, protocol: t.Optional[int] = None, family: int = 4
    ) -> list[KernelRoute]:
        """Return the routes of one IP version (4 or 6) with this table and protocol number; None matches any.

        Routes with a TOS are left out, because this collection writes none. The result is [] for a missing table.
        """

    def route_to(self, address: str) -> t.Optional[RouteAttributes]:
        """Return the route that a packet of this host to `address` takes, or None if it cannot be sent.

        Only type, device and gateway of the result are set.
        """

    def neighbors(self, device: str) -> list[NeighborEntry]:
        """Return the device's neighbour entries that have a MAC, of both IP versions.

        Those of state NOARP, as multicast addresses have, are left out.
        """

    def fdb(self, device: str) -> list[ForwardingEntry]: ...

    def rules(self, family: int = 4) -> list[RuleEntry]:
        """Return the policy routing rules of one IP version (4 or 6); [] if the kernel lacks IPv6."""

    def sysctl_read(self, key: str) -> t.Optional[str]:
        """Return the value of a sysctl, without white space around it, or None if it does not exist.

        `key` is a path below /proc/sys that begins with `net/`. Raise KernelError for one that cannot be encoded, too.
        """

    def sockets_using(self, address: str) -> int:
        """Return the number of open TCP and UDP sockets bound to this local address.

        TCP sockets in the states TIME_WAIT and CLOSE do not count.
        """

    def conntrack_flush(self, addresses: t.Collection[str]) -> int:
        """Delete the tracked connections that these addresses opened or answer, and return how many there were."""

    def connections(self, wanted: t.Optional[ConnectionFilter] = None) -> t.Iterator[Connection]:
        """Yield each connection that the kernel tracks (conntrack) and that has not ended; nothing if it tracks none.

        With `wanted` yield only those that it selects. Connections in a conntrack zone are left out, and so are those
        for which the kernel sends no complete addresses or protocol.
        """

    def connections_delete(self, connections: t.Collection[Connection]) -> int:
        """Delete these connections, and return how many of them still existed.

        The next packet of such a flow is translated as that of a new one.
        """

    def connections_mark(self, connections: t.Collection[Connection], bits: int, marked: bool) -> int:
        """Set (`marked` True) or clear the bits `bits` of these connections' marks; return how many still existed."""

    # ---- marks, cheap enough to be read every second: while a mark stays equal, nothing has changed, except for
    # legacy_mark: rules that were replaced by others of the same size

    def ruleset_mark(self) -> t.Optional[int]:
        """Return the mark of all rules of iptables-nft and nft, or None if the kernel has no nf_tables."""

    def ruleset_changes(self, since: int, until: int) -> t.Optional[frozenset[ChangedChain]]:
        """Return the chains that were written after the ruleset's mark was `since`, up to the mark `until`.

        Return None if that is not known, as in the first call. What was written up to `since` is forgotten.
        """

    def legacy_mark(self) -> t.Hashable:
        """Return the mark of the tables of iptables-legacy, made of their sizes.

        A rule that replaces another one of its size does not change it.
        """

    def programs_mark(self, names: t.Sequence[str]) -> t.Hashable:
        """Return the mark of the programs that `run` starts by these names: the files, behind symbolic links.

        update-alternatives changes it, and so may an update of a package.
        """

    def ipset_mark(self, name: str) -> int: ...

    def ipset_headers(self) -> dict[str, SetHeader]:
        """Return the headers of all IP sets by name, {} if the kernel has none; cheap, however many members they have.

        A member that replaces another one does not change the header.
        """

    def ipset_members(self, name: str) -> t.Optional[frozenset[str]]:
        """Return the members of an IP set, None if it does not exist.

        Members of the types that `ipset_member` knows are texts as `ipset save` prints them, without the prefix length
        of a single address.
        """

    def routes_mark(self, protocol: int) -> int:
        """Return the mark of the routes with this protocol number, of both IP versions."""

    def links_mark(self, names: t.Container[str]) -> int:
        """Return the mark of those devices among `names` that exist; counters of packets are not part of it."""

    # ---- write

    def ipset_write(self, writes: t.Sequence[SetWrite]) -> None:
        """Make and delete IP sets, add members and remove members, in order, in one system call if possible.

        Raise KernelError with the first refusal; it has that write's line, and writes behind it may have been made.
        Raise ValueError, before any write, if a member has no form that this type of set can have, or for a new set of
        another type than hash:ip, hash:net, hash:ip,port and hash:net,iface.
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
        local: t.Optional[str] = None,
    ) -> None: ...

    def link_delete(self, name: str) -> None:
        """Delete a device. One that does not exist is ignored."""

    def links_delete(self, names: t.Sequence[str]) -> None:
        """Delete devices, all in about the time of one; those that do not exist are ignored.

        Each deletion waits until all processors have released the device (RCU): 20 to 30 ms, spent once here.
        """

    def address_add(self, address: InterfaceAddress) -> None: ...

    def address_delete(self, address: InterfaceAddress) -> None: ...

    def write(self, writes: t.Sequence[Write]) -> None:
        """Make all of these writes in order, in one system call if possible. Raise KernelError with the first refusal.

        Writes behind a refused one may have been made nevertheless, and those before it may be missing if it names a
        device that does not exist.
        """

    def route_batch(self, operations: t.Sequence[RouteOperation]) -> list[RouteFailure]:
        """Make all of these route operations in order, many per system call; return those that failed."""

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
        a program that is missing or cannot be started; see `Completed`.
        """

    def netns_list(self) -> list[str]:
        """Return the names below /run/netns, sorted; [] if there are none.

        Empty files that an interrupted `netns_add` (with an owner) or `netns_delete` left are not among them.
        """

    def netns_add(self, name: str, owner: str) -> None:
        """Make a named network namespace and, unless `owner` is "", a marker that it is ours and for whom it was made.

        Raise KernelError if the name exists or is no file name.
        """

    def netns_delete(self, name: str) -> None:
        """Delete a named network namespace and its marker. Do nothing if they do not exist.

        Another file of this name in the folder of namespaces is removed, too. What `inside` returned for this name may
        be closed by it. Raise KernelError if the name is no file name.
        """

    def netns_owners(self) -> dict[str, str]:
        """Return a mapping from name to owner of the namespaces that `netns_add` marked and that are still the same.

        Names that an interrupted `netns_add` or `netns_delete` left are in it, too. Unreadable markers are skipped.
        """

    def netns_exists(self, netns: str) -> bool:
        """Return whether a name below /run/netns or an absolute path leads to a namespace of any kind."""

    def netns_is(self, netns: str, identity: str) -> bool:
        """Return whether a name or path leads to the namespace with this `identity`.

        It is False for the namespace of the caller or the host, and for one that cannot be entered.
        """

    def inside(self, netns: str, identity: str = "") -> Kernel:
        """Return the kernel as seen from a namespace, which is given by its name below /run/netns or an absolute path.

        The namespace is opened once. All later calls on the result use the same one, wherever the path leads by then.
        So does `link_add` on this object, until `leave`, for the other end of a pair. Raise NamespaceRefused if the
        path leads to no network namespace, to that of the caller or the host, or to one whose identity is not
        `identity` ("": any). This object owns and closes the result, which keeps the namespace alive: see `leave`.
        """

    def in_namespace(self, work: t.Callable[[], _T]) -> _T:
        """Return the result of `work`, which opens sockets in this kernel's network namespace and nothing else.

        A socket always belongs to the namespace that it was opened in. Errors of `work` are raised, or a KernelError if
        the namespace cannot be entered.
        """

    @property
    def identity(self) -> str:
        """The text that distinguishes the namespace from others; "" for a kernel that `inside` did not return.

        It begins with COOKIE if the kernel has cookies, and is then unique until the next boot; otherwise it may recur.
        """

    def leave(self, netns: str) -> None:
        """Close and forget the kernel that `inside` returned, if any, so that the namespace can end."""

    def observe_namespace(
        self,
        netns: str,
        families: t.Collection[int] = (4,),
        table: t.Optional[int] = None,
        *,
        identity: str = "",
    ) -> Interior:
        """Return the links of a namespace, and of these IP versions its addresses and the routes of its main table.

        The namespace is opened for this call only, with the errors of `inside`. With `table`, the routes of that table
        and the policy rules are read as well.
        """

    def close(self) -> None: ...
