# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answer to one request: who may call which method, the deadline, and failures as errors of the protocol."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
import typing as t

from ...wire import plugin_errors, protocol
from ...wire.peer import Peer
from ...wire.plugin_errors import CniError
from ...wire.protocol import AgentError
from ...wire.request import read_params
from ...wire.shim_framing import Framing
from ..concurrency.fair_share import Coalesced, FairShare

_log = logging.getLogger("calico.api")

Handler = t.Callable[[dict[str, t.Any], Peer], t.Any]
ShimHandler = t.Callable[[dict[str, str], bytes], t.Awaitable[tuple[int, bytes]]]
#: The handlers of the plugins that runtimes execute, by the name of their framing.
Shims = t.Mapping[str, ShimHandler]


class Method(t.NamedTuple):
    """A method of the API: its handler, and what callers may do with it.

    `handler` is `async def (params, peer) -> dict`; `reads` reads its parameters, or refuses them (Unreadable). The
    handler of a method with `stream` is an async generator of dicts, and has no deadline. A handler raises AgentError
    to refuse. It is cancelled at the deadline and when the agent stops. It then undoes its work, or makes sure that the
    work is completed later. When the client disconnects, requests of root run to their end, but streams and requests of
    other callers are cancelled. Cancelling a caller of a `slow` method other than root does not cancel the handler once
    it has begun (Coalesced).
    """

    handler: Handler
    changes: bool = False  # only root may call it
    stream: bool = False
    reserved: tuple[str, ...] = ()  # parameters that only root may give; others may call the method without them
    reads: t.Callable[[t.Any], dict[str, t.Any]] = dict
    slow: bool = False  # occupies a thread: equal waiting requests of callers other than root share one answer


class Calls:
    """The methods of the API and runtimes' plugins; `call` and `call_shim` give up after `deadline` seconds.

    `methods` is a mapping from name to Method and may be filled until the first call. `root` is the uid that may call
    every method. Members of the group `group` may call the methods that change nothing. `readers` is the gid of that
    group, which the server sets; None if there is no such group, so that only root may call. `observed(method, outcome,
    seconds)`, called for each answer, is the attribute `observe`; `outcome` is "ok" or the code of the error.
    """

    def __init__(
        self,
        methods: t.Mapping[str, Method],
        shims: t.Optional[Shims] = None,
        *,
        group: str = protocol.GROUP,
        root: int = 0,
        deadline: float = protocol.DEADLINE,
        observed: t.Callable[[str, str, float], None] = lambda method, outcome, seconds: None,
    ) -> None:
        self.readers: t.Optional[int] = None
        self._methods = methods
        self._shims = shims or {}
        self._group = group
        self.root = root
        self._deadline = deadline
        self.observe = observed
        # Work in a thread uses no processor time of the loop's thread; it is charged for how long it takes.
        self._threads = FairShare(share=0.05, patience=1.0, pause=10.0, meter=time.perf_counter)
        self._coalesced = Coalesced(self._threads)

    def method(self, name: str, peer: Peer, params: t.Container[str] = ()) -> Method:
        """Return the method `name`, which `peer` wants to call with the parameters named in `params`.

        Raise AgentError: unknown_method, or forbidden if `peer` may not use the agent at all, not call the method, or
        not give one of the parameters.
        """
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
        """Call the method of `request`, which `method` has checked for `peer`, and return its result, a JSON object.

        Raise AgentError, and nothing else: the handler's own refusal, timeout at the deadline, unavailable if the task
        is cancelled otherwise, or internal for any other error, which is logged. Others may get the result of a slow
        method too.
        """
        deadline = asyncio.timeout(self._deadline)
        method = self._methods[request.method]
        try:
            async with deadline:
                params = read_params(request.method, method.reads, request.params)
                if method.slow and peer.uid != self.root:
                    work = functools.partial(method.handler, params, peer)
                    found = await self._coalesced(peer.uid, request.method, request.params, work)
                else:
                    found = await method.handler(params, peer)
                return t.cast("dict[str, t.Any]", found)
        except AgentError:
            raise
        except asyncio.CancelledError:
            raise stopping() from None
        except Exception as error:  # noqa: BLE001  any error becomes an answer, and the agent goes on
            if isinstance(error, TimeoutError) and deadline.expired():
                raise AgentError(
                    protocol.TIMEOUT,
                    f"{request.method} was not done within {self._deadline:g} s and was given up. Ask again; "
                    "`journalctl -u calico-agent` says what kept it.",
                ) from None
            _log.exception("method %s failed", request.method)
            raise internal(request.method) from None

    def stream(self, request: protocol.Request, peer: Peer) -> t.AsyncGenerator[dict[str, t.Any], None]:
        """Return the events of a method that streams. Raise AgentError for wrong parameters."""
        method = self._methods[request.method]
        events = method.handler(read_params(request.method, method.reads, request.params), peer)
        return t.cast("t.AsyncGenerator[dict[str, t.Any], None]", events)

    async def call_shim(self, framing: Framing, environment: dict[str, str], stdin: bytes) -> tuple[int, bytes]:
        """Run one command of a runtime's plugin and return (exit status, output): 0 or 1, and the runtime's bytes.

        Raise CniError, and nothing else, as `call` raises AgentError.
        """
        handler = self._shims.get(framing.name)
        if handler is None:
            raise CniError(plugin_errors.TRY_AGAIN, "the agent is not ready to attach workloads", "Try again.")
        deadline = asyncio.timeout(self._deadline)
        try:
            async with deadline:
                return await handler(environment, stdin)
        except CniError:
            raise
        except asyncio.CancelledError:
            raise CniError(plugin_errors.TRY_AGAIN, stopping().message) from None
        except Exception as error:  # noqa: BLE001
            if isinstance(error, TimeoutError) and deadline.expired():
                raise CniError(
                    plugin_errors.TRY_AGAIN,
                    f"the agent was not done within {self._deadline:g} s and gave up",
                    "Try again. `journalctl -u calico-agent` says what kept it.",
                ) from None
            _log.exception("a %s request failed", framing.name)
            raise CniError(plugin_errors.INTERNAL, internal(framing.name).message) from None

    def begin_urgent(self) -> None:
        """Let at most one slow method of callers but root begin in a second, until `end_urgent`. Calls are counted."""
        self._threads.begin_urgent()

    def end_urgent(self) -> None:
        """End one `begin_urgent`."""
        self._threads.end_urgent()


def stopping() -> AgentError:
    """Return the AgentError (unavailable) that refuses requests while the agent stops."""
    return AgentError(protocol.UNAVAILABLE, "the agent is being stopped. Try again when it has started.")


def internal(name: str) -> AgentError:
    """Return the AgentError (internal) for the method `name`, which failed unexpectedly, without the reason."""
    return AgentError(
        protocol.INTERNAL,
        f"{name} failed for a reason that the agent did not expect. `journalctl -u calico-agent` has the details; "
        "please report them.",
    )
