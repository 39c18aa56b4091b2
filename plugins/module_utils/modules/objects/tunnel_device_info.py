# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module tunnel_device_info reads the tunnel devices."""

from __future__ import annotations

import typing as t

from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall


def observe(dummy: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    return {"devices": report.tunnels(here.kernel)}


def run(module: ModuleCall) -> t.NoReturn:
    """Read the tunnel devices, and answer as the module tunnel_device_info."""
    standalone_module.run_info(module, observe)
