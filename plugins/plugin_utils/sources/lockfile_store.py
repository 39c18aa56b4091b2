# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lockfile on the controller's disk, read and replaced whole. Its content is the ipam room's business."""

from __future__ import annotations

import dataclasses
import os
import tempfile
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import LOCKFILE, BeyondLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render import document_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocation_plan import AllocationPlan
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

NAME = ".calico.lock.yml"


def path_for(chosen: t.Optional[str], task_vars: t.Mapping[str, t.Any]) -> str:
    """`chosen` (calico_lockfile), or .calico.lock.yml in the inventory's folder. Raises FleetError when it has none."""
    folder = task_vars.get("inventory_dir")
    if chosen:
        # Like other paths in an inventory, whatever folder the run is started in.
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
    """None when there is no such file. Raises FleetError for one that cannot be read or understood."""
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
    return lockfile.dump(plan)


def remember(path: str, encapsulations: t.Mapping[str, str]) -> bool:
    """Writes down in which modes the fleet runs its pools now ({pool: IPIP, ...}); of pools that the plan does not have
    nothing is kept. Whether that was news. Raises FleetError."""
    plan = read(path)
    if plan is None:
        return False
    known = {**plan.encapsulations, **{name: value for name, value in encapsulations.items() if name in plan.pools}}
    if known == plan.encapsulations:
        return False
    write(path, dataclasses.replace(plan, encapsulations=known))
    return True


def write(path: str, plan: AllocationPlan) -> None:
    """Replaces the file whole and on disk, or leaves the old one. Raises FleetError."""
    folder = os.path.dirname(path)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f"{NAME}.", dir=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text(plan))
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        directory = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise FleetError(
            "lockfile",
            path,
            f"cannot be written: {error.strerror}.",
            "No host was touched. Make the folder writable, or set calico_lockfile to another path.",
        ) from error
