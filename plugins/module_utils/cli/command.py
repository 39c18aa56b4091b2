# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program: `python3 -I /usr/local/lib/calico/start calicoctl ...`, on nodes /usr/local/bin/calicoctl."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import typing as t

from ..base import terminal_text
from ..base.release import VERSION
from ..dataplane.kernel.port import KernelError
from ..node import machine as machines
from . import parser
from .commands.refused import absent, no_node, refusal
from .errors import MISUNDERSTOOD, PROBLEMS, CommandError
from .sources import Sources

#: Options with a value that users write before the command.
_BEFORE_A_VALUE = ("-i", "--inventory", "-l", "--log-level", "-c", "--config", "--context")


def main(
    arguments: t.Sequence[str],
    machine: t.Optional[machines.Machine] = None,
    program: str = "calicoctl",
    controller: bool = False,
) -> int:
    """Run calicoctl with `arguments` on `machine` (by default this one) and return the exit status.

    0: done. 1: problems were found, or the command failed. 2: the command line was not understood, or a command whose
    verdict is 0 or 1, or a question to an inventory, has no answer. `failure` in a command's parsed arguments is the
    least exit status if it fails, 1 if it is not set. A closed stdout, or an interrupt that the command itself does not
    handle, is a failure too, without a message. Errors go to stderr; no exception is raised for them. `program` is the
    name of this program in help and errors. `controller` tells that this is the collection's calicoctl, which usually
    runs where Ansible is: there, errors say how to ask an inventory, or where to run the command.
    """
    # Names and messages come from nodes, workloads and files: their control characters are escaped (terminal_text.py).
    out, err = (t.cast(t.TextIO, terminal_text.Stream(stream)) for stream in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        return _run(_ordered(arguments), machine, program, controller)


def _ordered(words: t.Sequence[str]) -> list[str]:
    """Return the words with options before the command behind it, and `help COMMAND` as `COMMAND --help`.

    So the parser of the command has to know them, or says what is wrong with them.
    """
    left, options = list(words), []
    while left:
        if left[0] in _BEFORE_A_VALUE and len(left) > 2:
            options += [left.pop(0), left.pop(0)]
        elif left[0] == "--allow-version-mismatch" or left[0].partition("=")[0] in _BEFORE_A_VALUE and "=" in left[0]:
            options.append(left.pop(0))
        else:
            break
    if left[:1] == ["help"] and left[1:2] != ["--help"]:
        return [*left[1:], "--help"]
    return left + options


def _run(words: list[str], machine: t.Optional[machines.Machine], program: str, controller: bool) -> int:
    missing = absent.instead(words)
    if missing:
        sys.stderr.write(f"{program}: {missing}\n")
        return MISUNDERSTOOD
    if words and words[0] in refusal.VERBS and not {"-h", "--help"} & set(words):
        return refusal.refuse(*words)  # not parsed: the options of these verbs are Calico's, unknown to the parser
    try:
        parsed = parser.build(program).parse_args(words)
    except SystemExit as done:  # --help, or an error that the parser has printed
        return int(done.code or 0)
    failure: int = getattr(parsed, "failure", PROBLEMS)
    try:
        with Sources(machine or machines.here()) as sources:
            if controller:
                no_node.check(parsed, sources)
            status: int = parsed.run(parsed, sources)
        sys.stdout.flush()
        return status
    except CommandError as error:
        sys.stderr.write(f"{program}: {error}\n")
        return max(error.status, failure)
    except BrokenPipeError:  # The reader of stdout (`| head`) ended: Python must not write at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failure
    except KeyboardInterrupt:
        return failure
    except KernelError as error:
        sys.stderr.write(f"{program}: the kernel cannot be asked: {error}. Run calicoctl as root.\n")
        return failure
    except OSError as error:  # a full disk behind stdout, a file that only root may read
        where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else "a file or the output"
        sys.stderr.write(f"{program}: {where} cannot be read or written: {error.strerror or error}.\n")
        return failure
    except Exception as error:  # noqa: BLE001 - a traceback is no answer, and its exit status would be one
        sys.stderr.write(f"{program}: {_fault(error)}\n")
        return failure


def _fault(error: Exception) -> str:
    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return (
        f"this is a fault of calicoctl, not of yours: {type(error).__name__}: {error} ({where}). "
        f"Report it with release {VERSION} and the command line."
    )
