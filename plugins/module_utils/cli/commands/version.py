# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl version`: the versions of this program and of the running agent."""

from __future__ import annotations

import argparse
import sys

from ...base import release
from ...node.engine import engine_start
from ..errors import DONE
from ..sources import Sources


def run(arguments: argparse.Namespace, sources: Sources) -> int:
    digest = engine_start.in_use(sources.paths.engine)
    sys.stdout.write(f"Client Version:    {release.VERSION}\n")
    sys.stdout.write(f"Engine:            {digest or 'not installed'}\n")
    if not arguments.client:
        agent = sources.agent.ask_if_running("version")
        if agent is not None:
            sys.stdout.write(f"Agent Version:     {agent['version']}\n")
            sys.stdout.write(f"Agent Engine:      {agent['engine']}\n")
    return DONE
