# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One conversation of the controller with the datastore, and the two ways in which it can fail."""

from __future__ import annotations

import asyncio
import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import (
    Credentials,
    EtcdClient,
    Unreachable,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import EtcdError
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import InvalidKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.exchange import (
    UnusableCluster,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import TierInUse
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.rights import ForeignUser
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettingsError
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import TransportError, within

from .access import FleetDatastore

#: Seconds for one call at one member. A run asks each member once before it goes on without the datastore.
_SECONDS = 5.0
_LONGEST = 300  # the most characters of a member's reason
_T = t.TypeVar("_T")


class DatastoreAway(Exception):
    """A datastore that cannot be used at the moment. The text is a clause without a full stop."""


class DatastoreRefused(Exception):
    """A datastore that is not usable before somebody corrects something. The text is a sentence, with the remedy."""


class DocumentsInTheWay(DatastoreRefused):
    """Live documents that need what a run takes away. The text names them."""


def ask(datastore: FleetDatastore, credentials: Credentials, talk: t.Callable[[EtcdClient], t.Awaitable[_T]]) -> _T:
    """Return what `talk` returns for a client of the cluster. Raise DatastoreAway or DatastoreRefused."""

    async def run() -> _T:
        client = connect(datastore, credentials)
        try:
            return await talk(client)
        finally:
            await client.close()

    try:
        return asyncio.run(run())
    except DatastoreSettingsError:
        raise _unusable_files(datastore) from None
    except gateway.WrongPassword:
        raise DatastoreRefused(
            f"The datastore refuses the user {credentials.user} or its password. Correct calico_etcd_username and "
            "calico_etcd_password, or .calico.etcd/secrets.json in the inventory's folder."
        ) from None
    except gateway.PermissionDenied as error:
        raise DatastoreRefused(
            f"The user {credentials.user} of the datastore may not do this ({error}). Give it the role root: "
            f"etcdctl user grant-role {credentials.user} root."
        ) from None
    except TierInUse as error:
        raise DocumentsInTheWay(str(error)) from None
    except (UnusableCluster, ForeignUser, InvalidKey) as error:
        raise DatastoreRefused(str(error)) from None
    except (EtcdError, Unreachable) as error:
        raise DatastoreAway(str(error)) from None


def silent_members(datastore: FleetDatastore, credentials: Credentials) -> dict[str, str]:
    """Return the reason for each member of `datastore.endpoints` that does not answer or has no leader, by its URL.

    All are asked at once, for at most 5 seconds. A reason has at most 300 characters. Raise DatastoreRefused for
    unusable files of TLS.
    """

    async def reason(url: str) -> str:
        client = connect(dataclasses.replace(datastore, endpoints=(url,)), credentials)
        try:
            status = await within(_SECONDS, client.status())
        except Unreachable as error:
            return "; ".join(error.reasons.values())
        except EtcdError as error:
            return str(error)
        except TransportError as error:  # the whole conversation took too long, however short each answer took
            return str(error)
        finally:
            await client.close()
        return "" if status.leader else "it has no leader"

    async def run() -> list[str]:
        return await asyncio.gather(*map(reason, datastore.endpoints))

    try:
        reasons = asyncio.run(run())
    except DatastoreSettingsError:
        raise _unusable_files(datastore) from None
    return {url: _clause(why) for url, why in zip(datastore.endpoints, reasons) if why}


def _clause(reason: str) -> str:
    """Return a member's reason for a line of a terminal, without a full stop; it may be what the member said."""
    return terminal_text.cut(terminal_text.line(reason), _LONGEST).rstrip(".")


def _unusable_files(datastore: FleetDatastore) -> DatastoreRefused:
    return DatastoreRefused(
        f"The files of TLS for the datastore ({', '.join(filter(None, _files(datastore)))}) cannot be used: they "
        "are missing, or no certificate and key that belong together. Correct calico_etcd_ca, calico_etcd_cert and "
        "calico_etcd_key."
    )


def connect(datastore: FleetDatastore, credentials: Credentials) -> EtcdClient:
    """Return a client of the cluster for one conversation. Raise DatastoreSettingsError for unusable files of TLS."""
    return datastore.settings(credentials).client(_SECONDS, jitter=0.0)


def _files(datastore: FleetDatastore) -> tuple[str, ...]:
    return datastore.ca, datastore.certificate, datastore.key
