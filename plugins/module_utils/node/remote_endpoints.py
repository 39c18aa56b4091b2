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

from ..fleet.remote_endpoints import RemoteEndpoints
from . import atomic_file

FILE = "remote-endpoints.json"


class RemoteUnreadable(Exception):
    """The file cannot be read. The text says what is wrong and how to go on."""


@dataclasses.dataclass(frozen=True)
class Known:
    """`complete` is False from the writing of the file until policy here is in force with it."""

    remote: RemoteEndpoints = dataclasses.field(default_factory=RemoteEndpoints)
    complete: bool = True


def path(folder: str) -> str:
    """`folder` is Machine.store."""
    return os.path.join(folder, FILE)


def load(folder: str) -> RemoteEndpoints:
    """Nothing where there is no file. Raises RemoteUnreadable."""
    return known(folder).remote


def known(folder: str) -> Known:
    """As `load`."""
    name = path(folder)
    try:
        with open(name, encoding="utf-8") as stream:
            data = json.load(stream)
        return Known(RemoteEndpoints.from_dict(data["nodes"]), data["complete"])
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
