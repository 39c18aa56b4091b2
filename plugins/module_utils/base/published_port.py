# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Published ports: ports of the host that lead to a workload, as values and as people write them."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

from .addresses import family_of
from .ports import BFD_PORTS, BGP_PORT, VXLAN_PORT
from .terminal_text import cut

PROTOCOLS = ("tcp", "udp", "sctp")
#: The most ports that one workload may publish.
LIMIT = 1024
MAX_PORT = 65535

#: The port of the agent's metrics, and those of the fleet's own protocols, which run on every node.
_METRICS_PORT = 9091
_OWN = {
    ("tcp", BGP_PORT): "BGP",
    ("tcp", _METRICS_PORT): "the agent's metrics",
    ("udp", VXLAN_PORT): "VXLAN",
    **{("udp", port): "BFD" for port in BFD_PORTS},
}
_PUBLISH = re.compile(
    r"(?:(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<four>[0-9]+(?:\.[0-9]+){3})):)?(?:(?P<host>[0-9]+(?:-[0-9]+)?)?:)?"
    r"(?P<inner>[0-9]+(?:-[0-9]+)?)(?:/(?P<protocol>[a-z]+))?",
    re.ASCII,
)


class InvalidPort(ValueError):
    """A port that cannot be published. The text says what is wrong, and what to write."""


@dataclasses.dataclass(frozen=True, order=True)
class PublishedPort:
    """A port of the host that leads to `port` of a workload.

    `protocol` is one of PROTOCOLS. `host_address` is an address of the host, "" for all of the IP versions that the
    workload has. `host_port` 0 asks for any that is free.
    """

    protocol: str
    host_port: int
    port: int
    host_address: str = ""

    def __str__(self) -> str:
        address = f"[{self.host_address}]" if ":" in self.host_address else self.host_address
        return f"{address}{':' if address else ''}{self.host_port}:{self.port}/{self.protocol}"

    def to_dict(self) -> dict[str, t.Any]:
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, data: t.Any) -> PublishedPort:
        """Return the port in `data`. Raise InvalidPort for anything else than the fields of a port that may be."""
        if not isinstance(data, t.Mapping) or not set(data) <= {field.name for field in dataclasses.fields(cls)}:
            raise InvalidPort("A port is an object with protocol, host_port, port and host_address.")
        return published(
            data.get("protocol", "tcp"), data.get("host_address", ""), data.get("host_port", 0), data.get("port")
        )

    def families(self, addresses: t.Iterable[str]) -> tuple[int, ...]:
        """Return the IP versions for which the port leads to a workload with these addresses."""
        own = sorted({family_of(address) for address in addresses})
        wanted = (family_of(self.host_address),) if self.host_address else (4, 6)
        return tuple(family for family in own if family in wanted)


def published(protocol: t.Any, host_address: t.Any, host_port: t.Any, port: t.Any) -> PublishedPort:
    """Return a port from its parts. Raise InvalidPort for a part that cannot be."""
    if not isinstance(protocol, str) or protocol.lower() not in PROTOCOLS:
        raise InvalidPort(f"The protocol {_shown(protocol)} has no ports to publish. Use tcp, udp or sctp.")
    for name, value, least in (("port of the host", host_port, 0), ("port of the workload", port, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= MAX_PORT:
            raise InvalidPort(f"The {name} {_shown(value)} is not a port. Use a number from {least} to {MAX_PORT}.")
    return PublishedPort(protocol.lower(), host_port, port, _host_address(host_address))


def _host_address(text: t.Any) -> str:
    """Return an address of the host in its canonical form; "" for none, and for that of IPv4 and IPv6 together.

    0.0.0.0 and :: stay, because they mean all addresses of one IP version.
    """
    if text in ("", None):
        return ""
    try:
        found = ipaddress.ip_address(text) if isinstance(text, str) and "%" not in text else None
    except ValueError:
        found = None
    if found is None or found.is_multicast or (isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped):
        raise InvalidPort(f"{_shown(text)} is not an address of a host. Write one, or leave it out for all of them.")
    return str(found)


def _shown(value: t.Any) -> str:
    return cut(repr(value))


def parse(text: str) -> tuple[PublishedPort, ...]:
    """Return the ports that `[HOSTADDRESS:][HOSTPORT[-END]:]PORT[-END][/PROTOCOL]` means, as podman writes it.

    Raise InvalidPort for another text, and for ranges of different lengths.
    """
    found = _PUBLISH.fullmatch(text)
    if found is None:
        raise InvalidPort(
            f"{_shown(text)} does not say which port is published. Write it as 8080:80, 127.0.0.1:8080:80/tcp or"
            " 8000-8009:80-89."
        )
    inner = _range(found["inner"])
    outer = _range(found["host"]) if found["host"] else [0] * min(len(inner), LIMIT + 1)
    if len(inner) != len(outer):
        raise InvalidPort(f"{_shown(text)} has ranges of different lengths. Give both the same number of ports.")
    if len(inner) > LIMIT:
        raise InvalidPort(f"{_shown(text)} has {len(inner)} ports. A workload publishes at most {LIMIT}.")
    address, protocol = found["six"] or found["four"] or "", found["protocol"] or "tcp"
    return tuple(published(protocol, address, outside, inside) for outside, inside in zip(outer, inner))


def texts(ports: t.Iterable[PublishedPort]) -> list[str]:
    """Return ports as people write them, in their order; neighbours that follow each other are one range."""
    runs: list[tuple[PublishedPort, int]] = []  # the first port of a range, and the number of the others
    for port in ports:
        if runs:
            first, more = runs[-1]
            after = dataclasses.replace(first, host_port=first.host_port + more + 1, port=first.port + more + 1)
            if port == after and first.host_port:
                runs[-1] = first, more + 1
                continue
        runs.append((port, 0))
    return [_range_text(first, more) for first, more in runs]


def _range_text(first: PublishedPort, more: int) -> str:
    if not more:
        return str(first)
    before = str(first).removesuffix(f"{first.host_port}:{first.port}/{first.protocol}")
    outside, inside = f"{first.host_port}-{first.host_port + more}", f"{first.port}-{first.port + more}"
    return f"{before}{outside}:{inside}/{first.protocol}"


def _range(text: str) -> range:
    first, dash, last = text.partition("-")
    if len(first) > 5 or len(last) > 5 or dash and int(last) < int(first):
        raise InvalidPort(f"{_shown(text)} is not a range of ports. Write the smaller one first, as 8000-8009.")
    return range(int(first), int(last or first) + 1)


def check(ports: t.Collection[PublishedPort], addresses: t.Collection[str]) -> None:
    """Check that a workload with these addresses may publish `ports` beside each other.

    Raise InvalidPort for too many, for two that collide, and for one of an IP version that the workload lacks.
    """
    if len(ports) > LIMIT:
        raise InvalidPort(f"{len(ports)} ports are too many. A workload publishes at most {LIMIT}.")
    seen: dict[tuple[str, int, int], list[PublishedPort]] = {}
    for port in ports:
        families = port.families(addresses)
        if not families:
            raise InvalidPort(
                f"{port} leads to no address: the workload has {_versions(addresses)}. Leave the host's address out, or"
                " give one of that IP version."
            )
        for family in families if port.host_port else ():
            others = seen.setdefault((port.protocol, port.host_port, family), [])
            for other in others:
                if collide(port, addresses, other, addresses):
                    raise InvalidPort(f"{port} and {other} are the same port of the host. Give each another one.")
            others.append(port)


def _versions(addresses: t.Iterable[str]) -> str:
    return " and ".join(f"IPv{family}" for family in sorted({family_of(one) for one in addresses})) or "no address"


def collide(
    one: PublishedPort, addresses: t.Iterable[str], other: PublishedPort, others_addresses: t.Iterable[str]
) -> bool:
    """Return whether two ports, each of a workload with these addresses, are the same port of the host.

    A port that is still to be chosen collides with none.
    """
    if (one.protocol, one.host_port) != (other.protocol, other.host_port) or not one.host_port:
        return False
    if set(one.families(addresses)).isdisjoint(other.families(others_addresses)):
        return False
    return is_any(one.host_address) or is_any(other.host_address) or one.host_address == other.host_address


def is_any(host_address: str) -> bool:
    """Return whether a host address means all addresses of the host, of one or of both IP versions."""
    return host_address in ("", "0.0.0.0", "::")


def owner(port: PublishedPort, failsafes: t.Iterable[tuple[str, int]]) -> str:
    """Return what the host itself needs a port for, "" if for nothing.

    `failsafes` are (protocol, port) of the ports of the host that no policy can close.
    """
    key = port.protocol, port.host_port
    if key in _OWN:
        return _OWN[key]
    return "a failsafe port, by which the host stays reachable" if key in set(failsafes) else ""
