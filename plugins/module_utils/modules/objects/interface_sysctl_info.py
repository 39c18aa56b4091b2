# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module interface_sysctl_info reads routing settings of an interface."""

from __future__ import annotations

import typing as t

from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall


def observe(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    keys = report.interface_settings(params["interface"])
    found = {name: here.kernel.sysctl_read(key) for name, key in keys.items()}
    return {"settings": {name: None if value is None else int(value) for name, value in found.items()}}


def run(module: ModuleCall) -> t.NoReturn:
    """Read routing settings of an interface, and answer as the module interface_sysctl_info."""
    standalone_module.run_info(module, observe)
