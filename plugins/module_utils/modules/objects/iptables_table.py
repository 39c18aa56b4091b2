# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module iptables_table manages the collection's chains of an iptables table."""

from __future__ import annotations

import typing as t

from ...dataplane.drivers import iptables
from ...dataplane.kernel.port import Kernel
from ...dataplane.planning.plan import Part
from ...state.node_state import Hook, IptablesTable
from .. import standalone_module
from ..module_call import ModuleCall


def wanted(params: t.Mapping[str, t.Any]) -> IptablesTable:
    """Return the table to make. Raise ValueError for an invalid name of a chain, and for rules that are no texts."""
    chains: dict[str, tuple[str, ...]] = {}
    for name, rules in params["chains"].items():
        if not name.startswith(iptables.PREFIX) or len(name) > 28:
            raise ValueError(
                f"chains: {name} cannot be a chain of the collection. Those begin with {iptables.PREFIX} and have at "
                "most 28 characters. Rename it."
            )
        if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
            raise ValueError(f"chains: {name} is not a list of rules. Write each rule as one text.")
        chains[name] = tuple(rules)
    hooks = tuple(Hook(entry["chain"], entry["rule"]) for entry in params["hooks"])
    return IptablesTable(params["table"], chains, hooks, params["family"])


def steps(params: t.Mapping[str, t.Any], kernel: Kernel) -> list[Part]:
    desired = [wanted(params)] if params["state"] == "present" else []
    table, family = params["table"], params["family"]
    observed = iptables.observe(kernel, desired or [IptablesTable(table, family=family)])
    return [Part(iptables, iptables.diff(desired, observed.only(table, family)))]


def run(module: ModuleCall) -> t.NoReturn:
    """Manage the collection's chains of an iptables table, and answer as the module iptables_table."""
    standalone_module.run_change(module, steps)
