# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""netavark's plugin on the real agent and kernel, through the shim as netavark executes it."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.integration.agent.cni.real_runtime import STATE
from tests.integration.agent.cni.shim import NETAVARK, Shim
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.unit.runtimes.netavark.podman import CONTAINER, CREATED, attachment


@pytest.fixture
def daemon(engine: pathlib.Path, tmp_path: pathlib.Path) -> t.Iterator[Daemon]:
    with daemon_under_test(engine, tmp_path, STATE) as daemon:
        daemon.start()
        yield daemon


@pytest.fixture
def shim(daemon: Daemon) -> Shim:
    return Shim(daemon.folder / "lib" / "cni", daemon.socket, source=NETAVARK)


def call(shim: Shim, command: str, netns: str = "", sent: t.Any = None) -> t.Any:
    """Return the parsed answer, None without one; AssertionError if the plugin fails."""
    answer = shim.execute({}, json.dumps(attachment() if sent is None else sent).encode(), arguments=[command, netns])
    assert answer.status == 0, answer.output
    return json.loads(answer.output) if answer.output else None


def test_setup_and_teardown(daemon: Daemon, shim: Shim) -> None:
    netns = daemon.netns("c1")
    asked = attachment(options={"options": {"app": "web"}, "static_ips": ["10.244.1.9"]})
    [(name, interface)] = call(shim, "setup", netns, asked)["interfaces"].items()
    assert (name, interface["subnets"]) == ("eth0", [{"ipnet": "10.244.1.9/32", "gateway": "169.254.1.1"}])
    [workload] = daemon.call("workload.list")["workloads"]
    assert (workload["labels"], workload["name"]) == ({"app": "web"}, "web.e2cf780eccff.eth0")
    assert daemon.links == {workload["interface"]}
    assert call(shim, "setup", netns, asked)["interfaces"] == {name: interface}  # again, as after a lost answer
    assert call(shim, "teardown", netns) is None
    daemon.settled()
    assert (daemon.links, daemon.allocated()) == (set(), {})
    assert call(shim, "teardown", netns) is None


def test_a_container_that_was_killed_starts_in_a_new_namespace(daemon: Daemon, shim: Shim) -> None:
    call(shim, "setup", daemon.netns("c1"))
    call(shim, "setup", daemon.netns("c2"))
    daemon.settled()
    [workload] = daemon.call("workload.list")["workloads"]
    assert workload["netns"] == daemon.netns("c2") and daemon.links == {workload["interface"]}
    assert len(daemon.allocated()) == 1


def test_a_teardown_while_the_agent_is_down_is_completed(daemon: Daemon, shim: Shim) -> None:
    netns = daemon.netns("c1")
    call(shim, "setup", netns)
    daemon.kill()
    assert call(shim, "teardown", netns) is None
    refused = shim.execute({}, json.dumps(attachment()).encode(), arguments=["setup", netns])
    assert refused.status == 1 and b"calico-agent does not answer" in refused.output
    daemon.start()
    daemon.settled()
    assert (daemon.links, daemon.allocated()) == (set(), {})
    assert list(shim.deleted.iterdir()) == []


def test_create_and_info(daemon: Daemon, shim: Shim) -> None:
    assert call(shim, "create", sent=CREATED)["ipam_options"] == {"driver": "none"}
    assert call(shim, "info")["api_version"] == "1.0.0"
    assert CONTAINER not in daemon.log.read_text()
