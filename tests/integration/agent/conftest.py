# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running agent for each test."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return install_engine(tmp_path_factory.mktemp("engine"))


@pytest.fixture
def stopped_daemon(engine: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[Daemon]:
    """An agent that is not started, on a host with a desired state."""
    with daemon_under_test(engine, tmp_path) as daemon:
        yield daemon


@pytest.fixture
def daemon(stopped_daemon: Daemon) -> Daemon:
    stopped_daemon.start()
    return stopped_daemon
