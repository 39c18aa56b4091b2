# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the reasons for which a path loses packets."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_loss import PathLoss


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (PathLoss(path_loss.NO_ROUTE), "no route"),
        (PathLoss(path_loss.UNREACHABLE, "10.10.1.1"), "unreachable, says 10.10.1.1"),
        (PathLoss(path_loss.TOO_LARGE, "10.10.1.1"), "too large for the path, says 10.10.1.1"),
        (PathLoss(path_loss.REFUSED, "10.10.1.1"), "refused, says 10.10.1.1"),
        (PathLoss(path_loss.LOOP, "10.10.1.1"), "time to live exceeded (a loop), says 10.10.1.1"),
        (PathLoss(path_loss.NO_ANSWER, direction=path_loss.THERE), "no answer (lost on the way there)"),
        (PathLoss(path_loss.NO_ANSWER, direction=path_loss.BACK), "no answer (lost on the way back)"),
    ],
)
def test_words_of_each_reason(loss: PathLoss, words: str) -> None:
    """Each reason has its words, with the address that gave it and the direction of the loss."""
    assert str(loss) == words


def test_every_reason_has_words() -> None:
    """No reason of the closed list is without words."""
    assert all(str(PathLoss(reason)) for reason in path_loss.REASONS)


@pytest.mark.parametrize(("heard", "direction"), [(None, ""), (0, path_loss.THERE), (3, path_loss.BACK)])
def test_direction_by_what_the_other_end_heard(heard: int | None, direction: str) -> None:
    """Probes that the other end heard were lost on the way back, probes that it did not hear on the way there."""
    assert path_loss.direction_of(heard) == direction
