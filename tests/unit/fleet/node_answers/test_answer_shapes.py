# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What readers of a node's answer accept at their bounds, and the first values that they refuse beyond them."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import (
    node_info,
    results,
    shapes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers import left_out, limits


def refuses(reader: shapes.Reader, value: t.Any) -> bool:
    try:
        reader(value)
    except shapes.Unreadable:
        return True
    return False


BOUNDS: list[tuple[shapes.Reader, list[t.Any], list[t.Any]]] = [
    (shapes.text(3), ["", "abc"], ["abcd", 3, None, b"abc"]),
    (shapes.text(), ["x" * 4096], ["x" * 4097]),
    (shapes.one_of("a", "b"), ["a", "b"], ["c", "", None, ["a"]]),
    (shapes.whole(), [0, 1, 2**53], [-1, 2**53 + 1, True, False, 1.0, "1", None]),
    (shapes.whole(-2, 3), [-2, 0, 3], [-3, 4]),
    (shapes.number(), [0, 0.0, 0.5, 10**12, 1e12], [-0.5, 1e12 + 1, True, False, "1", None, float("nan")]),
    (shapes.number(1.5, 2.5), [1.5, 2, 2.5], [1.4, 2.6]),
    (shapes.flag, [True, False], [0, 1, "true", None]),
    (shapes.maybe(shapes.flag), [True, False, None], [0, ""]),
    (shapes.items(shapes.flag, 2), [[], [True], (True, False)], [[True] * 3, "", {}, None, [1]]),
    (
        shapes.by_name(shapes.flag, 2),
        [{}, {"a": True, "b": False}],
        [{"a": 1}, [], None, {1: True}, dict.fromkeys("abc", True)],
    ),
    (shapes.by_name(shapes.flag), [{"x" * 4096: True}], [{"x" * 4097: True}]),
    (
        shapes.table({"a": shapes.flag}, {"b": shapes.flag}),
        [{"a": True}, {"a": True, "b": False}],
        [{}, {"b": True}, {"a": True, "b": 1}, [], None],
    ),
    (
        shapes.plain,
        [None, True, 1, -1.5, "x", [], [1, "x"], {"a": [None]}],
        [{1: 1}, b"x", {1, 2}, float("inf"), float("nan")],
    ),
]


@pytest.mark.parametrize(("reader", "good", "bad"), BOUNDS)
def test_a_reader_accepts_what_it_says_and_nothing_more(
    reader: shapes.Reader, good: list[t.Any], bad: list[t.Any]
) -> None:
    """A reader returns an equal value (a list for a tuple) if it fits its type and bounds, and refuses all others."""
    for value in good:
        read = reader(value)
        assert read == value or (isinstance(value, tuple) and read == list(value))
        assert isinstance(read, bool) == isinstance(value, bool)
    assert [value for value in bad if not refuses(reader, value)] == []


def test_a_number_is_read_as_a_float() -> None:
    """number() reads a whole number as a float, so that equal answers are written equally."""
    assert isinstance(shapes.number()(3), float)


def test_fields_that_nobody_asked_for_are_dropped() -> None:
    """A table has only the fields that its reader names, and the place of a wrong one is said in full."""
    reader = shapes.table({"a": shapes.items(shapes.table({"b": shapes.flag}))}, {"c": shapes.by_name(shapes.flag)})
    assert reader({"a": [{"b": True, "x": 1}], "x": 2}) == {"a": [{"b": True}]}
    for value, place in (
        ({"a": [{"b": True}, {"b": 1}]}, "a[1].b"),
        ({"a": [{}]}, "a[0].b"),
        ({"a": [], "c": {"k": 1}}, "c.k"),
        ({"a": 1}, "a"),
    ):
        with pytest.raises(shapes.Unreadable) as caught:
            reader(value)
        assert caught.value.place == place


def test_an_answer_has_a_number_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer of exactly the greatest number of values is read; each list, table and scalar counts as one."""
    monkeypatch.setattr(limits, "VALUES", 5)
    fits = {"a": [1, 2], "b": None}
    assert shapes.plain(fits) == fits
    with pytest.raises(shapes.Unreadable) as caught:
        shapes.plain([*fits, [1, 2], 3])
    assert str(caught.value) == "it is more than 5 values"


def test_an_answer_has_a_number_of_levels() -> None:
    """Lists and tables may be nested in 32 levels; a scalar below the last one is no level."""

    def nested(levels: int, kind: t.Callable[[t.Any], t.Any]) -> t.Any:
        value: t.Any = 1
        for _level in range(levels):
            value = kind(value)
        return value

    for kind in (lambda value: [value], lambda value: {"a": value}):
        assert not refuses(shapes.plain, nested(32, kind))
        assert refuses(shapes.plain, nested(33, kind))


def test_limits_of_an_answer() -> None:
    """The limits of a node's answer have these values: a greater one lets a hostile node cost the controller more."""
    assert (limits.ENDPOINTS, limits.BLOCKS, limits.PEERS, limits.PASSWORDS) == (2**14,) * 4
    assert (limits.ADDRESSES, limits.PROFILES, limits.LABELS, limits.PORTS) == (16, 16, 64, 64)
    assert (limits.ALLOCATED, limits.POOLS, limits.GENERATIONS) == (2**16, 2**10, 10_000)
    assert (limits.TEXT, limits.LINE, limits.ENTRIES, limits.DEPTH, limits.VALUES) == (4096, 1000, 2**17, 32, 4_000_000)
    assert limits.NAMED == 8


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
    with pytest.raises(shapes.Unreadable) as caught:
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
    reader: shapes.Reader, answer: t.Callable[[t.Any], t.Any], good: list[t.Any], bad: list[t.Any]
) -> None:
    """A field of a module's answer is read up to its bounds and refused beyond them."""
    for value in good:
        reader(answer(value))
    assert [value for value in bad if not refuses(reader, answer(value))] == []


def test_generations_need_a_table() -> None:
    """An answer without generations has none, and an answer that is no table is refused."""
    assert node_info.generations({}) == []
    with pytest.raises(shapes.Unreadable) as caught:
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
