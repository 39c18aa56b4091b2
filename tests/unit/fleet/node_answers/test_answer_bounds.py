# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What readers of modules' answers accept at their bounds, and the first values that they refuse beyond them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import (
    node_info,
    results,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import left_out, limits


def refuses(reader: typed_json.Reader, value: t.Any) -> bool:
    try:
        reader(value)
    except typed_json.Unreadable:
        return True
    return False


def test_limits_of_an_answer() -> None:
    """The limits of a node's answer have these values: a greater one lets a hostile node cost the controller more."""
    assert (limits.ENDPOINTS, limits.BLOCKS, limits.PEERS, limits.PASSWORDS) == (2**14,) * 4
    assert (limits.ADDRESSES, limits.PROFILES, limits.LABELS, limits.PORTS) == (16, 16, 64, 64)
    assert (limits.ALLOCATED, limits.POOLS, limits.GENERATIONS) == (2**16, 2**10, 10_000)
    assert (limits.LINE, limits.NAMED) == (1000, 8)


# --- These tests are about answers of modules, and parts of a journal -----------------------------------------------

AGENT = {"wanted": True, "running": True, "uptime": 5, "version": "1", "in_sync": True, "problems": []}
RUNNING = {**AGENT, "drift": {"day": 0, "kinds": {"route": 1}}}
SESSION = {
    "node": "node2",
    "address": "10.10.1.12",
    "established": True,
    "state": "Established",
    "since": "12:00",
    "error": "",
    "routes_kept": False,
}
GENERATION = {"n": 1, "when": "", "who": "", "plan": "", "phase": ""}
TARGET = {"address": "", "sent": 0, "lost": 0}
WINDOW = {"earliest": 0.0, "latest": 1.0, "seconds": 1.0}
SETTLED = {"converged": True, "sessions": {"expected": 0, "established": 0}, "paths": 0, "sent": 0, "lost": 0}


def agent(**fields: t.Any) -> dict[str, t.Any]:
    return {**STATUS, "agent": {**RUNNING, **fields}}


BLOCK = {"cidr": "10.244.1.0/26", "pool": "p", "spare": False, "size": 64, "free": 60}
STATUS: dict[str, t.Any] = {
    "node": "node1",
    "plan": "7f3a",
    "phase": "converge",
    "complete": True,
    "bgp": {"enabled": True, "running": True, "sessions": [SESSION]},
    "routes": {"expected": 2, "present": 1, "missing": ["10.244.2.0/26"]},
    "blocks": [BLOCK],
    "workloads": 3,
    "agent": RUNNING,
    "problems": ["x"],
}


def test_an_honest_status_is_read_as_it_is() -> None:
    """All fields of a node's status are kept and others dropped.

    Of a node without a state, only `node` (None), `agent` and `problems` are kept.
    """
    assert results.status({**STATUS, "more": 1}) == STATUS
    idle = {"node": None, "agent": {"wanted": False, "running": False}, "problems": []}
    assert results.status({**STATUS, **idle}) == idle
    by_nobody = {**STATUS, "bgp": {**STATUS["bgp"], "sessions": [{**SESSION, "node": None}]}}
    assert results.status(by_nobody) == by_nobody
    huge = {**STATUS, "blocks": [{**BLOCK, "size": 2**128, "free": 0, "in_use": 0, "reserved": 2**128, "cooling": 0}]}
    assert results.status(huge) == huge


@pytest.mark.parametrize("field", ["uptime", "version", "in_sync", "problems", "drift"])
def test_an_agent_that_runs_says_how_it_is(field: str) -> None:
    """An agent that runs must give each of five fields, while one that does not run may leave it out."""
    agent = {name: value for name, value in RUNNING.items() if name != field}
    with pytest.raises(typed_json.Unreadable) as caught:
        results.status({**STATUS, "agent": agent})
    assert str(caught.value) == f"agent.{field} is missing"
    assert results.status({**STATUS, "agent": {**agent, "running": False}})["agent"]["wanted"] is True


@pytest.mark.parametrize(
    ("reader", "answer", "good", "bad"),
    [
        (results.PLAN, lambda n: {"sessions_reset": n}, [0, 131_072], [-1, 131_073]),
        (results.PLAN, lambda n: {"changes": [{"kind": "x" * n, "action": "+", "by": ""}]}, [512], [513]),
        (results.PLAN, lambda n: {"changes": [{"kind": "x", "action": "+", "by": "x" * n}]}, [512], [513]),
        (results.PLAN, lambda n: {"phases": [{"phase": "flip", "changes": []}] * n}, [16], [17]),
        (results.PLAN, lambda n: {"cut": ["x"] * n}, [1024], [1025]),
        (results.PLAN, lambda n: {"kept": ["x" * n]}, [4096], [4097]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "sent": n}]}, [0, 10**9], [-1, 10**9 + 1]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "lost": n}]}, [0, 10**9], [-1, 10**9 + 1]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "silent": n}]}, [0, 1e9], [-1, 1e9 + 1]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "heard": n}]}, [0, None, 10**6], [-1, 10**6 + 1]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "reason": n}]}, ["", "loop"], ["loops", "no answer "]),
        (results.PROBES, lambda n: {"targets": [{**TARGET, "by": "x" * n}]}, [0, 64], [65]),
        (results.SETTLED, lambda n: {**SETTLED, "targets": [{**TARGET, "heard": n}]}, [0, None], ["0"]),
        (results.PROBES, lambda n: {"window": {**WINDOW, "seconds": n}}, [0.0, 1e6], [-0.1, 1e6 + 1]),
        (results.status, lambda n: {**STATUS, "blocks": [{**BLOCK, "size": n}]}, [0, 2**128], [-1, 2**128 + 1]),
        (results.status, lambda n: {**STATUS, "blocks": [BLOCK] * n}, [16_384], [16_385]),
        (results.status, lambda n: {**STATUS, "problems": ["x"] * n}, [1024], [1025]),
        (results.status, lambda n: agent(problems=["x"] * n), [1024], [1025]),
        (results.status, lambda n: agent(uptime=n), [-(2**40), 2**40], [-(2**40) - 1, 2**40 + 1]),
        (results.status, lambda n: agent(drift={"day": n, "kinds": {}}), [0, 2**53], [-1]),
        (results.status, lambda n: agent(drift={"day": 0, "kinds": {str(i): 1 for i in range(n)}}), [256], [257]),
        (node_info.generations, lambda n: {"generations": [{**GENERATION, "n": n}]}, [0, 2**53], [-1]),
        *(
            (
                node_info.generations,
                lambda n, field=field: {"generations": [{**GENERATION, field: "x" * n}]},
                [most],
                [most + 1],
            )
            for field, most in (("when", 64), ("who", 512), ("plan", 64), ("phase", 64))
        ),
    ],
)
def test_a_field_of_an_answer_has_bounds(
    reader: typed_json.Reader, answer: t.Callable[[t.Any], t.Any], good: list[t.Any], bad: list[t.Any]
) -> None:
    """A field of a module's answer is read up to its bounds and refused beyond them."""
    for value in good:
        reader(answer(value))
    assert [value for value in bad if not refuses(reader, answer(value))] == []


def test_generations_need_a_table() -> None:
    """An answer without generations has none, and an answer that is no table is refused."""
    assert node_info.generations({}) == []
    with pytest.raises(typed_json.Unreadable) as caught:
        node_info.generations(["x"])
    assert str(caught.value) == "it is a list, not a table"


@pytest.mark.parametrize("answer", [None, [], {}, {"passwords_changed": None}, {"passwords_changed": ["x", 1]}])
def test_changed_passwords_that_cannot_be_read_are_none(answer: t.Any) -> None:
    """An answer without a valid list of names says that no password differs."""
    assert node_info.changed_passwords(answer) == ()


@pytest.mark.parametrize(("part", "most"), [("allocated", 65_536), ("opened", 16_384)])
def test_a_part_of_a_journal_has_bounds(part: str, most: int) -> None:
    """A part of the journal with too many entries is left out as a whole and named."""
    text = {"allocated": "10.244.1.2", "opened": "10.244.1.0/26"}[part]
    journal, odd = node_info.journal("node1", {"ipam": {part: [text] * most}})
    assert {"allocated": journal.allocated, "opened": journal.opened}[part] == (text,) * most
    assert odd == ()
    journal, odd = node_info.journal("node1", {"ipam": {part: [text] * (most + 1)}})
    assert {"allocated": journal.allocated, "opened": journal.opened}[part] == ()
    assert left_out.sentences(odd) == [
        f"node1: the part {part} of its journal is left out: it is not a list of at most {most}."
    ]
