# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico's records of addresses: which node has a block, and which of its addresses are in use for what."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ..base.addresses import BITS, canonical_cidr, format_address
from .import_report import ImportReport, Remark

#: The most addresses of a block: Calico's blocks have 64 as a rule.
_MOST_ADDRESSES = 65_536
#: {Calico's kind of a tunnel address: the lockfile's, beginning of the handle that older releases have alone}
_TUNNELS = {
    "ipipTunnelAddress": ("ipip", "ipip-tunnel-addr-"),
    "vxlanTunnelAddress": ("vxlan", "vxlan-tunnel-addr-"),
    "vxlanV6TunnelAddress": ("vxlan6", "vxlan-v6-tunnel-addr-"),
}


@dataclasses.dataclass
class CalicoBlock:
    """A block of Calico: its owner as far as it has one, and the addresses in use.

    `owners` are the nodes that records name, and `claimants` those that have only begun to claim it. `tunnels` maps a
    kind of tunnel of the owner to an address; `users` maps other addresses in use to (node, handle), "" for what is not
    recorded.
    """

    cidr: str
    owners: set[str] = dataclasses.field(default_factory=set)
    claimants: set[str] = dataclasses.field(default_factory=set)
    tunnels: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    users: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)


class CalicoBlocks:
    """The blocks of all records, by CIDR. Records that cannot be read are left out and reported."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self.by_cidr: dict[str, CalicoBlock] = {}

    def add_affinity(self, spec: t.Any, what: str, place: str) -> None:
        """Add a BlockAffinity, unless it is being removed or is of no node."""
        cidr, node = _cidr(spec), spec.get("node") if isinstance(spec, dict) else None
        if cidr is None or not isinstance(node, str) or not node:
            self._report.for_a_person.append(Remark(what, "has no node and CIDR that can be read.", place))
        elif spec.get("type") == "virtual":
            self._report.left_out.append(Remark(what, "is of no node, but of a load balancer.", place))
        elif spec.get("deleted") in (True, "true") or spec.get("state") == "pendingDeletion":
            self._report.left_out.append(Remark(what, "is being removed.", place))
        else:
            block = self._block(cidr)
            (block.claimants if spec.get("state") == "pending" else block.owners).add(node)

    def add_block(self, spec: t.Any, what: str, place: str) -> None:
        """Add an IPAMBlock."""
        cidr = _cidr(spec)
        if cidr is None or not isinstance(spec, dict):
            self._report.for_a_person.append(Remark(what, "has no CIDR that can be read.", place))
            return
        if spec.get("deleted") in (True, "true"):
            self._report.left_out.append(Remark(what, "is being removed.", place))
            return
        block = self._block(cidr)
        affinity = spec.get("affinity")
        if not affinity and isinstance(spec.get("hostAffinity"), str):
            affinity = f"host:{spec['hostAffinity']}"
        if isinstance(affinity, str) and affinity.startswith("host:") and affinity != "host:":
            block.owners.add(affinity[len("host:") :])
        version, first, prefix = canonical_cidr(cidr)
        attributes, allocations = _list(spec, "attributes"), _list(spec, "allocations")
        if len(allocations) > min(_MOST_ADDRESSES, 1 << BITS[version] - prefix):
            self._report.for_a_person.append(Remark(what, "has more allocations than addresses.", place))
            return
        for ordinal, index in enumerate(allocations):
            if isinstance(index, int) and not isinstance(index, bool):
                found = attributes[index] if 0 <= index < len(attributes) else None
                _allocate(block, format_address(version, first + ordinal), found)

    def _block(self, cidr: str) -> CalicoBlock:
        return self.by_cidr.setdefault(cidr, CalicoBlock(cidr))


def _allocate(block: CalicoBlock, address: str, attribute: t.Any) -> None:
    found = attribute if isinstance(attribute, dict) else {}
    owner = found.get("secondary")
    owner = owner if isinstance(owner, dict) else {}
    handle, node = _text(found, "handle_id"), _text(owner, "node")
    if handle == "windows-reserved-ipam-handle":
        return
    for kind, (tunnel, beginning) in _TUNNELS.items():
        if owner.get("type") == kind or (not owner.get("type") and handle.startswith(beginning)):
            block.tunnels[tunnel, node or handle.removeprefix(beginning)] = address
            return
    block.users[address] = (node, handle)


def _list(spec: t.Mapping[str, t.Any], key: str) -> list[t.Any]:
    value = spec.get(key)
    return value if isinstance(value, list) else []


def _text(table: t.Mapping[str, t.Any], key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def most_of(block: CalicoBlock) -> str:
    """Return the node that uses most addresses of a block, "" if none is recorded."""
    counts = collections.Counter(node for node, dummy in block.users.values() if node)
    return max(sorted(counts), key=lambda node: counts[node], default="")


def _cidr(spec: t.Any) -> t.Optional[str]:
    """Return the CIDR of a record in its usual form, None if it is none."""
    text = spec.get("cidr") if isinstance(spec, dict) else None
    if not isinstance(text, str):
        return None
    try:
        version, first, prefix = canonical_cidr(text)
    except ValueError:
        return None
    return f"{format_address(version, first)}/{prefix}"
