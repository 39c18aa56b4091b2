# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of three members for each module and release: RELEASE of the module, and the other one in `make soak`.

Nodes reach the members themselves, as those of a foreign cluster. With HOST_ROUTING_GATES=1 the same tests run with a
gate before each member.
"""

from __future__ import annotations

import asyncio
import os
import typing as t

import pytest

from tests.etcd_cluster import RELEASES, EtcdCluster, programs
from tests.long_form import LONG

#: The most bytes of the database, which is filled in a second, unless a module has a QUOTA of its own.
QUOTA = 32 << 20
#: Whether nodes reach the members by gates.
GATES = os.environ.get("HOST_ROUTING_GATES") == "1"
#: Seconds between messages of progress: a member that is silent for five times as long is left.
PROGRESS = 2.0 if LONG else 1.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "cluster" in metafunc.fixturenames:
        here = metafunc.module.RELEASE
        others = [pytest.param(release, marks=pytest.mark.soak) for release in RELEASES if release != here]
        metafunc.parametrize("cluster", [here, *others], indirect=True, scope="module")


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[EtcdCluster]:
    """A cluster whose network this thread is in."""
    folder, quota = tmp_path_factory.mktemp("etcd"), getattr(request.module, "QUOTA", QUOTA)
    gates, more = getattr(request.module, "GATES", GATES), getattr(request.module, "OPTIONS", None)
    options: dict[str, t.Any] = {"quota": quota, "progress": PROGRESS, "gates": gates, "options": more}
    options["environment"] = getattr(request.module, "ENVIRONMENT", None)
    with EtcdCluster(programs(request.param), folder, **options) as cluster, cluster.inside():
        cluster.begin()
        yield cluster


@pytest.fixture(autouse=True)
def mended(cluster: EtcdCluster) -> t.Iterator[None]:
    """A cluster that the test before has left as it found it, also if it failed."""
    yield
    cluster.mend()
    asyncio.run(cluster.answering())
