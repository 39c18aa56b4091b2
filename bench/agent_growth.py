# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's memory, files and threads while workloads come and go: `python3 bench/agent_growth.py [PAIRS]`, as root.

Prints a line per tenth: pairs done, VmRSS, VmHWM, open files, threads, size of the journal, seconds for each pair.
"""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import tests.conftest  # noqa: E402, F401  lets the collection be imported
from tests.integration.agent.daemon_under_test import daemon_under_test, install_engine  # noqa: E402


def main(pairs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="agent-growth-") as folder:
        engine = install_engine(pathlib.Path(folder) / "engine")
        (pathlib.Path(folder) / "node").mkdir()
        with daemon_under_test(engine, pathlib.Path(folder) / "node") as daemon:
            daemon.start()
            daemon.in_sync()
            names = [f"w{number}" for number in range(100)]  # one after the other: its last link is gone by then
            for name in names:
                daemon.netns(name)
            print(f"{'pairs':>7} {'VmRSS':>8} {'VmHWM':>8} {'files':>5} {'threads':>7} {'journal':>8} {'ms/pair':>8}")
            done, step = 0, max(pairs // 10, 1)
            while done < pairs:
                begun = time.monotonic()
                for number in range(step):
                    daemon.add(names[number % len(names)])
                    daemon.delete(names[number % len(names)])
                done += step
                seconds = time.monotonic() - begun
                process = f"/proc/{daemon.pid}"
                files, threads = (len(os.listdir(f"{process}/{name}")) for name in ("fd", "task"))
                journal = (daemon.folder / "lib" / "ipam" / "allocations").stat().st_size
                print(
                    f"{done:>7} {daemon.memory('VmRSS'):>8} {daemon.memory():>8} {files:>5} {threads:>7} {journal:>8}"
                    f" {1000 * seconds / step:>8.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20000)
