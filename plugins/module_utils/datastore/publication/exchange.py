# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run's part of the datastore: read what a cluster has, and carry out the plans of rights.py and content.py.

All calls raise EtcdError or Unreachable. They may be repeated, and a run that was cut short is completed by the next
one: it compares again.
"""

from __future__ import annotations

import types
import typing as t

from .. import gateway, keys
from ..client import AUTHENTICATE, EtcdClient
from ..gateway import Operation, Put
from ..keys import KeyRange
from ..live import rights_hold
from . import auth, rights
from .rights import Access, AccessStep

#: The most operations of a transaction (etcd's default of --max-txn-ops), and the most bytes of its values, of 1.5 MiB.
MOST_OPERATIONS = 128
_MOST_BYTES = 1 << 20
_KEY_BYTES = 600  # of a deletion; the longest keys have some 300
#: The oldest release of etcd whose JSON gateway has all calls under /v3/.
OLDEST = (3, 4)
_PARENT = "/host-routing/"
_NAMED = 5
#: The most prefixes of names without blocks that are counted.
_NAMED_LEFT = 64
_MOST_KEYS = 4_000_000


class UnusableCluster(Exception):
    """A cluster that cannot carry a fleet. The text says why, and the remedy."""


class ObservedCluster(t.NamedTuple):
    """What a cluster has: `values` of the keys that a run writes, and `heartbeats`, the values by key.

    `version` is the release of the member that answered. Nodes write what they like below their own prefixes, so that
    is only counted: `of_nodes` has the number of keys by prefix, of names that are none of the fleet's nodes.
    """

    version: str
    access: Access
    values: t.Mapping[str, bytes]
    of_nodes: t.Mapping[str, int]
    heartbeats: t.Mapping[str, bytes]


async def check(client: EtcdClient) -> str:
    """Return the release of a member of a cluster that can carry a fleet. Raise UnusableCluster if it cannot."""
    try:
        version = (await client.status()).version
        foreign = await _foreign(client)
    except gateway.AuthenticationOff:
        raise UnusableCluster(
            "The cluster asks nobody for a password, so every node could write for every other one. Switch "
            "authentication on (etcdctl auth enable), or have role calico_etcd make a cluster."
        ) from None
    match = rights_hold.RELEASE.fullmatch(version)
    if match is None or (int(match.group(1)), int(match.group(2))) < OLDEST:
        raise UnusableCluster(
            f"The cluster runs etcd {version[:40] or 'of no version'}, and at least "
            f"{'.'.join(map(str, OLDEST))} is needed. Upgrade it."
        )
    if foreign:
        raise UnusableCluster(
            f"The cluster has keys below {_PARENT} that are not this collection's: {', '.join(foreign)}. Use another "
            "cluster, or remove them."
        )
    return version


async def check_rights_hold(client: EtcdClient) -> None:
    """Raise UnusableCluster if a member that answers runs an etcd in which users get around their rights.

    Fleets with live policy and without gates need this: a node could write every document.
    """
    problem = rights_hold.problem(await client.releases())
    if problem:
        raise UnusableCluster(f"calico_live_policy is true, and {problem}. {rights_hold.REMEDY}.")


async def _foreign(client: EtcdClient) -> list[str]:
    """Return the first keys below /host-routing/ that do not lie below keys.ROOT."""
    found: list[str] = []
    for keys_outside in (KeyRange(_PARENT, keys.EVERYTHING.start), KeyRange(keys.EVERYTHING.end, f"{_PARENT[:-1]}0")):
        request = gateway.range_request(keys_outside, limit=_NAMED, keys_only=True)
        found += [entry.key for entry in gateway.page_of(await client.call("/v3/kv/range", request)).entries]
    return found[:_NAMED]


async def observe(
    client: EtcdClient, published: t.Iterable[KeyRange], nodes: t.Collection[str], leaving: str = ""
) -> ObservedCluster:
    """Return what the cluster has in the ranges `published`, the heartbeats of `nodes`, and the users and roles.

    Count also the keys of the node `leaving`, and of the first other names that are not in `nodes`. Raise InvalidKey or
    UnusableCluster.
    """
    version = await check(client)
    access = await _access(client)
    values = await values_in(client, published)
    counts = await _counted(client, nodes, leaving)
    return ObservedCluster(version, access, values, counts, await _heartbeats(client, nodes))


async def values_in(client: EtcdClient, ranges: t.Iterable[KeyRange]) -> dict[str, bytes]:
    """Return the values by key of all keys in `ranges`."""
    return {entry.key: entry.value for one in ranges async for entry in _entries(client, one)}


async def heartbeats(client: EtcdClient) -> dict[str, bytes]:
    """Return the keys and values of the heartbeats of all nodes that have blocks; no other key of a node is read."""
    blocks = [entry.key async for entry in _entries(client, keys.under(keys.BLOCKS), keys_only=True)]
    return await _heartbeats(client, [node for node in map(keys.parse_blocks_key, blocks) if node is not None])


async def _heartbeats(client: EtcdClient, nodes: t.Iterable[str]) -> dict[str, bytes]:
    return {entry.key: entry.value for entry in await client.named([keys.heartbeat_key(node) for node in nodes])}


class UnreadDocuments(Exception):
    """Live documents beyond the bounds, which no run reads. The text is a clause that ends in no full stop."""


async def live_documents(client: EtcdClient) -> dict[keys.DocumentKey, bytes]:
    """Return the values of all live documents; keys that no document has are left out. Raise UnreadDocuments."""
    (count,) = await client.counts([keys.under(keys.DOCUMENTS)])
    if count > keys.MOST_DOCUMENTS:
        raise UnreadDocuments(f"the datastore has {count} live documents, and at most {keys.MOST_DOCUMENTS} are read")
    found = {}
    size = 0
    async for entry in _entries(client, keys.under(keys.DOCUMENTS)):
        key = keys.parse_document_key(entry.key)
        size += len(entry.value)
        if size > keys.DOCUMENTS_BYTES:
            raise UnreadDocuments(f"the live documents have more than {keys.DOCUMENTS_BYTES} bytes")
        if key is not None:
            found[key] = entry.value
    return found


_OF_NODES: tuple[tuple[str, t.Callable[[str], str]], ...] = (
    (keys.ENDPOINTS, keys.endpoints_of),
    (keys.HEARTBEATS, keys.heartbeats_of),
    (keys.ANSWERS, keys.answers_of),
)


async def _counted(client: EtcdClient, nodes: t.Collection[str], leaving: str) -> dict[str, int]:
    """Return key counts by prefix: of `leaving`, and of the first names not in `nodes`, whose own keys are not read."""
    found: dict[str, int] = {}
    if leaving:
        prefixes = keys.prefixes_of_node(leaving)
        counts = await client.counts([keys.under(prefix) for prefix in prefixes])
        found.update((prefix, count) for prefix, count in zip(prefixes, counts) if count)
    for root, prefix_of in _OF_NODES:
        known = [keys.under(prefix_of(node)) for node in {*nodes, leaving} if node]
        gaps = keys.between(keys.under(root), known)
        for gap, count in zip(gaps, await client.counts(gaps)):
            if count and len(found) < _NAMED_LEFT:
                found.update(await _prefixes(client, root, gap))
    return found


async def _prefixes(client: EtcdClient, root: str, gap: KeyRange) -> dict[str, int]:
    """Return the key counts of the first prefixes in `gap` below `root`; keys without a node's name count for that."""
    found: dict[str, int] = {}
    start = gap.start
    while len(found) < _NAMED_LEFT:
        request = gateway.range_request(KeyRange(start, gap.end), limit=1, keys_only=True)
        page = gateway.page_of(await client.call("/v3/kv/range", request))
        if not page.entries:
            break
        key = page.entries[0].key
        name, slash, dummy = key[len(root) :].partition("/")
        prefix = f"{root}{name}/" if slash else root
        below = keys.under(prefix) if slash else KeyRange(key, f"{key}\x00")
        end = min(below.end, gap.end, key=lambda text: text.encode("utf-8", "surrogateescape"))
        count = (await client.counts([KeyRange(key, end)]))[0]
        found[prefix] = found.get(prefix, 0) + count
        start = end
        if start == gap.end:
            break
    return found


async def _entries(client: EtcdClient, wanted: KeyRange, keys_only: bool = False) -> t.AsyncIterator[gateway.KeyValue]:
    count = 0
    async for page in client.pages(wanted, keys_only=keys_only):
        count += len(page.entries)
        if count > _MOST_KEYS:
            raise gateway.InvalidAnswer(f"the cluster has more than {_MOST_KEYS} keys below {wanted.start}")
        for entry in page.entries:
            yield entry


async def _access(client: EtcdClient) -> Access:
    """Return all users and roles but root. Raise EtcdError or Unreachable."""
    roles = auth.names_of(await client.call(auth.ROLE_LIST, b"{}"), "roles")
    users = auth.names_of(await client.call(auth.USER_LIST, b"{}"), "users")
    return Access(
        {
            name: auth.names_of(await client.call(auth.USER_GET, auth.named_user(name)), "roles")
            for name in users
            if name != rights.ROOT_USER
        },
        {
            name: auth.permissions_of(await client.call(auth.ROLE_GET, auth.named_role(name)))
            for name in roles
            if name != rights.ROOT_USER
        },
    )


async def refused(
    client: EtcdClient,
    users: t.Iterable[str],
    secret: bytes,
    origins: t.Mapping[str, str] = types.MappingProxyType({}),
) -> list[str]:
    """Return those of `users` that have another password than the one made of `secret`.

    `origins` has the origin of an operator's password by its name; that of a node is its name.
    """
    found = []
    for user in users:
        derived = rights.password(secret, origins.get(user, user))
        try:
            await client.call(AUTHENTICATE, auth.user_with_password(user, derived))
        except gateway.WrongPassword:
            found.append(user)
    return found


async def write(client: EtcdClient, operations: t.Iterable[Operation]) -> None:
    """Make all operations, in their order, in transactions that etcd takes. Raise EtcdError or Unreachable."""
    part: list[Operation] = []
    size = 0
    for operation in operations:
        weight = len(operation.key) + len(operation.value) if isinstance(operation, Put) else _KEY_BYTES
        if part and (len(part) == MOST_OPERATIONS or size + weight > _MOST_BYTES):
            await _write(client, part)
            part, size = [], 0
        part.append(operation)
        size += weight
    if part:
        await _write(client, part)


async def _write(client: EtcdClient, part: t.Sequence[Operation]) -> None:
    """Make operations in one transaction, or in halves where members take fewer."""
    try:
        await client.write(part)
    except gateway.TooManyOperations:
        if len(part) == 1:
            raise
        half = len(part) // 2
        await _write(client, part[:half])
        await _write(client, part[half:])


async def empty(client: EtcdClient, node: str) -> None:
    """Delete all that a node wrote, without reading it. Raise InvalidKey for a name that is no node's."""
    for own in keys.of_node(node):
        await client.delete(own)


async def change_access(client: EtcdClient, steps: t.Iterable[AccessStep], secret: bytes) -> None:
    """Carry out steps of a plan of rights.py, in their order."""
    for step in steps:
        user = step.password_of
        body = auth.user_with_password(user, rights.password(secret, step.origin or user)) if user else step.body
        await client.call(step.path, body)
