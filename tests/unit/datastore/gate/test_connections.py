# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The acceptance of connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.connections import AgentListener
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.places import (
    OTHER_ADDRESS,
    ConnectionPlace,
    ConnectionPlaces,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.stream import AgentStream


def test_connections_that_come_at_once_have_no_more_places() -> None:
    """A connection that gave its place to another before it was served ends, too."""

    async def scenario() -> None:
        places, served = ConnectionPlaces(), 0

        async def serve(stream: AgentStream, place: ConnectionPlace) -> None:
            nonlocal served
            served += 1
            with contextlib.suppress(EOFError):
                await stream.exactly(1)
            served -= 1

        listener = AgentListener("127.0.0.1", 0, places, serve, lambda: None, 60.0)
        address = listener.sockets[0].getsockname()
        clients = [socket.create_connection(address, 10) for dummy in range(50)]
        for client in clients:
            client.setblocking(False)
        loop, end = asyncio.get_running_loop(), asyncio.get_running_loop().time() + 60
        open_yet = list(clients)
        while len(open_yet) > OTHER_ADDRESS or served != OTHER_ADDRESS:
            assert loop.time() < end, (len(open_yet), served)
            await asyncio.sleep(0.01)
            open_yet = [client for client in clients if _is_open(client)]
        assert len(open_yet) == places.taken == OTHER_ADDRESS
        for client in clients:
            client.close()
        while places.taken or served:
            assert loop.time() < end
            await asyncio.sleep(0.01)
        listener.close()

    asyncio.run(scenario())


def _is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
