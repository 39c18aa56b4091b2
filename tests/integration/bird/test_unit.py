# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calico-bird.service: its commands, run here without systemd, and the cost of a restart."""

from __future__ import annotations

import os
import pathlib
import shlex
import subprocess
import time

import pytest

from .daemons import Daemon, Fleet, mesh, pool
from .debian_bird import ROOT, Build
from .network import Network, wait_for

pytestmark = pytest.mark.root

FILES = ROOT / "roles" / "calico_node" / "files"
UNITS = FILES / "systemd"


def setting(name: str) -> str:
    """Return the value of one setting of calico-bird.service, without a leading "-", and with "$" for "$$".

    Raise ValueError unless exactly one line sets it.
    """
    lines = (UNITS / "calico-bird.service").read_text("utf-8").splitlines()
    (found,) = [line for line in lines if line.startswith(f"{name}=")]
    return found.partition("=")[2].lstrip("-").replace("$$", "$")


def start_as_the_unit(daemon: Daemon) -> None:
    command = shlex.split(setting("ExecStart"))
    script = command[2].replace("/usr/sbin/bird", daemon.build.bird).replace(" -u bird -g bird", "")
    script = script.replace("/etc/calico/bird.cfg", str(daemon.config)).replace("/run/calico/bird.ctl", daemon.socket)
    assert daemon.build.bird in script and daemon.socket in script
    daemon.start(command=[*command[:2], script, *command[3:]])


def stop_as_the_unit(daemon: Daemon, folder: pathlib.Path, state: str) -> str:
    """Run ExecStop with a systemctl that reports `state` and is written to `folder`, and return its output.

    systemd would send SIGTERM afterwards; this function does not. Raise subprocess.CalledProcessError if the command
    fails, and subprocess.TimeoutExpired after 60 seconds.
    """
    (folder / "systemctl").write_text(f"#!/bin/sh\necho {state}\nexit 1\n")
    (folder / "systemctl").chmod(0o755)
    command = shlex.split(setting("ExecStop"))
    script = command[2].replace("/usr/sbin/birdc", daemon.build.birdc).replace("/run/calico/bird.ctl", daemon.socket)
    assert daemon.build.birdc in script and daemon.socket in script
    environment = {**os.environ, "MAINPID": "1", "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command[:2], script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


@pytest.fixture
def running(fleet: Fleet, network: Network) -> Fleet:
    fleet.start(mesh(network.nodes, pool("vxlan.calico")))
    for node in network.nodes:
        wait_for("three routes", lambda n=node: len(n.space.routes("proto", "bird")) == 3)
    return fleet


def quiet(fleet: Fleet) -> bool:
    """Return whether no daemon still keeps routes of a restarted peer.

    A second restart before that loses the routes (with BIRD 2.0.12 in the first 4 seconds).
    """
    return not any("graceful restart active" in d.birdc("show", "protocols", "all") for d in fleet.daemons.values())


def test_a_crash_loses_nothing(running: Fleet, network: Network, streams) -> None:
    daemon = running["node1"]
    with streams() as flows:
        daemon.kill()
        time.sleep(1)  # systemd waits for RestartSec of the unit, 1 s, before it starts a killed BIRD again
        start_as_the_unit(daemon)
        assert "-R" in daemon.arguments
        running.wait_established()
        wait_for("all peers quiet", lambda: quiet(running))
        # A later change of mode reaches the kernel, because BIRD owns the recovered routes.
        running.configure(mesh(network.nodes, pool()))
        one = network.nodes[0]
        wait_for("direct", lambda: "dev eth0" in one.space.run("ip", "route", "show", network.nodes[3].block))
    assert (flows.lost, flows.dropped) == ({}, 0)
    assert flows.sent > 1000
    print(f"BIRD {running.build.version}: killed and restarted, {flows.sent} packets, 0 lost")


def test_a_restart_of_the_unit_loses_nothing(running: Fleet, tmp_path: pathlib.Path, streams) -> None:
    daemon = running["node1"]
    with streams() as flows:
        assert "Graceful restart requested" in stop_as_the_unit(daemon, tmp_path, "running")
        daemon.wait()
        time.sleep(1)
        start_as_the_unit(daemon)
        assert "-R" in daemon.arguments
        running.wait_established()
        wait_for("all peers quiet", lambda: quiet(running))
    assert (flows.lost, flows.dropped) == ({}, 0)
    print(f"BIRD {running.build.version}: stopped and started, {flows.sent} packets, 0 lost")


@pytest.mark.parametrize("build", ["bookworm"], indirect=True)
def test_without_recovery_it_would(running: Fleet, streams) -> None:
    """Without recovery (-R) a restart loses packets, which the streams notice."""
    daemon = running["node1"]
    with streams() as flows:
        daemon.kill()
        daemon.start(recover=False)
        running.wait_established()
        time.sleep(1)
    assert flows.lost


def test_a_shutdown_of_the_machine_drains(running: Fleet, network: Network, tmp_path: pathlib.Path) -> None:
    assert stop_as_the_unit(running["node1"], tmp_path, "stopping") == ""
    running["node1"].stop()  # by SIGTERM, as systemd does after ExecStop
    for node in network.nodes[1:]:
        wait_for("node1's block is gone", lambda n=node: len(n.space.routes("proto", "bird")) == 2)
    # node1's own routes to the other blocks stay in its kernel, so that packets under way still leave.
    assert len(network.nodes[0].space.routes("proto", "bird")) == 3


def test_the_first_start_does_not_wait_for_a_peer_that_is_down(fleet: Fleet, network: Network) -> None:
    birds = mesh(network.nodes[:3], pool("vxlan.calico"))
    for name in ("node1", "node2"):
        fleet[name].write(birds[name])
        start_as_the_unit(fleet[name])
        assert "-R" not in fleet[name].arguments
        assert "recovery" not in fleet[name].birdc("show", "status")
    wait_for("node2's block", lambda: len(network.nodes[0].space.routes("proto", "bird")) == 1)


def test_the_files_are_what_systemd_understands(build: Build, tmp_path: pathlib.Path) -> None:
    for unit in sorted(UNITS.iterdir()):
        text = unit.read_text("utf-8").replace("/usr/sbin/birdc", build.birdc).replace("/usr/sbin/bird", build.bird)
        (tmp_path / unit.name).write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.glob("*.service")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_kernel_and_the_protocol_name_agree(network: Network) -> None:
    """The kernel and the protocol name agree: `ip` reads our rt_protos file and prints route 179 as `proto calico`."""
    text = (FILES / "iproute2" / "calico.conf").read_text("utf-8")
    entries = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    assert entries == [["179", "calico"]]
    script = (
        f"mount -t tmpfs none /etc/iproute2 && mkdir /etc/iproute2/rt_protos.d && cp {FILES}/iproute2/calico.conf "
        "/etc/iproute2/rt_protos.d/ && ip route show proto calico"
    )
    one = network.nodes[0]
    shown = one.space.run("unshare", "--mount", "--propagation", "private", "sh", "-ec", script)
    assert f"blackhole {one.block}" in shown
