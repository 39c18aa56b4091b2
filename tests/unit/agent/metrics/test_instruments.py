# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's measurements, and of metrics made from what other programs report."""

from __future__ import annotations

import asyncio
import os
import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import (
    bgp_metrics,
    metrics,
    process_metrics,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.instruments import (
    FREE_RATIO_WARNING,
    Instruments,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import Usage

from tests.unit.bird.conftest import FakeBird, bird  # noqa: F401  a fixture

BGP = """\
1002-bgp_node2  BGP        ---        up     2026-11-21    Established
1006-  Description:    node2
       BGP state:          Established
       Import updates:              3          0          %d          0          1
1002-bgp_node3  BGP        ---        start  2026-11-21    Active
1006-  BGP state:          Active
1002-tor        BGP        ---        up     2026-11-21    Established
1006-  BGP state:          Established
       Import updates:              9          0          7          0          2
1002-kernel1    Kernel     master4    up     2026-11-21
0000 .
"""


@pytest.fixture
def instruments() -> Instruments:
    return Instruments(Registry())


def test_metric_names_and_help_texts_keep_to_the_conventions(instruments: Instruments) -> None:
    """Names of metrics begin with calico_ or process_ and have no suffix of a series; histograms end with a unit.

    A help text ends with a dot and has fewer than 130 characters. Felix's names are given for known metrics only.
    """
    for metric in instruments.registry.metrics():
        assert metric.name.startswith(("calico_", "process_"))
        assert metric.help.endswith(".") and len(metric.help) < 130
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))
        if metric.kind == "histogram":
            assert metric.name.endswith(("_seconds", "_bytes"))
    assert instruments.felix.keys() <= {metric.name for metric in instruments.registry.metrics()}


def test_free_ratio_and_blocks_are_counted_for_each_pool(instruments: Instruments) -> None:
    instruments.use_of_addresses(
        [
            Usage("10.244.0.0/26", "default", 64, in_use=50, reserved=4, free=6, spare=False, cooling=4),
            Usage("10.244.0.64/26", "default", 64, in_use=0, reserved=4, free=60, spare=True, cooling=0),
            Usage("10.9.0.0/28", "small", 16, in_use=0, reserved=16, free=0, spare=False, cooling=0),
        ]
    )
    assert instruments.pool_free_ratio.value("default") == pytest.approx(70 / 120)
    assert instruments.pool_free_ratio.value("small") == 0
    assert instruments.block_addresses.value("default", "10.244.0.0/26", "cooling") == 4
    assert instruments.blocks.value("default", "open") == instruments.blocks.value("default", "spare") == 1
    assert instruments.blocks.value("small", "spare") == 0
    instruments.use_of_addresses([Usage("10.9.0.0/28", "small", 16, in_use=13, reserved=0, free=3, spare=False)])
    assert instruments.pool_free_ratio.value("default") is None
    ratio = instruments.pool_free_ratio.value("small")
    assert ratio is not None and ratio < FREE_RATIO_WARNING


def test_requests_of_the_api_and_of_cni_are_counted_by_result(instruments: Instruments) -> None:
    instruments.answered("workload.add", "ok", 0.003)
    instruments.answered("workload.add", "no_address", 0.003)
    instruments.answered_cni("ADD", "ok", 0.004)
    instruments.answered_cni("ADD", "11", 0.004)
    instruments.answered_cni("MALFORMED", "4", 0.004)
    assert instruments.api_seconds.count("workload.add", "no_address") == 1
    assert [instruments.cni_seconds.count(*labels) for labels in [("ADD", "ok"), ("ADD", "11"), ("other", "4")]] == [
        1
    ] * 3


def test_lost_events_are_counted_with_their_resync(instruments: Instruments) -> None:
    instruments.lost_events()
    assert instruments.events_lost.value() == instruments.resyncs.value("lost") == 1


def test_the_time_of_the_last_convergence_is_kept_while_out_of_sync(instruments: Instruments) -> None:
    instruments.converged(True, 1000.0)
    instruments.converged(False, 2000.0)
    assert (instruments.in_sync.value(), instruments.last_converged.value()) == (0, 1000)


def test_process_metrics_match_the_kernels_figures(instruments: Instruments) -> None:
    process_metrics.watch_process(instruments)
    before, tick = time.process_time(), 1 / os.sysconf("SC_CLK_TCK")
    metrics.text(instruments.registry)
    assert instruments.open_fds.value() == pytest.approx(len(os.listdir("/proc/self/fd")), abs=2)
    assert 1e6 < instruments.resident.value() <= instruments.resident_max.value()
    # The kernel counts user and system time separately, in whole ticks: their sum may be wrong by up to two ticks.
    assert instruments.cpu.value() > 0
    assert before - 2 * tick <= instruments.cpu.value() <= time.process_time() + 2 * tick
    assert instruments.start_time.value() == pytest.approx(time.time(), abs=3600)


def test_a_process_of_any_name(tmp_path: pathlib.Path, instruments: Instruments) -> None:
    (tmp_path / "self" / "fd").mkdir(parents=True)
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1000\n")
    fields = ["S", *("0" for dummy in range(10)), "250", "50", *("0" for dummy in range(6)), "1200", "0"]
    (tmp_path / "self" / "stat").write_text(f"7 (a) b (c) {' '.join(fields)}\n")
    (tmp_path / "self" / "status").write_text("VmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
    process_metrics.watch_process(instruments, str(tmp_path))
    metrics.text(instruments.registry)
    ticks = os.sysconf("SC_CLK_TCK")
    assert instruments.cpu.value() == 300 / ticks
    assert instruments.start_time.value() == 1000 + 1200 / ticks
    assert (instruments.resident.value(), instruments.resident_max.value()) == (1 << 20, 2 << 20)
    metrics.text(instruments.registry)
    assert instruments.cpu.value() == 300 / ticks


def test_a_loop_that_is_late(instruments: Instruments) -> None:
    async def run() -> None:
        task = asyncio.ensure_future(process_metrics.watch_loop(instruments, 0.002))
        await asyncio.sleep(0.001)
        time.sleep(0.02)  # a callback that keeps the loop busy for 20 ms
        await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(run())
    sums = [sample.value for sample in instruments.loop_lag.samples() if sample.suffix == "_sum"]
    assert sums[0] >= 0.015


def test_bgp_sessions_and_refused_announcements_are_counted(bird: FakeBird, instruments: Instruments) -> None:  # noqa: F811
    bird.answers["show status"] = [[b"1011-Router ID is 10.0.0.1\n0013 Daemon is up and running\n"]]
    bird.answers["show protocols all"] = [[(BGP % refused).encode()] for refused in (2, 2, 3, 1)]
    figures = instruments.bird_up, instruments.bgp_sessions, instruments.bgp_established, instruments.bgp_refused
    counted = bgp_metrics.RefusedAnnouncements()
    for total in (2, 2, 3, 4):  # BIRD's count falls to 1 at the end: the session was restarted
        asyncio.run(bgp_metrics.look(instruments, bird.path, refused=counted))
        assert [figure.value() for figure in figures] == [1, 3, 2, total]
    asyncio.run(bgp_metrics.look(instruments, f"{bird.path}.gone", refused=counted))
    assert [figure.value() for figure in figures] == [0, None, None, 4]


def test_a_node_that_is_to_have_no_bird(instruments: Instruments) -> None:
    async def run() -> None:
        task = asyncio.ensure_future(bgp_metrics.watch(instruments, "/nowhere", wanted=lambda: False))
        await asyncio.sleep(0)
        task.cancel()

    instruments.bird_up.set(value=1)
    asyncio.run(run())
    assert instruments.bird_up.value() is None
