# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages about members, alarms and users of an etcd cluster (etcd 3.4 and 3.5): requests, and answers as values.

Identities of members are numbers of 64 bits. etcdctl shows them in hexadecimal digits. Readers of answers raise
InvalidAnswer.
"""

from __future__ import annotations

import typing as t

from ...base.typed_json import sparse_table, text
from .. import gateway
from ..gateway import Json

#: The most members, addresses of a member and alarms that are read.
_MOST = 64


class ClusterMember(t.NamedTuple):
    """A member as the cluster knows it. The name is "" until it has joined; a learner has no vote."""

    identity: int
    name: str
    peer_urls: tuple[str, ...]
    client_urls: tuple[str, ...]
    learner: bool


class ClusterAlarm(t.NamedTuple):
    """An alarm that a member has raised: NOSPACE or CORRUPT."""

    member: int
    kind: str


_URLS = gateway.several(text(2_000), _MOST)
_MEMBER = sparse_table(
    {"ID": gateway.number, "name": gateway.TEXT, "peerURLs": _URLS, "clientURLs": _URLS, "isLearner": gateway.FLAG}
)
_MEMBERS = sparse_table({"members": gateway.several(_MEMBER, _MOST)})
_ALARM = sparse_table({"memberID": gateway.number, "alarm": gateway.TEXT})
_ALARMS = sparse_table({"alarms": gateway.several(_ALARM, _MOST)})
_SNAPSHOT = sparse_table({"result": sparse_table({"blob": gateway.data})})


def members_of(body: Json) -> tuple[ClusterMember, ...]:
    return tuple(
        ClusterMember(one["ID"], one["name"], one["peerURLs"], one["clientURLs"], one["isLearner"])
        for one in gateway.read(_MEMBERS, body)["members"]
    )


def alarms_of(body: Json) -> tuple[ClusterAlarm, ...]:
    return tuple(ClusterAlarm(one["memberID"], one["alarm"]) for one in gateway.read(_ALARMS, body)["alarms"])


def add_request(peer_url: str) -> bytes:
    """Return the request to add a member as a learner, which has no vote until it is promoted."""
    return gateway.to_bytes({"peerURLs": [peer_url], "isLearner": True})


def compaction_request(revision: int) -> bytes:
    """Return the request to forget what was before a revision, answered when its space is free."""
    return gateway.to_bytes({"revision": str(revision), "physical": True})


def identity_request(identity: int) -> bytes:
    """Return the request to remove or promote a member."""
    return gateway.to_bytes({"ID": str(identity)})


def alarms_request() -> bytes:
    return gateway.to_bytes({"action": "GET"})


def disarm_request(alarm: ClusterAlarm) -> bytes:
    """Return the request to end an alarm. Without its member etcd answers 200 and ends nothing."""
    return gateway.to_bytes({"action": "DEACTIVATE", "memberID": str(alarm.member), "alarm": alarm.kind})


def snapshot_part_of(body: Json) -> bytes:
    """Return the bytes in one message of a snapshot. Raise EtcdError for a message that says why it ends."""
    if "error" in body:
        raise gateway.stream_error_of(body, "it broke off")
    return bytes(gateway.read(_SNAPSHOT, body)["result"]["blob"])


def shown_identity(identity: int) -> str:
    """Return an identity as etcdctl shows it."""
    return f"{identity:x}"
