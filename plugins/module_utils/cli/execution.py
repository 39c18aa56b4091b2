# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution of one parsed command, and the exit statuses and messages of its failures."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import typing as t

from ..base.release import VERSION
from .commands.refused import no_node
from .errors import PROBLEMS, CommandError, UsageError
from .sources import Sources

if t.TYPE_CHECKING:
    from ..node.machine import Machine


#: A command's function. It returns the exit status.
Command = t.Callable[[argparse.Namespace, Sources], int]


def run(
    parsed: argparse.Namespace,
    machine: t.Optional[Machine],
    program: str,
    controller: bool,
    live: t.Optional[Command] = None,
) -> int:
    """Run a command that `parser.build` parsed and return the exit status; see `command.main`. Errors go to stderr."""
    failure: int = getattr(parsed, "failure", PROBLEMS)
    try:
        with Sources(machine, config=getattr(parsed, "config", "")) as sources:
            if controller:
                no_node.check(parsed, sources)
            function = _live(live) if parsed.run == "live" else _function(parsed.run)
            status: int = function(parsed, sources)
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
    except OSError as error:
        sys.stderr.write(f"{program}: {_refusal(error)}\n")
        return failure
    except Exception as error:  # noqa: BLE001 - a traceback is no answer, and its exit status would be one
        sys.stderr.write(f"{program}: {_fault(error)}\n")
        return failure


def _live(live: t.Optional[Command]) -> Command:
    if live is None:
        raise UsageError("this is for the controller, where the collection and an operator's calicoctl.cfg are.")
    return live


def _function(name: str) -> Command:
    module, dummy, function = name.rpartition(".")
    found: Command = getattr(importlib.import_module(f".commands.{module}", __package__), function)
    return found


def _refusal(error: OSError) -> str:
    """Return a sentence about a refusal of the kernel, a full disk behind stdout, a file that only root may read..."""
    from ..dataplane.kernel.port import KernelError

    if isinstance(error, KernelError):
        return f"the kernel cannot be asked: {error}. Run calicoctl as root."
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else "a file or the output"
    return f"{where} cannot be read or written: {error.strerror or error}."


def _fault(error: Exception) -> str:
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{os.path.basename(place.filename)}:{place.lineno}"
    return (
        f"this is a fault of calicoctl, not of yours: {type(error).__name__}: {error} ({where}). "
        f"Report it with release {VERSION} and the command line."
    )
