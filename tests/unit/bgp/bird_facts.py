# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Blocks, sessions and static routes in a bird.cfg, read from the text alone. Sessions have what templates say."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

_HEAD = re.compile(r"^(template|protocol) (\w+) ([\w']+)(?: from (\w+))? \{$")


@dataclasses.dataclass(frozen=True)
class Block:
    """A protocol or a template: its own statements, and those of its channels by channel name.

    `kind` is the protocol's type, such as bgp. `parent` is the name of its template, "" without one. `channels` is
    {channel: its lines}; a channel that stands on one line is a statement instead.
    """

    kind: str
    parent: str
    statements: tuple[str, ...]
    channels: t.Mapping[str, tuple[str, ...]]


@functools.lru_cache(maxsize=128)
def blocks(text: str) -> dict[str, Block]:
    """Return {name: block} of all templates and named protocols of the bird.cfg `text`.

    The result is cached and shared by all callers. Raise ValueError if a block has no closing line `}`.
    """
    found = {}
    lines = [re.sub(r"\s+#.*", "", line) for line in text.splitlines()]
    for number, line in enumerate(lines):
        head = _HEAD.match(line)
        if head:
            end = lines.index("}", number)
            dummy, kind, name, parent = head.groups()
            found[name] = _block(kind, parent or "", lines[number + 1 : end])
    return found


def _block(kind: str, parent: str, lines: t.Sequence[str]) -> Block:
    statements, channels = [], {}
    channel: t.Optional[str] = None
    inner: list[str] = []
    for line in lines:
        bare = line.strip()
        begins = re.fullmatch(r"(ipv4|ipv6) \{", bare)
        if channel is None and begins:
            channel, inner = begins.group(1), []
        elif channel is not None and line == "  };":
            channels[channel] = tuple(inner)
            channel = None
        elif channel is not None:
            inner.append(bare)
        elif bare:
            statements.append(bare)
    return Block(kind, parent, tuple(statements), channels)


def sessions(text: str) -> dict[str, dict[str, t.Any]]:
    """Return {name: facts} of all BGP sessions. Names that begin with calico_ are templates.

    `family` is 4 or 6, `template` is the name of the session's template, "" without one. `own` has the session's
    statements without its template's, `direct` says whether `direct;` is among them, and `channel` has the lines of its
    channel with the template's. Other facts are named as in confd_bird_cases.json, and missing without a statement;
    `password` is the name of a symbol. Raise KeyError for an unknown template, and ValueError for a session that does
    not have exactly one channel.
    """
    every = blocks(text)
    return {
        name: _facts(name, every)
        for name, block in every.items()
        if block.kind == "bgp" and not name.startswith("calico_")
    }


def _facts(name: str, every: t.Mapping[str, Block]) -> dict[str, t.Any]:
    chain = [every[name]]
    while chain[-1].parent:
        chain.append(every[chain[-1].parent])
    statements = [statement for block in reversed(chain) for statement in block.statements]
    channel: dict[str, tuple[str, ...]] = {}
    for block in reversed(chain):
        for family, lines in block.channels.items():
            channel[family] = channel.get(family, ()) + lines
    (family,) = channel
    facts: dict[str, t.Any] = {
        "name": name,
        "family": int(family[-1]),
        "template": chain[0].parent,
        "own": chain[0].statements,
    }
    for statement in statements:
        facts.update(_fact(statement))
    facts["direct"] = "direct;" in chain[0].statements
    for line in channel[family]:
        found = re.fullmatch(r"next hop (\w+);", line)
        if found:
            facts["next_hop"] = found.group(1)
    facts["channel"] = channel[family]
    return facts


def _fact(statement: str) -> dict[str, t.Any]:
    patterns: tuple[tuple[str, t.Callable[..., dict[str, t.Any]]], ...] = (
        (r"neighbor (\S+) port (\d+) as (\d+);", lambda a, p, n: {"neighbor": a, "port": int(p), "as": int(n)}),
        (r"neighbor (\S+) as (\d+);", lambda a, n: {"neighbor": a, "port": 179, "as": int(n)}),
        (r"local port (\d+) as (\d+);", lambda p, n: {"local_port": int(p), "local_as": int(n)}),
        (r"source address (\S+);", lambda a: {"source_address": a}),
        (r"passive on;", lambda: {"passive": True}),
        (r"password '(.+)';", lambda symbol: {"password": symbol}),
        (r"multihop;", lambda: {"multihop": True}),
        (r"multihop (\d+);", lambda hops: {"multihop": int(hops)}),
        (r"ttl security on;", lambda: {"ttl_security": "on"}),
        (r"rr client;", lambda: {"rr_client": True}),
        (r"rr cluster id (\S+);", lambda cluster: {"rr_cluster_id": cluster}),
        (r"graceful restart time (\d+);", lambda seconds: {"graceful_restart_time": int(seconds)}),
        (r"allow local as (\d+);", lambda count: {"allow_local_as": int(count)}),
    )
    for pattern, make in patterns:
        found = re.fullmatch(pattern, statement)
        if found:
            return make(*found.groups())
    return {}


def routes(text: str, protocol: str) -> tuple[str, ...]:
    """Return the lines that begin with `route` of a static protocol, () if it does not exist.

    Semicolons at their ends are left out. Raise ValueError if a block of the bird.cfg `text` has no closing line `}`.
    """
    block = blocks(text).get(protocol)
    return tuple(line.rstrip(";") for line in block.statements if line.startswith("route ")) if block else ()
