# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a status says about live policy and the folder that it should be."""

from __future__ import annotations

import dataclasses
import json
import shlex
import typing as t

#: The defaults of playbooks/live.yml, which a command need not repeat.
DATASTORE, OWNER = "/etc/calico/calicoctl.cfg", "live.yml"
#: The most documents of each kind of difference that are named.
NAMED = 16


@dataclasses.dataclass(frozen=True)
class LiveDrift:
    """How the live documents in the datastore differ from those of `folder`, which belong to `owner`.

    `datastore` is the file of the operator who asked. `missing` are documents that the datastore lacks, `different`
    those that differ, `extra` those with the owner's annotation that the folder lacks. `same` is the number of the
    others. `reason` is why nothing was compared, "" if it was.
    """

    folder: str
    datastore: str = DATASTORE
    owner: str = OWNER
    missing: tuple[str, ...] = ()
    different: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    same: int = 0
    reason: str = ""

    @property
    def command(self) -> str:
        """The command whose output is the plan that makes the datastore equal to the folder."""
        given = {"folder": self.folder}
        if self.datastore != DATASTORE:
            given["datastore"] = self.datastore
        if self.owner != OWNER:
            given["owner"] = self.owner
        if self.extra:
            given["prune"] = "true"
        return " ".join(
            ["ansible-playbook playbooks/live.yml", *(_option(*one) for one in given.items()), "--check --diff"]
        )

    @property
    def problems(self) -> list[str]:
        """A sentence if there is a difference, or if nothing was compared."""
        if self.reason:
            return [f"live policy was not compared with the folder {self.folder}: {self.reason.rstrip('.')}."]
        said = [
            *_said(self.missing, "is missing", "are missing"),
            *_said(self.different, "differs", "differ"),
            *_said(self.extra, "is not in the folder", "are not in the folder"),
        ]
        if not said:
            return []
        return [
            f"live policy differs from the folder {self.folder}: {'; '.join(said)}. See the change with "
            f"`{self.command}`, and make it without --check."
        ]

    @property
    def lines(self) -> list[str]:
        """A line that says that there is no difference, in a list that is empty otherwise."""
        if self.problems:
            return []
        return [f"live policy is that of the folder {self.folder}: {_documents(self.same)}"]

    def to_data(self) -> dict[str, t.Any]:
        """Return it JSON-ready."""
        differences = {"missing": self.missing, "different": self.different, "extra": self.extra}
        return {
            "folder": self.folder,
            "compared": not self.reason,
            "reason": self.reason,
            **{name: {"count": len(found), "names": list(found[:NAMED])} for name, found in differences.items()},
            "same": self.same,
            "command": self.command,
        }


def of_result(result: t.Mapping[str, t.Any], folder: str, datastore: str, owner: str) -> LiveDrift:
    """Return the drift by a result of the module resource, in check mode with `prune`."""
    found = result.get("documents")
    if found is None:
        return LiveDrift(folder, datastore, owner, reason=str(result.get("msg") or "its plan is not known"))
    missing, different, extra = (tuple(found[what]) for what in ("created", "changed", "deleted"))
    return LiveDrift(folder, datastore, owner, missing, different, extra, len(found["unchanged"]))


def _said(documents: t.Sequence[str], one: str, several: str) -> list[str]:
    """Return a clause about some documents, in a list that is empty if there are none."""
    if not documents:
        return []
    more = f" and {len(documents) - NAMED} more" if len(documents) > NAMED else ""
    verb = one if len(documents) == 1 else several
    return [f"{_documents(len(documents))} {verb} ({', '.join(documents[:NAMED])}{more})"]


def _documents(count: int) -> str:
    return f"{count:,} document{'' if count == 1 else 's'}"


def _option(name: str, value: str) -> str:
    """Return an option of ansible-playbook that gives a variable its value, as a word of a shell."""
    if shlex.quote(value) == value:
        return f"-e {name}={value}"
    return f"-e {shlex.quote(json.dumps({name: value}))}"
