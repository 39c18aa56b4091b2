# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A workload by the name of its container. No I/O."""

from __future__ import annotations

import typing as t

from ...state.attachment import AttachedWorkload
from ..errors import CommandError

_SHOWN = 10


def workload_of(workloads: t.Iterable[AttachedWorkload], name: str) -> str:
    """Return the id of the only workload whose container has this name, "" if none has. Raise CommandError for more."""
    found = [one for one in workloads if name and one.container_name == name]
    if len(found) > 1:
        shown = ", ".join(f"{one.id} ({', '.join(one.addresses)})" for one in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise CommandError(f"{name} is ambiguous: it is the container of {shown}{more}. Give one of these ids.")
    return found[0].id if found else ""


def by_container(workloads: t.Iterable[AttachedWorkload]) -> dict[str, list[str]]:
    """Return {container's name: "<namespace>/<name>" of each of its workloads}."""
    found: dict[str, list[str]] = {}
    for one in workloads:
        if one.container_name:
            found.setdefault(one.container_name, []).append(f"{one.namespace}/{one.name}")
    return found
