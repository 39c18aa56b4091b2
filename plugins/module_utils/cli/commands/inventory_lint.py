# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl validate -i INVENTORY`, on the controller: errors and probable mistakes in an inventory."""

from __future__ import annotations

import argparse

from .. import inventory_playbook
from ..errors import DONE, PROBLEMS


def run(arguments: argparse.Namespace) -> int:
    told = {"strict": arguments.strict}
    answer = inventory_playbook.ask("validate.yml", arguments.inventory, told, arguments.vault_password_file)
    inventory_playbook.show(answer, arguments.output)
    return DONE if answer["answer"]["good"] else PROBLEMS
