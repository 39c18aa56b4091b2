# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drain mark: a node with it accepts no new workloads, because it will leave the fleet.

    /var/lib/calico/drained.json    since when, and by whom; the next run that brings the node to a state removes it

The agent refuses to add workloads while the file exists, also after a restart. Attached workloads stay.
"""

from __future__ import annotations

import json
import os
import typing as t

from ..base.typed_json import open_table, text
from ..files import bounded
from .store import atomic_file
from .store.clock import now

_NAME = "drained.json"
_DRAINED = open_table({"when": text(), "who": text()})


class Drained(t.NamedTuple):
    """The time at which a node was drained, in ISO 8601, and the name of the run that did it."""

    when: str
    who: str

    def __str__(self) -> str:
        return f"it was drained at {self.when} by {self.who}, to leave the fleet"


def path(folder: str) -> str:
    return os.path.join(folder, _NAME)


def load(folder: str) -> t.Optional[Drained]:
    """Return the drain mark in `folder`, None if the node accepts workloads.

    A file that cannot be read counts as a mark by "somebody" at "a time", because an ignored mark would lose workloads.
    """
    try:
        return Drained(**_DRAINED(bounded.read_json(path(folder))))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return Drained("a time", "somebody")


def drain(folder: str, who: str) -> None:
    """Write the drain mark in `folder` for this moment and the run `who`. Raise FileError."""
    atomic_file.write(path(folder), json.dumps(Drained(now(), who)._asdict()), 0o600)
