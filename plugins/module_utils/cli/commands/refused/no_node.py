# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about one node, given on a host that is no node: usually the controller."""

from __future__ import annotations

import argparse

from ...errors import CommandError
from ...sources import Sources


def check(arguments: argparse.Namespace, sources: Sources) -> None:
    """Raise CommandError, with the remedy, if the command is about the node that it runs on, and this host is none."""
    if not arguments.of_node or getattr(arguments, "inventory", None) or sources.is_node:
        return
    of_fleet = hasattr(arguments, "config")
    if of_fleet and sources.connection.possible:
        return
    if hasattr(arguments, "inventory"):
        remedy = "Name the inventory to ask with -i INVENTORY, or run this on a node."
    elif of_fleet:
        remedy = "Name a file with the way to the fleet's datastore with -c FILE, or run this on a node."
    else:
        remedy = "Run this on a node. For all nodes there are playbooks/status.yml and `calicoctl get -i INVENTORY`."
    raise CommandError(f"{sources.no_node()} {remedy}")
