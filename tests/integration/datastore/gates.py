# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A gate before each member of a cluster, in this process."""

from __future__ import annotations

import contextlib
import ssl
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.quotas import WORKLOADS
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.server import (
    RIGHTS_SECONDS,
    Gate,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import address_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import TlsFiles

from tests.etcd_cluster import EtcdCluster, Member


def server_tls(cluster: EtcdCluster, member: Member) -> tuple[ssl.SSLContext, TlsFiles]:
    """Return the TLS of a gate for agents, and its way to its member, both with the member's own certificate."""
    files = [str(cluster.authority.folder / f"{member.name}.{ending}") for ending in ("pem", "key")]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cafile=cluster.authority.file)
    context.load_cert_chain(*files)
    return context, TlsFiles(str(cluster.authority.file), *files)


@contextlib.asynccontextmanager
async def gates(
    cluster: EtcdCluster, workloads: int = WORKLOADS, rights_seconds: float = RIGHTS_SECONDS
) -> t.AsyncIterator[list[str]]:
    """Yield the URLs of a gate before each member, which makes room for so many workloads of a node.

    A gate ends a watch at most `rights_seconds` after its user may not read.
    """
    servers, urls = [], []
    for member in cluster.members:
        context, tls = server_tls(cluster, member)
        gate = Gate(
            address_of(member.url), tls, str(cluster.fleet_file), workloads=workloads, rights_seconds=rights_seconds
        )
        server = await gate.listen("127.0.0.1", 0, context)
        servers.append(server)
        urls.append(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield urls
    finally:
        for server in servers:
            server.close()
