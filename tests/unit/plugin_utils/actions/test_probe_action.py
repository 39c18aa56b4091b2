# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time limit of a watch grows with the batches of hosts between the proof and the soak."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.action import probe


@pytest.mark.parametrize(
    ("hosts", "forks", "seconds"), [(4, 5, 70 + 60 + 20), (5, 5, 150), (6, 5, 170), (1000, 50, 530)]
)
def test_the_limit_grows_with_the_batches(hosts: int, forks: int, seconds: int) -> None:
    task_vars = {"ansible_play_hosts_all": [f"node{n}" for n in range(hosts)], "ansible_forks": forks}
    assert probe.watch_limit(70, task_vars) == seconds
