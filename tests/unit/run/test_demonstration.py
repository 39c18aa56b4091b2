# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/run/demonstration.py: what it offers at its end, with and without a datastore."""

from __future__ import annotations

import pytest

from tests.lab import Lab
from tests.lab.fleet import Workload
from tests.run.demonstration import what_to_type

ENVIRONMENT = {"HOST_ROUTING_LAB": "shown", "HOST_ROUTING_LAB_ENCAPSULATION": "IPIP"}
FAR = Workload("db-2", "node4", "10.244.70.65", "cali1")
OPERATOR = (
    "  ip netns exec shown-control bin/calicoctl "
    "-c /run/host-routing-lab/shown/live/.calico.etcd/operators/ada/calicoctl.cfg history"
)


@pytest.mark.parametrize("has_live", [True, False], ids=["native", "emulated"])
def test_what_to_type_has_the_operators_command_only_where_there_is_an_operator(has_live: bool) -> None:
    lines = what_to_type(Lab("shown", machine="native"), ENVIRONMENT, FAR, has_live).splitlines()
    exports = "PATH=$PWD/.venv/bin:$PATH LC_ALL=C.UTF-8 HOST_ROUTING_LAB=shown HOST_ROUTING_LAB_ENCAPSULATION=IPIP"
    assert lines[:2] == ["What to type next", f"  export {exports}"]
    assert (OPERATOR in lines) is has_live
    plan = next(line for line in lines if "--check" in line)
    assert plan.endswith("what takes the datastore and its policy away" if has_live else "nothing to change")
    assert lines[-1].split()[:2] == ["make", "lab-down"]
