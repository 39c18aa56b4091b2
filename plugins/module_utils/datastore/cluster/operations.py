# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of the cluster, each by calls of one member. A change that is there already is none.

Each raises ClusterError, EtcdError or TransportError.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import typing as t

from ...files import replacement
from .. import gateway, keys
from ..client import Credentials
from ..gateway import Compacted, EtcdError, PreconditionFailed
from ..transport import TransportError
from . import messages
from .member import AUTH_OFF, AUTH_ON, AUTH_REFUSED, ClusterError, MemberCalls, patiently
from .messages import ClusterMember

_PAUSE = 0.3  # seconds between two attempts
#: Seconds within which a member has told each watch how far it is, and those of a call for which it works long.
_PROGRESS, _LONG_SECONDS = 5.0, 120.0
_DIGEST = hashlib.sha256().digest_size
_SECRETS_REMEDY = (
    "Restore .calico.etcd/secrets.json beside the inventory, or set calico_etcd_username and calico_etcd_password."
)


async def wait(calls: MemberCalls, seconds: float, votes: bool) -> None:
    """Wait until the member answers and has a leader, and if it `votes` until the cluster has a quorum."""

    async def attempt() -> None:
        if not (await calls.status()).leader:
            raise ClusterError("it has no leader")
        if votes:
            await calls.proves_quorum()

    unhealthy = (EtcdError, TransportError, ClusterError)
    try:
        await patiently(attempt, seconds, _PAUSE, unhealthy)
    except unhealthy as error:
        raise ClusterError(
            f"The member at {calls.url} is not healthy after {seconds:g} s: {error}. Look at "
            "`journalctl -u calico-etcd` on the host. The other members were not touched; run the playbook again."
        ) from None


async def secure(calls: MemberCalls, credentials: Credentials, check: bool) -> bool:
    """Switch authentication on, with the operator as the user root, which etcd demands; return whether it was off."""
    if credentials.user != "root":
        raise ClusterError(
            f"calico_etcd_username is {credentials.user}, and etcd switches authentication on with the user root "
            "alone. Remove the variable for a cluster of the role calico_etcd."
        )
    auth = await calls.auth()
    if auth == AUTH_ON:
        return False
    if auth == AUTH_REFUSED:
        raise ClusterError(f"The cluster refuses the password of the user {credentials.user}. {_SECRETS_REMEDY}")
    if auth != AUTH_OFF:
        raise ClusterError(
            f"The member at {calls.url} does not say whether authentication is on. Run the playbook again."
        )
    if check:
        return True
    user = {"name": credentials.user}
    with contextlib.suppress(PreconditionFailed):  # it exists
        await calls.ask("/v3/auth/user/add", gateway.to_bytes({**user, "password": credentials.password}))
    changed = gateway.to_bytes({**user, "password": credentials.password})
    await calls.ask("/v3/auth/user/changepw", changed)
    with contextlib.suppress(PreconditionFailed):
        await calls.ask("/v3/auth/role/add", gateway.to_bytes({"name": "root"}))
    await calls.ask("/v3/auth/user/grant", gateway.to_bytes({"user": credentials.user, "role": "root"}))
    await calls.ask("/v3/auth/enable", b"{}")
    return True


async def add(calls: MemberCalls, peer_url: str, seconds: float, check: bool) -> bool:
    """Add the member at `peer_url` as a learner; return whether the cluster did not have it."""

    async def attempt() -> bool:
        if _by_url(await calls.members(), peer_url) is not None:
            return False
        if not check:
            await calls.ask("/v3/cluster/member/add", messages.add_request(peer_url))
        return True

    return await _changed(attempt, seconds, f"{calls.url} does not add {peer_url}")


async def promote(calls: MemberCalls, peer_url: str, seconds: float, check: bool) -> bool:
    """Give the learner at `peer_url` a vote, once it has the leader's log; return whether it had none."""

    async def attempt() -> bool:
        found = _by_url(await calls.members(), peer_url)
        if found is None:
            raise ClusterError(f"The cluster has no member at {peer_url}. Run the playbook again, which adds it.")
        if found.learner and not check:
            await calls.ask("/v3/cluster/member/promote", messages.identity_request(found.identity))
        return found.learner

    return await _changed(attempt, seconds, f"{calls.url} gives {peer_url} no vote")


async def remove(calls: MemberCalls, identity: int, seconds: float, check: bool) -> bool:
    """Remove a member; return whether the cluster had it."""

    async def attempt() -> bool:
        if identity not in [member.identity for member in await calls.members()]:
            return False
        if not check:
            await calls.ask("/v3/cluster/member/remove", messages.identity_request(identity))
        return True

    return await _changed(attempt, seconds, f"{calls.url} does not remove {messages.shown_identity(identity)}")


async def _changed(attempt: t.Callable[[], t.Awaitable[bool]], seconds: float, failed: str) -> bool:
    """Return the result of the first attempt that raises no EtcdError or TransportError within `seconds`.

    A cluster refuses to change its members until each has been connected for some seconds, and a learner gets no vote
    before it has the log.
    """
    try:
        return await patiently(attempt, seconds, _PAUSE)
    except (EtcdError, TransportError) as error:
        raise ClusterError(
            f"The member at {failed} within {seconds:g} s: {error}. See that all members are healthy "
            "(playbooks/etcd_status.yml), then run the playbook again, which continues here."
        ) from None


async def revoke(calls: MemberCalls, user: str, check: bool, pause: float = _PROGRESS) -> tuple[bool, int]:
    """Delete a user, the role of the same name, and the keys below the prefixes of the node of that name.

    Return whether there was anything to delete, and the number of keys, which are not read. The store then forgets
    them, `pause` seconds later: an agent that has not heard of the deletion by then has to list the datastore anew.
    Raise InvalidKey for a name that is no node's.
    """
    ranges = keys.of_node(user)
    changed = await _revoke_access(calls, user, check)
    if check:
        counts = gateway.counts_of(await calls.ask("/v3/kv/txn", gateway.counts_request(ranges)), len(ranges))
        return changed or any(counts), sum(counts)
    deleted, revision = 0, 0
    for own in ranges:
        answer = await calls.ask(gateway.DELETE_RANGE, gateway.delete_request(own), _LONG_SECONDS)
        deleted += gateway.deleted_of(answer)
        revision = gateway.header_of(answer).revision
    if deleted:
        await asyncio.sleep(pause)
        with contextlib.suppress(Compacted, TransportError):  # It goes on if it takes longer.
            await calls.ask("/v3/kv/compaction", messages.compaction_request(revision), _LONG_SECONDS)
    return changed or deleted > 0, deleted


async def _revoke_access(calls: MemberCalls, user: str, check: bool) -> bool:
    changed = False
    for path, field in (("user", "name"), ("role", "role")):
        try:
            await calls.ask(f"/v3/auth/{path}/get", gateway.to_bytes({field: user}))
        except EtcdError as error:
            if "not found" not in error.message:
                raise
            continue
        changed = True
        if not check:
            await calls.ask(f"/v3/auth/{path}/delete", gateway.to_bytes({field: user}))
    return changed


async def disarm(calls: MemberCalls, check: bool) -> bool:
    """End all alarms; return whether there were any."""
    alarms = await calls.alarms()
    for alarm in alarms:
        if not check:
            await calls.ask("/v3/maintenance/alarm", messages.disarm_request(alarm))
    return bool(alarms)


async def defragment(calls: MemberCalls, seconds: float) -> None:
    """Release the free pages of the member's database to the file system. Meanwhile the member does not answer."""
    await calls.ask("/v3/maintenance/defragment", b"{}", seconds)


async def snapshot(calls: MemberCalls, path: str) -> int:
    """Write a snapshot into the new file `path`, as etcdctl restores it; return its bytes. Also raise OSError."""
    last = b""
    digest = hashlib.sha256()
    size = 0
    replacement.sweep(path)
    with replacement.beside(path, 0o600) as new:

        def write(part: bytes) -> None:
            nonlocal last, size
            new.write(part)
            size += len(part)
            kept = last + part
            digest.update(kept[:-_DIGEST])
            last = kept[-_DIGEST:]

        await calls.snapshot(write)
        if size <= _DIGEST or digest.digest() != last:
            raise ClusterError(f"The snapshot of the member at {calls.url} broke off. Run the playbook again.")
        new.put()
    return size


def _by_url(members: t.Iterable[ClusterMember], peer_url: str) -> t.Optional[ClusterMember]:
    return next((member for member in members if peer_url in member.peer_urls), None)
