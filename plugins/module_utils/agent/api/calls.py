# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer to one request: which method may be called by whom, its deadline, and its failures as protocol errors."""

from __future__ import annotations

import asyncio
import functools
import logging
import typing as t

from . import cni_framing, protocol
from .cni_framing import CniRefusal
from .fair_share import Coalesced, FairShare
from .peer import Peer
from .protocol import AgentError

_log = logging.getLogger("calico.api")

Handler = t.Callable[[dict[str, t.Any], Peer], t.Any]
CniHandler = t.Callable[[dict[str, str], bytes], t.Awaitable[tuple[int, bytes]]]


class Method(t.NamedTuple):
    """`handler` is `async def (params, peer) -> dict`; of one that streams, an async generator of dicts.

    It raises AgentError to refuse. At the deadline, and when the agent stops, it is cancelled: it then takes back what
    it did or sees to it that it is completed later. Whether the client is still there does not matter to it, except
    that a stream is cancelled when its client goes or shuts down its side of the connection.
    """

    handler: Handler
    changes: bool = False
    stream: bool = False
    reserved: tuple[str, ...] = ()  # parameters that only root may give, of a method that others may use
    slow: bool = False  # waits for a thread: readers who ask the same have one answer, one at a time


class Calls:
    """Methods of the API and the CNI plugin, called within `deadline` seconds.

    `methods` may be filled until the first call. `root` is the uid that may call every method; members of the group
    `readers` (a gid, None for no such group; `group` is its name) may call those that change nothing.
    `observed(method, outcome, seconds)` is called for every answer; `outcome` is "ok" or the code of the error.
    """

    def __init__(
        self,
        methods: t.Mapping[str, Method],
        cni: t.Optional[CniHandler] = None,
        *,
        group: str = protocol.GROUP,
        root: int = 0,
        deadline: float = protocol.DEADLINE,
        observed: t.Optional[t.Callable[[str, str, float], None]] = None,
    ) -> None:
        self.readers: t.Optional[int] = None
        self._methods = methods
        self._cni = cni
        self._group = group
        self.root = root
        self._deadline = deadline
        self._observed = observed
        self._threads = FairShare(share=0.05, patience=1.0, pause=10.0)
        self._coalesced = Coalesced(self._threads)

    def method(self, name: str, peer: Peer, params: t.Container[str] = ()) -> Method:
        """Return a method. Raises AgentError for one that does not exist, or that `peer` may not call."""
        method = self._methods.get(name)
        if peer.uid != self.root and self.readers not in peer.groups:
            raise AgentError(
                protocol.FORBIDDEN,
                f"uid {peer.uid} may not use the agent. Become root, or a member of group `{self._group}`, "
                "which may read.",
            )
        if method is None:
            raise AgentError(
                protocol.UNKNOWN_METHOD,
                f"the agent has no method {name[:60]!r}. It has: {', '.join(sorted(self._methods))}.",
            )
        if method.changes and peer.uid != self.root:
            raise AgentError(
                protocol.FORBIDDEN, f"{name} changes the node, and uid {peer.uid} may only read. Run it as root."
            )
        for reserved in method.reserved:
            if reserved in params and peer.uid != self.root:
                raise AgentError(
                    protocol.FORBIDDEN, f"{name} takes {reserved} from root alone, and not from uid {peer.uid}."
                )
        return method

    async def call(self, request: protocol.Request, peer: Peer) -> dict[str, t.Any]:
        """Return the result of a method. Raises AgentError and nothing else."""
        deadline = _Deadline(self._deadline)
        method = self._methods[request.method]
        try:
            with deadline:
                if method.slow and peer.uid != self.root:
                    work = functools.partial(method.handler, request.params, peer)
                    found = await self._coalesced(peer.uid, request.method, request.params, work)
                else:
                    found = await method.handler(request.params, peer)
                return t.cast("dict[str, t.Any]", found)
        except AgentError:
            raise
        except asyncio.CancelledError:
            if not deadline.passed:
                raise stopping() from None
            raise AgentError(
                protocol.TIMEOUT,
                f"{request.method} was not done within {self._deadline:g} s and was given up. Ask again; "
                "`journalctl -u calico-agent` says what kept it.",
            ) from None
        except Exception:  # noqa: BLE001  whatever it is, the client is told and the agent lives
            _log.exception("method %s failed", request.method)
            raise internal(request.method) from None

    async def call_cni(self, environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Return exit status and output of the CNI plugin. Raises CniRefusal and nothing else."""
        if self._cni is None:
            raise CniRefusal(cni_framing.TRY_AGAIN, "the agent is not ready to attach workloads", "Try again.")
        deadline = _Deadline(self._deadline)
        try:
            with deadline:
                return await self._cni(environment, stdin)
        except CniRefusal:
            raise
        except asyncio.CancelledError:
            if not deadline.passed:
                raise CniRefusal(cni_framing.TRY_AGAIN, stopping().message) from None
            raise CniRefusal(
                cni_framing.TRY_AGAIN,
                f"the agent was not done within {self._deadline:g} s and gave up",
                "Try again. `journalctl -u calico-agent` says what kept it.",
            ) from None
        except Exception:  # noqa: BLE001
            _log.exception("a CNI request failed")
            raise CniRefusal(cni_framing.INTERNAL, internal("CNI").message) from None

    def begin_urgent(self) -> None:
        """Have slow methods of callers other than root wait until `end_urgent`."""
        self._threads.begin_urgent()

    def end_urgent(self) -> None:
        """End what `begin_urgent` began."""
        self._threads.end_urgent()

    def observe(self, method: str, outcome: str, seconds: float) -> None:
        """Report an answer."""
        if self._observed is not None:
            self._observed(method, outcome, seconds)


def stopping() -> AgentError:
    """Return the refusal of requests while the agent stops."""
    return AgentError(protocol.UNAVAILABLE, "the agent is being stopped. Try again when it has started.")


def internal(name: str) -> AgentError:
    """Return the error of a method that failed for an unforeseen reason, which is logged and not sent."""
    return AgentError(
        protocol.INTERNAL,
        f"{name} failed for a reason that the agent did not expect. `journalctl -u calico-agent` has the details; "
        "please report them.",
    )


class _Deadline:
    """A time limit for the task inside: it is cancelled once, and notices that at its next await."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._seconds = seconds

    def __enter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            self._seconds, self._pass, t.cast("asyncio.Task[t.Any]", asyncio.current_task())
        )

    def __exit__(self, *dummy: object) -> None:
        self._timer.cancel()

    def _pass(self, task: asyncio.Task[t.Any]) -> None:
        self.passed = True
        task.cancel()
