# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with what a node knows of other nodes' workloads.

    /var/lib/calico/remote-endpoints.json    by node: when it was asked, and the workloads that its agent attached

The file survives a reboot. This node's policy uses it whether an agent runs or not; a running agent reads it again when
it receives `remote_endpoints.reload`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ...base.typed_json import anything, flag, open_table
from ...files import bounded
from ...state.answers.left_out import LeftOut, sentences
from ...state.node_state import NodeState
from ...state.remote_endpoints import RemoteEndpoints
from . import atomic_file

FILE = "remote-endpoints.json"

#: The most bytes that the file may have. 10,000 workloads of other nodes take 5 MB.
LIMIT = 256 * 1024 * 1024
_KNOWN = open_table({"nodes": anything, "complete": flag})


class RemoteUnreadable(Exception):
    """The error for a file of other nodes' workloads that cannot be read, with the cause and the remedy as its text."""


@dataclasses.dataclass(frozen=True)
class KnownEndpoints:
    """The content of the file of other nodes' workloads.

    `remote` are the valid endpoints in it. `complete` is False while this node's policy has not been applied with them.
    `left_out` are endpoints in the file that are not valid, because an older release wrote them unchecked, and after
    `accepted_by` those that the node rejects.
    """

    remote: RemoteEndpoints = dataclasses.field(default_factory=RemoteEndpoints)
    complete: bool = True
    left_out: tuple[LeftOut, ...] = ()

    def accepted_by(self, state: t.Optional[NodeState]) -> KnownEndpoints:
        """Return the part that the node with this state accepts, with what it rejects added to `left_out`.

        A node without a stored state (None) accepts all of a report with blocks, unchecked, and nothing of another.
        """
        remote, left_out = self.remote.accepted_by(state)
        return dataclasses.replace(self, remote=remote, left_out=(*self.left_out, *left_out))

    def problem(self, folder: str) -> str:
        """Return a text about what is left out of the file in `folder`, "" if nothing is."""
        if not self.left_out:
            return ""
        return (
            f"{path(folder)} has workloads of other nodes that are not taken. {' '.join(sentences(self.left_out))} Run "
            "playbooks/sync_workloads.yml, which writes it anew."
        )


def path(folder: str) -> str:
    return os.path.join(folder, FILE)


def load(folder: str, state: t.Optional[NodeState]) -> RemoteEndpoints:
    """Return the stored endpoints of other nodes that the node with this state accepts. Raise RemoteUnreadable."""
    return known(folder).accepted_by(state).remote


def known(folder: str) -> KnownEndpoints:
    """Return the stored endpoints of other nodes, valid but not yet accepted (`KnownEndpoints.accepted_by`).

    If there is no file, the result is empty and complete. Raise RemoteUnreadable if the file cannot be read.
    """
    name = path(folder)
    try:
        found = _KNOWN(bounded.read_json(name, LIMIT))
        remote, left_out = RemoteEndpoints.from_dict(found["nodes"])
        return KnownEndpoints(remote, found["complete"], left_out)
    except FileNotFoundError:
        return KnownEndpoints()
    except (OSError, ValueError) as error:
        raise RemoteUnreadable(
            f"{name} cannot be read: {error}. Rules do not find the workloads of other nodes that are in it. Run "
            "playbooks/sync_workloads.yml, which writes it anew."
        ) from error


def save(folder: str, known: KnownEndpoints) -> None:
    """Replace the file of other nodes' workloads in `folder` by one with `known`. Raise FileError."""
    data = {"complete": known.complete, "nodes": known.remote.to_dict()}
    atomic_file.write(path(folder), json.dumps(data), 0o600)
