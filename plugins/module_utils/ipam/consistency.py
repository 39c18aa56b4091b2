# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check whether the addresses that a node assigned are those in use on it: the result of `calicoctl ipam check`.

The text follows that of Calico's command. Only the node that owns a block assigns addresses of it, so one node is
enough.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.addresses import canonical_address, canonical_cidr, inside
from .allocations import Allocation
from .block_walk import BlockSet


class Grants(t.NamedTuple):
    """The part of the plan that belongs to the node.

    `pools` maps the names of active pools to CIDRs. `blocks` are (CIDR, pool, whether it is a spare block, not opened).
    `planned` maps the addresses of tunnels, of the inventory's workloads and of the probe endpoint to their handles.
    """

    node: str
    pools: t.Mapping[str, str]
    blocks: t.Sequence[tuple[str, str, bool]]
    planned: t.Mapping[str, str]


class Use(t.NamedTuple):
    """An address in use, or planned for use, and the handle that has it."""

    address: str
    handle: str


class Mismatch(t.NamedTuple):
    """An address that IPAM assigned to `handle` or planned for it, but that only others use; `user` is the first."""

    address: str
    handle: str
    user: str


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a check. `lines` are for people.

    Each entry of the other fields is a problem; all but `invalid` are in order of addresses.
    """

    lines: tuple[str, ...]
    leaked: tuple[Allocation, ...]  # allocated, not in use
    unused: tuple[Use, ...]  # planned for a tunnel, an inventory workload or the probe endpoint, not in use
    missing: tuple[Use, ...]  # in use, in an active pool, neither allocated nor planned
    outside: tuple[Use, ...]  # in use, in no active pool, neither allocated nor planned
    mismatched: tuple[Mismatch, ...]
    duplicate: tuple[tuple[str, tuple[str, ...]], ...]  # (address, handles) in use by several
    invalid: tuple[str, ...]  # a sentence for each fault of blocks, allocations or planned addresses

    @property
    def problems(self) -> int:
        found: tuple[t.Sized, ...] = (self.leaked, self.unused, self.missing, self.outside, self.mismatched)
        return sum(map(len, (*found, self.duplicate, self.invalid)))

    def to_dict(self) -> dict[str, t.Any]:
        """Return the report as a dict of plain values for JSON: the fields, and `problems` for their number."""
        kinds = ("leaked", "unused", "missing", "outside", "mismatched")
        return {
            "lines": list(self.lines),
            "problems": self.problems,
            **{kind: [found._asdict() for found in getattr(self, kind)] for kind in kinds},
            "duplicate": [{"address": address, "users": list(users)} for address, users in self.duplicate],
            "invalid": list(self.invalid),
        }


def check(
    allocations: t.Sequence[Allocation],
    workloads: t.Mapping[str, t.Sequence[str]],
    tunnels: t.Mapping[str, str],
    grants: Grants,
    probes: t.Collection[tuple[str, str]],
) -> Report:
    """Compare what IPAM assigned and planned with what is in use, and return a report.

    `workloads` maps a handle to the addresses that the workload has, workloads of the inventory included, `tunnels` the
    handle of a tunnel to its address. `probes` has (handle, address) for each address of the probe endpoint. Addresses
    are compared as texts, so each must be canonical. Raise ValueError if a text is not an address or CIDR, or a CIDR
    has host bits.
    """
    users: dict[str, list[str]] = {}
    single = [(handle, (address,)) for handle, address in (*tunnels.items(), *probes)]
    for handle, addresses in [*workloads.items(), *single]:
        for address in addresses:
            users.setdefault(address, []).append(handle)
    given = {held.address: held.handle for held in allocations}
    booked = {**given, **grants.planned}

    leaked = [held for held in allocations if held.address not in users]
    unused = [Use(address, handle) for address, handle in grants.planned.items() if address not in users]
    stray = [Use(address, handles[0]) for address, handles in users.items() if address not in booked]
    pools = BlockSet(canonical_cidr(cidr) for cidr in grants.pools.values())
    outside = [use for use in stray if canonical_address(use.address) not in pools]
    missing = [use for use in stray if use not in outside]
    mismatched = [
        Mismatch(address, handle, users[address][0])
        for address, handle in booked.items()
        if address in users and handle not in users[address]
    ]
    duplicate = [(address, tuple(handles)) for address, handles in users.items() if len(handles) > 1]
    report = Report(
        (),
        leaked=tuple(sorted(leaked, key=_by_address)),
        unused=tuple(sorted(unused, key=_by_address)),
        missing=tuple(sorted(missing, key=_by_address)),
        outside=tuple(sorted(outside, key=_by_address)),
        mismatched=tuple(sorted(mismatched, key=_by_address)),
        duplicate=tuple(sorted(duplicate, key=_by_address)),
        invalid=tuple(_invalid(allocations, grants, given)),
    )
    text = _text(report, allocations, workloads, (len(tunnels), len(probes)), grants, users, booked)
    return dataclasses.replace(report, lines=tuple(text))


def _invalid(allocations: t.Sequence[Allocation], grants: Grants, given: t.Mapping[str, str]) -> t.Iterator[str]:
    blocks = [(canonical_cidr(cidr), cidr, pool, spare) for cidr, pool, spare in grants.blocks]
    opened = BlockSet(bounds for bounds, _cidr, _pool, spare in blocks if not spare)
    for _bounds, cidr, pool, _spare in blocks:
        outer = grants.pools.get(pool)
        if outer is not None and not inside(cidr, outer):
            yield f"block {cidr} lies outside of pool {pool} ({outer})"
    ordered = sorted((bounds, cidr) for bounds, cidr, _pool, _spare in blocks)
    for (one, one_cidr), (other, other_cidr) in zip(ordered, ordered[1:]):
        if other[:2] in BlockSet([one]):
            yield f"blocks {one_cidr} and {other_cidr} overlap"
    for held in allocations:
        if canonical_address(held.address) not in opened:
            yield f"{held.address} of {held.handle} lies in no open block of this node"
    for address, handle in grants.planned.items():
        if canonical_address(address) not in opened:
            yield f"{address} of {handle} lies in no open block of this node"
        if address in given:
            yield f"{address} is planned for {handle} and allocated to {given[address]}"


def _text(
    report: Report,
    allocations: t.Sequence[Allocation],
    workloads: t.Mapping[str, t.Sequence[str]],
    own: tuple[int, int],
    grants: Grants,
    users: t.Mapping[str, t.Sequence[str]],
    booked: t.Mapping[str, str],
) -> t.Iterator[str]:
    blocks = [cidr for cidr, dummy, spare in grants.blocks if not spare]
    yield "Checking IPAM for inconsistencies..."
    yield ""
    yield "Loading all IPAM blocks..."
    yield f"Found {len(blocks)} IPAM blocks."
    for cidr in blocks:
        yield f" IPAM block {cidr} affinity=host:{grants.node}:"
    yield f"IPAM blocks record {len(booked)} allocations."
    yield ""
    yield "Loading all IPAM pools..."
    for cidr in grants.pools.values():
        yield f"  {cidr}"
    yield f"Found {len(grants.pools)} active IP pools."
    yield ""
    yield "Loading all nodes."
    tunnels, probes = own
    yield f"Found {tunnels} node tunnel IPs."
    if probes:
        yield f"Found {probes} probe endpoint IPs."
    yield ""
    yield "Loading all workload endpoints."
    yield f"Found {sum(map(len, workloads.values()))} workload IPs."
    yield f"Workloads and nodes are using {len(users)} IPs."
    yield ""
    yield "Loading all handles"
    yield "Looking for top (up to 20) nodes by allocations..."
    yield f"  {grants.node} has {len(booked)} allocations"
    yield f"Node with most allocations has {len(booked)}; median is {len(booked)}"
    yield ""
    yield "Scanning for IPs that are allocated but not actually in use..."
    for held in report.leaked:
        attributes = {"handle_id": held.handle, **dict(sorted(held.attributes.items()))}
        yield f"  {held.address} leaked; attrs {' '.join(f'{name}={value}' for name, value in attributes.items())}"
    for use in report.unused:
        yield f"  {use.address} planned for {use.handle}, which does not have it"
    yield (f"Found {len(report.leaked) + len(report.unused)} IPs that are allocated in IPAM but not actually in use.")
    yield "Scanning for IPs that are in use by a workload or node but not allocated in IPAM..."
    for use in report.outside:
        yield f"  {use.address} in use by {use.handle}, not in any active IP pool"
    yield f"Found {len(report.outside)} in-use IPs that are not in active IP pools."
    for use in report.missing:
        yield f"  {use.address} in use by {use.handle}, not allocated"
    yield (
        f"Found {len(report.missing)} in-use IPs that are in active IP pools but have no corresponding IPAM allocation."
    )
    yield "Scanning for IPs that are in use by another than they were allocated to, or by several..."
    for mismatch in report.mismatched:
        yield f"  {mismatch.address} in use by {mismatch.user}, allocated to {mismatch.handle}"
    yield f"Found {len(report.mismatched)} IPs in use by another than IPAM says."
    for address, handles in report.duplicate:
        yield f"  {address} in use by {', '.join(handles)}"
    yield f"Found {len(report.duplicate)} IPs in use in several places."
    yield ""
    # Each allocation is stored with its handle. So Calico's checks of handles and IPs, printed next, find nothing.
    yield "Scanning for IPAM handles with no matching IPs..."
    yield f"Found 0 handles with no matching IPs (and {len(set(booked.values()))} handles with matches)."
    yield "Scanning for IPs with missing handle..."
    yield "Found 0 handles mentioned in blocks with no matching handle resource."
    yield "Validating IPAMBlock structures..."
    for sentence in report.invalid:
        yield f"  {sentence}"
    yield f"Found {len(report.invalid)} invalid IPAMBlocks."
    yield f"Check complete; found {report.problems} problems."


def _by_address(entry: t.Any) -> tuple[int, int]:
    return canonical_address(entry[0])
