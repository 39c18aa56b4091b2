# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What systemd wants to hear from a service of Type=notify (sd_notify(3)): datagrams on the socket that it names.

Without systemd, nothing is said and nothing is wrong.
"""

from __future__ import annotations

import contextlib
import os
import socket
import typing as t


class Notifier:
    """Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of `environment`, by default that of the process."""

    def __init__(self, environment: t.Optional[t.Mapping[str, str]] = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):  # abstract: unix(7)
            self._address = "\0" + self._address[1:]
        self._watchdog = _seconds(environment)

    @property
    def watchdog(self) -> t.Optional[float]:
        """Seconds after which systemd kills a service that has not called alive(). None: it does not watch.

        sd_watchdog_enabled(3) recommends to call it twice in that time.
        """
        return self._watchdog

    def ready(self, status: str = "") -> None:
        self._say("READY=1", status)

    def status(self, text: str) -> None:
        """What `systemctl status` shows; one line."""
        self._say("", text)

    def alive(self) -> None:
        self._say("WATCHDOG=1")

    def stopping(self, status: str = "") -> None:
        self._say("STOPPING=1", status)

    def extend(self, seconds: float) -> None:
        """Starting or stopping takes longer, and is not stuck."""
        self._say(f"EXTEND_TIMEOUT_USEC={int(seconds * 1_000_000)}")

    def _say(self, variable: str, status: str = "") -> None:
        if not self._address:
            return
        lines = [variable] if variable else []
        if status:
            lines.append("STATUS=" + " ".join(status.split()))
        # Who listens may be gone or slow; that is no reason to stop working, nor to wait.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.setblocking(False)
            connection.sendto("\n".join(lines).encode("utf-8", "replace"), self._address)


def _seconds(environment: t.Mapping[str, str]) -> t.Optional[float]:
    microseconds = environment.get("WATCHDOG_USEC", "")
    meant = environment.get("WATCHDOG_PID", "")
    if not microseconds.isdigit() or int(microseconds) == 0 or (meant and meant != str(os.getpid())):
        return None
    return int(microseconds) / 1_000_000
