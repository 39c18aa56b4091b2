# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of all scenarios: the converged hosts, each read once over SSH by testinfra, and pings between them.

A command over SSH costs more than all assertions together, so one script gathers what most tests need of a host
(tests/lab/measure/observed_here.py).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

import pytest
import testinfra

from tests.lab import Lab
from tests.lab.handle import BaseLab
from tests.lab.measure.checks import Fleet, outgoing, pings
from tests.lab.measure.observed import Observed, Pong, Runner, observe, send

# The scenarios import tests or parameters from this module, whose asserts pytest does not rewrite by itself.
pytest.register_assert_rewrite("tests.lab.suite_converged")

REFLECTORS = ("node5", "node6")


@pytest.fixture(scope="session")
def lab() -> BaseLab:
    """The lab that molecule's create step started, by HOST_ROUTING_LAB and HOST_ROUTING_LAB_MACHINE.

    Tests need it for what is not observed, such as the router, which is not a host of the inventory.
    """
    return Lab(os.environ["HOST_ROUTING_LAB"], machine=os.environ["HOST_ROUTING_LAB_MACHINE"])


@pytest.fixture(scope="session")
def run(lab: BaseLab) -> Runner:
    config = str(lab.ssh_config)
    hosts = {node.name: testinfra.get_host(f"ssh://{node.name}", ssh_config=config, timeout=60) for node in lab.nodes}

    def run(node: str, words: Sequence[str]) -> str:
        done = hosts[node].run(shlex.join(words))
        assert done.rc == 0, f"{node}: {words[:2]} ended with {done.rc}: {done.stderr[-2000:]}"
        return done.stdout

    return run


@pytest.fixture(scope="session")
def observed(lab: BaseLab, run: Runner) -> dict[str, Observed]:
    return observe(run, [node.name for node in lab.nodes])


@pytest.fixture(scope="module")
def fleet(request: pytest.FixtureRequest, observed: dict[str, Observed]) -> Fleet:
    """The observed hosts and what the module expects of them: its POOLS and, if defined, EXTERNAL and BY_SWITCHES.

    The module's OTHER_HOSTS, if defined, are neither nodes nor reflectors.
    """
    others = getattr(request.module, "OTHER_HOSTS", ())
    return Fleet(
        pools=request.module.POOLS,
        nodes={name: node for name, node in observed.items() if name not in REFLECTORS},
        reflectors={name: node for name, node in observed.items() if name in REFLECTORS and name not in others},
        external=getattr(request.module, "EXTERNAL", {}),
        by_switches=getattr(request.module, "BY_SWITCHES", False),
    )


@pytest.fixture(scope="module")
def workloads(request: pytest.FixtureRequest) -> Mapping[str, tuple[str, str]]:
    """The module's WORKLOADS: the node and the pool of each, by name."""
    return request.module.WORKLOADS


@pytest.fixture(scope="module")
def pongs(fleet: Fleet, run: Runner) -> list[Pong]:
    return send(run, pings(fleet))


@pytest.fixture(scope="module")
def outside_pongs(fleet: Fleet, run: Runner) -> list[Pong]:
    return send(run, outgoing(fleet))
