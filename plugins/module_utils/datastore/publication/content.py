# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that a run of Ansible writes, nodes/, pools/ and blocks/, and what has to change for them.

With live policy, these are also inventory/ and settings/.

The inventory wins: a key below these prefixes that the fleet does not have is removed, and a value that somebody edited
is written again. What nodes write themselves, endpoints/, heartbeats/ and answers/, stays, also that of a node that the
inventory no longer has. Only the removal of a node takes it away.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ...dataplane.change import Change
from .. import documents, keys
from ..documents import RefusedDocument
from ..gateway import Delete, Operation, Put
from ..keys import KeyRange

#: The prefixes whose keys a run writes, with the kind that people read.
_KINDS = {
    keys.BLOCKS: "blocks",
    keys.INVENTORY: "policy",
    keys.NODES: "node",
    keys.POOLS: "pool",
    keys.SETTINGS: "settings",
}
#: The ranges in which a run compares every key.
PUBLISHED: tuple[KeyRange, ...] = tuple(map(keys.under, _KINDS))
#: The ranges among these that are about the inventory's policy, for operators.
OF_POLICY: tuple[KeyRange, ...] = tuple(map(keys.under, (keys.INVENTORY, keys.SETTINGS)))
#: The most bytes of a value that is shown, and of one that is read to be compared.
_DOCUMENT_LIMIT = 1 << 20
_SHOWN = 120  # characters
_MISSING = object()


@dataclasses.dataclass(frozen=True)
class Published:
    """What a run publishes: documents of nodes and pools by name, and the blocks of each node that has workloads.

    `live` has the values of live_policy.py by key.
    """

    nodes: t.Mapping[str, t.Mapping[str, t.Any]]
    pools: t.Mapping[str, t.Mapping[str, t.Any]]
    blocks: t.Mapping[str, t.Collection[str]]
    live: t.Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def values(self) -> dict[str, bytes]:
        """Return the values by key. Raise InvalidKey for a name that no key can have."""
        return {
            **{keys.blocks_key(node): documents.encode_blocks(cidrs) for node, cidrs in self.blocks.items()},
            **{keys.node_key(node): documents.encoded(body) for node, body in self.nodes.items()},
            **{keys.pool_key(pool): documents.encoded(body) for pool, body in self.pools.items()},
            **self.live,
        }


def plan(wanted: t.Mapping[str, bytes], found: t.Mapping[str, bytes]) -> tuple[Change, ...]:
    """Return, in order of keys, the changes from `found` to `wanted`. Each has its operation in the tuple `new`."""
    return tuple(
        _change(key, found.get(key), wanted.get(key))
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key) != found.get(key)
    )


def removal(node: str, found: t.Mapping[str, int]) -> tuple[Change, ...]:
    """Return the changes, for exchange.empty, that remove what `node` has published; `found` counts keys by prefix."""
    return tuple(
        Change(kind, "-", f"{prefix[len(keys.ROOT) :]}*", _count(found[prefix]), None)
        for prefix, kind in zip(keys.prefixes_of_node(node), ("endpoint", "heartbeat", "answer"))
        if found.get(prefix)
    )


def left_behind(nodes: t.Collection[str], found: t.Mapping[str, int]) -> dict[str, int]:
    """Return how many keys each name has that is not in `nodes`, "" for no name; `found` counts keys by prefix."""
    counts: dict[str, int] = {}
    for prefix, count in found.items():
        name = keys.name_in(prefix)
        if name not in nodes:
            counts[name] = counts.get(name, 0) + count
    return counts


def operations(changes: t.Iterable[Change]) -> t.Iterator[Operation]:
    for change in changes:
        yield from change.new


def _change(key: str, before: t.Optional[bytes], after: t.Optional[bytes]) -> Change:
    prefix = next(one for one in _KINDS if key.startswith(one))
    kind, name = _KINDS[prefix], key[len(prefix) :]
    if after is None:
        return Change(kind, "-", name, _shown(before), None, new=(Delete(key),))
    put = (Put(key, after),)
    if before is None:
        return Change(kind, "+", name, None, _shown(after), new=put)
    return Change(kind, "~", name, *_differing(before, after), new=put)


def _read(value: t.Optional[bytes]) -> t.Optional[dict[str, t.Any]]:
    try:
        return documents.decoded(value or b"", _DOCUMENT_LIMIT)
    except RefusedDocument:
        return None


def _shown(value: t.Optional[bytes]) -> str:
    body = _read(value)
    return _fields(body) if body is not None else _unreadable(value)


def _differing(before: bytes, after: bytes) -> tuple[str, str]:
    """Return the fields of both documents that differ, as texts."""
    old, new = _read(before), _read(after)
    if old is None or new is None:
        return _shown(before), _shown(after)
    names = [name for name in sorted(old.keys() | new.keys()) if old.get(name, _MISSING) != new.get(name, _MISSING)]
    if not names:
        return "another form", "of the same"
    shown = [_fields({name: body[name] for name in names if name in body}) or "nothing" for body in (old, new)]
    return shown[0], shown[1]


def _fields(body: t.Mapping[str, t.Any]) -> str:
    text = " ".join(f"{name}={_value(value)}" for name, value in sorted(body.items()))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _value(value: t.Any) -> str:
    if isinstance(value, str) and value and not any(character.isspace() for character in value):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value) or "none"
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _unreadable(value: t.Optional[bytes]) -> str:
    return f"{len(value or b'')} bytes that are no document"


def _count(number: int) -> str:
    return f"{number} key{'' if number == 1 else 's'}"
