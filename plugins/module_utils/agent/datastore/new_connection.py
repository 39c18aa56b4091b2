# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A check that a change was made: a new connection to the datastore, to another host if there is one, shows it."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base.addresses import parse_address
from ...datastore import keys
from ...datastore.client import EtcdClient, Unreachable
from ...datastore.gateway import EtcdError
from ...datastore.live.open_change import OpenChange
from ...datastore.settings import DatastoreSettings, DatastoreSettingsError, address_of

#: Seconds that one attempt takes at most: the next one may meet another member.
_SECONDS = 2.0


class NewConnection:
    """A prover for LiveTrials. `own` returns the addresses of this node; `connect` makes a client."""

    def __init__(
        self,
        settings: t.Callable[[], t.Optional[DatastoreSettings]],
        own: t.Callable[[], t.Collection[str]],
        connect: t.Callable[[DatastoreSettings], EtcdClient] = lambda given: given.client(_SECONDS, 0.0),
    ) -> None:
        self._settings = settings
        self._own = own
        self._connect = connect

    async def shows(self, change: OpenChange) -> bool:
        """Return whether a new connection shows all documents of the change, and that it is open no longer."""
        settings = self._settings()
        if settings is None:
            return False
        try:
            client = self._connect(elsewhere(settings, self._own()))
        except DatastoreSettingsError:
            return False
        names = [keys.OPEN_CHANGE, *map(keys.document_key, change.documents)]
        try:
            found = {entry.key: entry.value for entry in await client.named(names)}
        except (EtcdError, Unreachable):
            return False
        finally:
            await client.close()
        wanted = {keys.document_key(key): value for key, value in change.documents.items() if value is not None}
        return found == wanted


def elsewhere(settings: DatastoreSettings, own: t.Collection[str]) -> DatastoreSettings:
    """Return the settings with those endpoints alone that are on other hosts; all of them if there is none."""
    addresses = frozenset(own)
    others = tuple(endpoint for endpoint in settings.endpoints if _host(endpoint) not in addresses)
    return dataclasses.replace(settings, endpoints=others) if others else settings


def _host(endpoint: str) -> str:
    host = address_of(endpoint).host
    address = parse_address(host)
    return address.text if address is not None else host
