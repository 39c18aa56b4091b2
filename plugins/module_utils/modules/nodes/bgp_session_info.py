# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module bgp_session_info reads the BGP sessions of a node."""

from __future__ import annotations

import typing as t

from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall


def observe(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.bgp(here)
    wanted = params["neighbor"]
    return {**found, "sessions": [entry for entry in found["sessions"] if wanted in (None, entry["address"])]}


def run(module: ModuleCall) -> t.NoReturn:
    """Read the BGP sessions of a node, and answer as the module bgp_session_info, also if BIRD cannot be read."""
    standalone_module.run_info(module, observe)
