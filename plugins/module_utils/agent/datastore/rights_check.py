# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check of etcd's release, on which live policy depends where nodes reach members without gates.

A run checks it, too. But it goes on while no member answers, and members change between two runs.
"""

from __future__ import annotations

import asyncio
import random
import typing as t

from ...base.terminal_text import line
from ...datastore.client import EtcdClient
from ...datastore.gateway import EtcdError
from ...datastore.live import rights_hold

#: The most characters of a member's reason that are shown.
_LONGEST = 200
#: Seconds until members are asked again: after all have a good release, otherwise, and while none answers.
_AGAIN, _SOON, _AT_ONCE = 3600.0, 60.0, 2.0


class RightsCheck:
    """What the members last said of their releases. `is_needed` returns whether anything depends on it.

    `changed` is called after another answer. It belongs to the event loop.
    """

    def __init__(self, is_needed: t.Callable[[], bool], changed: t.Callable[[], None]) -> None:
        self._is_needed = is_needed
        self._changed = changed
        self._problem: t.Optional[str] = None

    @property
    def problem(self) -> t.Optional[str]:
        """Why no document may be taken, as a clause, "" if they may be, and None while that is not known."""
        return self._problem if self._is_needed() else ""

    async def run(self, client: EtcdClient) -> None:
        """Ask the members of a connection until cancelled. What those of an earlier one said does not count."""
        self._problem = None
        while True:
            if not self._is_needed():
                await asyncio.Event().wait()
            try:
                releases = await client.releases()
                found = rights_hold.problem(releases) if releases else self._problem
                good = not found and len(releases) == client.count
                pause = _AGAIN if good else _SOON if releases else _AT_ONCE
            except EtcdError as error:
                found, pause = f"members of etcd do not say their release: {line(str(error)[:_LONGEST])}", _SOON
            if found != self._problem:
                self._problem = found
                self._changed()
            await asyncio.sleep(pause * random.uniform(0.9, 1.1))
