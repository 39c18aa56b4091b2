# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD's sessions as figures: asked now and then, in a thread, because its control socket may keep one waiting."""

from __future__ import annotations

import asyncio
import typing as t

from ...bird import client, status
from ...bird.errors import BirdError
from .instruments import Instruments

INTERVAL = 15.0  # seconds; what scrapes at its default of 15 to 60 s sees no finer


async def watch(
    instruments: Instruments,
    socket: str = client.SOCKET,
    wanted: t.Callable[[], bool] = lambda: True,
    interval: float = INTERVAL,
) -> t.NoReturn:
    """A task of its own. While BIRD is not `wanted` on this node there are no figures of it, and no alert."""
    refused = RefusedAnnouncements()
    while True:
        if wanted():
            await look(instruments, socket, refused=refused)
        else:
            instruments.bird_up.replace({})
            instruments.bgp_sessions.replace({})
            instruments.bgp_established.replace({})
        await asyncio.sleep(interval)


class RefusedAnnouncements:
    """What BIRD refused of nodes. It counts by session, from the beginning of each. Routers outside the fleet are left
    out: most of them announce more than is wanted."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def more(self, sessions: t.Iterable[status.Session]) -> int:
        """Since it was asked last."""
        now = {session.name: session.refused for session in sessions if session.description}
        before, self._last = self._last, now
        return sum(
            count - before[name] if count >= before.get(name, count + 1) else count for name, count in now.items()
        )


async def look(
    instruments: Instruments,
    socket: str = client.SOCKET,
    timeout: float = 5.0,
    refused: t.Optional[RefusedAnnouncements] = None,
) -> None:
    """Once. Figures of sessions are gone while BIRD does not answer: none is known to be up, nor to be down."""
    try:
        seen = await asyncio.get_running_loop().run_in_executor(None, status.observe, socket, timeout)
    except BirdError:
        instruments.bird_up.set(value=0)
        instruments.bgp_sessions.replace({})
        instruments.bgp_established.replace({})
        return
    instruments.bird_up.set(value=1)
    instruments.bgp_sessions.set(value=len(seen.sessions))
    instruments.bgp_established.set(value=sum(session.established for session in seen.sessions))
    instruments.bgp_refused.add(amount=(refused or RefusedAnnouncements()).more(seen.sessions))
