# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents of the datastore, as JSON in the values of its keys.

Every document is input: a node writes those below its own prefix as it likes, and people edit by hand. So each has a
typed, bounded reader, which raises RefusedDocument with the reason.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import typing as t

from ..base.typed_json import NotJson, Unreadable, items, open_table, parse, text
from ..policy.model import WORKLOAD_ENDPOINT, Endpoint
from ..state.answers import details as of_people
from ..state.answers import limits
from ..state.answers.details import EndpointDetails
from ..state.answers.endpoints import OwnBlocks, RefusedEndpoint, read_endpoint
from ..state.plain_data import to_plain
from .keys import COMPLETE_BYTES, ENDPOINT_BYTES, EndpointKey

#: The most bytes of a node's blocks.
_BLOCKS_LIMIT = 1 << 20
#: The most bytes of a document whose labels are kept for others.
_SHARED_LIMIT = 1 << 10
_PLANNED, _BLOCKS = "planned", "blocks"
# Later releases may add fields.
_READ_BLOCKS = open_table({_BLOCKS: items(text(64), limits.BLOCKS)})
#: The fields of an Endpoint that its key and its place have.
_IN_KEY = ("kind", "node", "interface")


#: The document of the key that says that a node has published all of its workloads. Agents that read documents with
#: details write that of details.py.
COMPLETE = b"{}"
_READS = open_table({"reads": items(text(64), 8)})


class RefusedDocument(Exception):
    """A document that is left out. The text of the error is the reason, a clause that ends in a full stop."""


class PublishedEndpoint(t.NamedTuple):
    """A workload as its node publishes it. `planned`: the inventory has it. `details` are for people."""

    endpoint: Endpoint
    planned: bool = False
    details: EndpointDetails = of_people.NONE


def encode_endpoint(published: PublishedEndpoint) -> bytes:
    """Return the document of a workload; its node and interface are in its key."""
    body = {name: value for name, value in to_plain(published.endpoint).items() if name not in _IN_KEY}
    about = of_people.to_plain(published.details)
    more = {**({_PLANNED: True} if published.planned else {}), **({of_people.FIELD: about} if about else {})}
    return encoded({**body, **more})


def decode_endpoint(
    key: EndpointKey, value: bytes, blocks: t.Optional[OwnBlocks], details: bool = False
) -> PublishedEndpoint:
    """Return the workload at `key`. Its addresses have to lie in `blocks`, the node's, unless that is None.

    Its details are read with `details` alone: agents, which keep the workloads of all nodes, do without.
    """
    body = decoded(value, ENDPOINT_BYTES)
    about = body.pop(of_people.FIELD, None)
    planned = body.pop(_PLANNED, False)
    if not isinstance(planned, bool):
        raise RefusedDocument(f"its field {_PLANNED} is not true or false.")
    if not body.keys().isdisjoint(_IN_KEY):
        raise RefusedDocument("its node and its interface stand in its key alone.")
    entry = {**body, "kind": WORKLOAD_ENDPOINT, "node": key.node, "interface": key.interface}
    try:
        endpoint = read_endpoint(key.node, entry, blocks)
    except RefusedEndpoint as refusal:
        raise RefusedDocument(str(refusal)) from None
    shown = of_people.read(about) if details else of_people.NONE
    return PublishedEndpoint(_sharing(endpoint, len(value)), planned, shown)


def reads_details(value: bytes) -> bool:
    """Return whether the document of a node's @complete says that its agent reads documents with details."""
    try:
        return of_people.FIELD in _READS(decoded(value, COMPLETE_BYTES))["reads"]
    except (RefusedDocument, Unreadable):
        return False


def _sharing(endpoint: Endpoint, size: int) -> Endpoint:
    """Return the endpoint with the equal labels and profiles of an earlier one: many workloads have the same.

    Those of a document of a large `size`, in bytes, are not kept, so that no node can fill the memory.
    """
    if size > _SHARED_LIMIT:
        return endpoint
    labels, profiles = _shared(endpoint.labels), _shared(endpoint.profiles)
    if labels is endpoint.labels and profiles is endpoint.profiles:
        return endpoint
    return dataclasses.replace(endpoint, labels=labels, profiles=profiles)


_Shared = t.TypeVar("_Shared", bound=t.Hashable)


def _shared(value: _Shared) -> _Shared:
    return t.cast(_Shared, _first_equal(value))


@functools.lru_cache(maxsize=1024)
def _first_equal(value: t.Hashable) -> t.Hashable:
    return value


def encode_blocks(cidrs: t.Iterable[str]) -> bytes:
    return encoded({_BLOCKS: sorted(cidrs)})


def decode_blocks(value: bytes) -> OwnBlocks:
    """Return the blocks of a node. Raise RefusedDocument for anything but CIDRs without host bits."""
    try:
        return OwnBlocks(_READ_BLOCKS(decoded(value, _BLOCKS_LIMIT))[_BLOCKS])
    except Unreadable as error:
        raise RefusedDocument(f"its field {error}.") from None
    except ValueError as error:
        raise RefusedDocument(f"{error}.") from None


def encoded(body: t.Mapping[str, t.Any]) -> bytes:
    """Return a document as JSON, in the one form that equal documents have."""
    return json.dumps(body, separators=(",", ":"), sort_keys=True, ensure_ascii=True).encode("ascii")


def decoded(value: bytes, limit: int) -> dict[str, t.Any]:
    """Return the JSON object in a document of at most `limit` bytes. Raise RefusedDocument for anything else."""
    if len(value) > limit:
        raise RefusedDocument(f"it has more than {limit} bytes.")
    try:
        found = parse(value, once=False)
    except NotJson:
        raise RefusedDocument("it is not JSON.") from None
    if not isinstance(found, dict):
        raise RefusedDocument("it is no JSON object.")
    return found
