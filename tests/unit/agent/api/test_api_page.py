# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that docs/reference/agent.md names the existing methods, who may call them, and the codes of errors."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.bounds import ApiLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.api.calls import Calls
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.methods import SELECTOR_LIMIT, Methods
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import protocol
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.peer import Peer

from tests.conftest import ROOT
from tests.unit.agent.node_under_test import Node
from tests.unit.agent.virtual_time import run

PAGE = (ROOT / "docs" / "reference" / "agent.md").read_text("utf-8")
ROOT = Peer(1, 0, 0)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of each row, except the header, of the first table below `heading` in docs/reference/agent.md.

    Raise AssertionError if there is no table below it.
    """
    below = PAGE.partition(heading)[2]
    lines = re.search(r"(?:^\|.*\n)+", below, re.MULTILINE)
    assert lines
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in lines[0].splitlines()[2:]]


def test_the_page_lists_every_method_and_who_may_call_it(tmp_path: pathlib.Path) -> None:
    async def methods() -> Methods:
        return Methods(await Node(tmp_path).start())

    table = run(methods()).table
    assert [(row[0], row[3]) for row in rows("## The API")] == [
        (f"`{name}`", "root" if method.changes else "readers") for name, method in table.items()
    ]


def test_every_method_refuses_parameters_that_it_does_not_have(tmp_path: pathlib.Path) -> None:
    """Parameters are read before the method is called, so one without a reader would take anything."""

    async def scenario() -> dict[str, str]:
        calls = Calls(table := Methods(await Node(tmp_path).start()).table)
        refusals = {}
        for name, method in table.items():
            request = protocol.Request(1, name, {"unknown": 1})
            with pytest.raises(protocol.AgentError) as refused:
                await (anext(calls.stream(request, ROOT)) if method.stream else calls.call(request, ROOT))
            refusals[name] = refused.value.code
        return refusals

    assert set(run(scenario()).values()) == {protocol.INVALID_PARAMS}


def test_the_page_lists_every_error_code() -> None:
    assert sorted(row[0].strip("`") for row in rows("### Errors")) == sorted(protocol.CODES)


def test_the_page_gives_the_limits_of_the_api() -> None:
    limits = ApiLimits()
    said = PAGE.partition("### Limits")[2].partition("###")[0]
    assert (limits.line, limits.line_others) == (1 << 20, 16 << 10) and "1 MiB" in said and "16 KiB" in said
    assert said.count(f"{limits.idle:g} s") == 2 and limits.deadline == limits.idle
    assert [row[1:] for row in rows("### Limits")][:5] == [
        [f"{limits.connections}", f"{limits.others}", f"{limits.each}"],
        [f"{limits.waiting >> 20} MiB", f"{limits.waiting_others >> 20} MiB", "32 KiB a connection"],
        ["", f"{limits.unread >> 20} MiB", f"{limits.unread_each >> 20} MiB"],
        ["", f"{limits.streams}", f"{limits.streams_each}"],
        [f"{SELECTOR_LIMIT:,}", "", f"{SELECTOR_LIMIT:,}"],
    ]
