# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD's sessions and their metrics, read from time to time in a thread, because its control socket may block."""

from __future__ import annotations

import asyncio
import typing as t

from ...bird import client, status
from ...bird.errors import BirdError
from .instruments import Instruments

INTERVAL = 15.0  # seconds between two readings of BIRD; metrics are usually scraped every 15 to 60 s

#: A function that takes the sessions, and the reason why their state cannot be read, or "" if it was read.
OnSessions = t.Callable[[t.Sequence[status.Session], str], None]


async def watch(
    instruments: Instruments,
    socket: str = client.SOCKET,
    wanted: t.Callable[[], bool] = lambda: True,
    on_sessions: OnSessions = lambda dummy, dummy_reason: None,
    interval: float = INTERVAL,
) -> t.NoReturn:
    """Refresh the metrics of BIRD's sessions now, and `interval` seconds after each reading. Never return.

    While `wanted()` is False, this node needs no BIRD: `bird_up` and the numbers of sessions then have no values, so
    that no alert fires. `on_sessions` is called after each reading.
    """
    refused = RefusedAnnouncements()
    while True:
        if wanted():
            on_sessions(*await look(instruments, socket, refused=refused))
        else:
            on_sessions((), "")
            instruments.bird_up.replace({})
            instruments.bgp_sessions.replace({})
            instruments.bgp_established.replace({})
        await asyncio.sleep(interval)


class RefusedAnnouncements:
    """The announcements that BIRD refused from nodes of the fleet; it counts them from each session's beginning.

    Sessions without a description are those with routers outside the fleet. They are left out, because most of these
    announce more than is wanted.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def more(self, sessions: t.Iterable[status.Session]) -> int:
        """Return the number of announcements refused since the last call, in those sessions that have a description.

        A session that is new, or whose count is lower than before, contributes all its refusals.
        """
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
) -> t.Tuple[t.Sequence[status.Session], str]:
    """Read BIRD's sessions once, in a thread, and set their metrics; return them, and why their state is not known.

    `timeout` is in seconds for each answer of BIRD. If it does not answer or refuses a command, `bird_up` is 0, the
    numbers of sessions have no values, and no session is returned. Without `refused`, all refusals count as new.
    """
    try:
        seen = await asyncio.get_running_loop().run_in_executor(None, status.observe, socket, timeout)
    except BirdError as error:
        instruments.bird_up.set(value=0)
        instruments.bgp_sessions.replace({})
        instruments.bgp_established.replace({})
        return (), str(error)
    instruments.bird_up.set(value=1)
    instruments.bgp_sessions.set(value=len(seen.sessions))
    instruments.bgp_established.set(value=sum(session.established for session in seen.sessions))
    instruments.bgp_refused.add(amount=(refused or RefusedAnnouncements()).more(seen.sessions))
    return seen.sessions, ""
