# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile on the controller's disk, read and replaced as a whole. The package `ipam` defines its content."""

from __future__ import annotations

import dataclasses
import os
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import LOCKFILE, BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

NAME = ".calico.lock.yml"


def path_for(chosen: t.Optional[str], task_vars: t.Mapping[str, t.Any]) -> str:
    """Return `chosen` (calico_lockfile) as an absolute path, or .calico.lock.yml in the inventory's folder.

    `chosen` is relative to that folder, or without one to the current folder; "~" is the home of the controller's user.
    Raise FleetError if nothing is chosen and the inventory has no folder.
    """
    folder = task_vars.get("inventory_dir")
    if chosen:
        # Like other paths in an inventory, a relative one begins at its folder, not at the current one, if it has one.
        return os.path.abspath(os.path.join(str(folder or ""), os.path.expanduser(chosen)))
    if not folder:
        raise FleetError(
            "calico_lockfile",
            None,
            "is not set, and the inventory has no folder to keep the plan of blocks in.",
            "Use an inventory that is a file or a folder, or set calico_lockfile to a path.",
        )
    return os.path.join(str(folder), NAME)


def read(path: str) -> t.Optional[AllocationPlan]:
    """Return the plan in the lockfile, None if there is no file. Raise FleetError if it is unreadable or invalid."""
    try:
        text = document_file.read(path, LOCKFILE)
    except FileNotFoundError:
        return None
    except BeyondLimits as error:
        raise FleetError(
            "lockfile", path, error.rule, "Restore the file from version control, or set calico_lockfile."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise FleetError(
            "lockfile",
            path,
            f"cannot be read: {reason}.",
            "See that it is a file that you can read, restore it from version control, or set calico_lockfile.",
        ) from error
    try:
        return lockfile.load(text, path)
    except lockfile.LockfileError as error:
        raise FleetError(error.variable, error.value, error.rule, error.remedy) from error


def text(plan: AllocationPlan) -> str:
    """Return the lockfile's text for a plan."""
    return lockfile.dump(plan)


def remember(path: str, encapsulations: t.Mapping[str, str]) -> bool:
    """Record in the lockfile how the fleet runs its pools (by pool name, such as IPIP); return whether it changed.

    Pools outside the plan are ignored; without a lockfile nothing is written. Raise FleetError as `read` and `write`.
    """
    plan = read(path)
    if plan is None:
        return False
    known = {**plan.encapsulations, **{name: value for name, value in encapsulations.items() if name in plan.pools}}
    if known == plan.encapsulations:
        return False
    write(path, dataclasses.replace(plan, encapsulations=known))
    return True


def write(path: str, plan: AllocationPlan) -> None:
    """Replace the file as a whole, synced to disk, with mode 0644, or leave the old one.

    A symbolic link stays, and the file that it leads to is replaced. Raise FleetError if `read` would refuse the plan,
    or if the file cannot be written. If only the folder cannot be synced, the new file is in place; the FleetError says
    so.
    """
    try:
        lockfile.from_document(lockfile.to_document(plan), path)
    except lockfile.LockfileError as error:
        raise FleetError(
            "lockfile",
            path,
            f"is not written: it could not be read back, because it {error.rule} The old one is unchanged.",
            "Report this as a bug, with the answers of the nodes.",
        ) from error
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        replacement.replace(target, text(plan).encode(), 0o644)
    except replacement.NotSynced as error:
        raise FleetError(
            "lockfile",
            path,
            f"is written, but a power failure may undo that: its folder cannot be synced: {error.strerror}.",
            "No host was touched. Correct the file system, then run again.",
        ) from error
    except OSError as error:
        raise FleetError(
            "lockfile",
            path,
            f"cannot be written: {error.strerror}.",
            f"No host was touched. Make the folder {folder} writable, or set calico_lockfile to another path.",
        ) from error
