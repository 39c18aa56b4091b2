# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that takes no new workloads, because it is to leave the fleet.

    /var/lib/calico/drained.json    since when, and by whom; gone with the next run that brings the node to a state

The agent refuses to add workloads while the file is there, also after a restart; those that are there stay.
"""

from __future__ import annotations

import json
import os
import typing as t

from .store import atomic_file
from .store.store import now

_NAME = "drained.json"


class Drained(t.NamedTuple):
    """`when` as the store writes times, `who` as runs call themselves."""

    when: str
    who: str

    def __str__(self) -> str:
        return f"it was drained at {self.when} by {self.who}, to leave the fleet"


def path(folder: str) -> str:
    """`folder` is Machine.store."""
    return os.path.join(folder, _NAME)


def load(folder: str) -> t.Optional[Drained]:
    """None where the node takes workloads. A file that cannot be read counts: better none than one that is lost."""
    try:
        with open(path(folder), encoding="utf-8") as stream:
            found = json.load(stream)
        return Drained(str(found["when"]), str(found["who"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return Drained("a time", "somebody")


def drain(folder: str, who: str) -> None:
    """Raises FileError."""
    atomic_file.write(path(folder), json.dumps(Drained(now(), who)._asdict()), 0o600)
