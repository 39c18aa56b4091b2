# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A request to add a workload: the parameters of the API and of runtimes' plugins, checked in one place."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ..base import container_labels, naming
from ..base.addresses import family_of
from ..base.published_port import LIMIT, InvalidPort, PublishedPort
from ..base.terminal_text import cut
from ..base.typed_json import Unreadable, anything, by_name, flag, items, maybe, refuse, table, text, whole
from ..ipam.allocations import RESERVED
from ..state.attachment import OF_PROBES, AttachedWorkload, endpoint, is_of_pools, reserved_for_probes
from ..state.node_state import HOST_MAC, Pool
from . import protocol
from .protocol import AgentError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
#: The most characters of a name and of a namespace. Both together may have 30 more: they have to fit into the alias of
#: a link, which has 255.
_NAME_LIMIT = 200
_NETNS = re.compile(r"[^/\0\s]{1,255}|(/[^\0]{1,4000})")


@dataclasses.dataclass(frozen=True)
class AddRequest:
    """A request to add a workload; None, () and {} mean that nothing is requested.

    `id` defaults to "<namespace>/<name>". `netns` is a name below /run/netns or an absolute path. With `netns_owned`
    the agent creates the namespace and deletes it with the workload; it needs a name then, by default `name`. Without
    it, `netns` has no default. `pools` are names or CIDRs of IP pools of both IP versions. `mtu` is in bytes.
    `families` are the IP versions, 4 and 6, of the addresses; () means those of the pools, or else of the node's
    blocks, and those of `address` and `address6`. With `handed_over` a container engine moves the inner end into its
    container: there is no `netns` then, and `peer_interface` is chosen here. `network`, `container` and `runtime` are a
    runtime's names of the network, the container (its id) and itself, "" without one; `container_name` is the name
    that people gave the container. `ports` are the ports of the host to
    publish, None to leave them.
    """

    name: str
    netns: str = ""
    id: str = ""
    namespace: str = "default"
    netns_owned: bool = False
    peer_interface: str = "eth0"
    address: t.Optional[str] = None
    address6: t.Optional[str] = None
    families: tuple[int, ...] = ()
    pools: tuple[str, ...] = ()
    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mac: t.Optional[str] = None
    mtu: t.Optional[int] = None
    handed_over: bool = False
    network: str = ""
    container: str = ""
    runtime: str = ""
    container_name: str = ""
    ports: t.Optional[tuple[PublishedPort, ...]] = None

    @classmethod
    def from_params(cls, params: t.Mapping[str, t.Any]) -> AddRequest:
        """Return the checked request for parameters of `workload.add`. Raise what `checked` raises.

        null counts as left out, except for `name`, `netns_owned` and `handed_over`.
        """
        if "name" not in params:
            raise AgentError(
                protocol.INVALID_PARAMS, "workload.add: the parameter name is missing. Give the workload one."
            )
        found = read_params("workload.add", _PARAMS, params)
        values = {name: value for name, value in found.items() if value is not None}
        for name in ("pools", "families"):
            if name in values:
                values[name] = tuple(values[name])
        if "ports" in values:
            values["ports"] = published_ports(values["ports"], "workload.add")
        return cls(**values).checked()

    def checked(self) -> AddRequest:
        """Return a copy with a lower-case `mac`, a default for `id` and, with `netns_owned`, one for `netns`.

        Raise AgentError (invalid_params) for the first field whose value is wrong.
        """
        for field, value in (("name", self.name), ("namespace", self.namespace)):
            if not _NAME.fullmatch(value) or len(value) > _NAME_LIMIT:
                rule = f"must be 1 to {_NAME_LIMIT} letters, digits, '-', '_' and '.', a letter or digit at its ends."
                raise _invalid(field, value, rule)
        if len(self.namespace) + len(self.name) > _NAME_LIMIT + 30:
            raise _invalid("name", self.name, f"is too long together with its namespace. Use {_NAME_LIMIT} characters.")
        identity = f"{self.namespace}/{self.name}" if self.id == "" else self.id
        if not 0 < len(identity) <= 600 or not identity.isprintable():
            raise _invalid("id", self.id, "must be 1 to 600 printable characters.")
        if identity.startswith(RESERVED):
            raise _invalid("id", self.id, f"must not begin with {RESERVED}, as the handles of reserved addresses do.")
        self._check_netns()
        try:
            naming.check_device_name(self.peer_interface, "peer_interface")
        except naming.NamingError as error:
            raise AgentError(protocol.INVALID_PARAMS, f"workload.add: {error}") from error
        if self.peer_interface == "lo":
            raise _invalid("peer_interface", "lo", "is the namespace's own loopback. Use another name, such as eth0.")
        self._check_addresses()
        mac = self.mac
        if mac is not None:
            mac = mac.lower()
            if not naming.is_mac(mac):
                raise _invalid("mac", self.mac, "must be the MAC address of one device, such as 02:00:00:00:00:01.")
        if self.mtu is not None and not naming.is_mtu(self.mtu):
            raise _invalid("mtu", self.mtu, f"must be a number of bytes from {naming.MTU[0]} to {naming.MTU[1]}.")
        if self.handed_over:
            if mac == HOST_MAC:
                rule = "is that of all host ends, from which the workload's gateway is derived. Choose another one."
                raise _invalid("mac", self.mac, rule)
            inner = naming.handed_over_name(naming.interface_name(self.namespace, self.name))
            return dataclasses.replace(self, id=identity, peer_interface=inner, mac=mac)
        netns = self.netns or (self.name if self.netns_owned else "")
        reserved = reserved_for_probes(self.namespace, self.name, netns)
        if reserved:
            value = netns if reserved == "netns" else f"{self.namespace}/{self.name}"
            raise _invalid(reserved, value, f"{OF_PROBES} Choose another one.")
        return dataclasses.replace(self, id=identity, netns=netns, mac=mac)

    def _check_netns(self) -> None:
        if self.handed_over:
            if self.netns or self.netns_owned:
                rule = "must be left out with handed_over: workload.join says later where the inner end is."
                raise _invalid("netns", self.netns, rule)
            return
        if self.netns in (".", "..") or (self.netns or not self.netns_owned) and not _NETNS.fullmatch(self.netns):
            raise _invalid("netns", self.netns, "must be a name as `ip netns list` shows it, or an absolute path.")
        if self.netns_owned and self.netns.startswith("/"):
            raise _invalid(
                "netns", self.netns, "must be a name and no path when netns_owned is true: it is made by name."
            )

    @property
    def addresses(self) -> dict[int, str]:
        """The requested addresses in their canonical form, by IP version, 4 or 6, once `checked` has accepted them."""
        asked = {4: self.address, 6: self.address6}
        return {version: str(ipaddress.ip_address(text)) for version, text in asked.items() if text is not None}

    def _check_addresses(self) -> None:
        if len(set(self.families)) != len(self.families):
            raise _invalid("families", self.families, "must name each IP version once.")
        for field, version, example in (("address", 4, "10.244.0.7"), ("address6", 6, "fd00:10:244::7")):
            address = getattr(self, field)
            if address is None:
                continue
            try:
                found = ipaddress.ip_address(address)
            except ValueError:
                rule = f"must be an IP address without a prefix length, such as {example}."
                raise _invalid(field, address, rule) from None
            if found.version != version:
                other = "an IPv6 address goes into address6" if version == 4 else "an IPv4 address goes into address"
                raise _invalid(field, address, f"must be an IPv{version} address: {other}.")
            if self.families and version not in self.families:
                raise _invalid("families", self.families, f"lacks {version}, the IP version of {field} {address}.")

    def workload(self, since: str) -> AttachedWorkload:
        """Return the workload that this request makes, without addresses and pool, which are assigned later.

        Its host end is named by its namespace and name. `since` is the time of the request, in ISO 8601 and UTC.
        """
        workload = AttachedWorkload(
            id=self.id,
            name=self.name,
            namespace=self.namespace,
            netns=self.netns,
            netns_owned=self.netns_owned,
            peer_interface=self.peer_interface,
            labels=dict(self.labels),
            mac=self.mac,
            mtu=self.mtu,
            handed_over=self.handed_over,
            network=self.network,
            container=self.container,
            runtime=self.runtime,
            container_name=self.container_name if container_labels.is_name(self.container_name) else "",
            since=since,
        )
        known = endpoint(dataclasses.replace(workload, addresses=("0.0.0.0",)), Pool("", "", 0, "None"))
        return dataclasses.replace(workload, interface=naming.interface_name(known.namespace, known.name))

    def differs_from(self, workload: AttachedWorkload) -> str:
        """Return in words how this request differs from `workload`, which has the same id: the first difference, or "".

        Addresses, families and pools that are not requested are not compared; a MAC or MTU that is not requested
        differs from one that was. A runtime (`container`) may add its container again with other labels.
        """
        for field in (
            "name",
            "namespace",
            "netns",
            "netns_owned",
            "peer_interface",
            "labels",
            "mac",
            "mtu",
            "handed_over",
            "network",
            "container",
        ):
            asked, have = getattr(self, field), getattr(workload, "own_labels" if field == "labels" else field)
            if field == "netns" and self.handed_over and workload.handed_over:
                continue  # `join` may have recorded it since.
            if asked != have and not (field == "labels" and self.container):
                return f"{field} {_shown(have)} and not {_shown(asked)}"
        for address in self.addresses.values():
            if address not in workload.addresses:
                return f"address {', '.join(workload.addresses)} and not {address}"
        families = {family_of(address) for address in workload.addresses}
        if self.families and families != set(self.families):
            return f"{_versions(families)} and not {_versions(self.families)}"
        if self.pools and not is_of_pools(self.pools, workload.pool, workload.addresses):
            return f"an address of pool {workload.pool} and not of {', '.join(self.pools)}"
        return ""


def read_params(
    method: str, reader: t.Callable[[t.Any], dict[str, t.Any]], params: t.Mapping[str, t.Any]
) -> dict[str, t.Any]:
    """Return what `reader` reads in the parameters of a method. Raise AgentError (invalid_params)."""
    try:
        return reader(params)
    except Unreadable as error:
        field = error.place.partition(".")[0].partition("[")[0]
        raise AgentError(protocol.INVALID_PARAMS, f"{method}: {error}.", {"field": field}) from None


def family(value: t.Any) -> int:
    """Return `value` if it is an IP version, 4 or 6. Raise Unreadable if it is anything else."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in (4, 6):
        refuse(value, "an IP version, 4 or 6")
    return value


#: Readers of lists of names or CIDRs of IP pools, and of published ports.
POOLS, PORTS = items(text(least=1), 1024), items(anything, LIMIT)
_TEXT = maybe(text())
_PARAMS = table(
    {"name": text()},
    {
        "netns": _TEXT,
        "id": _TEXT,
        "namespace": _TEXT,
        "netns_owned": flag,
        "peer_interface": _TEXT,
        "address": _TEXT,
        "address6": _TEXT,
        "families": maybe(items(family, 2)),
        "pools": maybe(POOLS),
        "labels": maybe(by_name(text())),
        "mac": _TEXT,
        "mtu": maybe(whole()),
        "handed_over": flag,
        "ports": maybe(PORTS),
    },
)


def published_ports(entries: t.Iterable[t.Any], method: str) -> tuple[PublishedPort, ...]:
    """Return the ports in the parameter `ports` of a method of the API. Raise AgentError (invalid_params)."""
    try:
        return tuple(map(PublishedPort.read, entries))
    except InvalidPort as error:
        raise AgentError(protocol.INVALID_PARAMS, f"{method}: {error}", {"field": "ports"}) from error


def _versions(families: t.Collection[int]) -> str:
    return " and ".join(f"IPv{family}" for family in sorted(families))


def _shown(value: t.Any) -> str:
    return cut(repr(dict(value) if isinstance(value, t.Mapping) else value))


def _invalid(field: str, value: t.Any, rule: str) -> AgentError:
    return AgentError(protocol.INVALID_PARAMS, f"workload.add: {field} {_shown(value)} {rule}", {"field": field})
