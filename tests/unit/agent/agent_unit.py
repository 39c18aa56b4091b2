# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit file calico-agent.service, for tests that run the agent's process without systemd."""

from __future__ import annotations

import shlex

from tests.conftest import ROOT

PATH = ROOT / "roles" / "calico_node" / "files" / "systemd" / "calico-agent.service"


def environment() -> dict[str, str]:
    """Return the environment variables that the unit sets (Environment= of systemd.exec(5)), as {name: value}."""
    lines = [line.partition("=") for line in PATH.read_text().splitlines()]
    words = [word for name, dummy, value in lines if name == "Environment" for word in shlex.split(value)]
    return {name: value for name, dummy, value in (word.partition("=") for word in words)}
