# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile as a value and as text."""

from __future__ import annotations

import typing as t

from .allocation_plan import AllocationPlan
from .errors import LockfileError

__all__ = ["LockfileError", "dump", "from_document", "load", "to_document"]


def to_document(plan: AllocationPlan) -> dict[str, t.Any]:
    raise NotImplementedError


def from_document(document: t.Any, name: str = ".calico.lock.yml") -> AllocationPlan:
    """Raises LockfileError."""
    raise NotImplementedError


def dump(plan: AllocationPlan) -> str:
    raise NotImplementedError


def load(text: str, name: str = ".calico.lock.yml") -> AllocationPlan:
    """Raises LockfileError."""
    raise NotImplementedError
