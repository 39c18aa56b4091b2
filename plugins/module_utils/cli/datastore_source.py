# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The heartbeats of all nodes, read from the datastore with this node's own user."""

from __future__ import annotations

import asyncio
import typing as t

from ..datastore import heartbeats as documents
from ..datastore import keys
from ..datastore.client import EtcdClient, Unreachable
from ..datastore.gateway import EtcdError
from ..datastore.heartbeats import Heartbeat
from ..datastore.publication import exchange
from ..datastore.settings import DatastoreSettings, DatastoreSettingsError
from .connection.datastore_ways import DatastoreWays, NotOurs

#: Seconds for a call of one member.
_SECONDS = 3.0
_FAILURES = (DatastoreSettingsError, EtcdError, Unreachable, NotOurs)


def heartbeats(connection: DatastoreWays, warn: t.Callable[[str], None]) -> t.Optional[dict[str, Heartbeat]]:
    """Return the heartbeats by node; None if there is no way to a datastore, or no member answers.

    `warn` gets a sentence about a datastore that cannot be read, and about each heartbeat that is left out. Raise
    CommandError if the file of -c leads to none.
    """
    try:
        values = connection.first(lambda found: asyncio.run(_read(found)), _FAILURES)
    except _FAILURES as error:
        warn(f"the heartbeats of the nodes are not shown: {error}")
        return None
    if values is None:
        return None
    nodes, refused = documents.decode_all(values)
    for node, why in refused.items():
        warn(f"{node}: its heartbeat is left out: {why}")
    return nodes


async def _read(settings_of_node: DatastoreSettings) -> dict[str, bytes]:
    client = connect(settings_of_node)
    try:
        (blocks,) = await client.counts([keys.under(keys.BLOCKS)])
        if not blocks:
            raise NotOurs
        return await exchange.heartbeats(client)
    finally:
        await client.close()


def connect(settings_of_node: DatastoreSettings) -> EtcdClient:
    return settings_of_node.client(_SECONDS)
