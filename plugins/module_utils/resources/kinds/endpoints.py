# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""HostEndpoint and WorkloadEndpoint: interfaces that policies apply to.

Sources: https://docs.tigera.io/calico/latest/reference/resources/hostendpoint and .../workloadendpoint
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import BITS, parse_address, parse_cidr_or_address
from ..errors import Refused
from ..fields import (
    ADDRESS,
    FILLED_ADDRESS,
    FILLED_NAME,
    INTERFACE,
    IPV4,
    IPV6,
    MAC,
    NAME,
    NETWORK,
    TEXT,
    Fields,
    Integer,
    Items,
    Text,
    field,
)
from ..ports import MAX_PORT, PORT_NAME, PROTOCOL, PROTOCOLS_WITH_PORTS
from ..resource import NamespacedResource, Resource

_CONTAINER_ID = re.compile(r"[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?", re.ASCII)
_PROFILES = Items(FILLED_NAME)
_PORT_NAME = Text(
    PORT_NAME.check,
    "is not the name of a port.",
    "Use at most 15 lower case letters, digits and single '-', one of them a letter.",
)
_PORT = Integer(1, MAX_PORT)


@dataclasses.dataclass(frozen=True)
class EndpointPort:
    """A named port of a host endpoint, with a protocol that has ports. Several ports may share a name."""

    name: str = field(_PORT_NAME, "")
    protocol: t.Union[str, int, None] = field(PROTOCOL)
    port: int = field(_PORT, 0)

    def checked(self) -> EndpointPort:
        if not self.name:
            raise Refused(None, "is missing.", "Give the port a name for rules to use.", "name")
        _check_port(self)
        return self


@dataclasses.dataclass(frozen=True)
class WorkloadEndpointPort:
    """A port of a workload with a name for rules, a host port that leads to it, or both."""

    name: str = field(_PORT_NAME, "")
    protocol: t.Union[str, int, None] = field(PROTOCOL)
    port: int = field(_PORT, 0)
    hostPort: int = field(Integer(0, MAX_PORT), 0)
    hostIP: str = field(NETWORK, "")

    def checked(self) -> WorkloadEndpointPort:
        if not self.name and not self.hostPort:
            raise Refused(None, "is missing.", "Give the port a name for rules to use.", "name")
        _check_port(self)
        return self


def _check_port(port: t.Union[EndpointPort, WorkloadEndpointPort]) -> None:
    if port.protocol is None:
        raise Refused(None, "is missing.", "Write TCP, UDP or SCTP.", "protocol")
    if port.protocol not in PROTOCOLS_WITH_PORTS:
        raise Refused(port.protocol, "has no ports.", "Write TCP, UDP or SCTP.", "protocol")
    if not port.port:
        raise Refused(None, "is missing.", f"Write a number from 1 to {MAX_PORT}.", "port")


@dataclasses.dataclass(frozen=True)
class HostEndpoint(Resource):
    """An interface of a node: by name, "*" for all without an endpoint of their own, or by one of its addresses.

    `checked` raises Refused without a node, or with neither interfaceName nor expectedIPs.
    """

    KIND: t.ClassVar[str] = "HostEndpoint"

    node: str = field(NAME, "")
    interfaceName: str = field(INTERFACE, "")
    expectedIPs: tuple[str, ...] = field(Items(FILLED_ADDRESS), ())
    profiles: tuple[str, ...] = field(_PROFILES, ())
    ports: tuple[EndpointPort, ...] = field(Items(Fields(EndpointPort)), ())

    def checked(self) -> HostEndpoint:
        if not self.node:
            raise Refused(None, "is missing.", "Write the name of the node that the interface belongs to.", "node")
        if not self.interfaceName and not self.expectedIPs:
            raise Refused(
                None,
                "is missing, and so is expectedIPs.",
                "Write the interface's name or its addresses, or '*' for all interfaces.",
                "interfaceName",
            )
        return self


@dataclasses.dataclass(frozen=True)
class IPNAT:
    """An external address that is translated to an address of the workload, both of one IP version."""

    internalIP: str = field(ADDRESS, "")
    externalIP: str = field(ADDRESS, "")
    source: str = field(TEXT, "")

    def checked(self) -> IPNAT:
        internal, external = parse_address(self.internalIP), parse_address(self.externalIP)
        for name, address in (("internalIP", internal), ("externalIP", external)):
            if not address:
                raise Refused(None, "is missing.", "Write an address, as 10.0.0.1 or fd00::1.", name)
        if internal and external and internal.version != external.version:
            raise Refused(
                self.externalIP,
                f"is IPv{external.version} while internalIP is IPv{internal.version}.",
                "Write addresses of the same version.",
                "externalIP",
            )
        return self


@dataclasses.dataclass(frozen=True)
class WorkloadEndpoint(NamespacedResource):
    """A workload's interface. `ipNetworks` are single addresses, as written, with or without a prefix length.

    `checked` raises Refused without an interfaceName, for a range of several addresses, or for an ipNAT whose
    internalIP is not in ipNetworks. It drops empty ipNetworks.
    """

    KIND: t.ClassVar[str] = "WorkloadEndpoint"

    orchestrator: str = field(NAME, "")
    workload: str = field(NAME, "")
    node: str = field(NAME, "")
    containerID: str = field(
        Text(
            lambda text: bool(_CONTAINER_ID.fullmatch(text)),
            "is not the ID of a container.",
            "Use letters, digits and '-', beginning and ending with a letter or digit.",
        ),
        "",
    )
    pod: str = field(NAME, "")
    endpoint: str = field(NAME, "")
    serviceAccountName: str = field(NAME, "")
    ipNetworks: tuple[str, ...] = field(Items(NETWORK), ())
    ipNATs: tuple[IPNAT, ...] = field(Items(Fields(IPNAT)), ())
    ipv4Gateway: str = field(IPV4, "")
    ipv6Gateway: str = field(IPV6, "")
    profiles: tuple[str, ...] = field(_PROFILES, ())
    interfaceName: str = field(INTERFACE, "")
    mac: str = field(MAC, "")
    ports: tuple[WorkloadEndpointPort, ...] = field(Items(Fields(WorkloadEndpointPort)), ())
    allowSpoofedSourcePrefixes: tuple[str, ...] = field(Items(FILLED_ADDRESS), ())

    def checked(self) -> WorkloadEndpoint:
        if not self.interfaceName:
            raise Refused(
                None, "is missing.", "Write the name of the workload's interface on the host.", "interfaceName"
            )
        addresses = set()
        for index, text in enumerate(self.ipNetworks):
            cidr = parse_cidr_or_address(text)
            if not cidr:
                continue
            if cidr.length != BITS[cidr.version]:
                raise Refused(
                    text,
                    "is more than one address.",
                    f"Write /{BITS[cidr.version]}, or the address alone.",
                    f"ipNetworks[{index}]",
                )
            addresses.add((cidr.version, cidr.number))
        for index, nat in enumerate(self.ipNATs):
            if parse_address(nat.internalIP) not in addresses:
                raise Refused(
                    nat.internalIP,
                    "is not an address of the endpoint.",
                    "Write one of its ipNetworks.",
                    f"ipNATs[{index}].internalIP",
                )
        # Calico accepts an empty entry, which holds no address.
        return dataclasses.replace(self, ipNetworks=tuple(text for text in self.ipNetworks if text))
