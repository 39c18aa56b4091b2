# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages about members, alarms and users of an etcd cluster (etcd 3.4 and 3.5): requests, and answers as values.

Identities of members are numbers of 64 bits. etcdctl shows them in hexadecimal digits. Readers of answers raise
InvalidAnswer.
"""

from __future__ import annotations

import binascii
import typing as t

from .. import gateway
from ..gateway import InvalidAnswer, Json

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


def members_of(body: Json) -> tuple[ClusterMember, ...]:
    return tuple(
        ClusterMember(
            gateway.number_of(entry, "ID"),
            gateway.text_of(entry, "name"),
            _texts(entry, "peerURLs"),
            _texts(entry, "clientURLs"),
            entry.get("isLearner") is True,
        )
        for entry in _objects(body, "members")
    )


def alarms_of(body: Json) -> tuple[ClusterAlarm, ...]:
    return tuple(
        ClusterAlarm(gateway.number_of(entry, "memberID"), gateway.text_of(entry, "alarm"))
        for entry in _objects(body, "alarms")
    )


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
        failed = body["error"] if isinstance(body["error"], dict) else {}
        raise gateway.EtcdError(gateway.text_of(failed, "message") or "it broke off")
    result = body.get("result")
    blob = result.get("blob", "") if isinstance(result, dict) else None
    if not isinstance(blob, str):
        raise InvalidAnswer("a part of the snapshot has no bytes")
    try:
        return binascii.a2b_base64(blob.encode("ascii"))
    except (ValueError, binascii.Error):
        raise InvalidAnswer("a part of the snapshot is not base64") from None


def shown_identity(identity: int) -> str:
    """Return an identity as etcdctl shows it."""
    return f"{identity:x}"


def _objects(body: Json, field: str) -> list[Json]:
    value = body.get(field, [])
    if not isinstance(value, list) or len(value) > _MOST or not all(isinstance(entry, dict) for entry in value):
        raise InvalidAnswer(f"the field {field} of an answer is no short list of objects")
    return value


def _texts(entry: Json, field: str) -> tuple[str, ...]:
    value = entry.get(field, [])
    if not isinstance(value, list) or len(value) > _MOST:
        raise InvalidAnswer(f"the field {field} of an answer is no short list")
    return tuple(gateway.text_of({field: one}, field) for one in value)
