# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A way to restart BIRD's kernel protocols without a lost route, which another `merge paths` needs.

BIRD restarts a kernel protocol when `merge paths` changes (nest/proto.c: channel_reconfigure). For an instant it then
lacks all routes that it learned from the kernel: peers get a withdrawal of this node's blocks, and routes by a next hop
behind the host's own routes become unreachable. So static routes with a low preference hold all of these meanwhile:
BIRD reads its present text with them, then the other `merge paths` with them, and at last the new text without.
"""

from __future__ import annotations

import re
import typing as t

from . import kernel_sync, status
from .client import BirdClient
from .errors import CommandRefused

_KERNEL = ("kernel4", "kernel6")  # the names of the kernel protocols in templates/bird/kernel.j2
_MERGE = re.compile(r"^  merge paths (\w+);$", re.MULTILINE)
_HEAD = re.compile(r"(\S+/\d+)?\s+(unicast|blackhole|unreachable|prohibited) \[kernel[46] ")
_HOP = re.compile(r"\s+(?:via ([0-9a-f.:]+) on|dev) (\S+)( onlink)?(?: weight (\d+))?")
_DEVICE = re.compile(r"[A-Za-z0-9._-]{1,15}")  # other names are not written into a configuration
_KINDS = {"blackhole": "blackhole", "unreachable": "unreachable", "prohibited": "prohibit"}


def other_merging(before: str, after: str) -> bool:
    """Return whether two bird.cfgs differ in `merge paths`; False if one has no kernel protocol."""
    was, will = set(_MERGE.findall(before)), set(_MERGE.findall(after))
    return bool(was and will) and was != will


def with_merging_of(text: str, after: str) -> str:
    """Return the bird.cfg `text` with the `merge paths` of the bird.cfg `after`."""
    found = _MERGE.search(after)
    return _MERGE.sub(found.group(), text) if found else text


def statics(client: BirdClient) -> str:
    """Return static protocols for bird.cfg with all routes that BIRD has learned from the kernel, "" if it has none.

    A route by a device with an unusual name is left out. Raise NotAnswering or CommandRefused.
    """
    parts = []
    for family in (4, 6):
        routes = _routes(client, family)
        if routes:
            lines = "".join(f"  route {destination}{hops};\n" for destination, hops in routes.items())
            parts.append(f"protocol static calico_held{family} {{\n  ipv{family} {{ preference 5; }};\n{lines}}}\n")
    return "".join(parts)


def begun(client: BirdClient) -> dict[str, str]:
    """Return {name: the time since when it is up} of those of kernel4 and kernel6 that are up."""
    return {
        head["name"]: head["since"]
        for head, _details in status.protocols(client.ask("show protocols").text)
        if head["name"] in _KERNEL and head["state"] == "up"
    }


def wait(client: BirdClient, held: str, before: t.Mapping[str, str], seconds: float, sleep: kernel_sync.Sleep) -> None:
    """Wait until the kernel protocols are up again and have learned the routes in `held`, a result of `statics`.

    `before` is the result of `begun` before they restarted. BIRD 3 restarts them only after its answer to `configure`.
    Waiting ends after about `seconds`.
    """
    wanted = set(re.findall(r"^  route (\S+)", held, re.MULTILINE))

    def learned() -> bool:
        now = begun(client)
        if now.keys() < before.keys() or any(now[name] == since for name, since in before.items()):
            return False
        return wanted <= {destination for family in (4, 6) for destination in _routes(client, family)}

    kernel_sync.poll(seconds, sleep, learned)


def _routes(client: BirdClient, family: int) -> dict[str, str]:
    """Return {destination: its next hops in words of a static route} of the routes that kernel4 or kernel6 learned."""
    try:
        said = client.ask(f"show route protocol kernel{family}").text
    except CommandRefused:
        return {}  # there is no such protocol
    found: dict[str, str] = {}
    destination = ""
    left_out = set()
    for line in said.splitlines():
        head = _HEAD.match(line)
        if head:
            destination = head.group(1) or destination
            found[destination] = "" if head.group(2) == "unicast" else f" {_KINDS[head.group(2)]}"
            continue
        hop = _HOP.fullmatch(line)
        if hop and destination:
            gateway, device, onlink, weight = hop.groups()
            if not _DEVICE.fullmatch(device):
                left_out.add(destination)
            words = f" via {gateway}%'{device}'" if gateway else f' via "{device}"'
            found[destination] += words + (" onlink" if onlink else "") + (f" weight {weight}" if weight else "")
    return {destination: hops for destination, hops in found.items() if hops and destination not in left_out}
