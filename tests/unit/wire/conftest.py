# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a server on the agent's socket, as the tests of that server have it."""

from __future__ import annotations

from tests.unit.agent.conftest import live, serve

__all__ = ["live", "serve"]
