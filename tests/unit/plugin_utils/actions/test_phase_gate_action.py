# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the gate after a phase says that all sessions and routes stand, so that they need not be waited for."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.action import phase_gate

STANDS = {"changed": True, "changes": [{"kind": "route", "action": "-"}], "settled": {"converged": True}}


@pytest.mark.parametrize(
    ("answer", "stands"),
    [
        (STANDS, True),
        ({**STANDS, "changes": [{"kind": "bird", "action": "~"}]}, False),
        ({**STANDS, "settled": {"converged": False}}, False),
        ({**STANDS, "settled": {"converged": True, "lost": 1}}, False),
        ({"changed": True, "changes": []}, False),
        ({**STANDS, "failed": True}, False),
        ({**STANDS, "unreachable": True}, False),
        (None, False),
    ],
)
def test_a_host_is_settled_if_it_looked_lost_no_probe_and_its_bird_is_unchanged(answer, stands):
    assert phase_gate._settled(answer) is stands
