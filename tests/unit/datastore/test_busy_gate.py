# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The client of a cluster at a gate that is busy."""

from __future__ import annotations

import asyncio
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import (
    Credentials,
    EtcdClient,
    Unreachable,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import Lines

BUSY = "the gate: it is busy; ask again in 1 s"


class Gate:
    """A gate that puts off the first `busy` authentications."""

    def __init__(self, busy: int, seconds: int) -> None:
        self.busy, self.seconds = busy, seconds
        self.asked: list[float] = []

    async def call(self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float) -> tuple[int, bytes]:
        if path != "/v3/auth/authenticate":
            return 200, b'{"header":{"revision":"1"}}'
        self.asked.append(asyncio.get_running_loop().time())
        if len(self.asked) > self.busy:
            return 200, b'{"token":"token"}'
        return 429, gateway.to_bytes({"code": 14, "message": BUSY, "retry_seconds": self.seconds})

    def watch(
        self, path: str, body: bytes, headers: t.Mapping[str, str], seconds: float
    ) -> t.AsyncContextManager[Lines]:
        raise NotImplementedError

    def broke(self) -> bool:
        return False

    async def close(self) -> None:
        pass


def asked(gate: Gate, seconds: float) -> list[float]:
    """Make a call, and return the seconds between two authentications."""

    async def run() -> None:
        await EtcdClient({"gate": gate}, Credentials("node1", "secret"), seconds).status()

    asyncio.run(run())
    return [after - before for before, after in zip(gate.asked, gate.asked[1:])]


def test_a_busy_gate_is_asked_again_when_it_says() -> None:
    (pause,) = asked(Gate(1, 1), 60.0)
    assert pause >= 1.0


def test_a_gate_that_is_busy_for_too_long_is_left() -> None:
    gate = Gate(9, 1)
    with pytest.raises(Unreachable) as refused:
        asked(gate, 0.5)
    assert refused.value.reasons == {"gate": BUSY} and len(gate.asked) == 1


@pytest.mark.parametrize(("said", "taken"), [(1, 1), (30, 30), (10**9, 30)])
def test_no_gate_is_waited_for_without_bounds(said: int, taken: float) -> None:
    found = gateway.error_of(429, gateway.to_bytes({"code": 14, "message": BUSY, "retry_seconds": said}))
    assert isinstance(found, gateway.AskLater) and isinstance(found, gateway.Unavailable)
    assert (found.message, found.seconds) == (BUSY, taken)


@pytest.mark.parametrize("said", [0, -1, "x", None, [], 1.5])
def test_a_busy_answer_with_an_invalid_delay_is_an_ordinary_error(said: object) -> None:
    body = {"code": 14, "message": BUSY, "retry_seconds": said}
    assert not isinstance(gateway.error_of(429, gateway.to_bytes(body)), gateway.AskLater)
