# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads of other nodes that came there between runs, as `playbooks/sync_workloads.yml` collected them. Pure.

Nodes do not ask each other. What a node knows about others' workloads is as old as the time of collection.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing as t

from ..base.typed_json import shown
from ..policy.model import Endpoint
from .answers.endpoints import BlockOwners, OwnBlocks, read_endpoints, single_address
from .answers.left_out import LeftOut
from .attachment import AttachedWorkload, with_workloads
from .node_policy_tables import workload_endpoint
from .node_state import NodeState
from .plain_data import Data, to_plain
from .policy_state import PolicySettings

#: The most characters of a time such as 2026-11-22T06:00:00Z.
_WHEN_LIMIT = 40


@dataclasses.dataclass(frozen=True)
class Collected:
    """The workloads that one node reported.

    `when` is the time of the report (ISO 8601, UTC, by the controller's clock). `blocks` are the node's by the
    lockfile; all addresses lie in them. None: an older release collected the report, and did not check addresses.
    """

    when: str
    endpoints: tuple[Endpoint, ...] = ()
    blocks: t.Optional[tuple[str, ...]] = None

    @functools.cached_property
    def digest(self) -> str:
        """The first 16 hex digits of the SHA-256 of the endpoints as JSON."""
        content = json.dumps(to_plain(self.endpoints), sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


class ReportUpdate(t.NamedTuple):
    """A report of one node as the controller sends it on. `endpoints` None means that they have not changed."""

    when: str
    endpoints: t.Optional[tuple[Endpoint, ...]] = None
    blocks: t.Optional[tuple[str, ...]] = None


@dataclasses.dataclass(frozen=True)
class RemoteEndpoints:
    """The reports of other nodes, by the name of the node."""

    nodes: t.Mapping[str, Collected] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints of all nodes, sorted by node; those of one node are in the order of its report.

        An address that two nodes report belongs to the node whose report is newer, or at equal times to the one whose
        name sorts last. An endpoint with no address left is left out.
        """
        owner: dict[str, str] = {}
        for node in sorted(self.nodes, key=lambda name: (self.nodes[name].when, name)):
            owner.update((address, node) for one in self.nodes[node].endpoints for address in one.addresses)
        found = []
        for node in sorted(self.nodes):
            for one in self.nodes[node].endpoints:
                addresses = tuple(address for address in one.addresses if owner[address] == node)
                if addresses:
                    found.append(one if addresses == one.addresses else dataclasses.replace(one, addresses=addresses))
        return tuple(found)

    def when(self, endpoint: Endpoint) -> t.Optional[str]:
        """Return the time (ISO 8601, UTC) of the report that contains this endpoint, None if no report does.

        Its name is not compared: it may have been changed to be unique.
        """
        collected = self.nodes.get(endpoint.node)
        if collected is None:
            return None
        known = any(
            one.interface == endpoint.interface and one.namespace == endpoint.namespace for one in collected.endpoints
        )
        return collected.when if known else None

    def updated(self, updates: t.Mapping[str, ReportUpdate], nodes: t.Collection[str]) -> RemoteEndpoints:
        """Return the reports updated with `updates`, by node; known reports of nodes not in `nodes` are dropped.

        A new report replaces the known one. If its `endpoints` is None, the known endpoints stay, with the new time,
        except those outside of the new blocks. Without a known report it is ignored. Raise ValueError if such new
        blocks are not CIDRs or have host bits.
        """
        found = {name: collected for name, collected in self.nodes.items() if name in nodes}
        for name, one in updates.items():
            if one.endpoints is not None:
                found[name] = Collected(one.when, one.endpoints, one.blocks)
            elif name in found:
                known = found[name]
                if one.blocks is None or one.blocks == known.blocks:
                    found[name] = dataclasses.replace(known, when=one.when)
                else:
                    found[name] = Collected(one.when, _inside(known.endpoints, OwnBlocks(one.blocks)), one.blocks)
        return RemoteEndpoints(found)

    def accepted_by(self, state: t.Optional[NodeState]) -> tuple[RemoteEndpoints, tuple[LeftOut, ...]]:
        """Return the reports with the endpoints that the node with this state accepts, and those that it does not.

        No address of a node or of this node's blocks may belong to another node's workload. A report of an older
        release, which has no blocks, must have addresses in a pool, and in no block to which BIRD's routes lead to a
        third node. A node without a state accepts all of a report with blocks, and none of another. If everything is
        accepted, the reports returned are this object.
        """
        check = ReaderCheck(state)
        found, left_out = {}, []
        for name, collected in self.nodes.items():
            kept = []
            for one in collected.endpoints:
                why = check.refusal(name, one, collected.blocks is not None)
                if why:
                    left_out.append(LeftOut(name, f"workload {shown(one.name)}", why))
                else:
                    kept.append(one)
            same = len(kept) == len(collected.endpoints)
            found[name] = collected if same else dataclasses.replace(collected, endpoints=tuple(kept))
        return (RemoteEndpoints(found), tuple(left_out)) if left_out else (self, ())

    def to_dict(self) -> Data:
        """Return the reports as plain data for JSON; `from_dict` reads it."""
        return {
            name: {
                "collected": collected.when,
                "endpoints": to_plain(collected.endpoints),
                **({} if collected.blocks is None else {"blocks": list(collected.blocks)}),
            }
            for name, collected in sorted(self.nodes.items())
        }

    @classmethod
    def from_dict(cls, data: t.Any) -> tuple[RemoteEndpoints, tuple[LeftOut, ...]]:
        """Return the reports in `data`, the result of `to_dict`, and the endpoints that are left out.

        Raise ValueError as `read_updates` does.
        """
        updates, left_out = read_updates(data)
        return cls().updated(updates, data), left_out


def _inside(endpoints: t.Iterable[Endpoint], blocks: OwnBlocks) -> tuple[Endpoint, ...]:
    return tuple(one for one in endpoints if all(_lies_in(blocks, text) for text in one.addresses))


def _lies_in(blocks: OwnBlocks, text: str) -> bool:
    address = single_address(text)
    return address is not None and address in blocks


class ReaderCheck:
    """The knowledge of one node (`state` None: it has none stored) with which it judges others' workloads."""

    def __init__(self, state: t.Optional[NodeState]) -> None:
        self._state = state
        self.node = state.node if state is not None else ""
        if state is None:
            return
        ipam = state.ipam
        self._own = OwnBlocks(block.cidr for block in (*ipam.blocks, *ipam.spare_blocks))
        cidrs = [state.address, state.address6]
        cidrs += [cidr for member in state.nodes for cidr in (member.address, member.address6)]
        self._hosts = {cidr.partition("/")[0] for cidr in cidrs if cidr}
        self._pools = OwnBlocks(pool.cidr for pool in state.pools)
        self._owners = BlockOwners((route.destination, route.node) for route in state.bird_routes)

    def refusal(self, node: str, endpoint: Endpoint, checked: bool) -> str:
        """Return why this node does not accept the endpoint of `node`, "" if it does.

        `checked` is whether the endpoint was checked against its node's blocks before.
        """
        if self._state is None:
            return "" if checked else "it was collected without the blocks of its node."
        for text in endpoint.addresses:
            address = single_address(text)
            if address is None:
                return f"{shown(text)} is not a single address."
            if address in self._own:
                return f"its address {text} lies in a block of {self._state.node}."
            if text in self._hosts:
                return f"its address {text} is that of a node."
            if checked:
                continue
            if address not in self._pools:
                return f"its address {text} lies in no pool."
            if self._owners.of(address) not in (None, node):
                return f"its address {text} lies in a block of another node."
        return ""


def read_updates(data: t.Any) -> tuple[dict[str, ReportUpdate], tuple[LeftOut, ...]]:
    """Return the reports in `data` by node, as `updated` takes them, and the endpoints that are left out.

    `data` is {node: {"collected": when, "endpoints": [...] or missing, "blocks": [...] or missing}}. Raise ValueError
    for another form, a time of more than 40 characters, or a block that is not a CIDR or has host bits.
    """
    if not isinstance(data, t.Mapping):
        raise ValueError("the reports are not a dictionary")
    updates: dict[str, ReportUpdate] = {}
    left_out: list[LeftOut] = []
    for name, entry in data.items():
        when = entry.get("collected") if isinstance(entry, t.Mapping) else None
        if not isinstance(name, str) or not isinstance(when, str) or len(when) > _WHEN_LIMIT:
            raise ValueError(f"the report of {shown(name)} has no time of its collection")
        listed = entry.get("endpoints")
        blocks = _blocks(name, entry.get("blocks"))
        if listed is None:
            updates[name] = ReportUpdate(when, None, None if blocks is None else blocks.cidrs)
        elif isinstance(listed, (list, tuple)):
            endpoints, odd = read_endpoints(name, listed, blocks)
            updates[name] = ReportUpdate(when, endpoints, None if blocks is None else blocks.cidrs)
            left_out += odd
        else:
            raise ValueError(f"the endpoints of {shown(name)} are not a list")
    return updates, tuple(left_out)


def _blocks(node: str, data: t.Any) -> t.Optional[OwnBlocks]:
    if data is None:
        return None
    if not isinstance(data, (list, tuple)) or not all(isinstance(cidr, str) for cidr in data):
        raise ValueError(f"the blocks of {shown(node)} are not a list of texts")
    return OwnBlocks(data)


def own_endpoints(state: NodeState, workloads: t.Iterable[AttachedWorkload]) -> tuple[Endpoint, ...]:
    """Return the endpoints that a node reports, sorted by name: those of `workloads`, which came between runs.

    Those that `beside_inventory` leaves out are not reported.
    """
    profiles = (state.policy.settings if state.policy else PolicySettings()).workload_profiles
    added = with_workloads(state, workloads, ()).workloads[len(state.workloads) :]
    found = (workload_endpoint(state.node, one, one.interface, one.addresses, profiles) for one in added)
    return tuple(sorted(found, key=lambda one: one.name))
