# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes as they say it in the datastore: which of them can have live policy in force, and which have it."""

from __future__ import annotations

import asyncio
import time
import typing as t

from ..base.typed_json import Unreadable, flag, open_table
from ..cli.render import heartbeat_cells
from ..datastore import documents, heartbeats, keys
from ..datastore.client import EtcdClient
from ..datastore.documents import RefusedDocument
from ..datastore.heartbeats import Heartbeat
from ..datastore.keys import DocumentKey, document_key
from ..datastore.live import policy_heartbeat
from ..datastore.live.policy_heartbeat import PolicyHeartbeat
from ..editing.change.change_plan import ChangeRefused
from ..editing.change.resource_key import ResourceKey

#: Seconds between two looks at the nodes, at first and at last.
_PAUSE, _LONGEST = 0.05, 0.25
#: Seconds after which a node that holds something back is not waited for.
_HELD_BACK = 3.0
_NAMED = 5
_SETTINGS = open_table({}, {"policy": flag, "live": flag})


class NodeSays(t.NamedTuple):
    """What a node says: how it is, and of its live policy, each None for nothing that can be read.

    `at` is the mod revision of the latter.
    """

    heartbeat: t.Optional[Heartbeat]
    policy: t.Optional[PolicyHeartbeat]
    at: int = 0


class Waited(t.NamedTuple):
    """The end of waiting. `in_force` is the number of nodes that have the revision.

    `lacking` says why others with a fresh heartbeat have not, and `silent` are those without one. `seconds` are those
    from the write until the last one of `in_force` was seen to have it.
    """

    in_force: int
    lacking: t.Mapping[str, str]
    silent: tuple[str, ...]
    seconds: float = 0.0


async def check(client: EtcdClient) -> None:
    """Raise ChangeRefused if the fleet does not allow live policy, or a node with a fresh heartbeat knows none."""
    settings = await client.get(keys.FLEET_SETTINGS)
    if settings is not None:
        try:
            found = _SETTINGS(documents.decoded(settings.value, keys.SETTINGS_BYTES))
        except (RefusedDocument, Unreadable) as error:
            raise ChangeRefused(f"{keys.FLEET_SETTINGS} of the datastore cannot be read: {error}") from error
        if not found.get("live", True) or not found.get("policy", True):
            raise ChangeRefused(
                "the inventory does not allow live policy. Set calico_live_policy: true there and run "
                "playbooks/site.yml, or add --force"
            )
    unable = [name for name, says in (await _say(client)).items() if _is_fresh(says) and not _knows(says)]
    if unable:
        raise ChangeRefused(
            f"{_some(unable)} cannot have live policy in force: the release there knows none, or no run has allowed "
            "it. Run playbooks/site.yml for them, or add --force"
        )


class Able(t.NamedTuple):
    """The nodes that can follow live policy now, in order, and why each other node cannot."""

    nodes: tuple[str, ...]
    others: t.Mapping[str, str]


async def able(client: EtcdClient) -> Able:
    """Return which nodes can follow live policy."""
    said = await _say(client)
    why = {name: _why_unable(says) for name, says in said.items()}
    return Able(tuple(name for name in why if not why[name]), {name: reason for name, reason in why.items() if reason})


def _why_unable(says: NodeSays) -> str:
    if not _is_fresh(says):
        return "it has no fresh heartbeat"
    return "" if _knows(says) else "its release knows no live policy, or no run has allowed it"


async def wait(
    client: EtcdClient,
    cluster: int,
    revision: int,
    changed: t.Collection[ResourceKey],
    seconds: float,
    written: float,
) -> Waited:
    """Wait until all nodes with a fresh heartbeat have a revision in force, for at most `seconds`.

    `written` is the time.monotonic() at which it was written.
    """
    said = await _say(client)
    silent = tuple(sorted(name for name, says in said.items() if not _is_fresh(says)))
    waiting = [name for name in said if name not in silent]
    names = {document_key(DocumentKey(*key)) for key in changed}
    lacking: dict[str, str] = {}
    begun, pause = time.monotonic(), _PAUSE
    held: dict[str, float] = {}
    seen = written
    while True:
        now = time.monotonic()
        for name in list(waiting):
            says = said[name]
            why = _why_not(says, cluster, revision)
            refused = [f"{key}: {reason}" for key, reason in says.policy.refused if key in names] if says.policy else []
            if not why and refused:
                lacking[name] = f"it has left out {refused[0]}"
            elif why and says.policy is not None and says.policy.held_back and says.at > revision:
                since = held.setdefault(name, now)
                lacking[name] = why
                if now - since < _HELD_BACK:
                    continue
            elif why:
                held.pop(name, None)
                lacking[name] = why
                continue
            else:
                lacking.pop(name, None)
                seen = now
            waiting.remove(name)
        if not waiting or now - begun >= seconds:
            return Waited(len(said) - len(silent) - len(lacking), lacking, silent, seen - written)
        await asyncio.sleep(min(pause, max(0.0, seconds - (now - begun))))
        pause = min(_LONGEST, pause * 1.2)
        said = {**said, **await _say(client, waiting)}


async def _say(client: EtcdClient, nodes: t.Optional[t.Sequence[str]] = None) -> dict[str, NodeSays]:
    """Return what these nodes say, or all nodes with blocks."""
    if nodes is None:
        blocks = [
            entry.key async for page in client.pages(keys.under(keys.BLOCKS), keys_only=True) for entry in page.entries
        ]
        nodes = sorted(node for node in map(keys.parse_blocks_key, blocks) if node is not None)
    wanted = [make(node) for node in nodes for make in (keys.heartbeat_key, keys.policy_heartbeat_key)]
    found = dict.fromkeys(nodes, NodeSays(None, None))
    for entry in await client.named(wanted):
        node, of_policy = keys.parse_heartbeat_key(entry.key), keys.parse_policy_heartbeat_key(entry.key)
        try:
            if node is not None:
                found[node] = found[node]._replace(heartbeat=heartbeats.decode(node, entry.value))
            elif of_policy is not None:
                says = policy_heartbeat.decode(of_policy, entry.value)
                found[of_policy] = found[of_policy]._replace(policy=says, at=entry.mod_revision)
        except RefusedDocument:
            continue
    return found


def _is_fresh(says: NodeSays) -> bool:
    return says.heartbeat is not None and heartbeat_cells.is_fresh(says.heartbeat, time.time())


def _knows(says: NodeSays) -> bool:
    """Return whether the agent knows live policy. One of an earlier release leaves the key of a later one as it was."""
    return says.policy is not None and says.heartbeat is not None and says.policy.release == says.heartbeat.version


def _why_not(says: NodeSays, cluster: int, revision: int) -> str:
    """Return why a node has no revision of a cluster in force, "" if it has it."""
    policy = says.policy
    if policy is None or not _knows(says):
        return "its release knows no live policy, or no run has allowed it"
    if policy.cluster == cluster and policy.revision >= revision:
        return ""
    if policy.held_back:
        return f"it holds back: {policy.held_back}"
    return f"it is at revision {policy.revision}" if policy.cluster == cluster else "it has not read the datastore"


def _some(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more nodes" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
