# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of a fleet's datastore, which lists what nodes and runs have published there.

Nodes write what they like below their own prefixes. So the listing goes through the agents' mirror, which checks each
document, and has bounds: of keys and bytes of each node, of all bytes, and of time.
"""

from __future__ import annotations

import asyncio
import typing as t

from ...base import terminal_text
from ...base.addresses import parse_cidr
from ...base.typed_json import Unreadable, by_name, flag, open_table, refuse, text, whole
from ...datastore import documents, keys
from ...datastore.client import EtcdClient, ShareLimits, Unreachable
from ...datastore.documents import PublishedEndpoint, RefusedDocument
from ...datastore.gateway import EtcdError, PermissionDenied
from ...datastore.keys import KeyRange
from ...datastore.mirror import KEYS_OF_NODE, Mirror, Position
from ...datastore.settings import DatastoreSettings, DatastoreSettingsError
from ...state.fleet_list import FleetMember
from .. import datastore_source
from ..connection.datastore_ways import DatastoreWays, NotOurs

#: Seconds for all of an answer, and the most bytes of all values that are read for one.
SECONDS = 20.0
MOST_BYTES = 256 << 20
#: The most that is read of one node. A workload's document has some 300 bytes.
SHARE = ShareLimits(KEYS_OF_NODE, 4 << 20)
_DOCUMENT_BYTES = 64 << 10
_NAMED = 5
_ADDRESS = text(64)


def _network(value: t.Any) -> str:
    found = parse_cidr(value) if isinstance(value, str) else None
    if found is None or not found.strict:
        refuse(value, "a CIDR without host bits")
    return str(value)


_POOL = open_table({"cidr": _network})
# Later releases may add fields.
_NODE = open_table(
    {"as_number": whole(0, 0xFFFFFFFF)},
    {"address": _ADDRESS, "address_ipv6": _ADDRESS, "labels": by_name(text(256)), "reflector": flag},
)


class ListingTooLarge(Exception):
    def __init__(self) -> None:
        super().__init__(f"it has more than {MOST_BYTES >> 20} MiB. Ask for one node by --node NAME.")


class ListingTooSlow(Exception):
    def __init__(self) -> None:
        super().__init__(f"it was not read within {SECONDS:g} s. Ask for one node by --node NAME.")


FAILURES = (DatastoreSettingsError, EtcdError, Unreachable, NotOurs, ListingTooLarge, ListingTooSlow)


class PublishedFleet(t.NamedTuple):
    """The content of the datastore about a fleet, or about one node of it.

    `workloads` are those that count, sorted by namespace and name, node and interface. `blocks` are the CIDRs of all
    nodes, by node. `pools` is {name: CIDR} and `members` the nodes by name, as a run published them, both None if they
    were not asked for, or if this user may not read them. `complaints` are sentences about what is left out.
    """

    workloads: tuple[PublishedEndpoint, ...]
    blocks: t.Mapping[str, tuple[str, ...]]
    pools: t.Optional[t.Mapping[str, str]] = None
    members: t.Optional[t.Mapping[str, FleetMember]] = None
    complaints: tuple[str, ...] = ()


def read(
    connection: DatastoreWays, node: str = "", workloads: bool = True, by_run: bool = False
) -> t.Optional[PublishedFleet]:
    """Return what the fleet has published, without a way to a datastore None. Raise one of FAILURES.

    With `node`, only its workloads are read, and without `workloads` none. With `by_run`, read also what a run has
    published. Raise CommandError if the file of -c leads to no datastore.
    """
    return connection.first(lambda found: asyncio.run(_read(found, node, workloads, by_run)), FAILURES)


async def _read(found: DatastoreSettings, node: str, workloads: bool, by_run: bool) -> PublishedFleet:
    client = datastore_source.connect(found)
    try:
        return await listed(client, node, workloads, by_run)
    finally:
        await client.close()


async def listed(client: EtcdClient, node: str = "", workloads: bool = True, by_run: bool = False) -> PublishedFleet:
    """Return and raise what `read` does, by this client."""
    try:
        return await asyncio.wait_for(_listed(client, node, workloads, by_run), SECONDS)
    except asyncio.TimeoutError:
        raise ListingTooSlow from None


async def _listed(client: EtcdClient, node: str, workloads: bool, by_run: bool) -> PublishedFleet:
    mirror, budget = Mirror(details=True), _Budget()
    ranges = [keys.under(keys.BLOCKS)]
    if workloads:
        ranges.append(keys.under(keys.endpoints_of(node) if node else keys.ENDPOINTS))
    has_blocks, first, left_out = False, True, dict[str, int]()
    for wanted in ranges:
        async for page in client.pages(wanted, bounds=SHARE):
            if page.left_out:
                owner = keys.name_in(page.share)
                left_out[owner] = left_out.get(owner, 0) + page.left_out
            has_blocks = has_blocks or any(keys.parse_blocks_key(entry.key) is not None for entry in page.entries)
            budget.spend(page.entries)
            mirror.list_part(page.entries, first)
            first = False
    if not has_blocks:
        raise NotOurs
    for dummy in mirror.list_end(Position(0, 0, 0)):
        pass
    complaints = [*_refused(mirror), *_incomplete(mirror, node)] if workloads else []
    if left_out:
        owner, count = next(iter(left_out.items()))
        more = f" The same holds for {len(left_out) - 1} more nodes." if len(left_out) > 1 else ""
        complaints.append(
            f"{count} keys of {owner} are not read: of a node, {SHARE.keys} keys and {SHARE.bytes >> 20} MiB are the "
            f"most.{more}"
        )
    pools, members = None, None
    if by_run:
        pools = await _documents(client, keys.POOLS, budget, lambda dummy, body: str(_POOL(body)["cidr"]), complaints)
        members = await _documents(client, keys.NODES, budget, _member, complaints)
    found = sorted(mirror.endpoints.values(), key=_place)
    blocks = {name: mirror.blocks(name) for name in sorted(mirror.nodes) if mirror.blocks(name)}
    return PublishedFleet(tuple(found), blocks, pools, members, tuple(complaints))


def _place(published: PublishedEndpoint) -> tuple[str, str, str]:
    return published.endpoint.name, published.endpoint.node, published.endpoint.interface


class _Budget:
    """The bytes of values that may still be read."""

    def __init__(self) -> None:
        self._left = MOST_BYTES

    def spend(self, entries: t.Sequence[t.Any]) -> None:
        self._left -= sum(len(entry.key) + len(entry.value) for entry in entries)
        if self._left < 0:
            raise ListingTooLarge


_Read = t.TypeVar("_Read")


async def _documents(
    client: EtcdClient,
    prefix: str,
    budget: _Budget,
    read_one: t.Callable[[str, dict[str, t.Any]], _Read],
    complaints: list[str],
) -> t.Optional[dict[str, _Read]]:
    """Return what a run published below `prefix`, by name; None if this user may not read that, as nodes may not."""
    found: dict[str, _Read] = {}
    wanted: KeyRange = keys.under(prefix)
    try:
        async for page in client.pages(wanted):
            budget.spend(page.entries)
            for entry in page.entries:
                name = entry.key[len(prefix) :]
                try:
                    found[name] = read_one(name, documents.decoded(entry.value, _DOCUMENT_BYTES))
                except (RefusedDocument, Unreadable) as error:
                    reason = error if isinstance(error, RefusedDocument) else f"its field {error}."
                    complaints.append(f"{terminal_text.cut(entry.key)} of the datastore is left out: {reason}")
    except PermissionDenied:
        return None
    return found


def _member(name: str, body: dict[str, t.Any]) -> FleetMember:
    found = _NODE(body)
    return FleetMember(
        name,
        found.get("address", ""),
        found["as_number"],
        found.get("reflector", False),
        found.get("labels", {}),
        found.get("address_ipv6", ""),
    )


def _refused(mirror: Mirror) -> t.Iterator[str]:
    for key, reason in mirror.refused(1):
        more = mirror.count_refused - 1
        rest = f" {more} more keys are left out." if more > 0 else ""
        yield f"{terminal_text.cut(key, 320)} of the datastore is left out: {reason}{rest}"


def _incomplete(mirror: Mirror, node: str) -> t.Iterator[str]:
    """Yield at most one sentence: which nodes, or whether `node`, may have more workloads than they have published."""
    known = [node] if node else sorted(mirror.nodes)
    waiting = [name for name in known if mirror.blocks(name) and not mirror.is_complete(name)]
    if waiting:
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        yield f"not all workloads are published yet by {', '.join(waiting[:_NAMED])}{more}."
