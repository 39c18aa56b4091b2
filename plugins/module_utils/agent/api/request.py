# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caller asks for when it adds a workload: the API's parameters and the CNI plugin's, checked in one place."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ...base import naming
from ...base.addresses import family_of
from ...state.attachment import AttachedWorkload, endpoint
from ...state.node_state import Pool
from . import protocol
from .protocol import AgentError

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_NAME_LIMIT = 200  # with its namespace it has to fit into the alias of a link, 255 characters
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_NETNS = re.compile(r"[^/\0\s]{1,255}|(/[^\0]{1,4000})")
MTU = (68, 65535)  # bytes; RFC 791, and the largest that a veth takes


def is_mac(text: str) -> bool:
    """Whether this is the address of one device, written in lower case."""
    return bool(_MAC.fullmatch(text)) and not int(text[:2], 16) & 1 and text != "00:00:00:00:00:00"


def is_mtu(value: t.Any) -> bool:
    # True and False are integers, too.
    return isinstance(value, int) and not isinstance(value, bool) and MTU[0] <= value <= MTU[1]


@dataclasses.dataclass(frozen=True)
class AddRequest:
    """`id` "" stands for "<namespace>/<name>". `netns` is a name below /run/netns or, unless it is `netns_owned` (made
    by the agent, and deleted with the workload), an absolute path. `address`, `address6`, `pools` (names or CIDRs, of
    both IP versions), `mac` and `mtu`: only if asked for. `families` are the IP versions, 4 and 6, of which it is to
    have an address; () are those of the pools, or of the blocks that the node has. `network` and `container` are CNI's.
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
    network: str = ""
    container: str = ""

    @classmethod
    def from_params(cls, params: t.Mapping[str, t.Any]) -> AddRequest:
        """From the parameters of `workload.add`. Raises AgentError invalid_params, as `checked` does."""
        known = {field.name for field in dataclasses.fields(cls)} - {"network", "container"}
        unknown = sorted(set(params) - known)
        if unknown:
            raise _invalid(
                unknown[0], params[unknown[0]], f"is not a parameter. There are: {', '.join(sorted(known))}."
            )
        if "name" not in params:
            raise AgentError(
                protocol.INVALID_PARAMS, "workload.add: the parameter name is missing. Give the workload one."
            )
        values = dict(params)
        for name in known - {"name", "netns_owned"}:
            if values.get(name, "") is None:
                del values[name]
        for name in ("pools", "families"):
            if isinstance(values.get(name), list):
                values[name] = tuple(values[name])
        return cls(**values).checked()

    def checked(self) -> AddRequest:
        """Itself, with what was left out filled in. Raises AgentError."""
        for field, value in (("name", self.name), ("namespace", self.namespace)):
            if not isinstance(value, str) or not _NAME.fullmatch(value) or len(value) > _NAME_LIMIT:
                rule = f"must be 1 to {_NAME_LIMIT} letters, digits, '-', '_' and '.', a letter or digit at its ends."
                raise _invalid(field, value, rule)
        if len(self.namespace) + len(self.name) > _NAME_LIMIT + 30:
            raise _invalid("name", self.name, f"is too long together with its namespace. Use {_NAME_LIMIT} characters.")
        identity = self.id or f"{self.namespace}/{self.name}"
        if not isinstance(identity, str) or not 0 < len(identity) <= 600 or not identity.isprintable():
            raise _invalid("id", self.id, "must be 1 to 600 printable characters.")
        self._check_netns()
        if not isinstance(self.peer_interface, str):
            raise _invalid("peer_interface", self.peer_interface, "must be the name of a device. Use eth0.")
        try:
            naming.check_device_name(self.peer_interface, "peer_interface")
        except naming.NamingError as error:
            raise AgentError(protocol.INVALID_PARAMS, f"workload.add: {error}") from error
        if self.peer_interface == "lo":
            raise _invalid("peer_interface", "lo", "is the namespace's own loopback. Use another name, such as eth0.")
        self._check_addresses()
        if not isinstance(self.pools, tuple) or not all(isinstance(pool, str) and pool for pool in self.pools):
            raise _invalid("pools", self.pools, "must be a list of names of IP pools.")
        if not isinstance(self.labels, t.Mapping) or not all(
            isinstance(text, str) for label in self.labels.items() for text in label
        ):
            raise _invalid("labels", self.labels, "must be an object whose values are texts.")
        mac = self.mac
        if mac is not None:
            mac = mac.lower() if isinstance(mac, str) else ""
            if not is_mac(mac):
                raise _invalid("mac", self.mac, "must be the MAC address of one device, such as 02:00:00:00:00:01.")
        if self.mtu is not None and not is_mtu(self.mtu):
            raise _invalid("mtu", self.mtu, f"must be a number of bytes from {MTU[0]} to {MTU[1]}.")
        netns = self.netns or (self.name if self.netns_owned else "")
        return dataclasses.replace(self, id=identity, netns=netns, mac=mac)

    def _check_netns(self) -> None:
        if not isinstance(self.netns_owned, bool):
            raise _invalid("netns_owned", self.netns_owned, "must be true or false.")
        if not isinstance(self.netns, str) or (self.netns or not self.netns_owned) and not _NETNS.fullmatch(self.netns):
            raise _invalid("netns", self.netns, "must be a name as `ip netns list` shows it, or an absolute path.")
        if self.netns in (".", ".."):
            raise _invalid("netns", self.netns, "must be a name as `ip netns list` shows it, or an absolute path.")
        if self.netns_owned and self.netns.startswith("/"):
            raise _invalid(
                "netns", self.netns, "must be a name and no path when netns_owned is true: it is made by name."
            )

    @property
    def addresses(self) -> dict[int, str]:
        """Those that are asked for, {IP version: address}, as they are written everywhere."""
        asked = {4: self.address, 6: self.address6}
        return {version: str(ipaddress.ip_address(text)) for version, text in asked.items() if text is not None}

    def _check_addresses(self) -> None:
        for field, version, example in (("address", 4, "10.244.0.7"), ("address6", 6, "fd00:10:244::7")):
            address = getattr(self, field)
            if address is None:
                continue
            try:
                found = ipaddress.ip_address(address) if isinstance(address, str) else None
            except ValueError:
                found = None
            if found is None:
                raise _invalid(field, address, f"must be an IP address without a prefix length, such as {example}.")
            if found.version != version:
                other = "an IPv6 address goes into address6" if version == 4 else "an IPv4 address goes into address"
                raise _invalid(field, address, f"must be an IPv{version} address: {other}.")
            if self.families and version not in self.families:
                raise _invalid("families", self.families, f"lacks {version}, of which {field} {address} is asked for.")
        known = isinstance(self.families, tuple) and all(family in (4, 6) for family in self.families)
        if not known or len(set(self.families)) != len(self.families):
            raise _invalid("families", self.families, "must be a list of IP versions, 4 and 6.")

    def workload(self, since: str) -> AttachedWorkload:
        """The workload that this becomes; its address and its pool are still to be had."""
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
            network=self.network,
            container=self.container,
            since=since,
        )
        known = endpoint(dataclasses.replace(workload, addresses=("0.0.0.0",)), Pool("", "", 0, "None"))
        return dataclasses.replace(workload, interface=naming.interface_name(known.namespace, known.name))

    def differs_from(self, workload: AttachedWorkload) -> str:
        """In words what it asks for that `workload`, which has its id, does not have; "" for the same again.

        A runtime that adds its container again may have other labels for it: they are no difference.
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
            "network",
            "container",
        ):
            asked, have = getattr(self, field), getattr(workload, field)
            if asked != have and not (field == "labels" and self.container):
                return f"{field} {_shown(have)} and not {_shown(asked)}"
        for address in self.addresses.values():
            if address not in workload.addresses:
                return f"address {', '.join(workload.addresses)} and not {address}"
        families = {family_of(address) for address in workload.addresses}
        if self.families and families != set(self.families):
            return f"{_versions(families)} and not {_versions(self.families)}"
        if self.pools and workload.pool not in self.pools:
            return f"an address of pool {workload.pool} and not of {', '.join(self.pools)}"
        return ""


def _versions(families: t.Collection[int]) -> str:
    return " and ".join(f"IPv{family}" for family in sorted(families))


def _shown(value: t.Any) -> str:
    text = repr(dict(value) if isinstance(value, t.Mapping) else value)
    return text if len(text) <= 80 else text[:77] + "..."


def _invalid(field: str, value: t.Any, rule: str) -> AgentError:
    return AgentError(protocol.INVALID_PARAMS, f"workload.add: {field} {_shown(value)} {rule}", {"field": field})
