# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of working on a node that have a message for people."""

from __future__ import annotations

from ..bird.errors import BirdError
from ..dataplane.change import ApplyError, ObserveError
from ..dataplane.kernel.port import KernelError, MissingLibrary
from ..wire.running_agent import AgentRefused
from .desired import RecordsUnreadable
from .ipam.local_ipam import IpamUnreadable
from .store.atomic_file import FileError
from .store.lock import LockError
from .store.stored_file import StoreError


class AgentSilent(Exception):
    """The error for an agent that runs and does not answer in time, or for a writer.lock that does not become free.

    The agent may still carry out what it was asked.
    """


class NotTakenOver(Exception):
    """The error for an agent that accepted the state and could not apply all of it."""


class InTheWay(Exception):
    """The error for a plan with problems, such as an object in the place of ours, or for a running agent.

    Nothing was changed.
    """


#: The errors of planning, applying, removing and reading a node. InTheWay, which only change/apply.py and standalone.py
#: raise, and BundleError are not among them.
ERRORS = (
    AgentRefused,
    AgentSilent,
    ApplyError,
    BirdError,
    FileError,
    IpamUnreadable,
    KernelError,
    LockError,
    MissingLibrary,
    NotTakenOver,
    ObserveError,
    RecordsUnreadable,
    StoreError,
)
