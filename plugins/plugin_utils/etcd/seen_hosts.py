# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the hosts of the group calico_etcd answer to etcd_member_info, typed and bounded.

Root on a host writes its answer, so an answer with another type or an overlong text is refused as a whole.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome

from .cluster_members import EtcdHost

#: The longest text of an answer, and the most members and alarms.
_LONGEST, _MOST = 2_000, 64
_IDENTITY = re.compile(r"[0-9a-f]{1,16}")
_VERSION = re.compile(r"(?:[0-9]{1,5}(?:\.[0-9A-Za-z]{1,20}){0,4})?")
_AUTH = ("on", "off", "refused", "unknown")


class UnreadableAnswer(Exception):
    """An answer that is not one of etcd_member_info. Its text says which part."""


class ListedMember(t.NamedTuple):
    """A member as the cluster knows it. The name is "" until it has joined; a learner has no vote."""

    identity: str
    name: str
    peer_urls: tuple[str, ...]
    learner: bool
    answers: bool


class RaisedAlarm(t.NamedTuple):
    """An alarm, and the identity of the member that raised it."""

    member: str
    kind: str


@dataclasses.dataclass(frozen=True)
class SeenHost:
    """A host of the group: what it has of etcd, and what its member says.

    `reason` says why the member does not answer, "" if it does. `gate_reason` says the same of its gate, and is also ""
    if the gate was not asked. `reached` is False for a host that this run cannot ask; `reason` says why then.
    """

    host: EtcdHost
    installed: str = ""
    candidate: str = ""
    data: bool = False
    running: bool = False
    stale: bool = False
    controller: str = ""
    reason: str = "calico-etcd.service does not run"
    identity: str = "0"
    version: str = ""
    leader: str = "0"
    revision: int = 0
    db_size: int = 0
    db_in_use: int = 0
    auth: str = "unknown"
    members: tuple[ListedMember, ...] = ()
    alarms: tuple[RaisedAlarm, ...] = ()
    gate_reason: str = ""
    reached: bool = True

    @property
    def name(self) -> str:
        """The host's name in the inventory, which is also the member's."""
        return self.host.name

    @property
    def answers(self) -> bool:
        """Whether the member answers and has a leader."""
        return not self.reason


def read(host: EtcdHost, answer: t.Any) -> SeenHost:
    """Return what a host answered. Raise UnreadableAnswer."""
    on_host, member, gate = (_part(answer, name, dict) for name in ("host", "member", "gate"))
    return SeenHost(
        host,
        installed=_matching(on_host, "installed", _VERSION),
        candidate=_matching(on_host, "candidate", _VERSION),
        data=_part(on_host, "data", bool),
        running=_part(on_host, "running", bool),
        stale=_part(on_host, "stale", bool),
        controller=_text(on_host, "controller"),
        reason=_text(member, "reason"),
        identity=_matching(member, "id", _IDENTITY),
        version=_matching(member, "version", _VERSION),
        leader=_matching(member, "leader", _IDENTITY),
        revision=_number(member, "revision"),
        db_size=_number(member, "db_size"),
        db_in_use=_number(member, "db_in_use"),
        auth=_matching(member, "auth", re.compile("|".join(_AUTH))),
        members=tuple(map(_member, _entries(member, "members"))),
        alarms=tuple(
            RaisedAlarm(_matching(one, "member", _IDENTITY), _text(one, "kind")) for one in _entries(member, "alarms")
        ),
        gate_reason=_text(gate, "reason"),
    )


def of_run(host: EtcdHost, answer: t.Any) -> SeenHost:
    """Return what a host answered to a task. One that did not, or whose answer cannot be read, has the reason."""
    if not isinstance(answer, t.Mapping):
        return SeenHost(host, reason="the host was not asked", reached=False)
    if answer.get("unreachable") or answer.get("failed"):
        return SeenHost(host, reason=outcome.reason(answer).rstrip("."), reached=False)
    try:
        return read(host, answer)
    except UnreadableAnswer as error:
        return SeenHost(host, reason=f"its answer cannot be used: {error}")


def _member(entry: t.Any) -> ListedMember:
    urls = _part(entry, "peer_urls", list)
    if len(urls) > _MOST or not all(isinstance(url, str) and len(url) <= _LONGEST for url in urls):
        raise UnreadableAnswer("peer_urls is no list of texts")
    return ListedMember(
        _matching(entry, "id", _IDENTITY),
        _text(entry, "name"),
        tuple(urls),
        _part(entry, "learner", bool),
        _part(entry, "answers", bool),
    )


def _entries(body: t.Any, field: str) -> list[t.Any]:
    found = _part(body, field, list)
    if len(found) > _MOST:
        raise UnreadableAnswer(f"{field} has more than {_MOST} entries")
    return list(found)


def _part(body: t.Any, field: str, kind: type) -> t.Any:
    value = body.get(field) if isinstance(body, dict) else None
    if not isinstance(value, kind):
        raise UnreadableAnswer(f"{field} is missing or of another type")
    return value


def _number(body: t.Any, field: str) -> int:
    value = _part(body, field, int)
    if isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise UnreadableAnswer(f"{field} is out of range")
    return int(value)


def _text(body: t.Any, field: str) -> str:
    value = str(_part(body, field, str))
    if len(value) > _LONGEST:
        raise UnreadableAnswer(f"{field} has more than {_LONGEST} characters")
    return value


def _matching(body: t.Any, field: str, pattern: re.Pattern[str]) -> str:
    value = _text(body, field)
    if not pattern.fullmatch(value):
        raise UnreadableAnswer(f"{field} is {value[:40]!r}")
    return value
