# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words that may follow on the command line, for the completion of shells.

A shell asks by `calicoctl __complete WORD...`, where the last word is the one that is being typed. The answer has a
word in each line, or the one line `:files` if the shell is to complete paths.

Names come from the inventory and from workloads. A shell inserts a word as if it had been typed, so only words
without any meaning for a shell are offered: a name that a shell would have to quote is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
import typing as t

from ....base import terminal_text
from ...command_parser import Parser
from ...errors import DONE
from ...render import kinds

if t.TYPE_CHECKING:
    from ....node.machine import Machine

ASK = "__complete"
FILES = ":files"
#: Seconds for an answer. A shell waits for it, and no word is better than a late one.
_SECONDS = 3
#: The most words of an answer.
_MOST = 1000
#: Words that no shell reads as anything else than themselves, and that are no options.
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@=,+%-]{0,511}", re.ASCII)
_PATHS = frozenset(("inventory", "vault_password_file", "filename", "log_dir", "config", "to", "files"))
_LEVELS = ("debug", "info", "warning", "error")
_FORMATS = ("ps", "wide", "yaml", "json", "name", "custom-columns=")


class KnownNames(t.Protocol):
    """The names that a completion offers."""

    def resources(self, kind: str, namespace: t.Optional[str]) -> t.Iterable[str]: ...

    def workloads(self) -> t.Iterable[str]: ...

    def nodes(self) -> t.Iterable[str]: ...

    def namespaces(self) -> t.Iterable[str]: ...


def answer(words: t.Sequence[str], root: Parser, machine: t.Optional[Machine]) -> int:
    """Print the words that may stand in place of the last one of `words`, on the node `machine`; return 0.

    Nothing is printed if that takes longer than three seconds, or fails.
    """
    from ...fleet.inventory_names import InventoryNames
    from ...sources import Sources
    from .node_names import NodeNames

    def names_of(inventories: t.Sequence[str]) -> KnownNames:
        return InventoryNames(inventories) if inventories else NodeNames(sources)

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_SECONDS)
    try:
        with contextlib.suppress(Exception), Sources(machine, warn=lambda dummy: None) as sources:
            for word in complete(root, words, names_of):
                sys.stdout.write(f"{terminal_text.line(word)}\n")
    finally:
        signal.alarm(0)
    return DONE


def complete(root: Parser, words: t.Sequence[str], names_of: t.Callable[[t.Sequence[str]], KnownNames]) -> list[str]:
    """Return the words that may stand in place of the last one of `words`; [FILES] for a path.

    `names_of` returns the names of the inventories on the line, or without any those that are known here.
    """
    line = _Line(root, words)
    names = names_of(line.inventories)
    options = line.current.startswith("-")
    if line.option is not None:
        found = _values(line.option, line, names)
    elif line.subcommands is not None and not options:
        found = line.subcommands
    elif options:
        found = [word for word in line.parser._option_string_actions if word.startswith("--") or len(line.current) == 1]
    elif (argument := line.argument()) is not None:
        found = _values(argument, line, names)
    else:
        found = ()
    if found is _ANY_PATH:
        return [FILES]
    safe = (word for word in found if options or _SAFE.fullmatch(word))
    return sorted({f"{line.prefix}{word}" for word in safe if word.startswith(line.current)})[:_MOST]


_ANY_PATH: t.Sequence[str] = (FILES,)


class _Line:
    """A command line as far as it is typed.

    `parser` is that of its command, `path` the words of the command, `given` its arguments. `namespace` is the value of
    -n, and `inventories` those of -i. `option` is the option whose value the last word is, None if it is none, and
    `current` what of it is typed. `prefix` is that option and "=" if they are part of the last word. `subcommands` are
    the commands that may stand there, None where no command may.
    """

    def __init__(self, root: Parser, words: t.Sequence[str]) -> None:
        *before, current = _without_equals(words) or [""]
        self.parser = root
        self.path: list[str] = []
        self.given: list[str] = []
        self.namespace: t.Optional[str] = None
        self.inventories: list[str] = []
        self.option: t.Optional[argparse.Action] = None
        self.known = True
        for word in before:
            self._read(word)
        self.prefix, self.current = "", current
        name, equals, value = current.partition("=")
        if self.option is None and equals and name.startswith("--"):
            self.option = self._option(name)
            if self.option is not None:
                self.prefix, self.current = f"{name}=", value

    def _read(self, word: str) -> None:
        if self.option is not None:
            if self.option.dest == "namespace":
                self.namespace = word
            elif self.option.dest == "inventory":
                self.inventories.append(word)
            self.option = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            if name == "--inventory" and equals:
                self.inventories.append(value)
            elif word.startswith("-i") and len(word) > 2:
                self.inventories.append(word[2:])
            elif not equals:
                self.option = self._option(word)
        else:
            choices = dict(self.parser.subparsers())
            if self.path == [] and word == "help":
                return
            if word in choices:
                self.parser = choices[word]
                self.path.append(word)
            elif choices:
                self.known = False
            else:
                self.given.append(word)

    def _option(self, word: str) -> t.Optional[argparse.Action]:
        """Return the option if it takes a value."""
        action = self.parser._option_string_actions.get(word) or _LEADING.get(word)
        return action if action is not None and action.nargs != 0 else None

    @property
    def subcommands(self) -> t.Optional[t.Sequence[str]]:
        choices = [name for name, dummy in self.parser.subparsers()]
        return choices if choices and self.known else None

    def argument(self) -> t.Optional[argparse.Action]:
        """Return the argument in whose place the last word stands, None if there can be no more."""
        if not self.known:
            return None
        place = len(self.given)
        for action in self.parser._get_positional_actions():
            if isinstance(action, argparse._SubParsersAction):
                continue
            if place == 0 or action.nargs in ("*", "+"):
                return action
            place -= 1
        return None


def _leading() -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    for words in (("-i", "--inventory"), ("--vault-password-file",), ("-c", "--config")):
        parser.add_argument(*words)
    return parser._option_string_actions


#: Options that may stand before a command, with whose value a shell can help.
_LEADING = _leading()


def _without_equals(words: t.Sequence[str]) -> list[str]:
    """Return the words with bash's separation of "--output=json" into three words undone."""
    joined: list[str] = []
    for word in words:
        if joined and (word == "=" or joined[-1].endswith("=")) and joined[-1].startswith("--"):
            joined[-1] += word
        else:
            joined.append(word)
    if joined and words[-1] != joined[-1] and joined[-1].startswith("--"):
        # bash replaces what is behind the "=" alone.
        option, dummy, value = joined[-1].partition("=")
        joined[-1:] = [option, value]
    return joined


def _values(action: argparse.Action, line: _Line, names: KnownNames) -> t.Sequence[str]:
    """Return the values of an option or argument; _ANY_PATH for a path."""
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    if action.dest in _PATHS:
        return _ANY_PATH
    if action.dest == "kind":
        return _kinds(line, names)
    if action.dest in ("name", "names"):
        return _names(line, names)
    if action.dest == "namespace":
        return list(names.namespaces())
    if action.dest in ("source", "destination", "workload"):
        return [*names.workloads(), *names.nodes()]
    if action.dest == "node":
        return list(names.nodes())
    return {"output": _FORMATS, "level": _LEVELS}.get(action.dest, ())


def _kinds(line: _Line, names: KnownNames) -> t.Sequence[str]:
    word, slash, dummy = line.current.partition("/")
    if slash:
        return [f"{word}/{name}" for name in names.resources(word, line.namespace)]
    return [name for kind in kinds.KINDS for name in (kind.names[0], kind.singular)]


def _names(line: _Line, names: KnownNames) -> t.Sequence[str]:
    if line.path[:1] == ["workload"]:
        return [] if line.path[-1] == "add" else [name for name in names.workloads() if name not in line.given]
    if line.given and "/" in line.given[0]:
        return _kinds(line, names)
    given = set(line.given[1:])
    return [name for name in names.resources(line.given[0], line.namespace) if name not in given] if line.given else ()
