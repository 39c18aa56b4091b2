# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module iptables_table_info reads the collection's iptables rules."""

from __future__ import annotations

import typing as t

from ...node import machine, report
from .. import standalone_module
from ..module_call import ModuleCall


def observe(params: t.Mapping[str, t.Any], here: machine.Machine) -> dict[str, t.Any]:
    found = report.tables(here.kernel, params["family"])
    return {"tables": {name: chains for name, chains in found.items() if params["table"] in (None, name)}}


def run(module: ModuleCall) -> t.NoReturn:
    """Read the collection's iptables rules, and answer as the module iptables_table_info."""
    standalone_module.run_info(module, observe)
