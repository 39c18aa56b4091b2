# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl validate -f FILE`: the check of resource documents or, with -i INVENTORY, of an inventory."""

from __future__ import annotations

import argparse
import sys
import typing as t

from ...resources.api import ResourceError, check_supported, parse
from .. import inventory_playbook
from ..errors import DONE, PROBLEMS, UsageError
from ..render import named_files
from ..render.document_text import Lines, NotReadable, documents_of


class Problem(t.NamedTuple):
    """A problem of a file. `line` counts from 1 and is None if it is not known."""

    file: str
    line: t.Optional[int]
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}" if self.line else f"{self.file}: {self.text}"


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    if bool(arguments.inventory) == bool(arguments.filename):
        raise UsageError("say what to check: -f FILE for resources, or -i INVENTORY for a whole inventory.")
    if arguments.filename and (arguments.strict or arguments.output != "text"):
        raise UsageError("--strict and -o are about an inventory (-i INVENTORY).")
    return _inventory(arguments) if arguments.inventory else _files_of_resources(arguments)


def _inventory(arguments: argparse.Namespace) -> int:
    told = {"strict": arguments.strict}
    answer = inventory_playbook.ask("validate.yml", arguments.inventory, told, arguments.vault_password_file)
    inventory_playbook.show(answer, arguments.output)
    return DONE if answer["answer"]["good"] else PROBLEMS


def _files_of_resources(arguments: argparse.Namespace) -> int:
    good = 0
    problems: list[Problem] = []
    for path in named_files.paths(arguments.filename, arguments.recursive, arguments.skip_empty):
        name = "<stdin>" if path == "-" else path
        text = named_files.read(path)
        try:
            documents = list(documents_of(text, name))
        except NotReadable as error:
            problems.append(Problem(name, error.line, str(error)))
            continue
        for document, lines in documents:
            problem = _problem(name, document, lines)
            if problem:
                problems.append(problem)
            else:
                good += 1
        if not documents and not arguments.skip_empty:
            problems.append(Problem(name, None, "has no document. Write apiVersion, kind, metadata and spec."))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    if not problems:
        sys.stdout.write(f"Successfully validated {good} resource(s)\n")
    else:
        sys.stderr.write(f"{len(problems)} of {good + len(problems)} are not valid\n")
    return PROBLEMS if problems else DONE


def _problem(name: str, document: t.Any, lines: Lines) -> t.Optional[Problem]:
    try:
        check_supported(parse(document))
    except ResourceError as error:
        # A missing field has no line of its own: in YAML, `lines` returns the line of the nearest field around it.
        return Problem(name, lines(error.field), str(error))
    return None
