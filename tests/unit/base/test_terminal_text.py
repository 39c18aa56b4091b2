# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Printed and logged text, which must not control a terminal or begin a line of its own."""

from __future__ import annotations

import io
import json
import logging

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.log import journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli import command
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import tables, yaml_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import Change
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import outcome
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines

EVIL = "a\x1b]0;x\x07\r\n<0>b\x9b2J\u202ec\u2066\u2028\ud800\ttab"
SHOWN = "a\\x1b]0;x\\x07\\r\\n<0>b\\x9b2J\\u202ec\\u2066\\u2028\\ud800\\ttab"


def test_every_kind_of_control_is_shown() -> None:
    assert terminal_text.line(EVIL) == SHOWN
    assert terminal_text.text(EVIL) == SHOWN.replace("\\n", "\n").replace("\\t", "\t")
    assert terminal_text.lines([EVIL, "ü ✓"]) == f"{SHOWN}\nü ✓\n"
    everything = "".join(map(chr, [*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
    assert terminal_text.line(everything).isascii()
    assert terminal_text.line(everything).isprintable()


def test_calicoctl_prints_no_command_of_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([EVIL]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
    assert "\\x1b]0;x" in said.err


def test_tables_and_lines_of_plans_have_as_many_lines_as_they_should() -> None:
    assert tables.columns(("NAME", "X"), [(EVIL, "1")]).count("\n") == 2
    assert tables.boxed(("NAME", "X"), [(EVIL, "1")]).count("\n") == 5
    line = Change("ipset", "=", EVIL, None, EVIL, EVIL).line()
    assert line == f"= ipset    {SHOWN}  {SHOWN}    {SHOWN}"


def test_machine_readable_output_says_what_the_text_is() -> None:
    """JSON and YAML escape control characters themselves, so terminal_text.text() does not change their output."""
    for text in (json.dumps(EVIL), yaml_text.dump({"name": EVIL})):
        assert terminal_text.text(text) == text


@pytest.mark.parametrize("formatter", [journal.JournalFormatter("%(message)s"), journal.LineFormatter("%(message)s")])
def test_a_message_of_the_agent_is_one_entry_of_the_journal(formatter: logging.Formatter) -> None:
    record = logging.LogRecord("calico", logging.WARNING, "", 0, "%s came", (EVIL,), None)
    written = formatter.format(record)
    assert written.splitlines() == [f"{'<4>' if isinstance(formatter, journal.JournalFormatter) else ''}{SHOWN} came"]
    try:
        raise ValueError("x\x1b[2J")
    except ValueError as error:
        failed = logging.LogRecord("calico", logging.ERROR, "", 0, "no", (), (ValueError, error, error.__traceback__))
    text = formatter.format(failed)
    assert "\x1b" not in text
    assert len(text.splitlines()) > 2


def test_lines_that_actions_print_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    monkeypatch.setattr(shown_lines.Display, "display", lambda _self, text, color=None: printed.append((text, color)))
    shown_lines.show([EVIL, "good"], "red")
    assert printed == [(SHOWN, "red"), ("good", "red")]
    assert outcome.reason({"failed": True, "msg": "x\x1b[2J\nmore"}) == "x\\x1b[2J"


def test_a_stream_escapes_what_is_written_to_it() -> None:
    """A stream escapes all texts; write() returns the length before that. Other methods are the wrapped stream's."""
    inner = io.StringIO()
    stream = terminal_text.Stream(inner)
    assert stream.write("a\x1bb") == 3
    stream.writelines(["c\n", "\u202e"])
    assert stream.getvalue() == inner.getvalue() == "a\\x1bbc\n\\u202e"


@pytest.mark.parametrize(
    ("value", "line", "text"),
    [
        ("\t", "\\t", "\t"),
        ("\n", "\\n", "\n"),
        ("\r", "\\r", "\\r"),
        ("\x00", "\\x00", "\\x00"),
        ("\x08", "\\x08", "\\x08"),
        ("\x0b", "\\x0b", "\\x0b"),
        ("\x1f", "\\x1f", "\\x1f"),
        ("\x7f", "\\x7f", "\\x7f"),
        ("\xff", "\xff", "\xff"),
        ("\u2028", "\\u2028", "\\u2028"),
        ("\u061c", "\\u061c", "\\u061c"),
        (" ~", " ~", " ~"),
    ],
)
def test_a_character_as_it_is_shown(value: str, line: str, text: str) -> None:
    """A line has no line feed or tab of its own, a text keeps both, and neither has another control character."""
    assert (terminal_text.line(value), terminal_text.text(value)) == (line, text)
    assert terminal_text.lines([value, 7]) == f"{line}\n7\n"


def test_long_texts_are_cut() -> None:
    """A text of at most so many characters is whole; a longer one has exactly so many, and ends in three dots."""
    assert terminal_text.cut("x" * 80) == "x" * 80
    assert terminal_text.cut("x" * 81) == "x" * 77 + "..."
    assert terminal_text.cut("abcdefgh", 6) == "abc..."


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["IPv4", "IPv6"], "[IPv4, IPv6]"),
        (
            {"name": "default", "cidr": "10.244.0.0/16", "natOutgoing": True},
            "{name: default, cidr: 10.244.0.0/16, natOutgoing: true}",
        ),
        (["1", 1, 1.5, None, "null", "yes", ""], '["1", 1, 1.5, null, "null", "yes", ""]'),
        (["10.0.0.1", "1:1", "2026-01-01", "0x1f", "1e3", "-"], '[10.0.0.1, "1:1", "2026-01-01", "0x1f", "1e3", "-"]'),
        ([{"a": ("b",)}], "[{a: [b]}]"),
        (["a, b", "a: b", "x:", "*x", "fd00::1", "ü"], '["a, b", "a: b", "x:", "*x", fd00::1, "ü"]'),
        (b"x", "b'x'"),
    ],
)
def test_values_are_shown_as_people_write_them(value: object, shown: str) -> None:
    """The text is YAML, which reads it as the same value."""
    assert terminal_text.flow(value) == shown
    if not isinstance(value, bytes):
        assert yaml.safe_load(shown) == json.loads(json.dumps(value))


def test_a_long_or_deep_value_is_shown_in_part() -> None:
    """A loop of aliases in YAML is such a value."""
    loop: list[object] = []
    loop.append(loop)
    assert terminal_text.flow(loop) == "[[[[[[[[[...]]]]]]]]]"
    assert terminal_text.flow(range(3)) == "range(0, 3)"
    assert len(terminal_text.flow(["x"] * 10**6)) < 1000
