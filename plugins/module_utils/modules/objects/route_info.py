# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module route_info reads routes."""

from __future__ import annotations

import typing as t

from ...base.addresses import inside
from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall
from . import route


def observe(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.routes(here.kernel, params["table"], params["protocol"])
    if params["prefix"] is not None:
        outer = route.network("prefix", params["prefix"])
        found = [entry for entry in found if inside(entry["destination"], outer)]
    return {"routes": found}


def run(module: ModuleCall) -> t.NoReturn:
    """Read routes, and answer as the module route_info."""
    standalone_module.run_info(module, observe)
