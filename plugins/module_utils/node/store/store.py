# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The states on a node's disk: the one that it must have, and the last ones that it had.

    /var/lib/calico/state.json          what the boot unit applies and the next run starts from
    /var/lib/calico/generations/N.json  states that were applied completely, to return to

`state.json` is written before a change begins. A change that is interrupted is completed at boot or by the next run,
and no block is ever in the kernel without being on the disk.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import typing as t

from ...base.typed_json import Unreadable, flag, items, maybe, open_table, table, text, whole
from ...files import bounded
from ...state.node_state import NodeState
from ...state.phase import AT_REST
from . import atomic_file, short_wait, stored_file
from .stored_file import PARTS, REMEDY, StoreError, unreadable

FOLDER = short_wait.FOLDER
KEPT = 10

#: The readers of what a stored file has: a large text, such as bird.cfg, and plain data that another reader examines.
_CONTENT = text(bounded.OWN_LIMIT)
CONFIG = maybe(_CONTENT)
# Later releases may add fields to all but files of the state: an engine that returns to this release ignores them.
_STORED = open_table(
    {
        "state": PARTS,
        "bird_config": CONFIG,
        "files": items(table({"path": text(), "content": _CONTENT}, {"mode": text(), "last": flag})),
        "who": text(),
        "when": text(),
        "complete": flag,
    },
    {"restart": items(text())},
)
_HEADS = {"n": whole(), "when": text(), "who": text(), "plan": text(), "phase": text(), "digest": text()}
_HEAD = open_table(_HEADS)
_GENERATION = open_table({**_HEADS, "state": PARTS, "bird_config": CONFIG})


@dataclasses.dataclass(frozen=True)
class File:
    """A file that belongs to the node's state.

    `mode` is octal text, "0644". `last` marks a file that announces the node as ready: it is written after everything
    else, and removed first.
    """

    path: str
    content: str
    mode: str = "0644"
    last: bool = False


@dataclasses.dataclass(frozen=True)
class Stored:
    """A state with what belongs to it on a node.

    `when` is the time in ISO 8601, `who` the run that stored it. `complete` is False from the beginning of a change
    until all of it is applied. `bird_config` is the text of bird.cfg, None if the node runs no BIRD. `files` are all
    files of the state. In the target of a change, `files` None leaves the node's files as they are. `restart` are the
    names of the BGP sessions that BIRD must restart once it has read `bird_config`; () in a complete state.
    """

    state: NodeState
    bird_config: t.Optional[str] = None
    files: t.Optional[tuple[File, ...]] = None
    who: str = ""
    when: str = ""
    complete: bool = False
    restart: tuple[str, ...] = ()

    def same_as(self, other: t.Optional[Stored]) -> bool:
        """Return whether both have the same state, bird.cfg and files; False if `other` is None."""
        return other is not None and (self.state, self.bird_config, self.files) == (
            other.state,
            other.bird_config,
            other.files,
        )


class Generation(t.NamedTuple):
    """The head of a stored generation. `n` is its number, `when` a time in ISO 8601, `plan` and `digest` are hashes.

    `who` is the run that stored it, `phase` the phase of its state.
    """

    n: int
    when: str
    who: str
    plan: str
    phase: str
    digest: str


class Store:
    """The files in `folder`: the node's state (state.json) and its generations.

    Reading raises StoreError, and so do `record` and `complete`, which read the newest generation. Writing raises
    atomic_file.FileError, whose text says whether the old file is still there.
    """

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self._file = os.path.join(folder, stored_file.STATE)
        self._generations = os.path.join(folder, "generations")

    def load(self) -> t.Optional[Stored]:
        """Return the state of state.json, None if there is no such file."""
        data = stored_file.read(self._file)
        if data is None:
            return None
        try:
            found = _STORED(data)
            files = tuple(File(**entry) for entry in found["files"])
            restart = tuple(found.get("restart", ()))
            state = NodeState.from_dict(found["state"])
            return Stored(**{**found, "state": state, "files": files, "restart": restart})
        except ValueError as error:
            raise unreadable(self._file, error, REMEDY) from error

    def save(self, stored: Stored) -> None:
        """Replace state.json by one with `stored`, in which `files` None counts as no files."""
        atomic_file.make_folder(self._folder)
        data = {
            "state": stored.state.to_dict(),
            "bird_config": stored.bird_config,
            "files": [dataclasses.asdict(entry) for entry in stored.files or ()],
            "who": stored.who,
            "when": stored.when,
            "complete": stored.complete,
            **({"restart": list(stored.restart)} if stored.restart else {}),
        }
        atomic_file.write(self._file, json.dumps(data), 0o600)

    def record(self, stored: Stored, keep: int = KEPT) -> t.Optional[int]:
        """Make `stored` the newest generation, keep only the last `keep` of them (at least one), and return its number.

        Return None, and write nothing, if its phase is a step of a change (not in AT_REST), or if the newest generation
        has the same digest and plan. The same state under another plan is a generation of its own, so that all nodes
        can return to a plan.
        """
        if stored.state.phase not in AT_REST:
            return None
        numbers = self._numbers()
        if numbers:
            newest = stored_file.read(self._path(numbers[-1])) or {}
            if (newest.get("digest"), newest.get("plan")) == (stored.state.digest, stored.state.plan):
                return None
        number = numbers[-1] + 1 if numbers else 1
        atomic_file.make_folder(self._generations)
        data = {
            "n": number,
            "when": stored.when,
            "who": stored.who,
            "plan": stored.state.plan,
            "phase": str(stored.state.phase),
            "digest": stored.state.digest,
            "state": stored.state.to_dict(),
            "bird_config": stored.bird_config,
        }
        atomic_file.write(self._path(number), json.dumps(data), 0o600)
        for old in [*numbers, number][: -max(keep, 1)]:
            with contextlib.suppress(OSError):
                os.unlink(self._path(old))
        return number

    def complete(self, stored: Stored, keep: int = KEPT, record: bool = True) -> t.Optional[int]:
        """Save `stored` as complete and, if `record`, also as a generation; return what `record` returns, else None."""
        done = dataclasses.replace(stored, complete=True, restart=())
        number = self.record(done, keep) if record else None
        self.save(done)
        return number

    def generations(self) -> list[Generation]:
        """Return the heads of all generations, oldest first, without those that cannot be read."""
        found = []
        for number in self._numbers():
            with contextlib.suppress(StoreError, Unreadable):
                found.append(Generation(**_HEAD(stored_file.read(self._path(number)))))
        return found

    def generation(self, number: int) -> dict[str, t.Any]:
        """Return one whole generation: a dict with the fields of Generation, `state` and `bird_config`.

        `state` is plain data for NodeState.from_dict, `bird_config` the text of bird.cfg, None for a node without BIRD.
        """
        data = stored_file.read(self._path(number))
        if data is None:
            have = ", ".join(map(str, self._numbers())) or "none"
            raise StoreError(f"generation {number} is not stored on this node. It has: {have}. Choose one of these.")
        try:
            found: dict[str, t.Any] = _GENERATION(data)
        except Unreadable as error:
            raise unreadable(self._path(number), error, REMEDY) from error
        return found

    def _path(self, number: int) -> str:
        return os.path.join(self._generations, f"{number}.json")

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self._generations)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise unreadable(self._generations, error, "Move it away, then run again.") from error
        return sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdecimal())
