# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packets that the check of workloads' sources allows; tests/integration/attacks has those that it drops."""

from __future__ import annotations

import dataclasses
import pathlib
import socket
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import workload
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning import attach
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, VethEndpoint

from tests.integration.attacks.devices_under_attack import HOST, PORT, Host, endpoint, ethernet, received, state, udp
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.unit.roles.test_calico_node_vars import files

_ETH0 = VethEndpoint("pod", "calipod0", "10.244.9.1", 1450, "default", netns="two", netns_owned=False)
#: One container on two networks.
POD = (
    _ETH0,
    dataclasses.replace(_ETH0, name="pod.net1", interface="calipod1", address="10.244.9.2", peer_interface="net1"),
)


@pytest.fixture
def host(tmp_path: pathlib.Path) -> t.Iterator[Host]:
    with host_under_test(tmp_path, HostKernel) as kernel:
        made = Host(kernel)
        yield made
        made.close()


@pytest.fixture
def wanted() -> NodeState:
    return state()


def test_a_listener_hears_who_is_who_he_says(host: Host, wanted: NodeState) -> None:
    """The workload's own packets arrive, at the host and beyond it, so the packets of the tests below are valid."""
    host.make("plan", wanted)
    web, app = endpoint(wanted, "web"), endpoint(wanted, "app")
    here, there = host.listens(), host.listens("app")
    for destination, listener in ((HOST, here), (app.address, there)):
        host.sends("web", "eth0", ethernet(udp(web.address, destination)))
        host.sends("web", "eth0", ethernet(udp(web.address, destination, b"last")))
        assert received(listener) == {web.address}
    # DHCP's first message has the source 0.0.0.0, because the workload has no address yet.
    asked = host.listens(port=67)
    host.sends("web", "eth0", ethernet(udp("0.0.0.0", "255.255.255.255", b"discover", 67)))
    assert asked.recvfrom(100) == (b"discover", ("0.0.0.0", 4000))
    # The host reaches its own workloads, and their answers reach it.
    here.sendto(b"hello", (app.address, PORT))
    data, source = there.recvfrom(100)
    there.sendto(b"answer", source)
    assert (data, here.recvfrom(100)[0]) == (b"hello", b"answer")
    assert source[0] == HOST


def test_a_guest_that_routes_may_send_as_somebody_else(host: Host) -> None:
    """On a node without a firewall, calico_workload_source_spoofing allows foreign sources, but not the host's own."""
    wanted = state(spoofing=True)
    host.make("attach", wanted)
    here = host.listens()
    web = endpoint(wanted, "web")
    host.sends("web", "eth0", *(ethernet(udp(source, HOST)) for source in ("8.8.8.8", HOST, "10.10.1.1")))
    host.sends("web", "eth0", ethernet(udp(web.address, HOST, b"last")))
    assert received(here) == {"8.8.8.8", "10.10.1.1"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["eth0 first", "net1 first"])
def test_a_container_on_two_networks_is_reached_by_both_addresses(
    host: Host, wanted: NodeState, order: tuple[int, int]
) -> None:
    """A container on two networks is reached by both addresses, whichever of them is attached first (`order`).

    Its answers leave by the interface whose address they come from, since the host drops others.
    """
    host.make("attach", wanted)
    host.kernel.netns_add("two", "")
    for index in order:
        attach.attach(host.kernel, POD[index])
    server = host.inside("two")._there(lambda: socket.create_server(("0.0.0.0", PORT)))
    with server:
        for kernel in (host.kernel, host.inside("app")):
            for one in POD:
                with kernel._there(lambda: socket.create_connection((one.address, PORT), 2)):  # noqa: B023
                    server.accept()[0].close()
    assert workload.unlike(host.kernel, POD) == []
    # Packets without a given source leave the container by eth0.
    sender = host.inside("two")._there(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    with sender:
        sender.connect((HOST, PORT))
        assert sender.getsockname()[0] == POD[0].address


def test_udev_settings_for_all_interfaces_do_not_apply_to_ours(
    host: Host, wanted: NodeState, tmp_path: pathlib.Path
) -> None:
    """Settings that udev makes for all interfaces, as linux-sysctl-defaults does, do not apply to ours."""
    host.make("attach", wanted)
    folder = tmp_path / "sysctl.d"
    folder.mkdir()
    all_ = "net.ipv4.conf.*.rp_filter = 2\n-net.ipv4.conf.all.rp_filter\nnet.ipv6.conf.*.accept_ra = 2\n"
    (folder / "50-default.conf").write_text(all_)
    (folder / "99-sysctl.conf").write_text("net.ipv4.conf.*.rp_filter = 0\n")
    (folder / "zz-calico.conf").write_text(files()["/etc/sysctl.d/zz-calico.conf"]["content"])
    web = endpoint(wanted, "web").interface
    for device in (web, "vxlan.calico", "eth0"):
        prefixes = [f"--prefix=/net/{folder}/{device}" for folder in ("ipv4/conf", "ipv6/conf")]
        done = subprocess.run(
            [
                "nsenter",
                f"--net={tmp_path}/netns/host-under-test",
                "/usr/lib/systemd/systemd-sysctl",
                *prefixes,
                *map(str, sorted(folder.iterdir())),
            ],
            capture_output=True,
            check=False,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
    read = host.kernel.sysctl_read
    assert [read(f"net/ipv4/conf/{device}/rp_filter") for device in (web, "eth0")] == ["1", "0"]
    assert [read(f"net/ipv6/conf/{device}/accept_ra") for device in (web, "vxlan.calico", "eth0")] == ["0", "0", "2"]
