# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node knows of other nodes' workloads, on its disk.

    /var/lib/calico/remote-endpoints.json    by node: when it was asked, and its workloads that came between runs

It outlives a boot. Policy here counts on it whether an agent runs or not; the agent reads it again when it is told to.
"""

from __future__ import annotations

import dataclasses
import json
import os
import typing as t

from ...state.answers.left_out import LeftOut, sentences
from ...state.node_state import NodeState
from ...state.remote_endpoints import RemoteEndpoints
from . import atomic_file

FILE = "remote-endpoints.json"

#: Bytes of the file that are read. 10,000 workloads of other nodes take 5 MB.
LIMIT = 256 * 1024 * 1024


class RemoteUnreadable(Exception):
    """The file cannot be read. The text says what is wrong and how to go on."""


@dataclasses.dataclass(frozen=True)
class Known:
    """`complete` is False from the writing of the file until policy here is in force with it. `left_out`: endpoints in
    the file that nobody takes; an older release wrote it unchecked."""

    remote: RemoteEndpoints = dataclasses.field(default_factory=RemoteEndpoints)
    complete: bool = True
    left_out: tuple[LeftOut, ...] = ()

    def believed_by(self, state: t.Optional[NodeState]) -> Known:
        """Return what the node with this state takes of it; see RemoteEndpoints.believed_by."""
        remote, left_out = self.remote.believed_by(state)
        return dataclasses.replace(self, remote=remote, left_out=(*self.left_out, *left_out))

    def problem(self, folder: str) -> str:
        """Return in words what of the file is not taken, "" for nothing."""
        if not self.left_out:
            return ""
        return (
            f"{path(folder)} has workloads of other nodes that are not taken. {' '.join(sentences(self.left_out))} Run "
            "playbooks/sync_workloads.yml, which writes it anew."
        )


def path(folder: str) -> str:
    """`folder` is Machine.store."""
    return os.path.join(folder, FILE)


def load(folder: str, state: t.Optional[NodeState]) -> RemoteEndpoints:
    """Return what the node with this state takes of the file, nothing where there is none. Raises RemoteUnreadable."""
    return known(folder).believed_by(state).remote


def known(folder: str) -> Known:
    """Return the file's content, each part of it checked but for what takes the node's state. Raises
    RemoteUnreadable."""
    name = path(folder)
    try:
        with open(name, encoding="utf-8") as stream:
            text = stream.read(LIMIT + 1)
        if len(text) > LIMIT:
            raise ValueError(f"it is larger than {LIMIT} bytes")
        data = json.loads(text)
        remote, left_out = RemoteEndpoints.from_dict(data["nodes"])
        return Known(remote, data["complete"] is True, left_out)
    except FileNotFoundError:
        return Known()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise RemoteUnreadable(
            f"{name} cannot be read: {error}. Rules do not find the workloads of other nodes that are in it. Run "
            "playbooks/sync_workloads.yml, which writes it anew."
        ) from error


def save(folder: str, known: Known) -> None:
    """Replaces the file. Raises FileError; the old one stands then."""
    data = {"complete": known.complete, "nodes": known.remote.to_dict()}
    atomic_file.write(path(folder), json.dumps(data), 0o600)
