# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observed configuration of a lab host, read in one call of observed_here.py on the host."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..handle import BaseLab
from ..topology import NODES, Node

SCRIPT = (Path(__file__).resolve().parent / "observed_here.py").read_text()

#: A function that runs a command on a node (its name, the words) and returns what it prints.
Runner = Callable[[str, Sequence[str]], str]


def in_lab(lab: BaseLab) -> Runner:
    """Return a runner that enters the host's namespaces.

    It raises LabError if a command fails or takes over 120 seconds, times `patience` of the lab.
    """
    return lambda node, words: lab.exec(node, list(words), timeout=120).stdout


@dataclass(frozen=True)
class Session:
    """A BGP session as birdc shows it.

    `address` is the peer's. `graceful_restart`: the peer has announced that capability. `passive`: this side only waits
    for connections, by bird.cfg.
    """

    name: str
    address: str
    state: str
    graceful_restart: bool
    passive: bool


@dataclass(frozen=True)
class Ping:
    """A ping to send.

    `source` is the host that sends. `netns` None: from the host itself. `size` is the size of the whole IP packet in
    bytes, sent with DF; None leaves size and DF to ping. `answer` False: no answer is expected.
    """

    source: str
    netns: str | None
    address: str
    size: int | None = None
    answer: bool = True


@dataclass(frozen=True)
class Pong:
    ping: Ping
    received: bool
    ttl: int | None
    said: str = field(repr=False)


class Observed:
    """A host as observed; `raw` is the parsed output of observed_here.py."""

    def __init__(self, name: str, raw: dict[str, Any]) -> None:
        self.name = name
        self.raw = raw

    @property
    def node(self) -> Node:
        return NODES[self.name]

    @cached_property
    def state(self) -> dict[str, Any]:
        """The stored NodeState as a dict; without one, this raises AssertionError."""
        assert self.raw["state"] is not None, f"{self.name} has no stored state"
        answer: dict[str, Any] = self.raw["state"]["state"]
        return answer

    @cached_property
    def links(self) -> dict[str, dict[str, Any]]:
        return {link["ifname"]: link for link in self.raw["links"]}

    @cached_property
    def addresses(self) -> dict[str, list[str]]:
        """The IPv4 addresses, as {device: [address/length]}."""
        return _addresses(self.raw["addresses"])

    @property
    def routes(self) -> list[str]:
        """The IPv4 routes of the main table, as `ip route` prints them; next hops follow their route in one line."""
        answer: list[str] = self.raw["routes"]
        return answer

    @property
    def blocks(self) -> dict[str, str]:
        """The blocks granted to this node, without spare ones, as {block: name of its pool}."""
        return {block["cidr"]: block["pool"] for block in self.state["ipam"]["blocks"]}

    @property
    def spare_blocks(self) -> dict[str, str]:
        return {block["cidr"]: block["pool"] for block in self.state["ipam"]["spare_blocks"]}

    @property
    def probes(self) -> dict[str, str]:
        """The addresses of the node's probe endpoint, as {name of the pool: address}."""
        answer: dict[str, str] = self.state["ipam"].get("probes", {})
        return answer

    @property
    def workloads(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.state["workloads"]
        return answer

    def sysctl(self, key: str) -> str | None:
        """Return the value of an IPv4 sysctl, None if it does not exist or SYSCTLS of observed_here.py lacks it.

        `key` has slashes between its parts, such as conf/eth0/rp_filter.
        """
        answer: str | None = self.raw["sysctls"].get(f"net/ipv4/{key}")
        return answer

    @cached_property
    def ipsets(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for line in self.raw["ipsets"].splitlines():
            words = line.split()
            if words[0] == "create":
                found[words[1]] = set()
            elif words[0] == "add":
                found[words[1]].add(words[2])
        return found

    @cached_property
    def chains(self) -> dict[tuple[str, str], list[str]]:
        """The IPv4 rules as {(table, chain): rules as iptables-save prints them, without -A and the chain}."""
        return self._chains("iptables")

    @cached_property
    def chains6(self) -> dict[tuple[str, str], list[str]]:
        """The IPv6 rules as {(table, chain): rules}, like `chains`."""
        return self._chains("ip6tables")

    def _chains(self, program: str) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        table = ""
        for line in self.raw[program].splitlines():
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith(":"):
                found[table, line[1:].split()[0]] = []
            elif line.startswith("-A "):
                _add, chain, rule = line.split(" ", 2)
                found[table, chain].append(rule)
        return found

    @cached_property
    def sessions(self) -> dict[str, Session]:
        """The BGP sessions by the peer's address.

        This raises AssertionError if bird.cfg lacks a session that birdc shows.
        """
        found = {}
        for text in re.split(r"\n(?=\S)", self.raw["bird_protocols"]):
            if not re.match(r"\S+\s+BGP\s", text):
                continue
            name = text.split()[0]
            address = _after("Neighbor address:", text)
            neighbor = text.partition("Neighbor capabilities")[2]
            passive = bool(re.search(r"\n\s+passive on;", self._section(name)))
            found[address] = Session(name, address, _after("BGP state:", text), "Graceful restart" in neighbor, passive)
        return found

    def _section(self, protocol: str) -> str:
        match = re.search(rf"^protocol bgp {re.escape(protocol)} .*?^}}", self.raw["bird_config"], re.M | re.S)
        assert match, f"{self.name}: {protocol} is in birdc's list and not in bird.cfg"
        return match.group()

    @cached_property
    def learned(self) -> dict[str, set[str]]:
        """The unicast routes that BIRD learned by BGP, as {destination: names of the sessions in birdc}.

        This raises the AssertionError of `sessions`.
        """
        found: dict[str, set[str]] = {}
        destination = ""
        for line in self.raw["bird_routes"].splitlines():
            match = re.match(r"(\S+/\d+)?\s+unicast \[(\S+) ", line)
            if match:
                destination = match.group(1) or destination
                if match.group(2) in {session.name for session in self.sessions.values()}:
                    found.setdefault(destination, set()).add(match.group(2))
        return found

    def inside(self, netns: str) -> dict[str, Any]:
        """Return links, IPv4 addresses and IPv4 routes of a named network namespace; raise KeyError without it.

        The shape is {"links": {name: link}, "addresses": {device: [address/length]}, "routes": [line of `ip route`]}.
        """
        raw = self.raw["namespaces"][netns]
        return {
            "links": {link["ifname"]: link for link in raw["links"]},
            "addresses": _addresses(raw["addresses"]),
            "routes": raw["routes"],
        }


def observe(run: Runner, names: Iterable[str]) -> dict[str, Observed]:
    """Observe the hosts called `names`, four at a time; return {name: Observed}. Raise the errors of `run`."""
    names = list(names)
    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda name: run(name, ["python3", "-c", SCRIPT, "observe"]), names)
        return {name: Observed(name, json.loads(answer)) for name, answer in zip(names, answers)}


def send(run: Runner, pings: Sequence[Ping]) -> list[Pong]:
    """Send all pings, four hosts in parallel and up to 16 at a time on each; return one Pong for each.

    The Pongs are grouped by host, and have the order of `pings` within a host. Raise the errors of `run`. A ping
    without an answer is no error.
    """
    by_source: dict[str, list[Ping]] = {}
    for ping in pings:
        by_source.setdefault(ping.source, []).append(ping)

    def one(item: tuple[str, list[Ping]]) -> list[Pong]:
        source, wanted = item
        words = json.dumps(
            [{"netns": p.netns, "address": p.address, "size": p.size, "answer": p.answer} for p in wanted]
        )
        answers = json.loads(run(source, ["python3", "-c", SCRIPT, "ping", words]))
        return [Pong(p, bool(a["received"]), a["ttl"], a["said"]) for p, a in zip(wanted, answers)]

    with ThreadPoolExecutor(4) as pool:
        return [pong for pongs in pool.map(one, by_source.items()) for pong in pongs]


def _addresses(entries: list[dict[str, Any]]) -> dict[str, list[str]]:
    return {
        entry["ifname"]: [f"{address['local']}/{address['prefixlen']}" for address in entry["addr_info"]]
        for entry in entries
        if entry.get("ifname")
    }


def _after(label: str, text: str) -> str:
    match = re.search(rf"{label}\s+(\S+)", text)
    return match.group(1) if match else ""
