# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl -i INVENTORY create|apply|replace|delete|patch|label`: changes of the inventory's files of resources.

A playbook plans the change, checks the whole inventory with it and writes the files.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import typing as t

from ...base.document_limits import BeyondLimits, read_json
from .. import inventory_playbook
from ..errors import DONE, CommandError, UsageError
from ..render import kinds, named_files
from ..render.document_text import NotReadable, documents_of

Data = dict[str, t.Any]

_PLAYBOOK = os.path.join("playbooks", "site.yml")
_RUNS = "ansible-playbook"
_QUESTION = "Run it? [y/N] "


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    """Plan the change, write it unless it is a dry run, and run a playbook if that is asked; return the exit status."""
    _check(arguments)
    request = request_of(arguments)
    if request is None:
        sys.stdout.write("No resources specified\n")
        return DONE
    answer = ask(request, arguments.inventory, arguments.vault_password_file)
    if "refused" in answer["answer"]:
        raise CommandError(answer["answer"]["refused"])
    inventory_playbook.show(answer, "text")
    if not answer["answer"]["changed"] or arguments.dry_run:
        return DONE
    plan, change = _commands(arguments)
    if arguments.run_playbook:
        return _run(plan, change, arguments.yes)
    sys.stdout.write(f"\nThe hosts do not have it yet. Plan the run, and run it:\n  {_line(plan)}\n  {_line(change)}\n")
    return DONE


def ask(request: Data, inventories: t.Sequence[str], vault_password: str) -> Data:
    """Return the answer of the playbook that makes a change. See `inventory_playbook.ask`.

    Raise CommandError, too, for a value or a key that the request's JSON does not have: it would become another one.
    """
    if request["verb"] != "delete":
        _check_values(request)
    with tempfile.TemporaryDirectory(prefix="calicoctl-") as folder:
        path = os.path.join(folder, "request.json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(_plain(request), stream, allow_nan=False)
        return inventory_playbook.ask("change.yml", inventories, {"request_file": path}, vault_password)


def _check(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that make no sense together."""
    if (
        arguments.wait is not None
        or arguments.ask_nodes
        or arguments.plan is not None
        or arguments.confirm
        or arguments.output != "text"
        or arguments.force
        or any(getattr(arguments, name, "") for name in ("owner", "prune"))
    ):
        raise UsageError(
            "--wait, --force, --owner, --prune, --plan, --confirm, --dry-run=server and -o are for live policy in the "
            "datastore: leave out -i."
        )
    if not arguments.run_playbook and (arguments.playbook or arguments.yes or arguments.of_ansible):
        raise UsageError("--playbook, --yes and words behind -- are for --run.")
    if arguments.run_playbook and arguments.dry_run:
        raise UsageError("--dry-run writes nothing that --run could run. Leave one of them out.")
    if arguments.run_playbook and not arguments.yes and (sys.stdin is None or not sys.stdin.isatty()):
        raise UsageError(
            "--run asks before it changes hosts, and there is no terminal. Add --yes to run without asking."
        )


def request_of(arguments: argparse.Namespace) -> t.Optional[Data]:
    """Return what a change is asked with (editing/change/), None if --skip-empty passes over everything."""
    found: Data = {
        "verb": arguments.command,
        "namespace": arguments.namespace or "",
        "skip": bool(getattr(arguments, "skip", False)),
        "dry_run": arguments.dry_run,
        "adopt": bool(getattr(arguments, "adopt", False)),
    }
    files = getattr(arguments, "filename", [])
    words = [word for word in (getattr(arguments, "kind", None), *getattr(arguments, "names", ())) if word is not None]
    if files and words:
        raise UsageError("say what to change once: a KIND and names, or -f FILE.")
    if files:
        found["documents"] = documents_in(files, arguments.recursive, arguments.skip_empty)
        return found if found["documents"] else None
    if arguments.command in ("create", "apply", "replace"):
        raise UsageError(f"say what to {arguments.command}: -f FILE, a file, a folder or - for standard input.")
    if len(words) < 2 or "" in words:
        raise UsageError("resource name may not be empty" if words else "say what to change: a KIND and a name.")
    found.update(kind=kinds.find(words[0]).name, word=words[0], names=words[1:])
    if arguments.command == "patch":
        found.update(patch=_patch(arguments.patch), type=arguments.type)
    if arguments.command == "label":
        found.update(label=arguments.label, remove=arguments.remove, overwrite=arguments.overwrite)
    return found


def documents_in(names: t.Sequence[str], recursive: bool, skip_empty: bool) -> list[Data]:
    """Return the documents of files, each with its place. Raise CommandError, with Calico's words, for a wrong file."""
    found: list[Data] = []
    for path in named_files.paths(names, recursive):
        name = "<stdin>" if path == "-" else path
        try:
            documents = list(documents_of(named_files.read(path), name))
        except NotReadable as error:
            where = f"{name}:{error.line}" if error.line else name
            raise CommandError(f"failed to execute command: {where}: {error}") from error
        if not documents and not skip_empty:
            raise CommandError(f"no resources specified in file {name}")
        for content, lines in documents:
            line = lines("")
            found.append({"content": content, "place": f"{name}:{line}" if line else name})
    return found


def _patch(text: str) -> t.Any:
    """Return the value that a patch has. Raise CommandError if its text is not JSON or too large."""
    try:
        return read_json(text)
    except json.JSONDecodeError as error:
        example = """-p '{"spec": {"natOutgoing": true}}'"""
        raise CommandError(f"the patch is not JSON: {error.msg}. Write for example {example}.") from error
    except BeyondLimits as error:
        raise CommandError(f"the patch {error}") from error


def _check_values(request: Data) -> None:
    """Raise CommandError for a patch or an invalid document that JSON cannot have, such as with a date as a key."""
    if not _is_plain(request.get("patch")):
        raise CommandError("the patch has a number that 64 bits of floating point cannot hold. Choose another one.")
    for document in request.get("documents", ()):
        if not _is_plain(document["content"]):
            from ...resources import api as resources

            try:
                resources.parse(document["content"])
            except resources.ResourceError as error:
                raise CommandError(f"{document['place']}: {error}") from error


def _is_plain(value: t.Any) -> bool:
    """Return whether JSON has a value as it is."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return math.isfinite(value) if isinstance(value, float) else value is None or isinstance(value, (str, int))


def _plain(value: t.Any) -> t.Any:
    """Return a value with texts in place of what JSON has not. Fields that nothing reads may have such values."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_plain, value))
    return value if _is_plain(value) else str(value)


def _commands(arguments: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the commands that plan the run and that run it."""
    playbook = arguments.playbook or _shown(os.path.join(inventory_playbook.COLLECTION, _PLAYBOOK))
    words = [word for inventory in arguments.inventory for word in ("-i", inventory)]
    if arguments.vault_password_file:
        words += ["--vault-password-file", arguments.vault_password_file]
    change = [_RUNS, *words, playbook, *arguments.of_ansible]
    return [*change, "--check", "--diff"], change


def _shown(path: str) -> str:
    """Return a path relative to the current folder if it lies below that."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative


def _line(words: t.Sequence[str]) -> str:
    return shlex.join(words)


def _run(plan: list[str], change: list[str], yes: bool) -> int:
    """Show the plan of the run, ask, and run it. Return the exit status of Ansible, 1 if the answer is no."""
    sys.stdout.write(f"\n$ {_line(plan)}\n")
    sys.stdout.flush()
    status = subprocess.run(plan, check=False, stdin=subprocess.DEVNULL).returncode
    if status:
        return status
    if not yes:
        sys.stdout.write(_QUESTION)
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CommandError(f"no host was changed, and the files stay as written. Run it later: {_line(change)}")
    sys.stdout.write(f"$ {_line(change)}\n")
    sys.stdout.flush()
    return subprocess.run(change, check=False).returncode
