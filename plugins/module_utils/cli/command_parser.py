# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The class of all parsers of the command line: errors of one line, with hints for mistyped words."""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
import typing as t

from .errors import MISUNDERSTOOD

_NO_DATASTORE = "This command asks no datastore: leave it out."
_ONE_CLUSTER = "A file of -c names one datastore, without contexts: leave it out."
_CHECKED = "Addresses with problems are always shown, and `ipam show --ip ADDRESS` shows one. Leave it out."
_ONE_NODE = (
    "This command is about one node: run it there. -i INVENTORY is for `get`, `export`, `ipam show`, `ipam check`, "
    "`policy explain`, `scale`, `validate`, and for `apply` and its like."
)
#: What to do instead of an option that Calico has, or that other commands have, and this one has not.
_INSTEAD = {
    "-c": _NO_DATASTORE,
    "--config": _NO_DATASTORE,
    "--context": _ONE_CLUSTER,
    "-l": "Nothing is logged here: errors are on stderr. Leave it out.",
    "--log-level": "Nothing is logged here: errors are on stderr. Leave it out.",
    "--poll": "Repeat the command by `watch`.",
    "--show-borrowed": "No address is borrowed here: a node takes those of its own blocks alone.",
    "--show-all-ips": _CHECKED,
    "--show-problem-ips": _CHECKED,
    "--from-report": "Name an address that leaked with --ip.",
    "-i": _ONE_NODE,
    "--inventory": _ONE_NODE,
}
#: What other programs and other commands call an option.
_SAME = {
    "--ip": "--address",
    "--ip4": "--address",
    "--ipv4": "--address",
    "--ip6": "--address6",
    "--ipv6": "--address6",
    "--address": "--ip",
}


#: The formatter by which argparse checks each new argument. Its fixed width saves a question to the terminal.
_UNSEEN = functools.partial(argparse.RawDescriptionHelpFormatter, width=80)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line: what is wrong, sometimes the word that was probably meant, and where help is.

    An error raises SystemExit with status 2, and the word `help` in the place of a command one with status 0.
    """

    def __init__(self, prog: t.Optional[str] = None, **named: t.Any) -> None:
        named.update(allow_abbrev=False, formatter_class=_UNSEEN)
        super().__init__(prog, **named)
        self.add_argument(
            "--allow-version-mismatch",
            action="store_true",
            default=argparse.SUPPRESS,
            help="accepted and ignored: there is no cluster version that could differ",
        )

    def parse_known_args(self, args: t.Any = None, namespace: t.Any = None) -> t.Any:
        """Return (parsed arguments, []). An unknown argument is an error of the command that it was given to."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def format_help(self) -> str:
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        return super().format_help()

    def error(self, message: str) -> t.NoReturn:
        choice = re.search(r"invalid choice: '([^']*)'", message)
        option = re.search(r"unrecognized arguments: (\S+)", message)
        commands = [name for name, dummy in self.subparsers()]
        if choice and message.startswith("argument -o/"):
            words = next(action.choices for action in self._actions if action.dest == "output" and action.choices)
            message = f"unrecognized output format '{choice.group(1)}'. Use {' or '.join(words)}."
        elif choice and choice.group(1) == "help" and commands:
            self.print_help()
            raise SystemExit(0)
        elif choice and commands:
            message = f"unknown command '{choice.group(1)}'." + _hint(choice.group(1), commands)
        elif option:
            word = option.group(1).partition("=")[0]
            kind = "option" if word.startswith("-") else "argument"
            message = f"unknown {kind} '{word}'." + (self._remedy(word) if kind == "option" else self._of_file(word))
        else:
            message = f"{message[:1].upper()}{message[1:]}."
        sys.stderr.write(f"{self.prog}: {message} See `{self.prog} --help`.\n")
        raise SystemExit(MISUNDERSTOOD)

    def _remedy(self, word: str) -> str:
        if word in _INSTEAD:
            return f" {_INSTEAD[word]}"
        options = [option for action in self._actions for option in action.option_strings]
        if _SAME.get(word) in options:
            return f" Did you mean {_SAME[word]}?"
        return _hint(word, options)

    def _of_file(self, word: str) -> str:
        """Return a sentence about an argument that is probably the inventory, "" for any other or without -i."""
        options = {option for action in self._actions for option in action.option_strings}
        if "-i" in options and (os.path.exists(word) or word.endswith((".yml", ".yaml", ".ini"))):
            return f" Did you mean -i {word}?"
        return ""

    def subparsers(self) -> t.Iterator[tuple[str, Parser]]:
        """Yield (name, parser) of each command directly below this one."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action.choices.items()


def _hint(word: str, known: t.Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, known, 1)
    return f" Did you mean {near[0]}?" if near else ""
