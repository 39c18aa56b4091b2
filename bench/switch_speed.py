# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seconds that a switch of the lab's four hosts takes, task by task, soak taken off.

The pool is switched from VXLAN to direct and back, without traffic. To compare two releases, copy this file and
bench/site/playbook_times.py into the clone of the other one, and run both in turn.

    bench/switch_speed.py [--rounds 3]
"""

from __future__ import annotations

import argparse
import collections
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bench.site.playbook_times import CONFIG, play, reporting, tasks  # noqa: E402
from tests.lab import Lab  # noqa: E402

INVENTORY = "inventories/lab"
POOL = "default-ipv4-ippool"
#: The seconds for which a switch counts lost probes, the default of `calico_node_soak_seconds`: only these come off.
SOAK = 10.0


def longest(folder: Path) -> dict[str, float]:
    """Return {task: its longest seconds on a host}, by the reports in `folder`, which are removed."""
    found: dict[str, float] = collections.defaultdict(float)
    for name, seconds in tasks(folder):
        found[name] = max(found[name], seconds)
    return found


def measure(lab: Lab, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOST_ROUTING_LAB": lab.name,
            "HOST_ROUTING_LAB_ENCAPSULATION": "VXLAN",
            "ANSIBLE_CONFIG": str(CONFIG),
        }
        play("playbooks/site.yml", INVENTORY, environment)
        timed = {**environment, **reporting(Path(folder))}
        took: list[float] = []
        each: dict[str, list[float]] = collections.defaultdict(list)
        for _ in range(rounds):
            for mode in ("direct", "vxlan"):
                arguments = ("-e", f"pool={POOL}", "-e", f"mode={mode}")
                seconds = play("playbooks/switch_pool_mode.yml", INVENTORY, timed, *arguments)
                by_task = longest(Path(folder))
                took.append(seconds - SOAK)
                for name, value in by_task.items():
                    each[name].append(value)
    print(f"a switch of four hosts without its soak, median of {len(took)}: {statistics.median(took):.1f} s")
    for name, values in sorted(each.items(), key=lambda item: -statistics.median(item[1])):
        print(f"  {statistics.median(values):6.2f} s  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    lab = Lab("bench")
    lab.down()
    lab.up()
    try:
        measure(lab, options.rounds)
    finally:
        lab.down()


if __name__ == "__main__":
    main()
