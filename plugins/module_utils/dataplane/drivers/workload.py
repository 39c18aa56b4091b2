# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of workload endpoints: network namespaces joined to the host by veth pairs, as Calico's CNI plugin does.

The host end has the MAC ee:ee:ee:ee:ee:ee and no address. The workload has its address as /32 and reaches everything by
169.254.1.1, for which the host answers by proxy ARP. An IPv6 address is a /128, and its gateway is the link-local
address that belongs to the host end's MAC. The pair is made in one request, which creates the inner end in the
namespace.

The host end accepts nothing that the workload advertises (hardening.py). Order: `apply` leaves a new host end down,
then the sysctl driver sets the host end's sysctls, then `activate` sets it up, then the route driver writes its route.
So a workload is never reachable before its interface is ready.

Marks: the host end's alias `calico: workload <namespace>/<name>`, the inner end's `calico: address <addresses>`, and
the marker of a namespace that was made here: no other namespace is deleted.

A namespace with two such interfaces reaches everything by its eth0. Answers from the address of the other interface
leave by that one, for which it has a rule and a table of its own, because the host drops packets whose source address
is not that of the interface that they arrive on.

The probe endpoint is such a workload, too, with an address of each pool. Its namespace has a fixed name, so it is used
only if it was made here.

A container engine moves the inner end of a workload that is handed over (`handed_over`), and configures it. Only its
host end, and the MTU of its inner end where that is found, are compared and repaired. Nothing is made anew: the
workload ends with its pair.

A namespace that is not owned (`netns_owned`; CNI's are not) is never made. When it ends, its workload ends: none of the
workload's objects is desired any more, and nothing is repaired. The same holds if its path leads to another namespace
than the one that it was attached to (`netns_identity`). See `ended`, also for an identity that is unknown.

Root inside a namespace can break what is there, or keep it from being repaired. The text of such a failure or conflict
begins with INSIDE, so that callers can tell it from one of the host (`is_inside`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import re
import typing as t

from ...base.addresses import GATEWAY, GATEWAY6, family_of
from ...state.node_state import (
    HOST_MAC,
    PROBE_IDENTITY,
    PROBE_INTERFACE,
    ROUTE_PROTOCOL,
    TABLE_MAIN,
    VethEndpoint,
)
from .. import hardening
from ..change import Change, apply_each
from ..driver import DriverStep, Scope
from ..kernel.port import (
    COOKIE,
    METRIC_IPV6,
    PROTOCOL_BOOT,
    SCOPE_LINK,
    InterfaceAddress,
    Kernel,
    KernelError,
    KernelRoute,
    Link,
    NamespaceRefused,
    NewLink,
    RouteAttributes,
    RouteOperation,
    RuleEntry,
    Write,
    passing_over,
)

MARK = "calico: workload "
_ADDRESS_MARK = "calico: address "
#: The mark of an inner end with more addresses than its alias can list, in bytes: all of them are ours.
_EVERY_ADDRESS_MARK = "calico: every address"
_LONGEST_ALIAS = 255

#: The beginning of each text about what only the inside of a workload's namespace is to blame for.
INSIDE = "Inside network namespace "
#: Note of a workload that ended with its namespace.
GONE = "its network namespace is gone"
#: Note of a workload whose name or path leads to another namespace.
ELSEWHERE = "{} does not lead to the network namespace that it was attached to"
#: Note of a workload that was handed over and whose pair is gone, as it is when its container has ended.
ENDED = "its pair is gone, and only its container engine can make another one"
_GATEWAY_ROUTE = f"{GATEWAY}/32"
_DEFAULT_ROUTE = "0.0.0.0/0"
_DEFAULT_ROUTE6 = "::/0"
#: The setting of a device by which packets from and to 127.0.0.0/8 may pass.
_LOCALNET = "ipv4/route_localnet"
_BOTH = (4, 6)
#: The settings for IPv6 inside: enabled, without duplicate address detection on a link with only two ends, and without
#: router advertisements, which the host does not send there.
_INSIDE6 = {"accept_dad": "0", "accept_ra": "0", "disable_ipv6": "0"}
_SECOND_METRIC = 100  # plus the interface's number is the metric of routes by an interface other than eth0 (net1: 101)
_SECOND_TABLE = 179_000_000  # plus such an interface's metric is the table of routes for packets from its addresses
_SECOND_PRIORITY = 1790  # priority of the rules for packets from such an interface's addresses
#: The table of routes to all workloads by interfaces that were handed over, and the priority of the rule for it. Docker
#: refuses an address that a route of the main table contains.
_WORKLOADS_TABLE, _WORKLOADS_PRIORITY = _SECOND_TABLE, _SECOND_PRIORITY + 1


class InsideRefused(KernelError):
    """A refusal for which only the inside of a workload's network namespace is to blame."""


class Observed(t.NamedTuple):
    """The present state of one workload.

    `peer` is the device inside that has the wanted name; `joined` says whether it is the host end's other end, which is
    assumed if `inside` is False.
    """

    link: t.Optional[Link] = None
    netns: bool = False
    peer: t.Optional[Link] = None
    joined: bool = False
    lo_up: bool = False
    addresses: tuple[InterfaceAddress, ...] = ()
    routes: t.Mapping[str, RouteAttributes] = {}  # by destination: routes inside in the place of wanted ones
    owned: t.Optional[str] = None  # name of the namespace that was made for the workload, if no desired one uses it
    inside: bool = True  # False: the namespace exists and was not read; only the host's objects are compared
    unmounted: bool = False  # whether the namespace's name leads to something that is no namespace
    ended: str = ""  # why the workload has ended, "" if it has not
    refused: str = ""  # why the namespace of this name cannot be a workload's, "" if it can
    foreign: bool = False  # whether others made the namespace, which may not be so: only for the probe endpoint
    by_source: bool = True  # whether packets from the workload's addresses leave by its interface
    # The addresses and routes that advertisements left on the host end; None: none, or they were not searched for.
    advertised: t.Optional[hardening.Advertised] = None


def identity(endpoint: VethEndpoint) -> str:
    return f"{endpoint.namespace}/{endpoint.name}"


def _subject(owner: str) -> str:
    """Return the name in a plan of the workload with this identity; for the probe endpoint it is its device."""
    return PROBE_INTERFACE if owner == PROBE_IDENTITY else owner


def netns_name(endpoint: VethEndpoint) -> str:
    return endpoint.netns or endpoint.name


def ended(kernel: Kernel, endpoint: VethEndpoint) -> str:
    """Return why a workload ended with the namespace that it was attached to, "" if it has not ended.

    If its namespace was made for it (`netns_owned`), it has ended only if it has an identity, and the name leads to
    another namespace without our marker for it. One that was handed over has ended without its host end. Any other
    workload ends with its namespace. Without an identity (the record is of an earlier release) it has ended unless its
    pair is joined. An identity without a cookie may be that of a later namespace, so the marked host end must exist,
    which disappears with the namespace.
    """
    name, identity_ = netns_name(endpoint), endpoint.netns_identity
    if endpoint.handed_over:
        link = kernel.link(endpoint.interface)
        return "" if link is not None and ours(link, endpoint) else ENDED
    if endpoint.netns_owned:
        if not identity_ or kernel.netns_is(name, identity_) or not kernel.netns_exists(name):
            return ""
        # A marker identifies our namespace, which is recreated when it is gone.
        return "" if kernel.netns_owners().get(name) == identity(endpoint) else ELSEWHERE.format(name)
    if identity_ and not kernel.netns_is(name, identity_) or not kernel.netns_exists(name):
        return ELSEWHERE.format(name) if kernel.netns_exists(name) else GONE
    if identity_.startswith(COOKIE):
        return ""
    link = kernel.link(endpoint.interface)
    is_attached = _marked(link, endpoint) if identity_ else _inside(kernel, endpoint, link).joined
    return "" if is_attached else ELSEWHERE.format(name)


def adopted(kernel: Kernel, endpoint: VethEndpoint) -> str:
    """Return the identity of the namespace in which a workload of an earlier release's record exists, "" for none.

    That namespace has the other end of the workload's host end, with its name and one of its addresses.
    """
    name = netns_name(endpoint)
    try:
        found = kernel.inside(name).identity
        there = dataclasses.replace(endpoint, netns_identity=found)
        seen = _inside(kernel, there, kernel.link(endpoint.interface))
    except NamespaceRefused:
        return ""
    except KernelError as error:
        if error.errno == errno.ENOENT:
            return ""
        raise
    finally:
        kernel.leave(name)
    has = {address.address for address in seen.addresses}
    return found if seen.joined and not has.isdisjoint(endpoint.addresses) else ""


def gone(kernel: Kernel, desired: t.Iterable[VethEndpoint]) -> dict[str, str]:
    """Return {interface: reason} of the workloads that ended with their namespaces, as `ended` says."""
    found = {endpoint.interface: ended(kernel, endpoint) for endpoint in desired}
    return {interface: why for interface, why in found.items() if why}


def without_trace(kernel: Kernel, endpoints: t.Iterable[VethEndpoint]) -> set[str]:
    """Return the host ends of the workloads that ended with their namespaces and have no host end any more."""
    return {
        endpoint.interface
        for endpoint in endpoints
        if kernel.link(endpoint.interface) is None and ended(kernel, endpoint)
    }


def observe(
    kernel: Kernel, desired: t.Sequence[VethEndpoint], interiors: t.Union[bool, t.Collection[str]] = True
) -> dict[str, Observed]:
    """Return a mapping from host interface to state; a workload no longer desired has the key `<namespace>/<name>`.

    `interiors` says which namespaces are read, which takes most of the time: True for all, False for none, or those of
    these interfaces. A namespace is also read if the host end is missing or not marked as this workload's, unless the
    workload has ended. Traces of advertisements on a desired host end are searched for if `interiors` is True, or if it
    has open settings (hardening.py).
    """
    links = {link.name: link for link in kernel.links()}
    namespaces = set(kernel.netns_list())
    owners = kernel.netns_owners()
    over = gone(kernel, desired)
    observed: dict[str, Observed] = {}
    for endpoint in desired:
        link = _host_end(links.get(endpoint.interface), endpoint)
        name = netns_name(endpoint)
        if endpoint.interface in over or (endpoint.netns_owned and name not in namespaces):
            observed[endpoint.interface] = Observed(link, ended=over.get(endpoint.interface, ""))
        elif endpoint.handed_over:
            within = interiors is True or (interiors and endpoint.interface in interiors)
            observed[endpoint.interface] = _handed_over(kernel, endpoint, link, bool(within))
        elif interiors is True or (interiors and endpoint.interface in interiors) or not _marked(link, endpoint):
            observed[endpoint.interface] = _inside(kernel, endpoint, link)
        else:
            observed[endpoint.interface] = Observed(link, True, joined=True, inside=False)
    wanted = {endpoint.interface for endpoint in desired}
    _add_advertised(kernel, {key: have for key, have in observed.items() if interiors is True or _open(have)}, observed)
    used = {netns_name(endpoint) for endpoint in desired if not endpoint.handed_over}
    made = {owner: name for name, owner in owners.items() if name not in used}
    for link in links.values():
        if link.name not in wanted and link.alias.startswith(MARK):
            owner = link.alias[len(MARK) :]
            observed[owner] = Observed(link, owned=made.pop(owner, None))
    for owner, name in made.items():
        observed[owner] = Observed(owned=name)
    return observed


def observe_each(kernel: Kernel, desired: t.Iterable[VethEndpoint]) -> dict[str, Observed]:
    """Return a mapping from host interface to state, for a few workloads of many, which are read one by one.

    Workloads that are no longer desired are not searched for, and traces of advertisements only on host ends with open
    settings (hardening.py). Namespaces are read unless the workload ended with its own.
    """
    observed: dict[str, Observed] = {}
    for endpoint in desired:
        over = ended(kernel, endpoint)
        observed[endpoint.interface] = (
            Observed(kernel.link(endpoint.interface), ended=over) if over else observe_one(kernel, endpoint)
        )
    _add_advertised(kernel, {key: have for key, have in observed.items() if _open(have)}, observed)
    return observed


def observe_one(kernel: Kernel, endpoint: VethEndpoint) -> Observed:
    """Return the state of a workload that is being attached. A missing namespace is not read.

    Unlike with `observe_each`, a workload without an identity has not ended just for that. One whose namespace is not
    ours has ended if its path leads to the host's own namespace, to another kind of it, or to one of another identity.
    """
    link, name = _host_end(kernel.link(endpoint.interface), endpoint), netns_name(endpoint)
    if endpoint.handed_over:
        return _handed_over(kernel, endpoint, link, True)
    there = kernel.netns_exists(name) or (endpoint.netns_owned and name in kernel.netns_list())
    return _inside(kernel, endpoint, link) if there else Observed(link)


def closed_settings(endpoint: VethEndpoint) -> tuple[str, ...]:
    """Return those of hardening.SETTINGS that are 0 on a workload's host end.

    With a published port of IPv4, packets from the host's 127.0.0.1 leave by it. The table raw drops what the workload
    sends to 127.0.0.0/8.
    """
    return tuple(one for one in hardening.SETTINGS if one != _LOCALNET) if endpoint.publishes(4) else hardening.SETTINGS


def set_route_localnet(kernel: Kernel, endpoint: VethEndpoint) -> None:
    """Let a host end, if it exists, route 127.0.0.0/8 exactly if its workload publishes a port of IPv4."""
    with passing_over(errno.ENOENT):
        kernel.sysctl_write(hardening.key(_LOCALNET, endpoint.interface), "1" if endpoint.publishes(4) else "0")


def _host_end(link: t.Optional[Link], endpoint: VethEndpoint) -> t.Optional[Link]:
    """Return the link of a host end without the open settings that the workload needs."""
    if link is None or not link.open_settings or not endpoint.publishes(4):
        return link
    found = tuple((name, value) for name, value in link.open_settings if name != _LOCALNET)
    return dataclasses.replace(link, open_settings=found)


def _open(have: Observed) -> bool:
    return have.link is not None and bool(have.link.open_settings)


def _add_advertised(kernel: Kernel, suspects: t.Mapping[str, Observed], observed: dict[str, Observed]) -> None:
    """Add to `observed` what advertisements left on the host ends of `suspects`."""
    present = {have.link.name for have in suspects.values() if have.link is not None}
    for interface, left in hardening.advertised(kernel, present).items():
        observed[interface] = observed[interface]._replace(advertised=left)


def unlike(kernel: Kernel, endpoints: t.Sequence[VethEndpoint]) -> list[str]:
    """Return the interfaces of those workloads that differ from what is desired, on the host or inside.

    Missing ones and those with a conflict are among them, those that ended with their namespaces are not. The host's
    routes are not compared, and of its sysctls only those of hardening.py.
    """
    changes = diff(endpoints, observe_each(kernel, endpoints))
    return [change.new.interface for change in changes if change.action != "="]


def ours(link: Link, endpoint: VethEndpoint) -> bool:
    """Return whether a device is this workload's host end: marked as such, or not yet marked.

    A run that was stopped between making and marking it leaves it with our MAC and without an alias.
    """
    return link.alias == MARK + identity(endpoint) or (
        (link.kind, link.mac, link.alias, link.name) == ("veth", HOST_MAC, "", endpoint.interface)
    )


def _marked(link: t.Optional[Link], endpoint: VethEndpoint) -> bool:
    return link is not None and link.peer_elsewhere and link.alias == MARK + identity(endpoint)


def _inside(kernel: Kernel, endpoint: VethEndpoint, link: t.Optional[Link]) -> Observed:
    name, expected = netns_name(endpoint), expected_identity(endpoint)
    if identity(endpoint) == PROBE_IDENTITY and kernel.netns_owners().get(name) != PROBE_IDENTITY:
        return Observed(link, True, foreign=True)
    try:
        table = _second_table(endpoint)
        more = () if table is None else (table,)
        interior = kernel.observe_namespace(name, _BOTH if endpoint.address6 else (4,), *more, identity=expected)
        if not endpoint.address6 and any(_has6(inner) for inner in interior.links):
            interior = kernel.observe_namespace(name, _BOTH, *more, identity=expected)
    except NamespaceRefused as error:
        if not endpoint.netns_owned:
            return Observed(link, ended=ELSEWHERE.format(name))
        return (
            Observed(link, True, unmounted=True)
            if error.errno == errno.EINVAL
            else Observed(link, True, refused=error.extack)
        )
    except KernelError as error:
        if error.errno == errno.ENOENT and not endpoint.netns_owned:  # The namespace has just ended.
            return Observed(link)
        raise
    links = {inner.name: inner for inner in interior.links}
    peer = links.get(endpoint.peer_interface)
    joined = link is not None and peer is not None and _ends(link, peer)
    # If the pair is recreated, the routes through its old inner end disappear, whatever that end is named.
    to_remove = set() if joined else {inner.name for inner in interior.links if link is not None and _ends(link, inner)}
    wanted = wanted_routes(endpoint)
    routes = {
        destination: attributes
        for destination, attributes in interior.routes
        if destination in wanted
        and attributes.table == TABLE_MAIN
        and attributes.metric == wanted[destination].metric
        and attributes.device not in to_remove
    }
    addresses = tuple(address for address in interior.addresses if peer is not None and address.device == peer.name)
    lo = links.get("lo")
    by_source = not missing_by_source(endpoint, interior.rules, interior.routes)
    # What runs inside may have renamed lo. Then there is none to set up.
    return Observed(link, True, peer, joined, lo is None or lo.up, addresses, routes, by_source=by_source)


def _handed_over(kernel: Kernel, endpoint: VethEndpoint, link: t.Optional[Link], within: bool) -> Observed:
    """Return the state of a workload that is handed over, with its inner end if it is to be looked for (`within`).

    It is not joined if its host end is not ours.
    """
    if link is None or not ours(link, endpoint):
        return Observed(link, True, inside=False)
    peer = handed_over_end(kernel, endpoint, link) if within else None
    return Observed(link, True, peer, True, inside=False)


def handed_over_end(kernel: Kernel, endpoint: VethEndpoint, link: Link) -> t.Optional[Link]:
    """Return the other end of host end `link` of a handed-over workload, wherever it is; None if it is not found."""
    if not link.peer_elsewhere:
        return next((one for one in kernel.links("veth") if one.index == link.peer_index), None)
    if not endpoint.netns:
        return None
    try:
        links = kernel.observe_namespace(endpoint.netns).links
    except KernelError:  # The container has ended, or its engine has not made the namespace yet.
        return None
    return next((one for one in links if _ends(link, one)), None)


def expected_identity(endpoint: VethEndpoint) -> str:
    """Return the identity that a workload's namespace must have, "" for any: ours may have been recreated."""
    return "" if endpoint.netns_owned else endpoint.netns_identity


def _has6(link: Link) -> bool:
    """Return whether the alias of an inner end records an IPv6 address of ours, or may do so."""
    return link.alias == _EVERY_ADDRESS_MARK or any(family_of(address) == 6 for address in _recorded(link, ()))


def _ends(link: Link, peer: Link) -> bool:
    """Return whether these are the two ends of one pair, in two namespaces."""
    elsewhere = peer.kind == "veth" and peer.peer_elsewhere and link.peer_elsewhere
    return elsewhere and (peer.peer_index, link.peer_index) == (link.index, peer.index)


def wanted_routes(endpoint: VethEndpoint) -> dict[str, RouteAttributes]:
    """Return a mapping from destination to attributes of the routes that a workload needs inside, in the main table."""
    through = RouteAttributes(
        device=endpoint.peer_interface,
        mtu=endpoint.route_mtu,
        protocol=PROTOCOL_BOOT,
        metric=route_metric(endpoint),
    )
    wanted = {}
    if endpoint.address:
        wanted[_GATEWAY_ROUTE] = through._replace(scope=SCOPE_LINK)
        wanted[_DEFAULT_ROUTE] = through._replace(gateway=GATEWAY)
    if endpoint.address6:
        wanted[_DEFAULT_ROUTE6] = through._replace(gateway=GATEWAY6, metric=METRIC_IPV6 + through.metric)
    return wanted


def route_metric(endpoint: VethEndpoint) -> int:
    """Return the metric of the routes inside by this interface: 0 for eth0, and 100 plus its number for others.

    For a workload that was handed over it is 100 for eth0, too: the routes of metric 0 are its container engine's. The
    number is that at the end of the name, at most its last six digits, or 0. A namespace of others may be attached
    twice, by eth0 and by net1: eth0 is used while it exists. `diff` reports two names with the same metric. IPv6 routes
    have METRIC_IPV6 more. In a namespace that we made the result is always 0.
    """
    if endpoint.netns_owned or (endpoint.peer_interface == "eth0" and not endpoint.handed_over):
        return 0
    return _second_metric(endpoint.peer_interface)


def _second_metric(device: str) -> int:
    number = re.search(r"\d{1,6}$", device)
    return _SECOND_METRIC + (int(number[0]) if number else 0)


def _is_of_sibling(endpoint: VethEndpoint, destination: str, found: RouteAttributes) -> bool:
    """Return whether `found`, in the place of the endpoint's route to `destination`, is another workload's.

    Both workloads share the namespace, and their interfaces' names give the same metric.
    """
    metric = route_metric(endpoint)
    ours = destination == _GATEWAY_ROUTE or found.gateway in (GATEWAY, GATEWAY6)
    return bool(metric and found.device and ours and _second_metric(found.device) == metric)


def _second_table(endpoint: VethEndpoint) -> t.Optional[int]:
    metric = route_metric(endpoint)
    return _SECOND_TABLE + metric if metric else None


def missing_by_source(
    endpoint: VethEndpoint, rules: t.Collection[RuleEntry] = (), routes: t.Collection[KernelRoute] = ()
) -> list[Write]:
    """Return the missing writes that let packets from the addresses of an interface other than eth0 leave by it.

    The result is [] for eth0 unless it was handed over, and in a namespace that we made. `rules` and `routes` are those
    that exist inside.
    """
    table = _second_table(endpoint)
    if table is None:
        return []
    there = {(rule.source, rule.priority, rule.table) for rule in rules}
    present = dict(entry for entry in routes if entry[1].table == table)
    missing: list[Write] = []
    for destination, main in wanted_routes(endpoint).items():
        if main.gateway is None:
            continue
        want = main._replace(table=table, onlink=True)
        have = present.get(destination)
        if have is None or not _alike(have, want):
            missing.append(RouteOperation("add" if have is None else "replace", destination, want))
    for address in endpoint.addresses:
        if (address, _SECOND_PRIORITY, table) not in there:
            family = family_of(address)
            missing.append(
                RuleEntry(_SECOND_PRIORITY, table, protocol=ROUTE_PROTOCOL, plain=False, family=family, source=address)
            )
    return missing


def _alike(have: RouteAttributes, want: RouteAttributes) -> bool:
    """Return whether a route is as wanted, whatever its protocol number and source address; `want` has no source."""
    return have._replace(protocol=want.protocol, source=None) == want


def _text(endpoint: VethEndpoint) -> str:
    is_probe = identity(endpoint) == PROBE_IDENTITY
    words = [
        f"{endpoint.peer_interface} {' '.join(endpoint.addresses)}",
        "probe endpoint" if is_probe else f"host end {endpoint.interface}",
        f"mtu {endpoint.mtu}",
    ]
    if endpoint.route_mtu:
        words.append(f"route mtu {endpoint.route_mtu}")
    return "  ".join(words)


def diff(desired: t.Iterable[VethEndpoint], observed: t.Mapping[str, Observed]) -> list[Change]:
    changes: list[Change] = []
    keys = set()
    for endpoint in desired:
        keys.add(endpoint.interface)
        have = observed.get(endpoint.interface, Observed())
        subject, after = _subject(identity(endpoint)), _text(endpoint)
        if have.ended or (not have.netns and not endpoint.netns_owned):
            changes.append(Change("workload", "=", subject, None, after, have.ended or GONE, have, endpoint))
            continue
        if endpoint.handed_over and have.link is None:
            changes.append(Change("workload", "=", subject, None, after, ENDED, have, endpoint))
            continue
        problem = _in_the_way(endpoint, have)
        if problem:
            changes.append(Change("workload", "!", subject, None, after, problem, have, endpoint))
        elif have.link is None:
            changes.append(Change("workload", "+", subject, None, after, "", have, endpoint))
        elif must_recreate(endpoint, have):
            note = f"made anew: its pair does not end in network namespace {netns_name(endpoint)}"
            changes.append(Change("workload", "~", subject, _apart(have), after, note, have, endpoint))
        else:
            differing = _differing(endpoint, have)
            if differing:
                before = "  ".join(before for before, _after in differing)
                after = "  ".join(after for _before, after in differing)
                changes.append(Change("workload", "~", subject, before, after, "", have, endpoint))
    for owner, have in observed.items():
        if owner not in keys and (have.owned or (have.link is not None and have.link.alias == MARK + owner)):
            before = f"host end {have.link.name}" if have.link else f"network namespace {have.owned}"
            note = f"with its network namespace {have.owned}" if have.owned and have.link else ""
            changes.append(Change("workload", "-", _subject(owner), before, None, note, have))
    return changes


def _apart(have: Observed) -> str:
    return f"host end {have.link.name if have.link else ''}  not joined"


def must_recreate(endpoint: VethEndpoint, have: Observed) -> bool:
    """Return whether the pair must be recreated: its host end exists, but is not joined to the end inside."""
    return have.link is not None and not have.joined


def recreated(changes: t.Iterable[Change]) -> set[str]:
    """Return the host ends that these changes delete and create again: their sysctls and routes are gone afterwards."""
    return {
        change.new.interface
        for change in changes
        if change.kind == "workload" and change.action == "~" and must_recreate(change.new, change.old)
    }


def _in_the_way(endpoint: VethEndpoint, have: Observed) -> str:
    link, name = have.link, netns_name(endpoint)
    if have.unmounted:
        return (
            f"What has the name of network namespace {name} is not a namespace (any more). It was not touched."
            f" Delete it (ip netns del {name}), then run again to have it made anew."
        )
    if have.foreign:
        return (
            f"A network namespace {name} exists on this host that this collection did not make, which needs this name"
            f" for its probe endpoint. It was not touched. Give it another name or delete it (ip netns del {name}),"
            " then run again."
        )
    if have.refused:
        return (
            f"Network namespace {name} cannot be a workload's: {have.refused}. It was not touched."
            " Give the workload another namespace, then run again."
        )
    if link is not None and not have.joined and (endpoint.handed_over or not link.alias.startswith(MARK)):
        # A run that was stopped between making a pair and marking it leaves a joined pair. This device is in no joined
        # pair and has no mark, so it is not ours.
        return (
            f"A device {link.name} exists on this host that this collection did not make. It was not touched."
            f" Rename or delete it (ip link del {link.name}), then run again."
        )
    if have.peer is not None and not have.joined and not (link is not None and have.peer.alias.startswith("calico:")):
        return (
            f"{INSIDE}{name} there is a device {endpoint.peer_interface} already, which is not this workload's."
            " It was not touched. Give the workload another endpoint name or another namespace, then run again."
        )
    for destination, want in wanted_routes(endpoint).items():
        found = have.routes.get(destination)
        if found is not None and found.device != want.device:
            if _is_of_sibling(endpoint, destination, found):
                return (
                    f"{INSIDE}{name} the interfaces {found.device} and {endpoint.peer_interface} would have routes of"
                    f" the same metric, {route_metric(endpoint)}: it is {_SECOND_METRIC} plus the number at the end of"
                    " the name, 0 without one. Nothing was changed. Give the interface another name, with a number that"
                    " no other interface of this namespace has (such as net2), then try again."
                )
            ip, shown = _shown(destination)
            return (
                f"{INSIDE}{name} there is a route {shown} through {found.device or found.type} already."
                f" It was not touched. Delete it (ip netns exec {name} {ip} route del {shown}), then run again."
            )
    return ""


def is_inside(text: str) -> bool:
    """Return whether `text`, a note or reason, blames only a namespace's inside: nothing else depends on that."""
    return text.startswith(INSIDE)


def _shown(destination: str) -> tuple[str, str]:
    """Return (program, destination) for messages about a route; the destination of a default route is `default`."""
    if destination == _DEFAULT_ROUTE6:
        return "ip -6", "default"
    return "ip", "default" if destination == _DEFAULT_ROUTE else destination


def _differing(endpoint: VethEndpoint, have: Observed) -> list[tuple[str, str]]:
    """Return (before, after) for each setting that differs, for a pair that is joined."""
    link, peer = have.link, have.peer
    if link is None or (peer is None and have.inside):
        raise AssertionError("only the two ends of a pair that is joined are compared")
    alias = MARK + identity(endpoint)
    found = []
    if link.mac != HOST_MAC:
        found.append((f"mac {link.mac}", f"mac {HOST_MAC}"))
    if link.mtu != endpoint.mtu:
        found.append((f"mtu {link.mtu}", f"mtu {endpoint.mtu}"))
    if peer is not None and peer.mtu != endpoint.mtu:
        found.append((f"{peer.name} mtu {peer.mtu}", f"{peer.name} mtu {endpoint.mtu}"))
    if link.alias != alias:
        found.append((f"alias {link.alias!r}", f"alias {alias!r}"))
    if not link.up:
        found.append(("host end down", "host end up"))
    found += hardening.differing(link, have.advertised)
    if peer is not None and not endpoint.handed_over:
        found += _differing_inside(endpoint, have, peer)
    return found


def _differing_inside(endpoint: VethEndpoint, have: Observed, peer: Link) -> list[tuple[str, str]]:
    found = []
    if not have.lo_up:
        found.append(("lo down", "lo up"))
    if not peer.up:
        found.append((f"{peer.name} down", f"{peer.name} up"))
    if endpoint.mac is not None and peer.mac != endpoint.mac:
        found.append((f"{peer.name} mac {peer.mac}", f"{peer.name} mac {endpoint.mac}"))
    addresses = {address.address for address in have.addresses}
    recorded, wanted = _recorded(peer, have.addresses), endpoint.addresses
    gone = [address for address in recorded if address in addresses and address not in wanted]
    missing = [address for address in wanted if address not in addresses]
    if missing or gone:
        found.append((f"address {' '.join(gone) or 'none'}", f"address {' '.join(missing) or 'none'}"))
    elif peer.alias != address_mark(endpoint):
        found.append((f"{peer.name} unmarked", f"{peer.name} marked"))
    for destination, want in wanted_routes(endpoint).items():
        have_route = have.routes.get(destination)
        shown = GATEWAY if destination == _GATEWAY_ROUTE else " ".join((*_shown(destination)[0].split()[1:], "default"))
        if have_route is None:
            found.append((f"no route {shown}", f"route {shown}"))
        elif not _alike(have_route, want):
            found.append((f"{shown} {_words(have_route)}", f"{shown} {_words(want)}"))
    if not have.by_source:
        found.append((f"no rule by source for {peer.name}", f"rule by source for {peer.name}"))
    return found


def _words(attributes: RouteAttributes) -> str:
    via = f"via {attributes.gateway}" if attributes.gateway else f"dev {attributes.device}"
    return f"{via} mtu {attributes.mtu}" if attributes.mtu else via


def address_mark(endpoint: VethEndpoint) -> str:
    """Return the alias of the inner end, which records the addresses on it that are ours."""
    return _mark_of(endpoint.addresses)


def _mark_of(addresses: t.Iterable[str]) -> str:
    listed = _ADDRESS_MARK + " ".join(addresses)
    return listed if len(listed) <= _LONGEST_ALIAS else _EVERY_ADDRESS_MARK


def _recorded(peer: Link, addresses: t.Iterable[InterfaceAddress]) -> list[str]:
    """Return the addresses that the alias of an inner end records as ours; `addresses` are all that it has."""
    if peer.alias == _EVERY_ADDRESS_MARK:
        return list(dict.fromkeys(one.address for one in addresses if one.scope != SCOPE_LINK))
    return peer.alias[len(_ADDRESS_MARK) :].split() if peer.alias.startswith(_ADDRESS_MARK) else []


def apply(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    """Make, repair and remove workloads; a new host end stays down until `activate`. Raise ApplyError with failures."""
    apply_each(changes, lambda change: _write(kernel, change), _reason)


def _write(kernel: Kernel, change: Change) -> None:
    if change.action == "-":
        _remove(kernel, change.old)
    elif change.action in ("+", "~"):
        with _pair_may_go(kernel, change.new):
            _bring(kernel, change.new, change.old)


@contextlib.contextmanager
def _pair_may_go(kernel: Kernel, endpoint: VethEndpoint) -> t.Iterator[None]:
    """Turn a refusal that is raised inside into InsideRefused if root in the workload's namespace may have caused it.

    Who deletes the inner end deletes the host end, too, and who takes the inner end's name, as an alternative name of
    another device, prevents both. In either case the host end is missing.
    """
    try:
        yield
    except (InsideRefused, NamespaceRefused):
        raise
    except KernelError as error:
        if error.errno in (errno.EEXIST, errno.ENODEV, errno.ENOENT) and kernel.link(endpoint.interface) is None:
            raise _inside_refused(error) from error
        raise


def _inside_refused(error: KernelError) -> InsideRefused:
    return InsideRefused(error.errno or errno.EIO, error.operation, error.extack)


def activate(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    """Set the host ends of the changes `+` and `~` up; ignore the others. Raise ApplyError with those that failed.

    A host end that is missing or is not marked as the workload's is skipped.
    """
    made = [change for change in changes if change.kind == "workload" and change.action in ("+", "~")]
    apply_each(made, lambda change: _set_up(kernel, change.new), _reason)


def _set_up(kernel: Kernel, endpoint: VethEndpoint) -> None:
    link = kernel.link(endpoint.interface)
    if link is not None and link.alias == MARK + identity(endpoint) and not link.up:
        with _pair_may_go(kernel, endpoint):
            kernel.link_set(link.name, up=True)


def _bring(kernel: Kernel, endpoint: VethEndpoint, have: Observed) -> None:
    if endpoint.handed_over:
        _bring_handed_over(kernel, endpoint, have)
        return
    name = netns_name(endpoint)
    if must_recreate(endpoint, have):
        # The interface may have disappeared by itself, as a pair does some time after its namespace was unmounted.
        # Deleting it is then no error.
        kernel.link_delete(endpoint.interface)
        have = Observed(netns=have.netns)
    if not have.netns:
        kernel.netns_add(name, identity(endpoint))
    inner = kernel.inside(name, expected_identity(endpoint))
    try:
        if have.link is None:
            kernel.link_add(new_pair(endpoint, name))
        link = kernel.link(endpoint.interface)
        if link is not None:
            _bring_host_end(kernel, endpoint, have, link)
        try:
            _bring_inside(inner, endpoint)
        except KernelError as error:
            raise _inside_refused(error) from error
    finally:
        kernel.leave(name)  # An open socket would keep the namespace alive after its owner has deleted it.
    if link is not None and link.mtu < endpoint.mtu:
        kernel.link_set(link.name, mtu=endpoint.mtu)


def new_pair(endpoint: VethEndpoint, netns: str = "") -> NewLink:
    """Return a workload's pair as it is made, with its inner end in the namespace `netns`, "" for the host's."""
    return NewLink(
        endpoint.interface,
        "veth",
        mtu=endpoint.mtu,
        mac=HOST_MAC,
        peer_name=endpoint.peer_interface,
        peer_netns=netns,
        peer_mac=endpoint.mac,
    )


def _bring_host_end(kernel: Kernel, endpoint: VethEndpoint, have: Observed, link: Link) -> None:
    alias = MARK + identity(endpoint)
    mac = HOST_MAC if link.mac != HOST_MAC else None
    # A veth silently drops packets that are too large for its other end. So the host's end has the smaller MTU until
    # the inner end has its new one: the host then answers packets that are too large, and the workload's own routes
    # limit what it sends.
    mtu = endpoint.mtu if link.mtu > endpoint.mtu else None
    if link.alias != alias or mac or mtu:
        kernel.link_set(link.name, alias=alias, mac=mac, mtu=mtu)
    link = _host_end(link, endpoint) or link
    hardening.close(kernel, link.name, [name for name, _value in link.open_settings])
    if have.link is not None and (link.open_settings or have.advertised is not None):
        hardening.forget_advertised(kernel, link)


def _bring_handed_over(kernel: Kernel, endpoint: VethEndpoint, have: Observed) -> None:
    """Bring the host end of a workload that is handed over, and the MTU of its inner end, into order."""
    link = kernel.link(endpoint.interface)
    if link is None:
        return  # Its container has ended meanwhile.
    _bring_host_end(kernel, endpoint, have, link)
    peer = handed_over_end(kernel, endpoint, link)
    if peer is not None and peer.mtu != endpoint.mtu:
        try:
            with handed_over_namespace(kernel, endpoint, link) as inner:
                inner.link_set(peer.name, mtu=endpoint.mtu)
        except KernelError as error:
            raise _inside_refused(error) from error
    if link.mtu < endpoint.mtu:
        kernel.link_set(link.name, mtu=endpoint.mtu)


def left_here(kernel: Kernel, endpoints: t.Iterable[VethEndpoint]) -> set[str]:
    """Return the host ends of handed-over workloads that no container has: missing, or with both ends on the host."""
    found = {endpoint.interface: kernel.link(endpoint.interface) for endpoint in endpoints}
    return {interface for interface, link in found.items() if link is None or not link.peer_elsewhere}


def complete_handed_over(kernel: Kernel, endpoint: VethEndpoint, pools: t.Iterable[str] = ()) -> bool:
    """Add the routes and rules that an inner end needs beside others, once its container engine has configured it.

    Packets from its addresses leave by it, whichever interface has the default route, and so do packets to workloads:
    `pools` are the CIDRs of all IP pools. A network of the engine's own would translate their source. Return whether
    nothing remains to be done, which holds for a pair that is gone as well.
    """
    link = kernel.link(endpoint.interface)
    if link is None:
        return True
    peer = handed_over_end(kernel, endpoint, link) if link.peer_elsewhere else None
    if peer is None or not peer.up:
        return False
    named = dataclasses.replace(endpoint, peer_interface=peer.name)
    with handed_over_namespace(kernel, endpoint, link) as inner:
        families = _BOTH if endpoint.address6 else (4,)
        present = {one.address for family in families for one in inner.addresses(peer.name, family)}
        if not present.issuperset(endpoint.addresses):
            return False
        routes = {
            (to, through.metric) for family in families for to, through in inner.routes(table=TABLE_MAIN, family=family)
        }
        wanted = wanted_routes(named)
        for destination, want in wanted.items():
            if (destination, want.metric) not in routes:
                inner.write([RouteOperation("add", destination, want)])
        _bring_by_source(inner, named, families)
        for family in families:
            default = wanted.get(_DEFAULT_ROUTE6 if family == 6 else _DEFAULT_ROUTE)
            if default is not None:
                _bring_to_workloads(inner, default, [pool for pool in pools if family_of(pool) == family], family)
    return True


@contextlib.contextmanager
def handed_over_namespace(kernel: Kernel, endpoint: VethEndpoint, link: Link) -> t.Iterator[Kernel]:
    """Yield the kernel of the namespace that the inner end of `link` is in: the host's, or that of its container."""
    if not link.peer_elsewhere:
        yield kernel
        return
    try:
        yield kernel.inside(endpoint.netns)
    finally:
        kernel.leave(endpoint.netns)


def _bring_inside(inner: Kernel, endpoint: VethEndpoint) -> None:
    device = endpoint.peer_interface
    lo, peer = inner.link("lo"), inner.link(device)
    if lo is not None and not lo.up:
        inner.link_set("lo", up=True)
    if peer is None:
        raise nothing_inside(endpoint)
    alias = address_mark(endpoint)
    mtu = endpoint.mtu if peer.mtu != endpoint.mtu else None
    mac = endpoint.mac if endpoint.mac is not None and peer.mac != endpoint.mac else None
    families = _BOTH if endpoint.address6 or _has6(peer) else (4,)
    if endpoint.address6:
        turn_on_ipv6(inner, device)
    if not peer.up or mtu or mac:
        inner.link_set(device, up=True, mtu=mtu, mac=mac)
    held = [address for family in families for address in inner.addresses(device, family)]
    present = {address.address for address in held}
    recorded = _recorded(peer, held)
    gone = [address for address in recorded if address in present and address not in endpoint.addresses]
    missing = [address for address in endpoint.addresses if address not in present]
    if gone or missing:
        # The alias records all of our addresses while old and new ones exist, even if this process is stopped.
        inner.link_set(device, alias=_mark_of([*endpoint.addresses, *gone]))
    for address in missing:
        inner.address_add(inner_address(device, address))
    routes = {
        (to, through.metric): through
        for family in families
        for to, through in inner.routes(table=TABLE_MAIN, family=family)
    }
    operations = []
    for destination, want in wanted_routes(endpoint).items():
        have = routes.get((destination, want.metric))
        if have is None or not _alike(have, want):
            action = "replace" if have is not None else "add"
            operations.append(RouteOperation(action, destination, want))
    for failure in inner.route_batch(operations):
        raise failure.error
    _bring_by_source(inner, endpoint, families)
    for entry in held:
        if entry.address in gone:
            # What runs inside may have added it with another prefix length than ours, or deletes it meanwhile.
            with passing_over(errno.EADDRNOTAVAIL):
                inner.address_delete(entry)
    peer = inner.link(device)
    if peer is not None and peer.alias != alias:
        inner.link_set(device, alias=alias)


def nothing_inside(endpoint: VethEndpoint) -> KernelError:
    """Return the error for a namespace without the workload's inner end. The caller raises it."""
    device = endpoint.peer_interface
    return KernelError(errno.ENODEV, f"set up {device}", f"there is no device {device} inside")


def _bring_by_source(inner: Kernel, endpoint: VethEndpoint, families: t.Iterable[int]) -> None:
    table = _second_table(endpoint)
    if table is not None:
        rules = [rule for family in families for rule in inner.rules(family)]
        routes = [entry for family in families for entry in inner.routes(table=table, family=family)]
        inner.write(missing_by_source(endpoint, rules, routes))


def _bring_to_workloads(inner: Kernel, default: RouteAttributes, pools: t.Iterable[str], family: int) -> None:
    """Add the missing routes to `pools`, which have the gateway, device and metric of `default`, and their rule."""
    table = _WORKLOADS_TABLE
    present = {(to, through.metric) for to, through in inner.routes(table=table, family=family)}
    want = default._replace(table=table, onlink=True)
    inner.write([RouteOperation("add", pool, want) for pool in pools if (pool, want.metric) not in present])
    if not any((rule.priority, rule.table) == (_WORKLOADS_PRIORITY, table) for rule in inner.rules(family)):
        inner.rule_add(RuleEntry(_WORKLOADS_PRIORITY, table, fwmask=0, protocol=ROUTE_PROTOCOL, family=family))


def inner_address(device: str, address: str) -> InterfaceAddress:
    """Return the address of an inner end as a /32, or a /128 for IPv6."""
    return InterfaceAddress(device, address, 128 if family_of(address) == 6 else 32)


def turn_on_ipv6(inner: Kernel, device: str) -> None:
    """Enable IPv6 on an inner end, without duplicate address detection and router advertisements.

    Docker disables it in its namespaces, and a new namespace may have inherited that from the host. Settings that the
    kernel lacks are skipped.
    """
    for name, value in _INSIDE6.items():
        key = f"net/ipv6/conf/{device}/{name}"
        if inner.sysctl_read(key) not in (None, value):
            inner.sysctl_write(key, value)


def _remove(kernel: Kernel, have: Observed) -> None:
    if have.link is not None:
        kernel.link_delete(have.link.name)
    if have.owned:
        kernel.netns_delete(have.owned)


def _reason(change: Change, error: KernelError) -> str:
    said = f"The kernel said: {error.said}."
    if change.action == "-":
        return f"It could not be removed: {error.operation}. {said} Run again to have it tried once more."
    endpoint: VethEndpoint = change.new
    if error.errno == errno.EOPNOTSUPP:
        return f"This kernel cannot make veth pairs. {said} Install a kernel that can (Debian: linux-image-amd64)."
    if isinstance(error, InsideRefused):
        return (
            f"{INSIDE}{netns_name(endpoint)}, its pair {endpoint.interface} - {endpoint.peer_interface} could not be"
            f" set up at: {error.operation}. {said} What runs there may be the cause. Its existing parts are kept; put"
            " that right, then run again to have it completed."
        )
    return (
        f"Its pair {endpoint.interface} - {endpoint.peer_interface} (network namespace {netns_name(endpoint)}) could"
        f" not be set up at: {error.operation}. {said} Its existing parts are kept; run again to have it completed."
    )


def _observe_scope(kernel: Kernel, desired: t.Sequence[VethEndpoint], scope: Scope) -> dict[str, Observed]:
    return observe(kernel, desired, scope.interiors) if scope.stale else observe_each(kernel, desired)


def _made(changes: t.Iterable[Change]) -> set[str]:
    """Return the host ends that these changes make or repair."""
    return {change.new.interface for change in changes if change.action in ("+", "~")}


def _finish(kernel: Kernel, changes: t.Sequence[Change], failed: bool) -> t.Sequence[Change]:
    """Set the host ends of `changes` up by `activate`, whether or not others failed; return ()."""
    activate(kernel, changes)
    return ()


STEP: DriverStep[t.Sequence[VethEndpoint], dict[str, Observed]] = DriverStep(
    name="workload",
    kinds=("workload",),
    stage="workloads",
    desired=lambda state: state.endpoints,
    followers=("sysctl", "route"),
    made=_made,
    recreated=recreated,
    observe_scope=_observe_scope,
    finish=_finish,
)
