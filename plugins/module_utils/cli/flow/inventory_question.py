# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl policy explain -i INVENTORY`, answered by a playbook."""

from __future__ import annotations

import typing as t

from .. import inventory_playbook
from .flow_question import Asked


class InventoryAnswer(t.NamedTuple):
    """The lines of the answer and its document (FlowAnswer.lines and FlowAnswer.document)."""

    lines: list[str]
    document: dict[str, t.Any]


def ask(inventories: t.Sequence[str], asked: Asked, verbose: bool, vault_password: str = "") -> InventoryAnswer:
    """Return the answer of the playbook explain.yml. `verbose` adds lines on policies that do not apply.

    It takes and raises what `inventory_playbook.ask` does.
    """
    told = {
        "from": asked.source,
        "to": asked.destination,
        "to_port": asked.port,
        "source_port": asked.source_port,
        "verbose": verbose,
    }
    answer = inventory_playbook.ask("explain.yml", inventories, told, vault_password)
    return InventoryAnswer(answer["lines"], answer["answer"])
