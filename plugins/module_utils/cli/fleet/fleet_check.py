# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of a fleet's blocks and published workloads with what its nodes say that they hold. No I/O.

What a node says is input, and so is what it has published: it counts for that node alone. An address outside of the
node's blocks is its own problem, and none of the node whose block it lies in.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import addresses
from ...state.answers.endpoints import BlockOwners
from ..sources import Data

if t.TYPE_CHECKING:
    from .published_fleet import PublishedFleet

#: The most entries of a kind of problem that lines have. Data have all.
_SHOWN = 100

#: Kinds of problems that are there for a moment whenever a workload comes or goes.
MOMENTARY = ("unpublished", "stale", "counts")

Held = t.Mapping[str, tuple[str, ...]]


class NodeHolds(t.NamedTuple):
    """What a node says of itself: the CIDRs of its blocks, and the addresses of its workloads by their names.

    `attached` came between runs, and `planned` are the inventory's. `allocated` are the addresses that its agent has
    assigned, None if that was not asked for.
    """

    blocks: tuple[str, ...]
    attached: Held
    planned: Held
    allocated: t.Optional[frozenset[str]] = None

    @property
    def workloads(self) -> dict[str, tuple[str, ...]]:
        return {**self.planned, **self.attached}


class FleetKnowledge(t.NamedTuple):
    """What a check compares.

    `blocks` are the CIDRs of each node by `source`, which is "etcd" or "the lockfile". `published` is {node: {workload:
    addresses}}, None without a datastore. `holds` are the answers of nodes, and `silent` says why others gave none.
    `counts` is (workloads that a node counts itself, workloads that it has published) by node, where these differ.
    `complaints` are sentences about documents that are left out.
    """

    source: str
    blocks: t.Mapping[str, tuple[str, ...]]
    published: t.Optional[t.Mapping[str, Held]]
    holds: t.Mapping[str, NodeHolds]
    silent: t.Mapping[str, str] = {}
    counts: t.Mapping[str, tuple[int, int]] = {}
    complaints: tuple[str, ...] = ()


class _Kind(t.NamedTuple):
    """A kind of problem: its name in data, the line before its entries, the end of the line with their number."""

    name: str
    scanning: str
    found: str
    line: str


_KINDS = (
    _Kind(
        "overlapping", "Scanning for blocks of two nodes that overlap...", "overlapping blocks",
        "{cidr} of {node} overlaps with {other} of {other_node}",
    ),
    _Kind(
        "blocks", "Scanning for blocks that only a node or only {source} has...", "blocks that only one of them has",
        "{cidr} of {node} is known to {known_to} alone",
    ),
    _Kind(
        "outside", "Scanning for workloads with addresses outside of their node's blocks...", "IPs outside of blocks",
        "{address} in use by {workload} on {node}, in none of its blocks",
    ),
    _Kind(
        "duplicate", "Scanning for IPs that several workloads use...", "IPs in use in several places",
        "{address} in use by {workloads}",
    ),
    _Kind(
        "leaked", "Scanning for IPs that nodes have assigned to no workload...",
        "IPs that are allocated but not in use",
        "{address} leaked on {node}",
    ),
    _Kind(
        "missing", "Scanning for IPs of attached workloads that are not allocated...", "IPs that are not allocated",
        "{address} in use by {workload} on {node}, not allocated",
    ),
    _Kind(
        "unpublished", "Scanning for workloads that nodes have and etcd has not...", "IPs that are not published",
        "{address} in use by {workload} on {node}, not in etcd",
    ),
    _Kind(
        "stale", "Scanning for workloads that etcd has and their nodes have not...", "IPs that are published only",
        "{address} of {workload} in etcd, not on {node}",
    ),
    _Kind(
        "counts", "Comparing the counts of workloads in heartbeats...", "nodes whose count differs",
        "{node} counts {counted} workloads, and {published} are in etcd",
    ),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class FleetCheck:
    """The result of a check: entries by the kind of problem, and lines for people.

    `silent` nodes and `refused` documents are problems as well, since nothing is known of them.
    """

    found: t.Mapping[str, t.Sequence[Data]]
    asked: tuple[str, ...]
    silent: t.Mapping[str, str]
    refused: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def problems(self) -> int:
        return sum(map(len, self.found.values())) + len(self.silent) + len(self.refused)

    def to_dict(self) -> Data:
        """Return the result as a dict of plain values for JSON."""
        return {
            "lines": list(self.lines),
            "problems": self.problems,
            "asked": list(self.asked),
            "silent": dict(self.silent),
            "refused": list(self.refused),
            **{kind: list(entries) for kind, entries in self.found.items()},
        }


def knowledge_of(published: PublishedFleet) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return {node: {workload: addresses}} of what nodes have published, for `FleetKnowledge.published`."""
    found: dict[str, dict[str, tuple[str, ...]]] = {node: {} for node in published.blocks}
    for one in published.workloads:
        own = found.setdefault(one.endpoint.node, {})
        name = one.endpoint.name
        own[name] = (*own.get(name, ()), *one.endpoint.addresses)
    return found


def check(known: FleetKnowledge, before: t.Optional[FleetCheck] = None) -> FleetCheck:
    """Compare all that is known, and return the result. Texts of addresses and blocks are canonical.

    With `before`, an earlier result, a difference that may be a moment's counts only if that has it, too.
    """
    found = {kind.name: sorted(_FINDERS[kind.name](known), key=str) for kind in _KINDS if _applies(kind.name, known)}
    for kind in MOMENTARY if before is not None else ():
        if before is not None and kind in found:
            earlier = set(map(str, before.found.get(kind, ())))
            found[kind] = [entry for entry in found[kind] if str(entry) in earlier]
    made = FleetCheck(found, tuple(sorted(known.holds)), dict(sorted(known.silent.items())), known.complaints, ())
    return dataclasses.replace(made, lines=tuple(_text(known, made)))


def _applies(kind: str, known: FleetKnowledge) -> bool:
    if kind in ("unpublished", "stale"):
        return known.published is not None and bool(known.holds)
    if kind in ("leaked", "missing"):
        return any(held.allocated is not None for held in known.holds.values())
    if kind == "blocks":
        return bool(known.holds)
    return kind != "counts" or known.published is not None


def _overlapping(known: FleetKnowledge) -> t.Iterator[Data]:
    """Yield each block that begins inside an earlier one of another node."""
    found = [(*_ends(cidr), cidr, node) for node, cidrs in known.blocks.items() for cidr in cidrs]
    widest: t.Optional[tuple[int, int, int, str, str]] = None
    for block in sorted(found, key=lambda one: (one[0], one[1], -one[2], one[4])):
        version, first, last, cidr, node = block
        if widest is not None and widest[0] == version and first <= widest[2]:
            if node != widest[4]:
                yield {"cidr": cidr, "node": node, "other": widest[3], "other_node": widest[4]}
            if last <= widest[2]:
                continue
        widest = block


def _ends(cidr: str) -> tuple[int, int, int]:
    first, last = addresses.bounds(cidr)
    return addresses.family_of(cidr), first, last


def _blocks(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        granted = set(known.blocks.get(node, ()))
        for cidr in granted.symmetric_difference(held.blocks):
            yield {"cidr": cidr, "node": node, "known_to": known.source if cidr in granted else node}


def _outside(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        own = _owners(known, node)
        yield from (one for one in _entries(node, held.workloads) if not _is_in(own, one["address"]))


def _duplicate(known: FleetKnowledge) -> t.Iterator[Data]:
    """Yield each address in blocks of its node that several workloads have, by what nodes say or else published."""
    users: dict[str, set[str]] = {}
    for node in {*known.blocks, *known.holds}:
        held = known.holds[node].workloads if node in known.holds else (known.published or {}).get(node, {})
        own = _owners(known, node)
        for one in (one for one in _entries(node, held) if _is_in(own, one["address"])):
            users.setdefault(one["address"], set()).add(f"{one['workload']} on {node}")
    for address, names in users.items():
        if len(names) > 1:
            yield {"address": address, "workloads": sorted(names)}


def _leaked(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        in_use = _all(held.workloads)
        yield from ({"node": node, "address": one} for one in (held.allocated or frozenset()) - in_use)


def _missing(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        if held.allocated is not None:
            yield from _without(held.allocated, _entries(node, held.attached))


def _unpublished(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        yield from _without(_all((known.published or {}).get(node, {})), _entries(node, held.workloads))


def _stale(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, held in known.holds.items():
        yield from _without(_all(held.workloads), _entries(node, (known.published or {}).get(node, {})))


def _counts(known: FleetKnowledge) -> t.Iterator[Data]:
    for node, (counted, published) in known.counts.items():
        yield {"node": node, "counted": counted, "published": published}


_FINDERS: t.Mapping[str, t.Callable[[FleetKnowledge], t.Iterator[Data]]] = {
    "overlapping": _overlapping,
    "blocks": _blocks,
    "outside": _outside,
    "duplicate": _duplicate,
    "leaked": _leaked,
    "missing": _missing,
    "unpublished": _unpublished,
    "stale": _stale,
    "counts": _counts,
}


def _entries(node: str, held: Held) -> t.Iterator[Data]:
    """Yield an entry for each address of a node's workloads."""
    for workload, own in held.items():
        yield from ({"node": node, "workload": workload, "address": address} for address in own)


def _without(known: t.Collection[str], entries: t.Iterable[Data]) -> t.Iterator[Data]:
    """Yield the entries whose address is not in `known`."""
    return (one for one in entries if one["address"] not in known)


def _all(held: Held) -> frozenset[str]:
    return frozenset(address for own in held.values() for address in own)


def _owners(known: FleetKnowledge, node: str) -> BlockOwners:
    return BlockOwners((cidr, node) for cidr in known.blocks.get(node, ()))


def _is_in(owners: BlockOwners, text: str) -> bool:
    address = addresses.parse_address(text)
    return address is not None and owners.of(address) is not None


def _text(known: FleetKnowledge, made: FleetCheck) -> t.Iterator[str]:
    yield "Checking IPAM of the fleet..."
    yield ""
    yield f"Loading what {known.source} has..."
    yield f"Found {sum(map(len, known.blocks.values()))} blocks of {len(known.blocks)} nodes."
    if known.published is not None:
        workloads = sum(map(len, known.published.values()))
        count = sum(len(_all(held)) for held in known.published.values())
        yield f"Found {workloads} published workloads with {count} IPs."
    for sentence in made.refused:
        yield f"  {sentence}"
    yield ""
    if made.asked or made.silent:
        yield "Loading what the nodes have..."
        in_use = sum(len(_all(held.workloads)) for held in known.holds.values())
        yield f"Found {len(made.asked)} nodes that answer, with {in_use} IPs of workloads."
        for node, why in made.silent.items():
            yield f"  {node} does not answer: {why}"
        yield ""
    for kind in _KINDS:
        if kind.name not in made.found:
            continue
        entries = made.found[kind.name]
        yield kind.scanning.format(source=known.source)
        for entry in entries[:_SHOWN]:
            shown = {name: ", ".join(one) if isinstance(one, list) else one for name, one in entry.items()}
            yield f"  {kind.line.format(**shown)}"
        if len(entries) > _SHOWN:
            yield f"  and {len(entries) - _SHOWN} more"
        yield f"Found {len(entries)} {kind.found}."
    yield f"Check of the fleet complete; found {made.problems} problems."
