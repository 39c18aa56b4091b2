# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims of ports of this host: bound sockets, so that nobody else gets a port that leads to a workload.

TCP sockets listen, because the kernel lets another program bind beside one that does not. What arrives at them came
past the rules: from ::1, or while the rules were missing. See loopback_proxy.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import socket
import typing as t

from .loopback_proxy import LoopbackProxy
from .port_owner import PortOwner, find

#: The most sockets of all claims together.
SOCKETS = 40000
_BACKLOG = 64
_ATTEMPTS = 16  # free ports that are tried until one is free for both IP versions
_KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_ANY = {4: "0.0.0.0", 6: "::"}


class PortNotClaimed(Exception):
    """A port that cannot be claimed. `number` is the errno, `owner` the process that has the port, None if unknown."""

    def __init__(self, wanted: WantedPort, number: int, owner: t.Optional[PortOwner]) -> None:
        super().__init__(wanted, number, owner)
        self.wanted = wanted
        self.number = number
        self.owner = owner


@dataclasses.dataclass(frozen=True)
class WantedPort:
    """A port that is wanted: for these IP versions, at `host_address` or ("") at all addresses of the host.

    `host_port` 0 means any free port. `targets` are the addresses of the workload by IP version. `held_elsewhere` are
    IP versions for which the container engine itself binds the port: it is only tried whether it is free.
    """

    protocol: str
    host_address: str
    host_port: int
    port: int
    targets: t.Mapping[int, str]
    held_elsewhere: t.Collection[int] = ()


class PortClaims:
    """All claims, by the id of the workload that they are for. It belongs to the event loop.

    `is_own(id, owner)` returns whether a process may have a port for the workload `id`, as a container engine may.
    """

    def __init__(self, is_own: t.Callable[[str, PortOwner], bool] = lambda id, owner: False) -> None:
        self._is_own = is_own
        self._claims: dict[str, list[socket.socket]] = {}
        self._count = 0  # the sockets of all claims
        self._proxy = LoopbackProxy()

    def __contains__(self, id: object) -> bool:
        return id in self._claims

    def claim(self, id: str, wanted: t.Sequence[WantedPort]) -> list[int]:
        """Claim all ports for the workload `id`, and return their numbers on the host, in the order of `wanted`.

        Its older claims are released first. Raise PortNotClaimed for the first port that fails; no claim is left then.
        """
        self.release(id)
        claim = self._claims[id] = []
        try:
            return [self._claimed(id, claim, one) for one in wanted]
        except BaseException:
            self.release(id)
            raise

    def release(self, id: str) -> None:
        """Release the claims of a workload; do nothing if it has none."""
        for made in self._claims.pop(id, []):
            self._close(made)

    def close(self) -> None:
        """Release all claims."""
        for id in list(self._claims):
            self.release(id)

    def _claimed(self, id: str, claim: list[socket.socket], wanted: WantedPort) -> int:
        if wanted.protocol not in _KINDS:
            return wanted.host_port  # The kernel's sockets of SCTP are a module of their own, which few hosts have.
        for attempt in range(_ATTEMPTS):
            number, made = wanted.host_port, []
            try:
                for family in sorted(wanted.targets):
                    bound = self._bound(id, wanted, family, number)
                    if bound is not None:
                        made.append((family, bound))
                        number = number or bound.getsockname()[1]
            except PortNotClaimed as error:
                for _family, bound in made:
                    bound.close()
                if wanted.host_port or error.number != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                    raise
                continue
            for family, bound in made:
                if family in wanted.held_elsewhere:
                    bound.close()
                else:
                    self._keep(claim, wanted, family, bound)
            return number
        raise AssertionError("the last attempt returns or raises")

    def _bound(self, id: str, wanted: WantedPort, family: int, number: int) -> t.Optional[socket.socket]:
        """Return a socket bound to the port; None if a process has it that may have it for this workload."""
        if self._count >= SOCKETS:
            raise PortNotClaimed(wanted, errno.EMFILE, None)
        try:
            made = socket.socket(_FAMILIES[family], _KINDS[wanted.protocol])
        except OSError as error:
            raise PortNotClaimed(wanted, error.errno or errno.EIO, None) from error
        try:
            made.setblocking(False)
            if family == 6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if wanted.protocol == "tcp":
                # Connections of the proxy that have ended keep the port for a minute otherwise.
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((wanted.host_address or _ANY[family], number))
            if wanted.protocol == "tcp":
                made.listen(_BACKLOG)
            return made
        except OSError as error:
            made.close()
            found = find(wanted.protocol, number, family) if error.errno == errno.EADDRINUSE and number else None
            if found is not None and self._is_own(id, found):
                return None
            raise PortNotClaimed(wanted, error.errno or errno.EIO, found) from error

    def _keep(self, claim: list[socket.socket], wanted: WantedPort, family: int, made: socket.socket) -> None:
        claim.append(made)
        self._count += 1
        if wanted.protocol == "tcp":
            target = (wanted.targets[family], wanted.port)
            asyncio.get_running_loop().add_reader(made.fileno(), self._proxy.accept, made, target)
        else:
            with contextlib.suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 0)  # The agent does not read it.

    def _close(self, made: socket.socket) -> None:
        self._count -= 1
        if made.type == socket.SOCK_STREAM:
            with contextlib.suppress(RuntimeError, ValueError):
                asyncio.get_running_loop().remove_reader(made.fileno())
            self._proxy.end(made)
        made.close()
