# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The border to dockerd: the bodies of its requests as typed, bounded values. Other bodies raise RefusedRequest.

dockerd is root's, and yet every value is checked here: other programs of root's may write to the socket, and users of
Docker choose some of the texts. A value that is not used is not looked at.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from ...base.published_port import LIMIT, InvalidPort, published
from ...base.typed_json import (
    NotJson,
    Reader,
    Unreadable,
    anything,
    by_name,
    flag,
    items,
    matching,
    maybe,
    maybe_table,
    parse_table,
    sparse_table,
    text,
    whole,
)
from ..options import ContainerOptions
from . import options as container_options
from .refusal import RefusedRequest, shown

Body = t.Mapping[str, t.Any]

#: The address space of the driver's IPAM; dockerd repeats it in CreateNetwork.
ADDRESS_SPACE = "calico"
#: Addresses that stand for none: what dockerd is given as a gateway, and releases with the network.
NO_ADDRESS = ("", "0.0.0.0", "::", "0.0.0.0/0", "::/0")

_ID = re.compile(r"[0-9a-f]{64}")
_POOL_ID = re.compile(r"v([46]):((?:[A-Za-z0-9][A-Za-z0-9.-]*(?:,[A-Za-z0-9][A-Za-z0-9.-]*)*)?)")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,98}[A-Za-z0-9])?", re.ASCII)
_NETWORK_OPTIONS = "com.docker.network.generic"
_DOCKERS = "com.docker."  # the beginning of options that Docker adds itself
_PORT_MAP = "com.docker.network.portmap"
_INTERNAL = "com.docker.network.internal"
#: The protocols that have ports, by their IANA numbers.
_PROTOCOLS = {6: "tcp", 17: "udp", 132: "sctp"}
_ADDRESS_TYPE, _GATEWAY = "RequestAddressType", "com.docker.network.gateway"
#: The option of an endpoint that gives its workload a name.
NAME_OPTION = "name"
#: The option of `docker network create --ipam-opt` that names IP pools.
POOL_OPTION = "pool"

_TEXT = maybe(text(), "")
_OPTIONS: Reader = maybe(by_name(anything, 256), {})
_ID_OF_DOCKER = matching(_ID, "an id of Docker's: 64 hex digits")
_WITH_OPTIONS = sparse_table({"Options": _OPTIONS})
_OF_ENDPOINT, _OF_NETWORK = sparse_table({"EndpointID": _ID_OF_DOCKER}), sparse_table({"NetworkID": _ID_OF_DOCKER})
_POOL_REQUEST = sparse_table({"Pool": _TEXT, "SubPool": _TEXT, "Options": _OPTIONS, "V6": maybe(flag, False)})
_ADDRESS_REQUEST = sparse_table({"PoolID": _TEXT, "Address": _TEXT, "Options": maybe_table({_ADDRESS_TYPE: _TEXT})})
_IPAM: Reader = maybe(items(sparse_table({"AddressSpace": _TEXT, "AuxAddresses": _OPTIONS})), [])
_NETWORK = sparse_table(
    {
        "IPv4Data": _IPAM,
        "IPv6Data": _IPAM,
        "Options": maybe_table({_INTERNAL: anything, _NETWORK_OPTIONS: _OPTIONS}),
    }
)
_ENDPOINT = sparse_table(
    {
        "EndpointID": _ID_OF_DOCKER,
        "Interface": maybe_table({"Address": _TEXT, "AddressIPv6": _TEXT, "MacAddress": _TEXT}),
        "Options": _OPTIONS,
    }
)
_NUMBER = maybe(whole(), 0)
_PORT = sparse_table({"Proto": _NUMBER, "HostIP": _TEXT, "HostPort": _NUMBER, "HostPortEnd": _NUMBER, "Port": _NUMBER})
_PORTS = sparse_table({"-p": maybe(items(_PORT, LIMIT), [])})

#: The refusal of a request without a body to a method that needs one.
WITHOUT_BODY = (
    "The request came without its body, as dockerd repeats one when the driver ended in the middle of it. Nothing was"
    " done for it; try again."
)


def decode(data: bytes) -> Body:
    """Return the JSON object in the body of a request; {} for an empty body. A key that occurs twice is refused."""
    if not data.strip():
        return {}
    try:
        return parse_table(data)
    except NotJson:
        raise RefusedRequest(
            "The body of the request is not a JSON object. Only dockerd speaks to this socket."
        ) from None


def _read(reader: t.Callable[[t.Any], dict[str, t.Any]], body: Body) -> dict[str, t.Any]:
    """Return what `reader` reads in a body. Raise RefusedRequest for what it refuses."""
    try:
        return reader(body)
    except Unreadable as error:
        raise RefusedRequest(f"{error}.") from None


def text_of(body: Body, field: str) -> str:
    """Return the text of a field, "" if it is missing or null."""
    return str(_read(sparse_table({field: _TEXT}), body)[field])


def options_of(body: Body) -> Body:
    """Return the object of the field Options, {} if it is missing or null."""
    return dict(_read(_WITH_OPTIONS, body)["Options"])


def endpoint_id(body: Body) -> str:
    """Return the id, 64 hex digits, of the endpoint that a request is about."""
    return str(_read(_OF_ENDPOINT, body)["EndpointID"])


def network_id(body: Body) -> str:
    """Return the id, 64 hex digits, of the network that a request is about."""
    return str(_read(_OF_NETWORK, body)["NetworkID"])


def address_of(text: str, field: str) -> t.Optional[str]:
    """Return an IP address in its canonical form, without a prefix length that it may have; None for none."""
    if text in NO_ADDRESS:
        return None
    try:
        if "%" in text:
            raise ValueError("an address with a zone is no workload's")
        return str(ipaddress.ip_interface(text).ip)
    except ValueError:
        raise RefusedRequest(f"{field} {shown(text)} is not an IP address. Give one like 10.244.3.9.") from None


@dataclasses.dataclass(frozen=True)
class PoolRequest:
    """IpamDriver.RequestPool: `subnet` is a CIDR or "", `pools` are names of IP pools, `family` is 4 or 6."""

    family: int
    subnet: str
    pools: tuple[str, ...]

    @classmethod
    def from_body(cls, body: Body) -> PoolRequest:
        found = _read(_POOL_REQUEST, body)
        if found["SubPool"]:
            raise RefusedRequest(
                "--ip-range is not possible with the IPAM driver calico: each node gives addresses of its own blocks."
                " Leave it out, or choose an IP pool (--ipam-opt pool=NAME)."
            )
        for key in found["Options"]:
            if key != POOL_OPTION:
                raise RefusedRequest(
                    f"--ipam-opt {shown(key)} is not known. There is: {POOL_OPTION}, names of IP pools."
                )
        pools = tuple(name for name in text_of(found["Options"], POOL_OPTION).split(",") if name)
        family, subnet = 6 if found["V6"] else 4, found["Pool"]
        if subnet in NO_ADDRESS:
            return cls(family, "", pools)
        try:
            network = ipaddress.ip_network(subnet)
        except ValueError:
            raise RefusedRequest(
                f"--subnet {shown(subnet)} is not a CIDR without host bits, like 10.244.0.0/16."
            ) from None
        return cls(network.version, str(network), pools)


def published_of(options: Body) -> list[dict[str, t.Any]]:
    """Return the ports that -p asked for, as the agent's API takes them; a range of the host's ports is refused."""
    found = []
    for entry in _read(_PORTS, {"-p": options.get(_PORT_MAP)})["-p"]:
        number, first, last, inside = entry["Proto"], entry["HostPort"], entry["HostPortEnd"], entry["Port"]
        if number not in _PROTOCOLS:
            raise RefusedRequest(f"-p: the protocol {number} has no ports to publish. Use tcp, udp or sctp.")
        if last not in (0, first):
            raise RefusedRequest(
                f"-p {first}-{last}:{inside} leaves the choice among several ports."
                " Give one port of the host, or none for any that is free."
            )
        try:
            port = published(_PROTOCOLS[number], entry["HostIP"], first, inside)
        except InvalidPort as error:
            raise RefusedRequest(f"-p: {error}") from error
        found.append(port.to_dict())
    return found


def pool_id(family: int, pools: t.Iterable[str]) -> str:
    """Return the text by which dockerd names a pool in later requests: its IP version and the names of IP pools."""
    return f"v{family}:{','.join(pools)}"


def parse_pool_id(text: str) -> tuple[int, tuple[str, ...]]:
    """Return (IP version, names of IP pools) of a text that `pool_id` made."""
    found = _POOL_ID.fullmatch(text)
    if found is None:
        raise RefusedRequest(
            f"PoolID {shown(text)} is not one that this driver gave. Remove the network and make it anew."
        )
    return int(found[1]), tuple(name for name in found[2].split(",") if name)


@dataclasses.dataclass(frozen=True)
class AddressRequest:
    """IpamDriver.RequestAddress: one address of `pools`, or `address`. `gateway`: it shall be a network's gateway."""

    family: int
    pools: tuple[str, ...]
    address: t.Optional[str]
    gateway: bool

    @classmethod
    def from_body(cls, body: Body) -> AddressRequest:
        found = _read(_ADDRESS_REQUEST, body)
        family, pools = parse_pool_id(found["PoolID"])
        gateway = found["Options"][_ADDRESS_TYPE] == _GATEWAY
        return cls(family, pools, address_of(found["Address"], "Address"), gateway)


def network_options(body: Body) -> ContainerOptions:
    """Return the options of NetworkDriver.CreateNetwork. Raise RefusedRequest for what is wrong or not done here."""
    found = _read(_NETWORK, body)
    if found["Options"][_INTERNAL] is True:
        raise RefusedRequest(
            "--internal is not possible with the driver calico. Leave it out; a NetworkPolicy says what containers"
            " reach."
        )
    for entry in (*found["IPv4Data"], *found["IPv6Data"]):
        if entry["AddressSpace"] != ADDRESS_SPACE:
            raise RefusedRequest(
                "The driver calico needs its own IPAM driver, because another one would give an address on two hosts."
                " Make the network with: docker network create -d calico --ipam-driver calico NAME"
            )
        if entry["AuxAddresses"]:
            raise RefusedRequest(
                "--aux-address is not possible with the driver calico. Reserve addresses for the whole fleet in"
                " calico_ip_reservations."
            )
    return container_options.read_network(found["Options"][_NETWORK_OPTIONS])


@dataclasses.dataclass(frozen=True)
class EndpointRequest:
    """NetworkDriver.CreateEndpoint: a workload to be. `addresses` maps 4 and 6 to an address."""

    id: str
    addresses: t.Mapping[int, str]
    mac: t.Optional[str]
    options: ContainerOptions
    name: str

    @classmethod
    def from_body(cls, body: Body) -> EndpointRequest:
        found = _read(_ENDPOINT, body)
        interface, options = found["Interface"], found["Options"]
        addresses: dict[int, str] = {}
        for version, field in ((4, "Address"), (6, "AddressIPv6")):
            address = address_of(interface[field], field)
            if address is None:
                continue
            if ipaddress.ip_address(address).version != version:
                raise RefusedRequest(f"{field} {address} is not an IPv{version} address.")
            addresses[version] = address
        if not addresses:
            raise RefusedRequest("The endpoint has no address. Make its network with --ipam-driver calico.")
        published_of(options)
        own = {key: value for key, value in options.items() if not key.startswith(_DOCKERS)}
        name = own.pop(NAME_OPTION, "")
        if name != "" and not (isinstance(name, str) and _NAME.fullmatch(name)):
            raise RefusedRequest(
                f"driver-opt {NAME_OPTION}={shown(name)} is not a name: 1 to 100 letters, digits, '-', '_' and '.', a"
                " letter or digit at its ends."
            )
        mac = interface["MacAddress"].lower() or None
        return cls(found["EndpointID"], addresses, mac, container_options.read(own, "driver-opt"), name)

    @property
    def workload_name(self) -> str:
        """The name of the workload: "<name>.<first 12 digits of the endpoint's id>", or the id without a name."""
        return f"{self.name}.{self.id[:12]}" if self.name else self.id
