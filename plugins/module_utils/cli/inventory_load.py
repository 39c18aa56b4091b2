# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl scale -i INVENTORY`, on the controller: what BGP costs each node of a fleet."""

from __future__ import annotations

import argparse
import json
import sys

from . import inventory_playbook
from .errors import DONE


def run(arguments: argparse.Namespace) -> int:
    answer = inventory_playbook.ask("scale.yml", arguments.inventory, {})
    if arguments.output == "json":
        sys.stdout.write(json.dumps(answer["answer"], indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in answer["lines"]))
    return DONE
