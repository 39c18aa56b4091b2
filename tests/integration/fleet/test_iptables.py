# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that the real tools load the compiler's rules into a temporary namespace."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import transition
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase

from tests.unit.fleet.fleets import MODES, build, pool, states

BACKENDS = ["iptables-nft", "iptables-legacy"]


def loaded(state: NodeState, backend: str) -> list[str]:
    """Load the state's sets and tables into a new namespace; return its IPv4 and then its IPv6 rules ("-A ...").

    `backend` is one of BACKENDS. Raise AssertionError if a tool refuses them. Raise subprocess.TimeoutExpired after 30
    seconds.
    """
    sets = [
        f"create {ipset.name} {ipset.type}" + (" family inet6" if ipset.name.startswith("cali60") else "")
        for ipset in state.ipsets
    ]
    sets += [f"add {ipset.name} {member}" for ipset in state.ipsets for member in ipset.members]
    script = f"set -eu\nipset restore <<'END'\n{chr(10).join(sets)}\nEND\n"
    for family, program in ((4, backend), (6, backend.replace("ip", "ip6", 1))):
        rules = []
        for table in state.iptables:
            if table.family != family:
                continue
            rules.append(f"*{table.name}")
            rules += [f":{chain} - [0:0]" for chain in table.chains]
            rules += [f"-A {chain} {rule}" for chain, body in table.chains.items() for rule in body]
            rules += [f"-I {hook.chain} {hook.rule}" for hook in table.hooks]
            rules.append("COMMIT")
        script += f"{program}-restore --noflush <<'END'\n{chr(10).join(rules)}\nEND\n{program}-save\n"
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return re.findall(r"^-A .*", done.stdout, re.MULTILINE)


def expected_count(state: NodeState) -> int:
    return sum(len(table.hooks) + sum(map(len, table.chains.values())) for table in state.iptables)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    if not shutil.which(f"{request.param}-restore"):
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_loads(mode: str, backend: str) -> None:
    state = states(build(pool(mode, natOutgoing=True)))["node1"]
    assert state.iptables
    assert len(loaded(state, backend)) == expected_count(state)


def test_all_modes_at_once_load(backend: str) -> None:
    pools = [pool(mode, mode, f"10.{240 + n}.0.0/16", natOutgoing=True) for n, mode in enumerate(MODES)]
    state = states(build(*pools, vxlan_port=8472))["node1"]
    rules = loaded(state, backend)
    assert len(rules) == expected_count(state)
    assert any("--dport 8472" in rule and rule.endswith("-j DROP") for rule in rules)


def test_the_union_of_two_modes_loads(backend: str) -> None:
    first, second = (states(build(pool(mode, natOutgoing=True)))["node1"] for mode in ("ipip", "vxlan"))
    state = transition.phase_state(first, second, Phase.PREPARE)
    rules = loaded(state, backend)
    assert len(rules) == expected_count(state)
    assert sum(rule.startswith("-A cali-INPUT") and rule.endswith("-j ACCEPT") for rule in rules) == 2
