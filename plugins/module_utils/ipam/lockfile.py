# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile: an AllocationPlan as a document (dicts and lists) and as the text that people commit.

    version: 1
    generation: 3
    pools: {<pool>: {cidr: <CIDR>, blockSize: <prefix length>, encapsulation: <how the fleet runs it, where known>}}
    nodes:
      <node>:
        blocks: [{cidr: <CIDR>, pool: <pool>}]        open, in the order of opening
        spareBlocks: [{cidr: <CIDR>, pool: <pool>}]
        tunnels: {ipip: <address>, vxlan: <address>, vxlan6: <IPv6 address>}
        workloads: {<workload>: <address>}
        workloads6: {<workload>: <IPv6 address>}      only where there are any
        probes: {<pool>: <address>}                   of the node's probe endpoint, only where there are any
    quarantine: [{cidr: <CIDR>, pool: <pool>, node: <node>, generation: <of the plan that set it aside>, spare: true}]

At the top, only version and generation are required. The text has one line per block and address, in a fixed order. So
a commit shows what changed, and two branches that grant the same block conflict or fail to load.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..base.addresses import canonical_address, canonical_cidr
from ..base.document_limits import LOCKFILE, BeyondLimits, check_yaml
from ..base.typed_json import Unreadable, by_name, flag, items, one_of, table, text, whole
from .allocation_plan import (
    ENCAPSULATIONS,
    TUNNEL_KINDS,
    AllocationPlan,
    BlockGrant,
    NodeAllocations,
    PlannedPool,
    QuarantinedBlock,
)
from .block_walk import BlockSet, BlockSpace
from .errors import LockfileError

__all__ = ["VERSION", "LockfileError", "dump", "from_document", "load", "to_document"]

VERSION = 1

_HEADER = """\
# Who owns which block of addresses: the plan that baremetal.host_routing keeps of this inventory's nodes.
# It is written before any host changes. Commit it with the inventory; do not edit it.
# If it is lost or older than what the nodes run, the next run over all nodes rebuilds it from their copies.
---
"""

_RESTORE = (
    "Restore it from version control, or move it away: a run that reaches all nodes rebuilds it from their copies."
)

#: The lines by which git separates the two sides of a conflict.
_MERGE = re.compile(r"^(<{7}|={7}|>{7})", re.MULTILINE)
_ONE_SIDE = (
    "Take either side whole (git checkout --ours {name}), then run playbooks/site.yml without --limit: it brings the "
    "file up to date from the nodes' copies."
)


def to_document(plan: AllocationPlan) -> dict[str, t.Any]:
    """Return the plan as plain dicts, lists, strings, integers and booleans, in the order in which they are written."""
    nodes = {}
    for name, node in sorted(plan.nodes.items()):
        entry: dict[str, t.Any] = {
            "blocks": [_grant(grant) for grant in node.blocks],
            "spareBlocks": [_grant(grant) for grant in node.spare_blocks],
            "tunnels": dict(sorted(node.tunnels.items())),
            "workloads": dict(sorted(node.workloads.items())),
            "workloads6": dict(sorted(node.workloads6.items())),
            "probes": dict(sorted(node.probes.items())),
        }
        nodes[name] = {key: value for key, value in entry.items() if value}
    return {
        "version": VERSION,
        "generation": plan.generation,
        "pools": {name: _pool(pool, plan.encapsulations.get(name)) for name, pool in sorted(plan.pools.items())},
        "nodes": nodes,
        "quarantine": [
            {
                "cidr": entry.cidr,
                "pool": entry.pool,
                "node": entry.node,
                "generation": entry.generation,
                **({"spare": True} if entry.spare else {}),
            }
            for entry in plan.quarantine
        ],
    }


def _pool(pool: PlannedPool, encapsulation: t.Optional[str]) -> dict[str, t.Any]:
    entry = {"cidr": pool.cidr, "blockSize": pool.block_size}
    return {**entry, "encapsulation": encapsulation} if encapsulation is not None else entry


def _grant(grant: BlockGrant) -> dict[str, str]:
    return {"cidr": grant.cidr, "pool": grant.pool}


def dump(plan: AllocationPlan) -> str:
    """Return the text of the lockfile. The same plan always gives the same text."""
    document = to_document(plan)
    lines = [f"version: {document['version']}", f"generation: {document['generation']}"]
    lines += _mapping("pools", document["pools"], 0, _flow)
    if document["nodes"]:
        lines.append("nodes:")
        for name, node in document["nodes"].items():
            lines.append(f"  {_scalar(name)}:" + ("" if node else " {}"))
            for key in ("blocks", "spareBlocks"):
                if key in node:
                    lines.append(f"    {key}:")
                    lines += [f"      - {_flow(grant)}" for grant in node[key]]
            for key in ("tunnels", "workloads", "workloads6", "probes"):
                if key in node:
                    lines += _mapping(key, node[key], 4, _scalar)
    else:
        lines.append("nodes: {}")
    if document["quarantine"]:
        lines.append("quarantine:")
        lines += [f"  - {_flow(entry)}" for entry in document["quarantine"]]
    else:
        lines.append("quarantine: []")
    return _HEADER + "\n".join(lines) + "\n"


def _mapping(name: str, entries: t.Mapping[str, t.Any], depth: int, show: t.Callable[[t.Any], str]) -> list[str]:
    margin = " " * depth
    if not entries:
        return [f"{margin}{name}: {{}}"]
    return [f"{margin}{name}:", *(f"{margin}  {_scalar(key)}: {show(value)}" for key, value in entries.items())]


def _flow(entry: t.Mapping[str, t.Any]) -> str:
    return "{" + ", ".join(f"{key}: {_scalar(value)}" for key, value in entry.items()) + "}"


#: Text that needs no quotes in YAML, at any place, unless it is in _WORDS: names, IPv4 addresses and CIDRs.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*|[0-9]{1,3}(\.[0-9]{1,3}){3}(/[0-9]{1,2})?")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))


def _scalar(value: t.Union[str, int, bool]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value)


def load(text: str, name: str = ".calico.lock.yml") -> AllocationPlan:
    """Return the plan in the text of a lockfile. `name` is the file's name in errors.

    Raise LockfileError if the text exceeds document_limits.LOCKFILE, is not YAML, has a key twice, or is not a plan
    that `from_document` accepts. Raise ImportError without PyYAML.
    """
    import yaml  # on the controller only, where Ansible brings it

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """A YAML loader that refuses a key that occurs twice, as a manual merge may leave it."""

        def construct_mapping(self, node: t.Any, deep: bool = False) -> dict[t.Any, t.Any]:
            found: dict[t.Any, t.Any] = super().construct_mapping(node, deep)
            if len(found) != len(node.value):
                seen = set()
                for key, _value in node.value:
                    if key.value in seen:
                        mark = key.start_mark.line + 1
                        raise LockfileError("lockfile", name, f"has {key.value} twice (line {mark}).", _RESTORE)
                    seen.add(key.value)
            return found

    try:
        check_yaml(text, Loader, LOCKFILE)
        document = yaml.load(text, Loader=Loader)
    except BeyondLimits as error:
        where = f" (line {error.line})" if error.line else ""
        raise LockfileError("lockfile", name, f"{error.rule[:-1]}{where}.", _RESTORE) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # from PyYAML's constructors
        raise LockfileError("lockfile", name, "has a value that does not fit its tag.", _RESTORE) from error
    except yaml.YAMLError as error:
        merge = _MERGE.search(text)
        if merge is not None:
            line = text.count("\n", 0, merge.start()) + 1
            rule, remedy = f"has marks of a merge that was not finished (line {line}).", _ONE_SIDE.format(name=name)
        else:
            mark = getattr(error, "problem_mark", None)
            where = f" (line {mark.line + 1})" if mark is not None else ""
            rule, remedy = f"cannot be read as YAML: {getattr(error, 'problem', None) or 'bad text'}{where}.", _RESTORE
        raise LockfileError("lockfile", name, rule, remedy) from error
    return from_document(document, name)


def from_document(document: t.Any, name: str = ".calico.lock.yml") -> AllocationPlan:
    """Return the plan in a document of dicts and lists. `name` is the file's name in errors.

    Raise LockfileError for another version, unknown or missing fields, wrong types or values, blocks that are not
    blocks of their pool, addresses outside of their node's open blocks, and a block, address or workload that occurs
    twice.
    """
    return _Reader(name).plan(document)


_NAME = text(least=1)
_GRANT = table({"cidr": text(), "pool": text()})
_POOL = table({"cidr": text(), "blockSize": whole(0, 128)}, {"encapsulation": one_of(*ENCAPSULATIONS)})
_ADDRESSES = by_name(text(), name=_NAME)
_NODE = table(
    {},
    {
        "blocks": items(_GRANT),
        "spareBlocks": items(_GRANT),
        "tunnels": table({}, dict.fromkeys(TUNNEL_KINDS, text())),
        "workloads": _ADDRESSES,
        "workloads6": _ADDRESSES,
        "probes": _ADDRESSES,
    },
)
_QUARANTINED = table({"cidr": text(), "pool": text(), "node": text(), "generation": whole()}, {"spare": flag})
_DOCUMENT = table(
    {"version": whole(), "generation": whole()},
    {"pools": by_name(_POOL, name=_NAME), "nodes": by_name(_NODE, name=_NAME), "quarantine": items(_QUARANTINED)},
)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._spaces: dict[str, BlockSpace] = {}
        self._owners: dict[tuple[int, int, int], str] = {}  # block -> the node or the quarantine that has it, in words
        self._holders: dict[tuple[int, int], str] = {}  # address -> the path in the document at which it stands

    def _fail(self, rule: str, remedy: str = _RESTORE) -> t.NoReturn:
        raise LockfileError("lockfile", self._name, rule, remedy)

    def plan(self, document: t.Any) -> AllocationPlan:
        if document is None:
            self._fail("is empty.")
        if not isinstance(document, dict):
            self._fail("is not a mapping of version, generation, pools, nodes and quarantine.")
        version = document.get("version")
        if version != VERSION or isinstance(version, bool):
            self._fail(
                f"has version {version!r}; this release reads version {VERSION}.",
                "Use the release of the collection that wrote it, or restore the file from version control.",
            )
        try:
            found = _DOCUMENT(document)
        except Unreadable as error:
            self._fail(f"has a wrong field: {error}.")
        pools = {name: self._pool(name, entry) for name, entry in found.get("pools", {}).items()}
        encapsulations = {
            name: entry["encapsulation"] for name, entry in found.get("pools", {}).items() if "encapsulation" in entry
        }
        nodes = {node: self._node(node, entry) for node, entry in found.get("nodes", {}).items()}
        for held in ("workloads", "workloads6"):
            workloads: dict[str, str] = {}
            for node, part in nodes.items():
                for workload in getattr(part, held):
                    if workload in workloads:
                        self._fail(f"has workload {workload} twice, at {workloads[workload]} and at {node}.")
                    workloads[workload] = node
        quarantine = tuple(
            self._quarantined(entry, f"quarantine[{index}]") for index, entry in enumerate(found.get("quarantine", ()))
        )
        return AllocationPlan(found["generation"], pools, nodes, quarantine, encapsulations)

    def _pool(self, pool: str, entry: t.Mapping[str, t.Any]) -> PlannedPool:
        try:
            self._spaces[pool] = BlockSpace(entry["cidr"], entry["blockSize"])
        except ValueError as error:
            self._fail(f"has a wrong pool at pools.{pool}: {error}.")
        return PlannedPool(entry["cidr"], entry["blockSize"])

    def _node(self, node: str, entry: t.Mapping[str, t.Any]) -> NodeAllocations:
        path = f"nodes.{node}"
        blocks = self._blocks(entry.get("blocks", ()), f"{path}.blocks", node)
        spare = self._blocks(entry.get("spareBlocks", ()), f"{path}.spareBlocks", node)
        places = BlockSet(canonical_cidr(grant.cidr) for grant in blocks)
        tunnels = {
            kind: self._address(value, TUNNEL_KINDS[kind], f"{path}.tunnels.{kind}", places)
            for kind, value in entry.get("tunnels", {}).items()
        }
        workloads, workloads6 = (
            {
                workload: self._address(value, version, f"{path}.{key}.{workload}", places)
                for workload, value in entry.get(key, {}).items()
            }
            for key, version in (("workloads", 4), ("workloads6", 6))
        )
        probes = {
            pool: self._probe(pool, value, f"{path}.probes.{pool}", blocks)
            for pool, value in entry.get("probes", {}).items()
        }
        return NodeAllocations(blocks, spare, tunnels, workloads, workloads6, probes)

    def _probe(self, pool: str, value: str, path: str, blocks: t.Sequence[BlockGrant]) -> str:
        space = self._spaces.get(pool)
        if space is None:
            self._fail(f"names pool {pool} at {path}, which is not among its pools.")
        own = BlockSet(canonical_cidr(grant.cidr) for grant in blocks if grant.pool == pool)
        return self._address(value, space.version, path, own)

    def _blocks(self, entries: t.Iterable[t.Mapping[str, str]], path: str, node: str) -> tuple[BlockGrant, ...]:
        found = tuple(BlockGrant(**entry) for entry in entries)
        for index, grant in enumerate(found):
            self._block(grant.cidr, grant.pool, f"{path}[{index}]", node)
        return found

    def _quarantined(self, entry: t.Mapping[str, t.Any], path: str) -> QuarantinedBlock:
        found = QuarantinedBlock(**entry)
        self._block(found.cidr, found.pool, path, f"quarantine (of {found.node})")
        return found

    def _block(self, cidr: str, pool: str, path: str, owner: str) -> None:
        space = self._spaces.get(pool)
        if space is None:
            self._fail(f"names pool {pool} at {path}, which is not among its pools.")
        try:
            key = canonical_cidr(cidr)
        except ValueError as error:
            self._fail(f"has a wrong block at {path}: {error}.")
        if key[2] != space.block_size:
            self._fail(f"has block {cidr} at {path}, but blocks of pool {pool} are /{space.block_size}.")
        if not space.contains(key[0], key[1]):
            self._fail(f"has block {cidr} at {path}, which lies outside pool {pool}.")
        if key in self._owners:
            other = self._owners[key]
            self._fail(f"has block {cidr} twice, at {owner if other == owner else f'{other} and at {owner}'}.")
        self._owners[key] = owner

    def _address(self, address: str, version: int, path: str, places: BlockSet) -> str:
        try:
            key = canonical_address(address)
        except ValueError as error:
            self._fail(f"has a wrong address at {path}: {error}.")
        if key[0] != version:
            self._fail(f"has address {address} at {path}, where an IPv{version} address should stand.")
        if key not in places:
            self._fail(f"has address {address} at {path}, which lies in none of the node's blocks.")
        if key in self._holders:
            self._fail(f"has address {address} twice, at {self._holders[key]} and at {path}.")
        self._holders[key] = path
        return address
