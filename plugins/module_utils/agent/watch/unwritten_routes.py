# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch for routes that BIRD has and does not write, because their tunnel device was missing when it learned them.

That happens if BIRD starts before the device is made, or learns routes while the device is deleted. The reconciler
makes the device, and this part lets BIRD write the routes.
"""

from __future__ import annotations

import asyncio
import logging
import typing as t

from ...bird import unwritten_routes
from ...bird.errors import BirdError
from ...dataplane.kernel.port import Kernel, KernelError
from ...dataplane.planning import bird_routes
from ...state.node_state import NodeState
from ..concurrency.driver_thread import Worker

_log = logging.getLogger("calico.bird")

INTERVAL = 5.0  # seconds between two looks at the kernel's routes
_LONGEST = 320.0  # seconds between two offers, at most, if offering the routes does not help
_PATIENCE = 5.0  # seconds for each answer of BIRD


class UnwrittenRoutes:
    """The watch of one node. `run` runs work in a thread of its own; `socket` is the path of BIRD's."""

    def __init__(self, kernel: Kernel, run: Worker, socket: str, state: t.Callable[[], t.Optional[NodeState]]) -> None:
        self._kernel = kernel
        self._work = run
        self._socket = socket
        self._state = state

    async def run(self) -> t.NoReturn:
        """Look every five seconds, and let BIRD write what it has and the kernel lacks. Never return.

        The pauses double as long as offering the routes does not help, because it writes all others once more.
        """
        pause = INTERVAL
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST) if await self.look() else INTERVAL

    async def look(self) -> bool:
        """Let BIRD write the routes that it has and the kernel lacks; return whether there were some. Log errors."""
        state = self._state()
        if state is None or not any(route.device for route in state.bird_routes):
            return False
        known: NodeState = state

        def offer() -> tuple[str, ...]:
            return unwritten_routes.offer_again(
                lambda: bird_routes.unwritten(self._kernel, known), self._socket, timeout=_PATIENCE
            )

        try:
            offered = await self._work(offer)
        except (BirdError, KernelError) as error:
            _log.debug("Routes that BIRD has and does not write were not looked for: %s", error)
            return False
        if offered:
            _log.info(
                "BIRD had not written %d route%s whose tunnel device was missing when it learned them, such as %s. It"
                " writes them now.",
                len(offered),
                "" if len(offered) == 1 else "s",
                offered[0],
            )
        return bool(offered)
