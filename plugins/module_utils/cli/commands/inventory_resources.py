# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources and addresses of an inventory, for `get -i` and `ipam show -i`. A playbook answers."""

from __future__ import annotations

import argparse
import dataclasses
import typing as t

from .. import inventory_playbook
from ..fleet import inventory_names
from ..render.kind import Document, Kind

Data = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class InventoryResources:
    """The answer of playbooks/resources.yml: `resources` by the name of their kind, and `ipam`.

    The latter has the blocks and addresses that the plan gives to nodes (plugin_utils/sources/inventory_resources.py).
    """

    as_number: t.Optional[int]
    resources: t.Mapping[str, list[Document]]
    ipam: Data

    def documents(self, kind: Kind) -> list[Document]:
        return self.resources[kind.name]


def of_command(arguments: argparse.Namespace) -> InventoryResources:
    """Return what `ask` does for the options of a command, and note the names for the completion of later commands."""
    found = ask(arguments.inventory, arguments.vault_password_file)
    inventory_names.note(arguments.inventory, found.resources)
    return found


def ask(inventories: t.Sequence[str], vault_password: str) -> InventoryResources:
    """Return an inventory's resources, with the blocks of its lockfile and of a run. See `inventory_playbook.ask`."""
    answer = inventory_playbook.ask("resources.yml", inventories, {}, vault_password)["answer"]
    return InventoryResources(answer["as_number"], answer["resources"], answer["ipam"])
