# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program: `python3 -I /usr/local/lib/calico/start calicoctl ...`, on nodes /usr/local/bin/calicoctl."""

from __future__ import annotations

import contextlib
import sys
import typing as t

from ..base import terminal_text
from . import parser
from .commands.refused import absent
from .errors import MISUNDERSTOOD

if t.TYPE_CHECKING:
    from ..node.machine import Machine
    from .execution import Command

#: Options with a value that users write before the command.
_BEFORE_A_VALUE = ("-i", "--inventory", "--vault-password-file", "-l", "--log-level", "-c", "--config", "--context")
#: Commands that have commands below them, which users may separate by such options.
_GROUPS = frozenset({"ipam", "policy", "node", "workload", "datastore", "cluster"})


def main(
    arguments: t.Sequence[str],
    machine: t.Optional[Machine] = None,
    program: str = "calicoctl",
    controller: bool = False,
    live: t.Optional[Command] = None,
) -> int:
    """Run calicoctl with `arguments` on `machine` (by default this one) and return the exit status.

    0: done. 1: problems were found, or the command failed. 2: the command line was not understood, or a command whose
    verdict is 0 or 1, or a question to an inventory, has no answer. `failure` in a command's parsed arguments is the
    least exit status if it fails. A closed stdout, or an interrupt that the command does not handle, is a failure
    without a message. Errors go to stderr; none is raised. `program` is the name of this program in help and errors.
    `controller` tells that this is the collection's calicoctl: errors then say how to ask an inventory, or where to run
    the command. `live` runs the commands that change live documents in the datastore, which no node can.
    """
    # Names and messages come from nodes, workloads and files: their control characters are escaped (terminal_text.py).
    out, err = (t.cast(t.TextIO, terminal_text.Stream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        if arguments and arguments[0] == "__complete":
            from .commands.shell import asked_words

            return asked_words.answer(arguments[1:], parser.build(program), machine)
        return _run(_ordered(arguments), machine, program, controller, live)


def _ordered(words: t.Sequence[str]) -> list[str]:
    """Return the words with options before the command behind it, whose parser knows them or says what is wrong.

    The command of a group (`ipam show`) has two words. `help COMMAND` becomes `COMMAND --help`.
    """
    options, left = _leading_options(list(words))
    if left and left[0] in _GROUPS:
        more, rest = _leading_options(left[1:])
        options, left = options + more, [left[0], *rest]
    if left[:1] == ["help"] and left[1:2] != ["--help"]:
        return [*left[1:], "--help"]
    if "--" in left:
        place = left.index("--")
        return left[:place] + options + left[place:]
    return left + options


def _leading_options(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the options at the beginning of `words`, each with its value, and the words behind them."""
    place = 0
    while place < len(words):
        word = words[place]
        if word in _BEFORE_A_VALUE and len(words) > place + 2:
            place += 2
        elif word == "--allow-version-mismatch" or _has_its_value(word):
            place += 1
        else:
            break
    return words[:place], words[place:]


def _has_its_value(word: str) -> bool:
    """Return whether a word is one of these options and its value in one: --inventory=hosts, -ihosts."""
    if word.startswith("--"):
        name, equals, dummy = word.partition("=")
        return bool(equals) and name in _BEFORE_A_VALUE
    return len(word) > 2 and word[:2] in _BEFORE_A_VALUE


def _run(
    words: list[str],
    machine: t.Optional[Machine],
    program: str,
    controller: bool,
    live: t.Optional[Command],
) -> int:
    missing = absent.instead(words)
    if missing:
        sys.stderr.write(f"{program}: {missing}\n")
        return MISUNDERSTOOD
    changes = bool(words) and words[0] in absent.VERBS
    own, of_ansible = (words, []) if not changes else _divided(words)
    to_live = changes and not _names_inventory(own)
    if to_live and not {"-h", "--help"} & set(own) and (live is None or not _has_datastore(own, machine)):
        from .commands.refused import refusal

        return refusal.refuse(*words)  # not parsed: the options of these verbs are Calico's, unknown to the parser
    try:
        command = next((word for word in words if not word.startswith("-")), "")
        parsed = parser.build(program, command).parse_args(own)
        if changes:
            parsed.of_ansible = tuple(of_ansible)
            parsed.run = "live" if to_live else parsed.run
    except SystemExit as done:  # --help, or an error that the parser has printed
        return int(done.code or 0)
    from . import execution  # help and errors need none of what commands import

    return execution.run(parsed, machine, program, controller, live)


def _divided(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before -- and those behind it, which are for ansible-playbook."""
    place = words.index("--") if "--" in words else len(words)
    return words[:place], words[place + 1 :]


def _has_datastore(words: t.Sequence[str], machine: t.Optional[Machine]) -> bool:
    """Return whether this host is no node and may have a way to the datastore."""
    from .sources import Sources

    sources = Sources(machine, config=_config_in(words))
    return not sources.is_node and sources.connection.possible


def _config_in(words: t.Sequence[str]) -> str:
    """Return the file of -c or --config among the words, "" for none."""
    for word, following in zip(words, [*words[1:], ""]):
        if word in ("-c", "--config"):
            return following
        if word.startswith("--config="):
            return word.partition("=")[2]
        if word.startswith("-c") and len(word) > 2:
            return word[2:]
    return ""


def _names_inventory(words: t.Iterable[str]) -> bool:
    """Return whether -i or --inventory is among the words."""
    return any(
        word.partition("=")[0] in ("-i", "--inventory") or (word.startswith("-i") and len(word) > 2) for word in words
    )
