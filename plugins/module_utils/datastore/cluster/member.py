# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One member of the cluster, asked by the host on which it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import typing as t

from .. import gateway
from ..client import Credentials, Member
from ..gateway import AuthenticationOff, EtcdError, Json, WrongPassword
from ..settings import address_of, uses_tls
from ..transport import HttpTransport, RefusedStream, TlsFiles, Transport, TransportError
from . import messages
from .messages import ClusterAlarm, ClusterMember

#: Files on a member. The client's certificate and its key are in one file.
TRUSTED, CLIENT = "/etc/calico-etcd/ca.pem", "/etc/calico-etcd/client.pem"
#: Seconds for a call, as etcd itself gives up after 7; and for a question to another member.
_CALL_SECONDS, _QUESTION_SECONDS = 10.0, 2.0
#: The seconds that a gate has to answer after a restart, and the seconds between two questions to it.
_GATE_SECONDS, _GATE_PAUSE = 10.0, 0.5

#: How a cluster takes the operator's user: it is as given, no user is needed, the password is another, or not known.
AUTH_ON, AUTH_OFF, AUTH_REFUSED, AUTH_UNKNOWN = "on", "off", "refused", "unknown"

_T = t.TypeVar("_T")


class ClusterError(Exception):
    """What cannot be done to the cluster. The text says what, why, and the remedy if there is one."""


class Answering(t.NamedTuple):
    """A member as the cluster knows it, and whether it answers."""

    member: ClusterMember
    answers: bool


@dataclasses.dataclass(frozen=True)
class MemberView:
    """What a member says of itself and the cluster. `reason` says why it does not answer, "" if it does."""

    reason: str = ""
    identity: int = 0
    version: str = ""
    leader: int = 0
    revision: int = 0
    db_size: int = 0
    db_in_use: int = 0
    auth: str = AUTH_UNKNOWN
    members: tuple[Answering, ...] = ()
    alarms: tuple[ClusterAlarm, ...] = ()


class MemberCalls:
    """Calls of the member at `url`, with the operator's user if the cluster asks for one.

    They raise EtcdError or TransportError. `transport_to` returns the way to the member of a URL, and raises ValueError
    for a text that is none.
    """

    def __init__(
        self, url: str, credentials: t.Optional[Credentials], transport_to: t.Callable[[str], Transport]
    ) -> None:
        self._transport_to = transport_to
        self._credentials = credentials
        self._transport = transport_to(url)
        self._plain = Member(url, self._transport, None, _no_pause)
        self._member = Member(url, self._transport, credentials, _no_pause)
        self.url = url

    async def ask(self, path: str, body: bytes = b"{}", seconds: float = _CALL_SECONDS) -> Json:
        """Return the answer to a call, with the operator's user unless authentication is off."""
        try:
            return await self._member.call(path, body, seconds)
        except AuthenticationOff:
            return await self._plain.call(path, body, seconds)

    async def status(self, seconds: float = _CALL_SECONDS) -> gateway.MemberStatus:
        """Return the member's status, which needs no user."""
        return gateway.status_of(await self._plain.call("/v3/maintenance/status", b"{}", seconds))

    async def members(self) -> tuple[ClusterMember, ...]:
        return messages.members_of(await self.ask("/v3/cluster/member/list"))

    async def alarms(self) -> tuple[ClusterAlarm, ...]:
        return messages.alarms_of(await self.ask("/v3/maintenance/alarm", messages.alarms_request()))

    async def auth(self) -> str:
        """Return how the cluster takes the operator's user: one of the AUTH_ texts."""
        if self._credentials is None:
            return AUTH_UNKNOWN
        body = gateway.to_bytes({"name": self._credentials.user, "password": self._credentials.password})
        try:
            gateway.token_of(await self._plain.call("/v3/auth/authenticate", body, _CALL_SECONDS))
        except AuthenticationOff:
            return AUTH_OFF
        except WrongPassword:
            return AUTH_REFUSED
        except (EtcdError, TransportError):
            return AUTH_UNKNOWN
        return AUTH_ON

    async def proves_quorum(self) -> None:
        """Read one key by consensus, which fails without a quorum."""
        await self.ask("/v3/kv/range", gateway.get_request("health"))

    async def others(self, members: t.Iterable[ClusterMember]) -> tuple[Answering, ...]:
        """Return the members, and which of them answer."""
        listed = list(members)
        answers = await asyncio.gather(*(self._answers(member) for member in listed))
        return tuple(map(Answering, listed, answers))

    async def _answers(self, member: ClusterMember) -> bool:
        for url in member.client_urls:
            calls = None
            try:
                calls = MemberCalls(url, None, self._transport_to)
                if (await calls.status(_QUESTION_SECONDS)).header.member == member.identity:
                    return True
            except (EtcdError, TransportError, ValueError):
                continue
            finally:
                if calls is not None:
                    await calls.close()
        return False

    async def snapshot(self, write: t.Callable[[bytes], object]) -> None:
        """Pass the parts of a snapshot to `write`, in order.

        The end of the stream is no proof that it is whole: its last 32 bytes are the SHA-256 of those before.
        """
        headers: dict[str, str] = {}
        if self._credentials is not None:
            body = gateway.to_bytes({"name": self._credentials.user, "password": self._credentials.password})
            try:
                answer = await self._plain.call("/v3/auth/authenticate", body, _CALL_SECONDS)
                headers["Authorization"] = gateway.token_of(answer)
            except AuthenticationOff:
                pass
        try:
            async with self._transport.watch("/v3/maintenance/snapshot", b"{}", headers, _CALL_SECONDS) as lines:
                while True:
                    try:
                        line = await lines.next(_CALL_SECONDS)
                    except TransportError:
                        return
                    write(messages.snapshot_part_of(gateway.decode(line)))
        except RefusedStream as refused:
            raise gateway.error_of(refused.status, refused.body) from None

    async def close(self) -> None:
        await self._transport.close()


async def _no_pause() -> None:
    return


async def view(calls: MemberCalls) -> MemberView:
    """Return what a member says. An answer that cannot be used is the reason of a member that does not answer."""
    try:
        status = await calls.status()
    except (EtcdError, TransportError) as error:
        return MemberView(reason=str(error))
    found = MemberView(
        "", status.header.member, status.version, status.leader, status.header.revision, status.size, status.size_in_use
    )
    if not status.leader:
        return dataclasses.replace(found, reason="the cluster has no leader")
    auth = await calls.auth()
    try:
        members = await calls.others(await calls.members())
        alarms = await calls.alarms() if auth in (AUTH_ON, AUTH_OFF) else ()
    except (EtcdError, TransportError) as error:
        return dataclasses.replace(found, auth=auth, reason=str(error))
    return dataclasses.replace(found, auth=auth, members=members, alarms=alarms)


async def patiently(
    attempt: t.Callable[[], t.Awaitable[_T]],
    seconds: float,
    pause: float,
    repeated: tuple[type[Exception], ...] = (EtcdError, TransportError),
) -> _T:
    """Return the result of the first attempt that raises no `repeated` error. After `seconds`, raise the last one."""
    end = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            return await attempt()
        except repeated:
            if asyncio.get_running_loop().time() > end:
                raise
        await asyncio.sleep(pause)


async def silence(gate: MemberCalls) -> str:
    """Return why the gate before a member does not answer within 10 seconds, "" if it does."""
    try:
        await patiently(lambda: gate.status(_QUESTION_SECONDS), _GATE_SECONDS, _GATE_PAUSE)
    except (EtcdError, TransportError) as error:
        return str(error)
    return ""


def with_member(url: str, credentials: t.Optional[Credentials], work: t.Callable[[MemberCalls], t.Awaitable[_T]]) -> _T:
    """Return the result of `work` with calls of the member at `url`. Raise ClusterError without usable files of TLS."""

    async def run() -> _T:
        try:
            tls = TlsFiles(TRUSTED, CLIENT) if uses_tls(url) else None
        except OSError as error:
            raise ClusterError(
                f"{TRUSTED} and {CLIENT} cannot be used: {error.strerror or error}. playbooks/etcd.yml writes them."
            ) from error
        calls = MemberCalls(url, credentials, lambda found: HttpTransport(address_of(found), tls))
        try:
            return await work(calls)
        finally:
            await calls.close()

    return asyncio.run(run())
