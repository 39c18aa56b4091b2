# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from a command to the live documents of a fleet."""

from __future__ import annotations

import asyncio
import typing as t

from ..cli import datastore_source
from ..cli.connection.datastore_ways import DatastoreWays, NotOurs
from ..cli.errors import CommandError
from ..datastore import keys
from ..datastore.client import Unreachable
from ..datastore.gateway import EtcdError, PermissionDenied
from ..datastore.keys import InvalidKey
from ..datastore.settings import DatastoreSettings, DatastoreSettingsError
from .change import FAILURES, Conflict, PartialChange
from .store import LiveStore

_Done = t.TypeVar("_Done")
#: The failures after which another way to a datastore is tried.
_NO_WAY = (DatastoreSettingsError, EtcdError, Unreachable, NotOurs)


def with_store(ways: DatastoreWays, work: t.Callable[[LiveStore], t.Awaitable[_Done]]) -> _Done:
    """Return what `work` returns for the documents of the first datastore that answers. Raise CommandError."""
    try:
        found = ways.first(lambda settings: asyncio.run(_with_store(settings, work)), _NO_WAY)
    except _NO_WAY as error:
        raise CommandError(f"the datastore cannot be read: {error}") from error
    if found is None:
        raise CommandError(
            "there is no way to a datastore. Name a file with it by -c FILE, or the inventory by -i INVENTORY."
        )
    return found


async def _with_store(settings: DatastoreSettings, work: t.Callable[[LiveStore], t.Awaitable[_Done]]) -> _Done:
    client = datastore_source.connect(settings)
    try:
        (blocks,) = await client.counts([keys.under(keys.BLOCKS)])
        if not blocks:
            raise NotOurs
        try:
            return await work(LiveStore(client, settings.user))
        except PermissionDenied as error:
            raise CommandError(
                f"the user {settings.user or 'without a name'} of etcd has no right to that: {error.message}. The "
                "operators that calico_etcd_operators of the inventory names write live policy."
            ) from error
        except (*FAILURES, Conflict, PartialChange, InvalidKey) as error:
            raise CommandError(str(error)) from error
    finally:
        await client.close()
