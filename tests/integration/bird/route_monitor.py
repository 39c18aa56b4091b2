# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All changes of a namespace's routes over some time, without a gap at the beginning or the end.

A test that asserts that nothing was deleted holds only if `ip monitor` had begun to listen, and was read to its end.
"""

from __future__ import annotations

import os
import select
import subprocess

from .network import Namespace, wait_for

#: The destinations of routes that mark beginning and end, by the option of `ip`.
_MARKS = {"-4": ("198.18.0.1", "198.18.0.2"), "-6": ("2001:db8:ffff::1", "2001:db8:ffff::2")}


class RouteMonitor:
    """`ip monitor route` for one IP version, "-4" or "-6". It listens when the constructor returns.

    The constructor raises AssertionError if it does not listen within 60 seconds, or has ended.
    The events include those of the routes that mark beginning and end, which have no protocol of BIRD.
    """

    def __init__(self, space: Namespace, family: str) -> None:
        self._space, self._family = space, family
        self._process = subprocess.Popen(space.command("ip", family, "monitor", "route"), stdout=subprocess.PIPE)
        self._events = b""
        self._await(_MARKS[family][0])

    def end(self) -> str:
        """Return all events from before the constructor's return until now, and end the monitor.

        Raise AssertionError if it does not report an event of now within 60 seconds, or has ended.
        """
        try:
            self._await(_MARKS[self._family][1])
        finally:
            self.close()
        return self._events.decode()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _await(self, mark: str) -> None:
        """Add and delete the route to `mark` until an event of it has been read.

        Raise AssertionError after 60 seconds, or if the monitor has ended.
        """
        wait_for(f"an event of the route to {mark}", lambda: self._reported(mark))

    def _reported(self, mark: str) -> bool:
        for verb in ("add", "del"):
            self._space.run("ip", self._family, "route", verb, "unreachable", mark, "proto", "static")
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while select.select([handle], [], [], 0.05)[0]:
            more = os.read(handle, 65536)
            assert more, f"ip monitor ended with {self._process.wait()}"
            self._events += more
        return f" {mark} " in self._events.decode()
