# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The manual calicoctl(1) as text for man, made from the parser of the command line."""

from __future__ import annotations

import argparse
import typing as t

from ...command_parser import Parser

_FILES = (
    ("/var/lib/calico/state.json", "What the last run of Ansible planned for this node. Only root can read it."),
    ("/run/calico/agent.sock", "The socket of the agent, which the group calico may use."),
)
_STATUSES = (
    ("0", "Done."),
    ("1", "It failed, or found problems."),
    ("2", "The command line was not understood, or the question has no answer."),
)


def page(root: Parser) -> str:
    """Return the manual as text in the macros of man(7)."""
    lines = [
        '.TH CALICOCTL 1 "" "baremetal.host_routing" "Host routing"',
        ".SH NAME",
        f"calicoctl {_DASH} show and check a node of the fleet and its workloads",
        ".SH SYNOPSIS",
        ".B calicoctl",
        r"\fICOMMAND\fR [\fIOPTION\fR]...",
        ".SH DESCRIPTION",
        *_paragraph(root.description or ""),
        ".SH COMMANDS",
    ]
    for words, parser in _commands(root, ()):
        lines += _command(words, parser)
    lines += [".SH EXIT STATUS", *_list(_STATUSES), ".SH FILES", *_list(_FILES)]
    return "\n".join(lines) + "\n"


_DASH = r"\-"


def _commands(parser: Parser, words: tuple[str, ...]) -> t.Iterator[tuple[tuple[str, ...], Parser]]:
    """Yield each command that does something, with the words that lead to it."""
    for name, inner in parser.subparsers():
        below = list(_commands(inner, (*words, name)))
        yield from below or [((*words, name), inner)]


def _command(words: tuple[str, ...], parser: Parser) -> list[str]:
    arguments = [action for action in parser._get_positional_actions() if action.help is not argparse.SUPPRESS]
    options = [action for action in parser._get_optional_actions() if action.help is not argparse.SUPPRESS]
    usage = " ".join(("calicoctl", *words, "[OPTION]...", *map(_argument, arguments)))
    lines = [f'.SS "{_text(" ".join(words))}"', *_paragraph(parser.description or ""), ".PP", _line(usage)]
    for action in arguments:
        if action.help:
            lines += [".TP", f"\\fI{_text(str(action.metavar or action.dest))}\\fR", _line(action.help)]
    for action in options:
        if "--help" in action.option_strings or "--allow-version-mismatch" in action.option_strings:
            continue
        names = ", ".join(f"\\fB{_text(name)}\\fR" for name in action.option_strings)
        value = "" if action.nargs == 0 else f" \\fI{_text(str(action.metavar or action.dest.upper()))}\\fR"
        lines += [".TP", names + value, _line(action.help or "See the description.")]
    return lines


def _argument(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    return {"?": f"[{name}]", "*": f"[{name}]...", "+": f"{name}..."}.get(str(action.nargs), name)


def _list(entries: t.Iterable[tuple[str, str]]) -> t.Iterator[str]:
    for name, text in entries:
        yield from (".TP", f".B {_text(name)}", _line(text))


def _paragraph(text: str) -> list[str]:
    return [_line(line) for line in text.splitlines() if line.strip()]


def _line(text: str) -> str:
    """Return a line of text that begins no macro."""
    text = _text(text)
    return f"\\&{text}" if text[:1] in (".", "'") else text


def _text(text: str) -> str:
    """Return text without meaning for roff, on one line."""
    return " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
