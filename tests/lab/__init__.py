# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network of real systemd hosts on one machine, for the demo, molecule and the tests. See README.md here."""

from __future__ import annotations

from .handle import BaseLab, Capture, CommandFailed
from .topology import DEFAULT_NAME, NODES, STATE_ROOT, LabError, Node, Places

__all__ = ["NODES", "BaseLab", "Capture", "CommandFailed", "Lab", "LabError", "Node", "names"]


def Lab(name: str = DEFAULT_NAME, machine: str | None = None) -> BaseLab:
    """Return the lab called ``name``.

    ``machine`` is "native" or "qemu"; None means "qemu" if the lab's folder has an emulated machine, else "native".
    Raise LabError for another one, or if ``name`` cannot be a lab's name. The lab need not be up.
    """
    if machine is None:
        machine = "qemu" if (Places(name).state / "machine").is_dir() else "native"
    if machine == "native":
        from .machines.native import NativeLab

        return NativeLab(name)
    if machine == "qemu":
        from .machines.machine import MachineLab

        return MachineLab(name)
    raise LabError(f"There is no machine {machine!r}: native or qemu.")


def names() -> list[str]:
    """Return the names of the labs that have a folder below STATE_ROOT, sorted: they are up or were not removed."""
    return sorted(path.name for path in STATE_ROOT.iterdir() if path.is_dir()) if STATE_ROOT.is_dir() else []
