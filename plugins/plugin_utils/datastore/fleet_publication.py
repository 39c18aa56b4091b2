# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run publishes of a fleet, and the one comparison and correction of a cluster by it."""

from __future__ import annotations

import dataclasses
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.live_source import without_live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.documents import (
    RefusedDocument,
    decoded,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    content,
    exchange,
    live_policy,
    rights,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.content import Published
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    ObservedCluster,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import (
    NO_REVIEW,
    InventoryPolicy,
    LiveReview,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.stored_policy import (
    RestoredPolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import NodeAllocations

#: The field of a node's document that has the fingerprint of its password.
_ACCESS = "access"
_DOCUMENT_LIMIT = 1 << 20
#: An older heartbeat, in seconds, does not show that a node's password is the right one.
_FRESH_SECONDS = 60.0


@dataclasses.dataclass(frozen=True)
class Publication:
    """What a run found and did.

    `left_behind` counts keys of names that the inventory does not have. `superusers` are users that may do everything,
    besides root, the user of the run, nodes and operators, whose rights the run corrects. `operators_left` are those
    whose users were deleted. `review` says what the run means for live documents.
    """

    version: str
    changes: tuple[Change, ...]
    left_behind: t.Mapping[str, int]
    superusers: tuple[str, ...] = ()
    operators_left: tuple[str, ...] = ()
    review: LiveReview = NO_REVIEW


@dataclasses.dataclass(frozen=True)
class FleetPublisher:
    """A run as it publishes: its user, the secret of the nodes' passwords, and the clock time.time().

    `gated` says whether nodes reach gates and not etcd itself. `operators` has the origin of each operator's password
    by its name.
    """

    operator: str
    secret: bytes = dataclasses.field(repr=False)
    clock: t.Callable[[], float] = time.time
    gated: bool = True
    operators: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    async def publish(
        self,
        client: EtcdClient,
        fleet: Fleet,
        *,
        leaving: str = "",
        check: bool = False,
        live: t.Optional[InventoryPolicy] = None,
    ) -> Publication:
        """Bring the cluster to the fleet, or with `check` only compare; take the keys of the node `leaving` away.

        `leaving` is a node that the fleet does not have, "" for none. `live` is what a fleet with live policy publishes
        of its policy. Raise TierInUse, UnusableCluster, ForeignUser, EtcdError or Unreachable. The latter two may come
        in the middle: the next run completes what was begun.
        """
        owners = [node.name for node in fleet.nodes.values() if node.workload_node]
        wanted = published(fleet, self.secret, live)
        if fleet.has_live_policy and not self.gated:
            await exchange.check_rights_hold(client)
        seen = await exchange.observe(client, content.PUBLISHED, owners, leaving)
        (reviewed,) = await _reviewed(client, seen.values, [live])
        renewed = await self._renewed(client, owners, wanted, seen)
        renewed |= await self._renewed_operators(client, seen)
        access = rights.plan(owners, seen.access, self.operator, renewed, fleet.has_live_policy, self.operators)
        keys_changed = content.plan(wanted.values(), seen.values)
        taken = content.removal(leaving, seen.of_nodes) if leaving else ()
        if not check:
            # A node's blocks are there before it may publish, and its user is gone before its keys are.
            first, last = [one for one in access if one.action != "+"], [one for one in access if one.action == "+"]
            await exchange.change_access(client, _steps(first), self.secret)
            if leaving:
                await exchange.empty(client, leaving)
            await exchange.write(client, content.operations(keys_changed))
            await exchange.change_access(client, _steps(last), self.secret)
        known = {node.name for node in fleet.nodes.values()} | {leaving}
        left = [one.subject for one in access if (one.kind, one.action) == ("user", "-")]
        changes = sorted(
            (*access, *keys_changed, *taken, *reviewed.changes), key=lambda change: "-~+".index(change.action)
        )
        others = [
            name
            for name in rights.superusers(seen.access, self.operator)
            if name not in known and name not in self.operators
        ]
        left_behind = content.left_behind(known, seen.of_nodes)
        operators_left = tuple(name for name in left if rights.was_operator(name, seen.access))
        return Publication(seen.version, tuple(changes), left_behind, tuple(others), operators_left, reviewed)

    async def _renewed(
        self, client: EtcdClient, owners: t.Iterable[str], wanted: Published, seen: ObservedCluster
    ) -> set[str]:
        """Return the nodes whose users need another password than they have, by the fingerprints that are noted.

        A node with a fresh heartbeat shows that the noted password works; those of the others are tried.
        """
        noted = {node: _noted(seen, node) for node in owners if node in seen.access.users}
        found = {node for node, one in noted.items() if one is not None and one != wanted.nodes[node][_ACCESS]}
        sure = {node for node, one in noted.items() if one is not None and self._is_fresh(seen, node)}
        return found | set(await exchange.refused(client, sorted(noted.keys() - found - sure), self.secret))

    async def _renewed_operators(self, client: EtcdClient, seen: ObservedCluster) -> set[str]:
        """Return the operators whose users have another password than that of this run."""
        there = [name for name in sorted(self.operators) if name in seen.access.users]
        return set(await exchange.refused(client, there, self.secret, self.operators))

    def _is_fresh(self, seen: ObservedCluster, node: str) -> bool:
        try:
            heartbeat = heartbeats.decode(node, seen.heartbeats.get(keys.heartbeat_key(node), b""))
        except RefusedDocument:
            return False
        return abs(heartbeat.age(self.clock())) < _FRESH_SECONDS


async def restore(client: EtcdClient, restored: RestoredPolicy, check: bool = False) -> Publication:
    """Publish the policy of stored states that a fleet returns to, or with `check` only compare.

    Only the keys about the inventory's policy are written, and none if `restored` has a reason for that. Raise
    TierInUse, UnusableCluster, EtcdError or Unreachable.
    """
    version = await exchange.check(client)
    before = await exchange.values_in(client, content.OF_POLICY)
    reviews = await _reviewed(client, before, restored.each, stored=True)
    notices = tuple(dict.fromkeys(notice for one in reviews for notice in one.notices))
    if restored.reason or len(restored.each) != 1:
        return Publication(version, (), {}, review=LiveReview(notices=notices))
    (policy,) = restored.each
    changes = content.plan(policy.values if policy is not None else {}, before)
    if not check:
        await exchange.write(client, content.operations(changes))
    shown = sorted((*changes, *reviews[0].changes), key=lambda change: "-~+".index(change.action))
    return Publication(version, tuple(shown), {}, review=reviews[0])


async def _reviewed(
    client: EtcdClient,
    published_before: t.Mapping[str, bytes],
    policies: t.Sequence[t.Optional[InventoryPolicy]],
    stored: bool = False,
) -> list[LiveReview]:
    """Return what each of `policies` means for live documents; a notice if there are too many. Raise TierInUse."""
    before = {key: value for key, value in published_before.items() if key.startswith((keys.INVENTORY, keys.SETTINGS))}
    if not before and not any(one is not None for one in policies):
        return [NO_REVIEW] * len(policies)
    try:
        documents = await exchange.live_documents(client)
    except exchange.UnreadDocuments as error:
        plan = f"The plan is {without_live_documents(str(error))}"
        return [LiveReview(notices=(f"{plan}. Remove some (calicoctl delete).",))] * len(policies)
    return [live_policy.review(before, one, documents, stored) for one in policies]


def published(fleet: Fleet, secret: bytes, live: t.Optional[InventoryPolicy] = None) -> Published:
    """Return what a run publishes of a fleet: its nodes, pools and blocks, and what `live` has."""
    nodes = {}
    for node in fleet.nodes.values():
        body = {
            "address": node.cidr,
            "address_ipv6": node.cidr6,
            "as_number": fleet.bgp.speakers[node.name].as_number,
            "labels": dict(node.labels),
            "workloads": node.workload_node,
            "reflector": node.reflector,
        }
        if node.workload_node:
            body[_ACCESS] = rights.fingerprint(secret, node.name)
        nodes[node.name] = {name: value for name, value in body.items() if value not in ("", None)}
    blocks = {}
    for name in nodes:
        part = fleet.allocation.nodes.get(name, NodeAllocations())
        if fleet.nodes[name].workload_node:
            blocks[name] = [grant.cidr for grant in (*part.blocks, *part.spare_blocks)]
    pools = {pool.name: pool.to_document()["spec"] for pool in fleet.pools}
    return Published(nodes, pools, blocks, live.values if live is not None else {})


def _steps(changes: t.Iterable[Change]) -> t.Iterator[rights.AccessStep]:
    for change in changes:
        yield from change.new


def _noted(seen: ObservedCluster, node: str) -> t.Any:
    try:
        return decoded(seen.values.get(keys.node_key(node), b""), _DOCUMENT_LIMIT).get(_ACCESS)
    except RefusedDocument:
        return None
