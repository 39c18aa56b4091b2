# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What BIRD 3 has to be asked for when the filter towards the kernel changes; BIRD 2 needs none of it.

It compares a route of the kernel's with its own by the next hop alone, and does not send again what it has seen there
(sysdep/unix/krt.c: krt_rt_notify, krt_same_dest): a change of `krt_mtu` does not reach the kernel, neither by
`configure` nor by `reload`. A weight makes any next hop another one, and of a single next hop the kernel keeps none. So
such a change is read twice: first with weights, for one scan of the kernel's routes, by which all are replaced in
place; then as it is meant.

It also ends with SIGSEGV when that filter is replaced before its first scan, up to a second after its start.
"""

from __future__ import annotations

import re
import time
import typing as t

from . import status
from .client import BirdClient
from .version import parse

#: Seconds: more than `graceful restart wait` and a scan. A BIRD that recovers does not write to the kernel before.
FIRST_SCAN = 25.0
#: Seconds: more than `scan time`, for a kernel protocol that learned no route by which a scan could be told.
ANY_SCAN = 6.0

_OURS = ("kernel4", "kernel6")  # of templates/bird/kernel.j2
_FILTER = re.compile(r"^filter calico_kernel_programming \{\n.*?^\}$", re.MULTILINE | re.DOTALL)
_LIMIT = re.compile(r"net ~ (\S+) then \{ krt_mtu = (\d+);")
_RECEIVED = re.compile(r"Import updates:\s+(\d+)")
_IMPORTED = re.compile(r"Routes:\s+(\d+) imported")
_NOT_YET = re.compile(r"Export state:\s+DOWN")


Sleep = t.Callable[[float], None]  # as time.sleep


def other_mtus(before: str, after: str) -> bool:
    """Whether two bird.cfgs say different MTUs of routes."""
    return sorted(_LIMIT.findall(before)) != sorted(_LIMIT.findall(after))


def with_weights(text: str) -> str:
    """`text`, with each route to the kernel made different from those that stand there."""
    return _FILTER.sub(lambda found: found.group().replace("accept;", "weight = 2; accept;"), text)


def is_deaf(client: BirdClient) -> bool:
    """Whether this BIRD needs it."""
    return parse(client.version) >= (3, 0, 0)


def wait_for_first_scan(client: BirdClient, seconds: float = FIRST_SCAN, sleep: Sleep = time.sleep) -> None:
    """Until this BIRD 3 may be told another filter towards the kernel. Whoever waits in vain goes on."""
    _poll(seconds, sleep, lambda: not any(_NOT_YET.search(details) for details in _kernel(client).values()))


def scan(client: BirdClient, seconds: float = ANY_SCAN, sleep: Sleep = time.sleep) -> None:
    """Have each kernel protocol look at all of the kernel's routes once more, and wait for it: it learns all anew then.

    A scan follows whenever all routes were offered to the kernel again.
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

    _poll(seconds, sleep, scanned)


def _kernel(client: BirdClient) -> dict[str, str]:
    """{name: what `show protocols all` says} of ours that are up. One of a snippet may export nothing, ever."""
    said = client.ask("show protocols all").text
    return {
        head["name"]: "\n".join(details)
        for head, details in status.protocols(said)
        if head["name"] in _OURS and head["state"] == "up"
    }


def _number(pattern: re.Pattern[str], details: str) -> int:
    found = pattern.search(details)
    return int(found.group(1)) if found else 0


def _poll(seconds: float, sleep: Sleep, condition: t.Callable[[], bool]) -> None:
    pause = 0.1
    for _attempt in range(int(seconds / pause)):
        if condition():
            return
        sleep(pause)
