# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Routes that a BIRD 2 learned before their tunnel device existed, and therefore does not write to the kernel.

The filter calico_kernel_programming (templates/bird/kernel.j2) names the device of a tunnelled pool. Without that
device BIRD logs `Invalid iface name`, and the route counts as refused. BIRD 2 does not ask the filter again, neither
when the device appears nor when it reads its configuration: only `reload out` makes it. BIRD 3 asks it with each scan
of the kernel's routes, every five seconds.
"""

from __future__ import annotations

import time
import typing as t

from ..base.addresses import family_of
from . import kernel_sync
from .client import SOCKET, BirdClient
from .errors import CommandRefused, NotAnswering

#: The most destinations that BIRD is asked for. If a device was missing, BIRD wrote none of its routes.
_MOST = 200
#: The most seconds to wait until BIRD has noticed a device that was just made.
_NOTICED = 5.0
#: The most seconds that BIRD takes from learning a route to writing it.
_WRITTEN = 1.0
_NOT_FOUND = 8001  # BIRD's code for a route that it does not have

#: A function that returns the routes that the kernel lacks, as a mapping from destination (CIDR) to device.
Missing = t.Callable[[], t.Mapping[str, str]]


def offer_again(
    missing: Missing, path: str = SOCKET, sleep: kernel_sync.Sleep = time.sleep, timeout: float = 10.0
) -> tuple[str, ...]:
    """Let a BIRD 2 offer its routes to the kernel again if it has some that the kernel lacks, and return these.

    `missing` returns what the kernel lacks: destinations (CIDR) and their devices, which exist. Return () if BIRD has
    none of the first 200 of them, writes them within a second, is a BIRD 3, or does not run. `path` is BIRD's control
    socket, `timeout` the seconds for each answer. Raises NotAnswering, CommandRefused, or the errors of `missing`.

    Routes that are in the kernel already are written once more, and an IPv6 route is missing for an instant meanwhile.
    """
    lacking = missing()
    if not lacking:
        return ()
    try:
        with BirdClient(path, timeout) as client:
            if kernel_sync.is_deaf(client):
                return ()
            known = {destination for destination in list(lacking)[:_MOST] if _has(client, destination)}
            if not known:
                return ()
            devices = {lacking[destination] for destination in known}
            kernel_sync.poll(_NOTICED, sleep, lambda: devices <= _interfaces(client))
            kernel_sync.poll(_WRITTEN, sleep, lambda: known.isdisjoint(missing()))
            known.intersection_update(missing())
            for name in kernel_sync.running(client, {family_of(destination) for destination in known}):
                client.ask(f"reload out {name}")
            return tuple(sorted(known))
    except NotAnswering as error:
        if error.nobody_there:
            return ()
        raise


def _has(client: BirdClient, destination: str) -> bool:
    try:
        return destination in client.ask(f"show route {destination} primary").text
    except CommandRefused as error:
        if error.code == _NOT_FOUND:
            return False
        raise


def _interfaces(client: BirdClient) -> set[str]:
    return {line.split()[0] for line in client.ask("show interfaces summary").lines if line.split()}
