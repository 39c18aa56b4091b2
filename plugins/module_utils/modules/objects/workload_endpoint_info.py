# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module workload_endpoint_info reads the workloads of a host."""

from __future__ import annotations

import typing as t

from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall


def observe(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.endpoints(here.kernel)
    return {"workloads": [entry for entry in found if params["name"] in (None, entry["name"])]}


def run(module: ModuleCall) -> t.NoReturn:
    """Read the workloads of a host, and answer as the module workload_endpoint_info."""
    standalone_module.run_info(module, observe)
