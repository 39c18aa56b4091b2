# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workarounds for BIRD 3 when the filter of routes to the kernel changes. BIRD 2 needs none of them.

BIRD 3 compares a kernel route with its own by the next hop only and does not write a route again that it has seen in
the kernel (sysdep/unix/krt.c: krt_rt_notify, krt_same_dest). So a change of `krt_mtu` does not reach the kernel,
neither by `configure` nor by `reload`. A weight changes the next hop for BIRD, and the kernel drops the weight of a
single next hop. So BIRD reads such a change twice: first with weights, for one scan of the kernel's routes that
replaces them all in place, then as it is.

BIRD 3 also ends with SIGSEGV if that filter is replaced before its first scan, up to a second after its start.

Functions that ask a client raise NotAnswering or CommandRefused. Waiting for too long is no error.
"""

from __future__ import annotations

import re
import time
import typing as t

from . import status
from .client import BirdClient
from .version import parse

#: The most seconds to wait for BIRD's first scan of kernel routes: more than `graceful restart wait` and a scan. A BIRD
#: that recovers does not write to the kernel before its first scan.
FIRST_SCAN = 25.0
#: The most seconds to wait for any scan: more than `scan time`, for a kernel protocol that learned no route from which
#: a scan can be recognized.
ANY_SCAN = 6.0

_OURS = ("kernel4", "kernel6")  # the names of the kernel protocols in templates/bird/kernel.j2
_FILTER = re.compile(r"^filter calico_kernel_programming \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
_LIMIT = re.compile(r"net ~ (\S+) then \{ krt_mtu = (\d+);")
_RECEIVED = re.compile(r"Import updates:\s+(\d+)")
_IMPORTED = re.compile(r"Routes:\s+(\d+) imported")
_NOT_YET = re.compile(r"Export state:\s+DOWN")


Sleep = t.Callable[[float], None]  # a function like time.sleep


def other_mtus(before: str, after: str) -> bool:
    """Return whether two bird.cfgs set `krt_mtu` for other ranges, to other MTUs, or another number of times."""
    return sorted(_LIMIT.findall(before)) != sorted(_LIMIT.findall(after))


def with_weights(text: str) -> str:
    """Return the bird.cfg `text` with weight 2 on each route to the kernel, so that it differs from the kernel's.

    A text without the filter calico_kernel_programming is returned unchanged.
    """
    # The braces keep both commands under the condition of an `if ... then accept;`.
    return _FILTER.sub(lambda found: found.group().replace("accept;", "{ weight = 2; accept; }"), text)


def is_deaf(client: BirdClient) -> bool:
    """Return whether this BIRD needs the workarounds of this module: BIRD 3 and newer do."""
    return parse(client.version) >= (3, 0, 0)


def wait_for_first_scan(client: BirdClient, seconds: float = FIRST_SCAN, sleep: Sleep = time.sleep) -> None:
    """Wait until this BIRD 3 may get another filter of routes to the kernel, or until about `seconds` are over.

    It may once neither kernel4 nor kernel6 has the export state DOWN; one that is not up does not count.
    """
    poll(seconds, sleep, lambda: not any(_NOT_YET.search(details) for details in _kernel(client).values()))


def scan(client: BirdClient, seconds: float = ANY_SCAN, sleep: Sleep = time.sleep) -> None:
    """Let kernel4 and kernel6 scan all of the kernel's routes again, and wait for it, at most about `seconds`.

    A protocol that is not up is left out. `reload filters out` offers all routes again, and a scan follows.
    """
    before = {name: _number(_RECEIVED, details) for name, details in _kernel(client).items()}
    for name in before:
        client.ask(f"reload filters out {name}")

    def scanned() -> bool:
        now = _kernel(client)
        return all(
            _number(_RECEIVED, now[name]) - received >= max(1, _number(_IMPORTED, now[name]))
            for name, received in before.items()
            if name in now
        )

    poll(seconds, sleep, scanned)


def _kernel(client: BirdClient) -> dict[str, str]:
    """Return {name: its details in `show protocols all`, as one text} of those of kernel4 and kernel6 that are up.

    Other kernel protocols are left out: one of a snippet may never export a route.
    """
    said = client.ask("show protocols all").text
    return {
        head["name"]: "\n".join(details)
        for head, details in status.protocols(said)
        if head["name"] in _OURS and head["state"] == "up"
    }


def running(client: BirdClient, families: t.Collection[int]) -> list[str]:
    """Return the names of those of kernel4 and kernel6 that are up and of these IP versions."""
    return [name for name in _kernel(client) if int(name[-1]) in families]


def _number(pattern: re.Pattern[str], details: str) -> int:
    found = pattern.search(details)
    return int(found.group(1)) if found else 0


def poll(seconds: float, sleep: Sleep, condition: t.Callable[[], bool]) -> None:
    """Return when `condition` holds, or after about `seconds`. Raise what it raises."""
    pause = 0.1
    for _attempt in range(int(seconds / pause)):
        if condition():
            return
        sleep(pause)
