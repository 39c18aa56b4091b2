# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a server on the agent's socket."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.unit.agent.api.live_server import LiveServer


@pytest.fixture
def serve(tmp_path: pathlib.Path) -> t.Iterator[t.Callable[..., LiveServer]]:
    """A function that starts a LiveServer with the arguments given and returns it; all are closed after the test."""
    made: list[LiveServer] = []

    def make(**more: t.Any) -> LiveServer:
        made.append(LiveServer(tmp_path, **more))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def live(serve: t.Callable[..., LiveServer]) -> LiveServer:
    return serve()
