# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reachability: real TCP connections and UDP datagrams between places of the lab, many at the same time."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ..handle import BaseLab
from ..topology import LabError

HERE = Path(__file__).parent
#: The folder of the scripts on a host: one imports the other.
_FOLDER = "/run/lab-reach"


@dataclass(frozen=True)
class Place:
    """A network namespace `netns` of the host `where`, or the host itself if None; others reach it at `address`."""

    where: str
    netns: str | None
    address: str

    def __str__(self) -> str:
        return f"{self.where}/{self.netns or 'host'}"


@dataclass(frozen=True)
class Attempt:
    source: Place
    target: Place
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{self.source} > {self.target} {self.target.address}:{self.port}/{self.protocol}"


@contextlib.contextmanager
def serving(lab: BaseLab, places: Iterable[Place], ports: Sequence[int]) -> Iterator[None]:
    """Accept TCP connections and answer UDP on each port of all places while the with block runs; yield None.

    Raise LabError if a host is off or its servers do not start.
    """
    by_host: dict[str, list[Place]] = {}
    for place in places:
        by_host.setdefault(place.where, []).append(place)
    with contextlib.ExitStack() as stack:
        running = []
        for where, here in by_host.items():
            _bring(lab, where)
            process = stack.enter_context(lab.popen(where, ["python3", f"{_FOLDER}/reach_here.py", "serve"], bufsize=0))
            assert process.stdin and process.stdout
            # Closing its stdin ends the program; leaving the Popen waits for its end.
            stack.callback(process.stdin.close)
            document = [{"netns": place.netns, "ports": list(ports)} for place in here]
            process.stdin.write(json.dumps(document).encode() + b"\n")
            running.append((where, process.stdout))
        for where, said in running:
            if said.readline() != b"ready\n":
                raise LabError(f"{where}: the servers did not start.")
        yield


def attempt(lab: BaseLab, attempts: Sequence[Attempt], expected: Iterable[Attempt]) -> set[Attempt]:
    """Make all attempts, and return those that succeed: a TCP connection, or an answer to a datagram.

    Attempts in `expected` get 15 seconds, so that a busy machine causes no failure. The others of the same host are
    given up after 1.2 seconds, or as soon as the last expected one has a result, whichever is later.

    Raise LabError if a host cannot make its attempts. Raise it also if an attempt was refused: its packet has passed,
    but no server listens there, so it shows neither that the target is open nor that it is closed.
    """
    wanted = set(expected)
    by_host: dict[str, list[Attempt]] = {}
    for one in attempts:
        by_host.setdefault(one.source.where, []).append(one)

    def on_host(item: tuple[str, list[Attempt]]) -> list[tuple[Attempt, str]]:
        where, here = item
        _bring(lab, where)
        document = [
            {
                "netns": one.source.netns,
                "address": one.target.address,
                "protocol": one.protocol,
                "port": one.port,
                "expected": one in wanted,
            }
            for one in here
        ]
        command = ["python3", f"{_FOLDER}/reach_here.py", "try"]
        return list(zip(here, json.loads(lab.exec(where, command, input=json.dumps(document) + "\n").stdout)))

    with ThreadPoolExecutor(4) as pool:
        return _answered(one for found in pool.map(on_host, by_host.items()) for one in found)


def _answered(results: Iterable[tuple[Attempt, str]]) -> set[Attempt]:
    """Return the attempts with the result "answer"; raise LabError if one is "refused"."""
    results = list(results)
    refused = [str(one) for one, result in results if result == "refused"]
    if refused:
        raise LabError(
            f"{len(refused)} of {len(results)} attempts were refused, because no server has the port there, such as"
            f" {refused[0]}. Serve the ports of all targets with `serving`."
        )
    return {one for one, result in results if result == "answer"}


def _bring(lab: BaseLab, where: str) -> None:
    lab.put(where, HERE / "traffic.py", f"{_FOLDER}/lab_traffic.py")
    lab.put(where, HERE / "reach_here.py", f"{_FOLDER}/reach_here.py")
