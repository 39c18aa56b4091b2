# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of BIRD and its sessions, parsed for BIRD 2.0.12 (Debian 12), 2.17 (Debian 13) and BIRD 3."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .client import SOCKET, BirdClient

# The first line of a protocol in BIRD's answer to `show protocols all`: name, type, table, state, since (a date, a time
# or both, the time with or without a part of a second), and further text.
_HEAD = re.compile(
    r"(?P<name>\S+)\s+(?P<type>[A-Z]\w*)\s+(?P<table>\S+)\s+(?P<state>up|start|stop|down|flush)\s+"
    r"(?P<since>(?:\d{4}-\d\d-\d\d(?:\s+\d\d:\d\d:\d\d(?:\.\d+)?)?|\d\d:\d\d:\d\d(?:\.\d+)?))(?P<info>.*)"
)
_COUNT = re.compile(r"(\d+) (imported|filtered|exported|preferred)")


@dataclasses.dataclass(frozen=True)
class Session:
    """A BGP session. `since` is as BIRD prints it; the counts are of its first channel's routes.

    `state` is the protocol's (up, start, stop, down, flush), `info` the end of its line. `bgp_state` is BGP's own word
    (Established, Active, Connect, Idle, Passive...). `address` is the peer's, `description` that of bird.cfg. `error`
    is the last error, "" for none. A text is "" and an AS number None if BIRD reports none. `graceful_restart`: both
    sides announced it. `neighbor_restarting`: the peer is down and its routes are kept. `refused` counts the
    announcements that the import filter refused since BIRD began to count. Timers, which differ at each reading, are
    left out.
    """

    name: str
    state: str
    since: str
    info: str = ""
    bgp_state: str = ""
    description: str = ""
    address: str = ""
    neighbor_as: t.Optional[int] = None
    local_as: t.Optional[int] = None
    graceful_restart: bool = False
    neighbor_restarting: bool = False
    imported: int = 0
    filtered: int = 0
    exported: int = 0
    refused: int = 0
    error: str = ""

    @property
    def established(self) -> bool:
        return self.bgp_state == "Established"


@dataclasses.dataclass(frozen=True)
class Status:
    """The state of a running BIRD. `sessions` are sorted by name; `router_id` is "" if BIRD reports none.

    `reconfiguring`: it has not finished its last reconfiguration.
    """

    version: str
    router_id: str
    reconfiguring: bool
    shutting_down: bool
    sessions: tuple[Session, ...]


def observe(path: str = SOCKET, timeout: float = 10.0) -> Status:
    """Return the status of the BIRD at the control socket `path`. `timeout` is the seconds for each answer.

    Raises NotAnswering or CommandRefused.
    """
    with BirdClient(path, timeout) as client:
        general = client.ask("show status").text
        sessions = parse_sessions(client.ask("show protocols all").text)
        router_id = re.search(r"^Router ID is (\S+)", general, re.MULTILINE)
        return Status(
            version=client.version,
            router_id=router_id.group(1) if router_id else "",
            reconfiguring="Reconfiguration in progress" in general,
            shutting_down="Shutdown in progress" in general,
            sessions=sessions,
        )


def parse_sessions(text: str) -> tuple[Session, ...]:
    """Return the BGP sessions in the output of `show protocols all`, sorted by name."""
    sessions = []
    for head, details in protocols(text):
        if head["type"] == "BGP":
            sessions.append(_session(head, details))
    return tuple(sorted(sessions, key=lambda session: session.name))


def protocols(text: str) -> t.Iterator[tuple[dict[str, str], list[str]]]:
    """Yield (columns, lines of details below) for each protocol in the output of `show protocols all`, in its order.

    The columns are name, type, table, state, since and info.
    """
    head: t.Optional[dict[str, str]] = None
    details: list[str] = []
    for line in text.splitlines():
        found = None if line.startswith(" ") else _HEAD.match(line)
        if found:
            if head:
                yield head, details
            head, details = found.groupdict(), []
        else:
            details.append(line)
    if head:
        yield head, details


def _session(head: t.Mapping[str, str], details: t.Sequence[str]) -> Session:
    fields: dict[str, str] = {}
    announced: dict[str, bool] = {"Local": False, "Neighbor": False}
    side = ""
    restarting = False
    for line in details:
        stripped = line.strip()
        if stripped.endswith(" capabilities"):
            side = stripped.split()[0]
        elif stripped.startswith("Graceful restart") and side:
            announced[side] = True
        elif stripped == "Neighbor graceful restart active":
            restarting = True
        elif stripped.startswith("Session:"):
            side = ""
        key, colon, value = stripped.partition(":")
        if colon:
            fields.setdefault(key, value.strip())
    counts = {word: int(number) for number, word in _COUNT.findall(fields.get("Routes", ""))}
    return Session(
        name=head["name"],
        state=head["state"],
        since=head["since"],
        info=" ".join(head["info"].split()),
        bgp_state=fields.get("BGP state", ""),
        description=fields.get("Description", ""),
        address=fields.get("Neighbor address", "").partition("%")[0],
        neighbor_as=_number(fields.get("Neighbor AS")),
        local_as=_number(fields.get("Local AS")),
        graceful_restart=all(announced.values()),
        neighbor_restarting=restarting,
        imported=counts.get("imported", 0),
        filtered=counts.get("filtered", 0),
        exported=counts.get("exported", 0),
        refused=_refused(fields.get("Import updates", "")),
        error=fields.get("Last error", ""),
    )


def _refused(columns: str) -> int:
    """Return the third of the columns `received rejected filtered ...`, 0 if there is none or it is no number."""
    found = columns.split()
    return _number(found[2]) or 0 if len(found) > 2 else 0


def _number(text: t.Optional[str]) -> t.Optional[int]:
    return int(text) if text and text.isdecimal() else None
