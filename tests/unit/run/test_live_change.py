# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/run/live_change.py: what the demo says of a live change, from what streams counted."""

from __future__ import annotations

import dataclasses

import pytest

from tests.lab.measure.streams import Report, Stream, StreamResult, Transfer, TransferResult
from tests.run.live_change import Times, is_refused_between, lines_of, lost_beside

#: The change was written at second 100 and the command returned at 101; so with its undoing at 110 and 111.
TIMES = Times(100.0, 101.0, 110.0, 111.0)


def stream(name: str, sent: int, lost: int, gap: float, *ranges: list[float]) -> StreamResult:
    result = StreamResult(Stream("node4", name, "node3", "vault", "10.244.0.1"), sent, sent - lost)
    return dataclasses.replace(result, longest_gap_ms=gap, missing_ranges=list(ranges))


def report(*results: StreamResult, drops: int = 0, failures: tuple[str, ...] = ()) -> Report:
    transfer = TransferResult(
        Transfer("node4", "desk", "node3", "vault", "10.244.0.1"), list(failures), 0, 9, 9, 0, 1.0
    )
    return Report(list(results), [transfer], drops, 12.0, 1.0, 0.1)


#: The last packet passed at 100.05, the next one at 110.08.
TILL = stream("till", 6000, 5015, 10_030.0, [50, 5015, 110.08])
DESK = stream("desk", 6000, 0, 4.0)


def test_a_stream_that_stops_with_the_change_and_goes_on_with_its_undoing() -> None:
    assert is_refused_between(TILL, TIMES) and lost_beside(report(TILL, DESK), TILL) == 0
    assert lines_of(report(TILL, DESK), TILL, TIMES) == [
        "  till      stopped 50 ms after the write, passed again 80 ms after that of the rollback",
        "  between   5015 packets of till were sent, and none passed",
        "  others    6000 packets of desk and between all nodes: 0 lost; 1 connections: 0 reset",
    ]


@pytest.mark.parametrize(
    "result",
    [
        stream("till", 6000, 0, 4.0),  # nothing was refused
        stream("till", 6000, 5000, 5000.0, [50, 2500, 105.0], [2560, 2500, 110.08]),  # some packets passed between
        stream("till", 6000, 5015, 7_000.0, [50, 5015, 110.08]),  # it went on for seconds after the command returned
        stream("till", 6000, 5015, 12_030.0, [50, 5015, 110.08]),  # something else stopped it, before the change
        stream("till", 6000, 5015, 14_030.0, [50, 5015, 114.08]),  # it was refused long after the change was undone
    ],
    ids=["nothing", "twice", "late", "early", "stuck"],
)
def test_a_stream_that_does_otherwise_is_not_as_promised(result: StreamResult) -> None:
    assert not is_refused_between(result, TIMES)


def test_packets_that_passed_between_are_said() -> None:
    twice = stream("till", 6000, 5000, 5000.0, [50, 2500, 105.0], [2560, 2500, 110.08])
    assert lines_of(report(twice), twice, TIMES)[0] == (
        "  till      5000 of 6000 packets did not pass, at 2 places: not as promised"
    )


def test_losses_of_other_streams_count_but_not_those_of_full_buffers() -> None:
    other = stream("desk", 6000, 7, 4.0, [80, 7, 105.0])
    assert lost_beside(report(TILL, other), TILL) == 7
    assert lost_beside(report(TILL, other, drops=5), TILL) == 2
    said = lines_of(report(TILL, other, failures=("client: ECONNRESET",)), TILL, TIMES)[-1]
    assert said == "  others    6000 packets of desk and between all nodes: 7 lost; 1 connections: 1 reset"
