# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random series of changes leave the node as it would be if it had been made from nothing, on a fake kernel.

`make test` takes the SERIES, and `make soak` others for HOST_ROUTING_SOAK minutes (2 by default).
"""

from __future__ import annotations

import asyncio
import gc
import os
import pathlib
import tempfile
import time
import typing as t

import pytest

from tests.unit.agent.series.series_node import SeriesNode
from tests.unit.agent.series.steps import Step, reduced, series
from tests.unit.agent.virtual_time import run

SERIES = range(40)
LENGTH = 40
_PATIENCE = 1000.0  # seconds of virtual time
_MINUTES = float(os.environ.get("HOST_ROUTING_SOAK", "2"))


def perform(steps: t.Sequence[Step], seed: int) -> None:
    """Take the steps on a new node. One of ten nodes has iptables-legacy."""

    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as folder:
            node = SeriesNode(pathlib.Path(folder), seed, "legacy" if seed % 10 == 9 else "nft")
            with node.counting_failpoints():
                await node.start()
                for number, step in enumerate(steps):
                    try:
                        await asyncio.wait_for(node.step(step), _PATIENCE)
                    except Exception as error:
                        raise AssertionError(f"step {number}, {step}: {error}") from error

    run(scenario())


def check(seed: int) -> None:
    """Take the steps of a series. If it fails, raise AssertionError with a shorter one that fails as well."""
    steps = series(seed, LENGTH, moments=60)
    if not fails(steps, seed):
        return
    fewer = reduced(steps, lambda some: fails(some, seed))
    listed = "\n".join(map(repr, fewer))
    try:
        perform(fewer, seed)
    except Exception as error:
        raise AssertionError(f"seed {seed}, reduced to\n{listed}\n{error}") from error


def fails(steps: t.Sequence[Step], seed: int) -> bool:
    try:
        perform(steps, seed)
    except Exception:  # noqa: BLE001  any failure counts
        return True
    return False


@pytest.mark.parametrize("seed", SERIES)
def test_step_by_step_is_as_from_nothing(seed: int) -> None:
    check(seed)


@pytest.mark.soak
def test_step_by_step_is_as_from_nothing_for_minutes() -> None:
    end, seed = time.monotonic() + 60 * _MINUTES, len(SERIES)
    while time.monotonic() < end:
        check(seed)
        gc.unfreeze()  # Each agent has frozen what it compiled (PolicyCompilers).
        gc.collect()
        seed += 1
