# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A running agent for each module of attacks."""

from __future__ import annotations

import typing as t

import pytest

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test, install_engine


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Daemon]:
    """An agent in sync, on a host with the workload `web`."""
    engine = install_engine(tmp_path_factory.mktemp("engine"))
    with daemon_under_test(engine, tmp_path_factory.mktemp("attacked")) as daemon:
        daemon.start()
        daemon.add("web")
        daemon.in_sync()
        yield daemon
