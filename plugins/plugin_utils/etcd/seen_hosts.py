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

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome

from .cluster_members import EtcdHost

#: The most members and alarms, and addresses of a member.
_MOST = 64
_TEXT = typed_json.text(2_000)
_IDENTITY = typed_json.matching(re.compile("[0-9a-f]{1,16}"), "the identity of a member")
_VERSION = typed_json.matching(re.compile(r"(?:[0-9]{1,5}(?:\.[0-9A-Za-z]{1,20}){0,4})?"), "a release of etcd")
_NUMBER = typed_json.whole(0, (1 << 64) - 1)
_LISTED = typed_json.open_table(
    {
        "id": _IDENTITY,
        "name": _TEXT,
        "peer_urls": typed_json.items(_TEXT, _MOST),
        "learner": typed_json.flag,
        "answers": typed_json.flag,
    }
)
_HOST = typed_json.open_table(
    {
        "installed": _VERSION,
        "candidate": _VERSION,
        "data": typed_json.flag,
        "running": typed_json.flag,
        "stale": typed_json.flag,
        "controller": _TEXT,
    }
)
_MEMBER = typed_json.open_table(
    {
        "reason": _TEXT,
        "id": _IDENTITY,
        "version": _VERSION,
        "leader": _IDENTITY,
        "revision": _NUMBER,
        "db_size": _NUMBER,
        "db_in_use": _NUMBER,
        "auth": typed_json.one_of("on", "off", "refused", "unknown"),
        "members": typed_json.items(_LISTED, _MOST),
        "alarms": typed_json.items(typed_json.open_table({"member": _IDENTITY, "kind": _TEXT}), _MOST),
    }
)
_ANSWER = typed_json.open_table({"host": _HOST, "member": _MEMBER, "gate": typed_json.open_table({"reason": _TEXT})})


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
    """Return the answer of a host as values. Raise Unreadable for one that is not of etcd_member_info."""
    found = _ANSWER(answer)
    member = found["member"]
    members = tuple(
        ListedMember(one["id"], one["name"], tuple(one["peer_urls"]), one["learner"], one["answers"])
        for one in member.pop("members")
    )
    return SeenHost(
        host,
        identity=member.pop("id"),
        members=members,
        alarms=tuple(RaisedAlarm(**alarm) for alarm in member.pop("alarms")),
        gate_reason=found["gate"]["reason"],
        **found["host"],
        **member,
    )


def agreed(hosts: t.Sequence[SeenHost]) -> list[SeenHost]:
    """Return those of `hosts` that list the same members as most others; of lists that are equally frequent, the first.

    Only identities and addresses are compared. Whether a member answers is each host's own view, and a name is missing
    until the member has joined.
    """
    lists = [frozenset((one.identity, frozenset(one.peer_urls)) for one in seen.members) for seen in hosts]
    most = max(lists, key=lists.count, default=None)
    return [seen for seen, listed in zip(hosts, lists) if listed == most]


def of_run(host: EtcdHost, answer: t.Any) -> SeenHost:
    """Return what a host answered to a task. One that did not, or whose answer cannot be read, has the reason."""
    if not isinstance(answer, t.Mapping):
        return SeenHost(host, reason="the host was not asked", reached=False)
    if answer.get("unreachable") or answer.get("failed"):
        return SeenHost(host, reason=outcome.reason(answer).rstrip("."), reached=False)
    try:
        return read(host, answer)
    except typed_json.Unreadable as error:
        return SeenHost(host, reason=f"its answer cannot be used: {error}")
