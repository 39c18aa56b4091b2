# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module interface_sysctl manages routing settings of an interface."""

from __future__ import annotations

import typing as t

from ...dataplane.drivers import sysctl
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.plan import Part
from ...node import report
from ...state.node_state import Sysctl
from .. import standalone_module
from ..module_call import ModuleCall


def wanted(params: t.Mapping[str, t.Any]) -> list[Sysctl]:
    """Return the sysctls of the settings that are not None. Raise ValueError for a proxy_delay of "all"."""
    if params["interface"] == "all" and params["proxy_delay"] is not None:
        raise ValueError("interface all has no proxy_delay. Set it on default, or on each interface.")
    return [
        Sysctl(key, str(int(params[name])))
        for name, key in report.interface_settings(params["interface"]).items()
        if params[name] is not None
    ]


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    desired = wanted(params)
    return [Part(sysctl, sysctl.diff(desired, sysctl.observe(kernel, desired)))]


def run(module: ModuleCall) -> t.NoReturn:
    """Manage routing settings of an interface, and answer as the module interface_sysctl."""
    standalone_module.run_change(module, steps)
