# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The debug log of transactions: switched on and off while the agent runs, with names that cannot forge lines."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.log import transactions
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.log.journal import LineFormatter
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.log.transactions import (
    QuotedNames,
    transaction,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.published_port import PublishedPort
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError, Request

from tests.unit.agent.node_under_test import Node, with_state
from tests.unit.agent.virtual_time import run
from tests.unit.agent.workloads.test_policy import POLICY

ROOT = Peer(0, frozenset(), 1)
HOSTILE = 'a": done in X ms\n<3>attach "b\x1b[2J\u202e\u2028'


@pytest.fixture
def log() -> t.Iterator[io.StringIO]:
    """The lines that the agent writes from here on, at the level info first."""
    root = logging.getLogger()
    level = root.level
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(LineFormatter("%(message)s"))
    root.addHandler(handler)
    root.setLevel("INFO")
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)


def debug_lines(log: io.StringIO) -> list[str]:
    """Return the lines of transactions since the last call, with X for each time."""
    lines = [line for line in log.getvalue().splitlines() if re.search(": (begun|done in|failed after|given up)", line)]
    log.seek(0)
    log.truncate()
    return [re.sub(r"[0-9.]+ ms", "X ms", line) for line in lines]


def test_each_transaction_has_lines_with_the_workloads_name_while_debug_is_on(
    tmp_path: pathlib.Path, log: io.StringIO
) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, with_state(policy=POLICY), cleanup_grace=0.0)
        agent = await node.start()
        methods = Methods(agent)
        await agent.transactions.add(node.request("before"))
        await node.settle()
        assert debug_lines(log) == []

        assert await methods.log_level({"level": "debug"}, ROOT) == {"level": "debug", "before": "info"}
        workload = await agent.transactions.add(node.request("web", labels={"token": "s3cret"}))
        await agent.transactions.relabel("default/web", {"app": "web"})
        await agent.transactions.publish("default/web", [PublishedPort("tcp", 0, 80)])
        await agent.transactions.withdraw("default/web")
        await agent.transactions.delete("default/web")
        held = await agent.addresses.reserve(None, (), 4)
        await agent.addresses.unreserve(held)
        with pytest.raises(AgentError):
            await agent.transactions.add(node.request("before", address="10.244.1.200"))
        await methods.apply({"removals": True}, ROOT)
        await node.settle()
        lines = debug_lines(log)
        address, interface = workload.addresses[0], workload.interface
        for line in (
            'attach "default/web": begun',
            f'attach "default/web": done in X ms, {address} on {interface}',
            'policy apply "default/web": begun',
            'label "default/web": done in X ms',
            'publish "default/web": done in X ms',
            'withdraw "default/web": done in X ms',
            f'detach "default/web": done in X ms, {address} from {interface}',
            'remove "default/web": done in X ms, 0 links stay',
            f'reserve "{held}": done in X ms',
            f'release "reserved:{held}", "{held}": done in X ms',
            'node apply "the state on the disk": done in X ms',
        ):
            assert line in lines, (line, lines)
        assert any(line.startswith('policy apply "default/web": done in X ms, ') for line in lines)
        assert any(re.fullmatch('repair pass ".*": done in X ms, 0 problems, .* changes.*', line) for line in lines)
        assert any(line.startswith('attach "default/before": failed after X ms: AgentError: ') for line in lines)
        assert "s3cret" not in log.getvalue() and not any("s3cret" in line for line in lines)
        begun = [line[: -len(": begun")] for line in lines if line.endswith(": begun")]
        ended = [re.split(": (?:done in|failed after|given up)", line)[0] for line in lines if ": begun" not in line]
        assert sorted(begun) == sorted(ended)

        assert await methods.log_level({"level": "info"}, ROOT) == {"level": "info", "before": "debug"}
        await agent.transactions.add(node.request("after"))
        await agent.transactions.delete("default/after")
        await node.settle()
        assert debug_lines(log) == []
        await node.kill()

    run(scenario())


def test_the_debug_log_names_what_a_repair_changed(tmp_path: pathlib.Path, log: io.StringIO) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        agent = await node.start()
        await agent.transactions.add(node.request("web"))
        await node.settle()
        await Methods(agent).log_level({"level": "debug"}, ROOT)
        workload = agent.transactions.get("default/web")
        assert workload is not None
        node.kernel.link_delete(workload.interface)
        await agent.changes.resync()
        lines = debug_lines(log)
        assert any(line.startswith("repair pass ") and '"workload default/web"' in line for line in lines), lines
        await node.kill()

    run(scenario())


def test_a_level_that_is_none_is_refused(tmp_path: pathlib.Path, log: io.StringIO) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        methods = Methods(await node.start())
        for level, message in (
            ("loud", "log.level: level is loud, not one of debug, info, warning, error."),
            (7, "log.level: level is 7, not one of debug, info, warning, error."),
            ("x" * 5000, f"log.level: level is {'x' * 77}..., not one of debug, info, warning, error."),
        ):
            with pytest.raises(AgentError) as refused:
                await Calls(methods.table).call(Request(1, "log.level", {"level": level}), ROOT)
            assert refused.value.message == message
        assert await methods.log_level({}, ROOT) == {"level": "info", "before": "info"}
        assert methods.table["log.level"].changes  # only root may call it
        await node.kill()

    run(scenario())


def test_a_hostile_name_stays_on_its_line_and_between_its_quotes(tmp_path: pathlib.Path, log: io.StringIO) -> None:
    async def scenario() -> None:
        node = Node(tmp_path)
        agent = await node.start()
        methods = Methods(agent)
        await methods.log_level({"level": "debug"}, ROOT)
        debug_lines(log)
        assert await methods.delete({"id": HOSTILE}, ROOT) == {"deleted": False}
        assert debug_lines(log) == [
            f"detach {json.dumps(HOSTILE)}: begun",
            f"detach {json.dumps(HOSTILE)}: done in X ms",
        ]
        assert all(0x20 <= ord(character) < 0x7F for character in json.dumps(HOSTILE))
        await methods.delete({"id": "x" * 100_000}, ROOT)
        assert debug_lines(log)[0] == f'detach "{"x" * 117}...": begun'
        await node.kill()

    run(scenario())


def test_a_line_is_bounded_whatever_it_is_about(log: io.StringIO) -> None:
    async def scenario() -> None:
        with pytest.raises(ValueError, match="y\ny"):
            async with transaction("attach", *("\x00" * 10_000 for dummy in range(1000))) as lines:
                lines.ends("%s", "never shown")
                raise ValueError("y\n" * 100_000)
        async with transaction("repair pass", "route") as lines:
            lines.ends("%s", QuotedNames(["z" * 1000] * 1000))
        with pytest.raises(asyncio.CancelledError):
            async with transaction("attach", "default/web"):
                raise asyncio.CancelledError

    logging.getLogger().setLevel("DEBUG")
    asyncio.run(scenario())
    lines = [line for line in log.getvalue().splitlines() if "asyncio" not in line and "selector" not in line]
    assert len(lines) == 6, [line[:80] for line in lines]
    # Each control character is six of JSON, and each line feed of an error is two.
    assert max(map(len, lines)) < 64 * (6 * 120 + 4) + 2 * 4000 + 100
    assert lines[0].endswith(" and 936 more: begun")
    assert re.fullmatch('attach "default/web": given up after [0-9.]+ ms', lines[-1])


def test_switched_off_nothing_is_made_for_a_line(log: io.StringIO) -> None:
    def never() -> t.Iterator[str]:
        raise AssertionError("names are read although no line is written")
        yield ""

    async def scenario() -> None:
        first, second = transaction("attach", "default/web"), transaction("repair pass", more=never())
        assert first is second is transactions._UNLOGGED
        async with second as lines:
            lines.ends("%s", QuotedNames(never()))

    asyncio.run(scenario())
    assert log.getvalue() == ""
