# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of the workloads that a node reports: what other nodes may use of them.

Other nodes match packets by these addresses and labels. So a node may report only its own addresses: single ones inside
its own blocks, spare ones included. Names, labels, interfaces and ports follow the rules of Calico's resources.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import typing as t

from ...base import addresses
from ...base.typed_json import shown
from ...policy.index.labels import namespaced_labels
from ...policy.model import PROTOCOLS_WITH_PORTS, WORKLOAD_ENDPOINT, DefinedPort, Endpoint
from ...resources.errors import Refused
from ...resources.fields import FILLED_NAME, NAME_LIMIT
from ...resources.metadata import LABELS
from ...resources.ports import MAX_PORT, PORT_NAME
from . import limits
from .left_out import LeftOut

_FIELDS = frozenset(field.name for field in dataclasses.fields(Endpoint))
#: The form of a workload's own name and of its namespace. Names of Kubernetes and of containers have it.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?", re.ASCII)
_NAMESPACE_LIMIT = 63  # characters; the namespace is also the value of a label, which has no more
_INTERFACE = re.compile(r"[a-zA-Z0-9_.-]{1,15}", re.ASCII)


class OwnBlocks:
    """The blocks of one node. `address in blocks` tests whether an address lies in one of them.

    The constructor raises ValueError if a text is not a CIDR, or has host bits.
    """

    def __init__(self, cidrs: t.Iterable[str]) -> None:
        self.cidrs = tuple(cidrs)
        self._owners = BlockOwners((cidr, "") for cidr in self.cidrs)

    def __contains__(self, address: addresses.Address) -> bool:
        return self._owners.of(address) is not None


class BlockOwners:
    """The owners of many blocks, from (CIDR, owner) pairs. A look-up takes time by the number of block sizes only.

    The constructor raises ValueError if a text is not a CIDR, or has host bits.
    """

    def __init__(self, blocks: t.Iterable[tuple[str, str]]) -> None:
        self._owners: dict[tuple[int, int, int], str] = {}
        for text, owner in blocks:
            cidr = addresses.parse_cidr(text)
            if cidr is None or not cidr.strict:
                raise ValueError(f"{shown(text)} is not a block")
            self._owners[cidr.version, cidr.length, cidr.network] = owner
        lengths = {(version, length) for version, length, dummy in self._owners}
        self._lengths = sorted(lengths, reverse=True)  # the longest prefix first

    def of(self, address: addresses.Address) -> t.Optional[str]:
        """Return the owner of the smallest block that contains the address, or None if none does."""
        for version, length in self._lengths:
            if version == address.version:
                shift = addresses.BITS[version] - length
                owner = self._owners.get((version, length, address.number >> shift << shift))
                if owner is not None:
                    return owner
        return None


def single_address(text: t.Any) -> t.Optional[addresses.Address]:
    """Return the address if `text` is one in its canonical form, without a prefix length; None for anything else."""
    if not isinstance(text, str) or len(text) > 39:
        return None
    found = addresses.parse_address(text)
    return found if found is not None and found.text == text else None


def read_endpoints(
    node: str, data: t.Any, blocks: t.Optional[OwnBlocks]
) -> tuple[tuple[Endpoint, ...], tuple[LeftOut, ...]]:
    """Return the workloads that `node` reported in `data`, sorted by name, and the parts of it that are left out.

    `data` should be a list as `plain_data.to_plain` makes it. A workload is left out if a field is invalid or unknown,
    or if an earlier accepted one has its name, its interface or one of its addresses. Labels for the namespace are not
    taken from `data` but made here. Nothing is raised. `blocks` are the node's, and must contain all addresses; None
    checks only their form.
    """
    if not isinstance(data, (list, tuple)):
        return (), (LeftOut(node, "the list of its workloads", f"it is {shown(data)}."),)
    left_out: list[LeftOut] = []
    found: dict[str, Endpoint] = {}
    taken: set[str] = set()  # interfaces and addresses of the accepted workloads, in one set
    for index, entry in enumerate(data[: limits.ENDPOINTS]):
        try:
            one = read_endpoint(node, entry, blocks)
            if one.name in found:
                raise RefusedEndpoint("it stands there twice.")
            for text in (one.interface, *one.addresses):
                if text in taken:
                    raise RefusedEndpoint(f"another workload of the node has {text}.")
        except RefusedEndpoint as refusal:
            left_out.append(LeftOut(node, _called(entry, index), str(refusal)))
            continue
        found[one.name] = one
        taken.update((one.interface, *one.addresses))
    if len(data) > limits.ENDPOINTS:
        count = len(data) - limits.ENDPOINTS
        why = f"a node tells of at most {limits.ENDPOINTS} workloads."
        left_out.append(LeftOut(node, f"the rest of its workloads, {count} of them,", why))
    return tuple(found[name] for name in sorted(found)), tuple(left_out)


class RefusedEndpoint(Exception):
    """The reason why a workload is left out: a clause that ends in a full stop."""


def _called(entry: t.Any, index: int) -> str:
    name = entry.get("name") if isinstance(entry, t.Mapping) else None
    return f"workload {shown(name)}" if isinstance(name, str) and name else f"workload number {index + 1}"


def read_endpoint(node: str, data: t.Any, blocks: t.Optional[OwnBlocks]) -> Endpoint:
    """Return one workload that `node` reports in `data`, as an entry of the list for `read_endpoints`.

    Raise RefusedEndpoint if a field is invalid or unknown, or an address does not lie in `blocks`.
    """
    if not isinstance(data, t.Mapping):
        raise RefusedEndpoint(f"it is {shown(data)}.")
    if not _FIELDS.issuperset(data):
        unknown = next(name for name in data if name not in _FIELDS)
        raise RefusedEndpoint(f"this release does not know its field {shown(unknown)}.")
    if data.get("kind") != WORKLOAD_ENDPOINT:
        raise RefusedEndpoint(f"its kind is {shown(data.get('kind'))}, and nodes tell of workloads alone.")
    if data.get("node") != node:
        raise RefusedEndpoint(f"it is on {shown(data.get('node'))}, and a node speaks for itself alone.")
    name, namespace = _name(data)
    interface = data.get("interface")
    if not isinstance(interface, str) or not _INTERFACE.fullmatch(interface):
        raise RefusedEndpoint(f"its interface {shown(interface)} is not the name of an interface.")
    return Endpoint(
        kind=WORKLOAD_ENDPOINT,
        name=name,
        node=node,
        interface=str.__str__(interface),
        addresses=_addresses(data.get("addresses"), blocks),
        labels=_labels(data.get("labels", {}), namespace),
        profiles=tuple(_profile(one) for one in _list(data, "profiles", limits.PROFILES)),
        ports=tuple(_port(one) for one in _list(data, "ports", limits.PORTS)),
        namespace=namespace,
    )


def _name(data: t.Mapping[str, t.Any]) -> tuple[str, str]:
    """Return the name, `<namespace>/<name>`, and the namespace."""
    name, namespace = data.get("name"), data.get("namespace")
    if not isinstance(name, str) or len(name) > limits.NAME:
        raise RefusedEndpoint(f"its name is not a text of at most {limits.NAME} characters.")
    if not isinstance(namespace, str) or not _NAME.fullmatch(namespace) or len(namespace) > _NAMESPACE_LIMIT:
        raise RefusedEndpoint(f"its namespace {shown(namespace)} is not a name that a namespace can have.")
    before, dummy, own = name.partition("/")
    if before != namespace or not _NAME.fullmatch(own):
        raise RefusedEndpoint("its name is not its namespace, a '/' and the name of a workload.")
    return str.__str__(name), str.__str__(namespace)


def _addresses(data: t.Any, blocks: t.Optional[OwnBlocks]) -> tuple[str, ...]:
    if not isinstance(data, (list, tuple)) or not 1 <= len(data) <= limits.ADDRESSES:
        raise RefusedEndpoint(f"its addresses are not a list of 1 to {limits.ADDRESSES}.")
    for text in data:
        address = single_address(text)
        if address is None:
            raise RefusedEndpoint(f"{shown(text)} is not a single address.")
        if blocks is not None and address not in blocks:
            raise RefusedEndpoint(f"its address {text} lies in none of the node's blocks.")
    if len(set(data)) < len(data):
        raise RefusedEndpoint("it has an address twice.")
    return tuple(str.__str__(text) for text in data)


def _labels(data: t.Any, namespace: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(data, t.Mapping) or len(data) > limits.LABELS:
        raise RefusedEndpoint(f"its labels are not a table of at most {limits.LABELS}.")
    try:
        labels = LABELS.read(data)
    except Refused as refused:
        raise RefusedEndpoint(f"{shown(refused.value)} {refused.rule}") from None
    # The labels for the namespace are set here, so that a workload cannot claim another namespace.
    return namespaced_labels(labels, namespace)


def _profile(data: t.Any) -> str:
    with contextlib.suppress(Refused):
        if isinstance(data, str) and len(data) <= NAME_LIMIT:
            return FILLED_NAME.read(data)
    raise RefusedEndpoint(f"{shown(data)} is not the name of a profile.")


def _port(data: t.Any) -> DefinedPort:
    if not isinstance(data, t.Mapping) or set(data) != {"name", "protocol", "port"}:
        raise RefusedEndpoint("one of its ports is not a name, a protocol and a port.")
    name, protocol, port = data["name"], data["protocol"], data["port"]
    try:
        PORT_NAME.read(name)
    except Refused:
        raise RefusedEndpoint(f"{shown(name)} is not the name of a port.") from None
    if not isinstance(protocol, str) or protocol not in PROTOCOLS_WITH_PORTS:
        raise RefusedEndpoint(f"{shown(protocol)} is not a protocol that has ports.")
    if not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= MAX_PORT:
        raise RefusedEndpoint(f"{shown(port)} is not a port.")
    return DefinedPort(str.__str__(name), str.__str__(protocol), int.__int__(port))


def _list(data: t.Mapping[str, t.Any], field: str, most: int) -> t.Sequence[t.Any]:
    found = data.get(field, ())
    if not isinstance(found, (list, tuple)) or len(found) > most:
        raise RefusedEndpoint(f"its {field} are not a list of at most {most}.")
    return found
