# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of a Type=notify service to systemd (sd_notify(3)): datagrams on the socket that systemd names.

Without systemd nothing is reported, which is not an error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import typing as t


class Notifier:
    """The reporter, on the socket NOTIFY_SOCKET of `environment`, by default that of the process.

    Its methods do not wait; an error of the socket is ignored.
    """

    def __init__(self, environment: t.Optional[t.Mapping[str, str]] = None) -> None:
        environment = os.environ if environment is None else environment
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):  # a socket in the abstract namespace, unix(7): its address begins with NUL
            self._address = "\0" + self._address[1:]

    def ready(self) -> None:
        """Report to systemd that the service has started; do nothing if systemd wants no reports. Raise nothing."""
        self._say("READY=1")

    def alive(self) -> None:
        """Report to systemd's watchdog a sign of life; do nothing if systemd wants no reports. Raise nothing."""
        self._say("WATCHDOG=1")

    def stopping(self) -> None:
        """Report to systemd that the service is ending; do nothing if systemd wants no reports. Raise nothing."""
        self._say("STOPPING=1")

    def _say(self, variable: str) -> None:
        if not self._address:
            return
        # A listener that is gone or slow must neither stop nor delay the agent.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
            connection.setblocking(False)
            connection.sendto(variable.encode(), self._address)
