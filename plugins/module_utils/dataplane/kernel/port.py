# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The `Kernel` port: what the drivers ask a kernel and tell it.

Two things implement it: `linux.LinuxKernel` and, for tests, `tests/fakes/kernel.py`. Addresses are strings, of both IP
versions; devices are named, not numbered; MTUs are bytes. Every method may raise KernelError.
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

#: What the kernel gives a route of IPv6 for which no metric was asked; one of IPv4 has none (0) then.
METRIC_IPV6 = 1024


class KernelError(OSError):
    """The kernel refused. `errno` is its number, `operation` what it was asked, `extack` its own words, if any."""

    def __init__(self, number: int, operation: str, extack: str = "") -> None:
        super().__init__(number, os.strerror(number))
        self.operation = operation
        self.extack = extack

    def __str__(self) -> str:
        return f"{self.operation}: {self.said}"

    @property
    def said(self) -> str:
        """`File exists`, or `Invalid argument (Unknown device type)`."""
        said = os.strerror(self.errno or errno.EIO)
        return f"{said} ({self.extack.rstrip('.')})" if self.extack else said


class NamespaceRefused(KernelError):
    """What a path leads to is no network namespace (EINVAL), the host's own (EPERM) or another one than the one that
    was meant (ESTALE)."""


#: How the identity of a namespace begins that no other one has before the next boot.
COOKIE = "cookie:"


class MissingLibrary(Exception):
    """pyroute2 is needed for writing and is not installed."""


@dataclasses.dataclass(frozen=True)
class Link:
    """A network interface. `kind` is "" for hardware; the fields below it belong to one kind each."""

    name: str
    index: int
    kind: str = ""
    mtu: int = 1500
    mac: str = ""
    up: bool = False  # administratively (IFF_UP)
    running: bool = False  # has carrier as well (IFF_RUNNING)
    alias: str = ""
    peer_index: int = 0  # veth: index of the other end, in its namespace
    peer_elsewhere: bool = False  # veth: the other end is in another network namespace
    vni: t.Optional[int] = None  # vxlan
    port: t.Optional[int] = None  # vxlan
    local: t.Optional[str] = None  # vxlan, ipip
    learning: bool = False  # vxlan
    external: bool = False  # vxlan: collects metadata, its VNI is chosen by route or OVS
    open_settings: tuple[tuple[str, int], ...] = ()  # those of hardening.SETTINGS that are not 0, with their values


@dataclasses.dataclass(frozen=True)
class NewLink:
    """What `link_add` makes: down, without alias. A veth's other end is born in namespace `peer_netns`, if named."""

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
    """One of IPv6 is added without asking whether somebody else has it (DAD, RFC 4862): it is to serve at once.

    One that is not `permanent` has a lifetime: a router's advertisement or DHCP brought it. It cannot be added.
    """

    device: str
    address: str
    prefix_length: int
    scope: int = SCOPE_UNIVERSE
    permanent: bool = True


class RouteAttributes(t.NamedTuple):
    """All of a route but its destination. Many routes share one: that is what makes bulk work cheap.

    `device` and `gateway` are those of the first next hop; `hops` counts them. A route of IPv6 has no scope, and always
    a metric; one that leads nowhere (blackhole) has no device, though the kernel shows lo.
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


#: (destination CIDR, attributes)
KernelRoute = tuple[str, RouteAttributes]


class RouteOperation(t.NamedTuple):
    """`action` is add (fails when the destination and metric exist), replace (in place, or add) or delete."""

    action: str
    destination: str
    attributes: RouteAttributes


class RouteFailure(t.NamedTuple):
    position: int  # of the operation in the batch
    error: KernelError


class NeighborEntry(t.NamedTuple):
    device: str
    address: str
    mac: str
    permanent: bool = True


class ForwardingEntry(t.NamedTuple):
    """An entry of a device's forwarding database; `destination` is that of a vxlan's remote, "" otherwise."""

    device: str
    mac: str
    destination: str
    permanent: bool = True


class RuleEntry(t.NamedTuple):
    """A policy rule. `plain` is False when it has selectors or actions beyond mark, table and priority. `source` is the
    one address whose packets it is for, "" for any."""

    priority: int
    table: int
    fwmark: int = 0
    fwmask: int = 0xFFFFFFFF
    protocol: int = 0
    plain: bool = True
    family: int = 4
    source: str = ""


class Interior(t.NamedTuple):
    """What a network namespace holds, as read in one visit; `routes` are those of the main table, and of another one if
    that was asked for, together with the policy rules."""

    links: list[Link]
    addresses: list[InterfaceAddress]
    routes: list[KernelRoute]
    rules: tuple[RuleEntry, ...] = ()


class LinkChange(t.NamedTuple):
    """What `link_set` changes, as a value for `write`."""

    name: str
    up: t.Optional[bool] = None
    mtu: t.Optional[int] = None
    mac: t.Optional[str] = None
    alias: t.Optional[str] = None


class Connection(t.NamedTuple):
    """A connection that the kernel tracks. `sent` is its first packet as it came, `flow` the same after DNAT,
    which is what policy is asked about. `ends` and `name` are the kernel's words for it; of one that another brought
    about (RELATED, as FTP's data) `master` is that one's `ends`.
    """

    sent: Flow
    flow: Flow
    ends: bytes = b""
    name: bytes = b""
    master: bytes = b""
    mark: int = 0


#: What `Kernel.write` does: a link changed, an address added, a route operation, a rule for a source added. Of the last
#: one it is no error that it is there.
Write = t.Union[LinkChange, InterfaceAddress, RouteOperation, RuleEntry]


class Completed(t.NamedTuple):
    """Result of a command; 127 when there is no such program, 124 when its time was up."""

    code: int
    output: str
    errors: str


class Kernel(t.Protocol):
    @property
    def netlink_port(self) -> int:
        """By which netlink notifications tell what was done here from what others did; 0 while nothing was."""

    # ---- observe

    def links(self, kind: t.Optional[str] = None) -> list[Link]:
        """All, or those of a kind (`vxlan`), filtered by the kernel."""

    def link(self, name: str) -> t.Optional[Link]: ...

    def addresses(self, device: t.Optional[str] = None, family: int = 4) -> list[InterfaceAddress]:
        """Of one IP version; [] for a device that does not exist."""

    def routes(
        self, table: t.Optional[int] = None, protocol: t.Optional[int] = None, family: int = 4
    ) -> list[KernelRoute]:
        """Of one IP version, filtered by the kernel. Routes with a TOS are left out: nothing here writes them."""

    def route_to(self, address: str) -> t.Optional[RouteAttributes]:
        """Type, device and gateway, nothing else, by which a packet of this host leaves; None where it cannot."""

    def neighbors(self, device: str) -> list[NeighborEntry]:
        """Entries with a MAC, of both IP versions, multicast left out; [] for a device that does not exist."""

    def fdb(self, device: str) -> list[ForwardingEntry]: ...

    def rules(self, family: int = 4) -> list[RuleEntry]:
        """Of one IP version."""

    def sysctl_read(self, key: str) -> t.Optional[str]:
        """`key` is a path below /proc/sys; None when it is not there."""

    def sockets_using(self, address: str) -> int:
        """Number of open TCP and UDP sockets bound to this local address."""

    def conntrack_flush(self, addresses: t.Collection[str]) -> int:
        """Deletes the connections tracked from and to addresses and counts them; 0 where nothing is tracked."""

    def connections(self) -> t.Iterator[Connection]:
        """Those that are tracked and have not ended; none where nothing is tracked."""

    def connections_mark(self, connections: t.Collection[Connection], bits: int, marked: bool) -> int:
        """Sets or clears `bits` of their marks. How many there still were."""

    # ---- signs of change, cheap enough to be read every second: a mark that is equal says that nothing changed

    def ruleset_mark(self) -> t.Optional[int]:
        """Of all rules of iptables-nft and nft; None where the kernel has no nf_tables."""

    def legacy_mark(self) -> t.Hashable:
        """Of the tables of iptables-legacy by their sizes: a rule in the place of another of its size does not show."""

    def ipset_mark(self, name: str) -> int: ...

    def routes_mark(self, protocol: int) -> int:
        """Of the routes with this protocol number, of both IP versions."""

    # ---- write

    def ipset_member(self, action: str, name: str, kind: str, member: str) -> None:
        """`action` is add or del, `kind` the set's type, `member` as `ipset save` prints it; that it is there already,
        or is not, is no error. Raises ValueError for one of another form."""

    def ready_to_write(self) -> None:
        """Raises MissingLibrary when tunnel devices, neighbours and rules could not be written from here."""

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
        """One that is not there (any more) is passed over."""

    def links_delete(self, names: t.Sequence[str]) -> None:
        """Deletes many at the price of about one; those that are not there are passed over.

        Each deletion waits for all processors to have let go of the device (RCU): 20 to 30 ms, spent once here.
        """

    def address_add(self, address: InterfaceAddress) -> None: ...

    def address_delete(self, address: InterfaceAddress) -> None: ...

    def write(self, writes: t.Sequence[Write]) -> None:
        """Makes all of them in order, in one system call where it can. Raises the first refusal.

        What stands behind a refused one may have been made nevertheless.
        """

    def route_batch(self, operations: t.Sequence[RouteOperation]) -> list[RouteFailure]:
        """Applies all in order, many per system call. A failing one does not stop the others."""

    def neighbor_replace(self, entry: NeighborEntry) -> None: ...

    def neighbor_delete(self, entry: NeighborEntry) -> None: ...

    def fdb_replace(self, entry: ForwardingEntry) -> None: ...

    def fdb_delete(self, entry: ForwardingEntry) -> None: ...

    def rule_add(self, rule: RuleEntry) -> None: ...

    def rule_delete(self, rule: RuleEntry) -> None: ...

    def sysctl_write(self, key: str, value: str) -> None: ...

    # ---- programs and namespaces

    def run(self, argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> Completed:
        """Runs a program in this kernel's network namespace, without a shell."""

    def netns_list(self) -> list[str]:
        """Names below /run/netns, as `ip netns list`."""

    def netns_add(self, name: str, owner: str) -> None:
        """Makes a named namespace, and unless `owner` is "" the marker that it is ours and for whom it was made."""

    def netns_delete(self, name: str) -> None: ...

    def netns_owners(self) -> dict[str, str]:
        """{name: owner} of the namespaces that netns_add made and that are still the same ones."""

    def netns_exists(self, netns: str) -> bool:
        """Of a name below /run/netns or an absolute path; False also for a file that is no namespace (any more)."""

    def netns_is(self, netns: str, identity: str) -> bool:
        """Whether a name or path leads to the namespace with this `identity`. Costs little where it did before."""

    def inside(self, netns: str, identity: str = "") -> Kernel:
        """The kernel as seen from a namespace, by its name below /run/netns or an absolute path.

        Opened once: whatever else is asked or written through it, and the other end of a pair that `link_add` makes
        before `leave`, is in that namespace, wherever the path leads by then. Raises NamespaceRefused if it is none, if
        it is the caller's or the host's own, or if its identity is not `identity` ("": any).
        Belongs to this one, which closes it. It keeps the namespace alive: see `leave`.
        """

    @property
    def identity(self) -> str:
        """What tells the namespace that `inside` gave from all others since the boot; "" for the host's own.

        Begins with COOKIE where the kernel has cookies. Other ones may be those of a later namespace, too.
        """

    def leave(self, netns: str) -> None:
        """Closes and forgets the kernel that `inside` gave, so that the namespace can end."""

    def look_inside(
        self,
        netns: str,
        families: t.Collection[int] = (4,),
        table: t.Optional[int] = None,
        *,
        identity: str = "",
    ) -> Interior:
        """Reads a namespace in one visit and leaves it again: addresses and routes of these IP versions. With `table`,
        the routes of that table and the policy rules as well. Raises NamespaceRefused as `inside`."""

    def close(self) -> None: ...
