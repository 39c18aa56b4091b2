# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Services of systemd, and containers of systemd-nspawn, LXC and containerd, by the commands of their pages."""

from __future__ import annotations

import functools
import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.handle import BaseLab
from tests.pauses import pause

from .conftest import LAB, ROOT, Fleet, dual_stack_inventory, new_lab, start_docker

#: Debian 12 and 13, one in each subnet.
NODES = ("node1", "node4")
POLICIES = [
    {
        "kind": "GlobalNetworkPolicy",
        "name": "web",
        "selector": "app == 'web'",
        "ingress": [{"action": "Allow", "source": {"selector": "app == 'client'"}}],
    }
]
#: What the lab's containerd needs: no overlay on an overlay, and the hosts' cgroups have no controllers.
CTR = "--snapshotter native --cpu-shares 0"
IMAGE = "docker.io/library/box:latest"


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-services", NODES, docker=True, ipv6=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = dual_stack_inventory(NODES, tmp_path_factory.mktemp("services"), calico_policies=POLICIES)
    fleet = Fleet(lab, str(folder))
    fleet.site().check()
    return fleet


@pytest.fixture(autouse=True)
def _clean(lab: BaseLab, fleet: Fleet) -> Iterator[None]:
    yield
    for node in NODES:
        # Where containerd does not run, ctr waits 10 seconds for it.
        kill = "systemctl is-active -q containerd && ctr task kill -s KILL web"
        lab.exec(node, f"systemctl stop web 'calico-netns@*.service'; {kill}; true")
        assert added(lab, node) == []
        until(
            functools.partial(
                lambda node: "found 0 problems" in lab.exec(node, "calicoctl ipam check", check=False).stdout, node
            )
        )


def until(holds: Callable[[], bool], seconds: float = 90) -> None:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() < began + seconds, f"not within {seconds:g} s"
        pause(began, least=0.2)


def added(lab: BaseLab, node: str) -> list[dict[str, Any]]:
    """Return the workloads of a node that are not the inventory's."""
    listed = json.loads(lab.exec(node, "calicoctl workload list -o json").stdout)["workloads"]
    return [one for one in listed if one["by"] != "inventory"]


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL)


def put(lab: BaseLab, node: str, path: str, text: str) -> None:
    lab.exec(node, f"mkdir -p {Path(path).parent} && cat > {path}", input=text)


def opens(lab: BaseLab, node: str, netns: str, address: str, port: int = 8000) -> bool:
    """Return whether something listens at a port of an address, for a program in a namespace of the node."""
    script = f"import socket; socket.create_connection(({address!r}, {port}), timeout=2)"
    return lab.exec(node, f"ip netns exec {netns} python3 -c {shlex.quote(script)}", check=False).returncode == 0


@pytest.mark.parametrize("node", NODES)
def test_the_commands_of_the_page(lab: BaseLab, fleet: Fleet, node: str) -> None:
    """A service, its labels and ports, nspawn and LXC, with clients that policy allows and denies."""
    (other,) = set(NODES) - {node}
    unit, options, nspawn = blocks("how-to/systemd.md", "ini")
    start, stop, restart, by_nspawn, by_lxc = (block.splitlines() for block in blocks("how-to/systemd.md", "sh"))
    put(lab, node, "/etc/systemd/system/web.service", unit)
    for command in start:
        lab.exec(node, command)
    (web,) = added(lab, node)
    assert web["name"] == "web" and web["labels"] == {} and len(web["addresses"]) == 2
    lab.exec(other, "ip netns add client && calicoctl workload add client --netns client --label app=client")
    lab.exec(other, "ip netns add stranger && calicoctl workload add stranger --netns stranger")
    try:
        for address in web["addresses"]:
            until(functools.partial(lambda address: opens(lab, other, "stranger", address), address))
        put(lab, node, "/etc/systemd/system/calico-netns@web.service.d/calico.conf", options)
        for command in restart:
            lab.exec(node, command)
        (web,) = added(lab, node)
        assert web["labels"] == {"app": "web", "tier": "front"} and web["ports"][0]["host_port"] == 8080
        fleet.play("sync_workloads.yml").check()
        for address in web["addresses"]:
            until(functools.partial(lambda address: opens(lab, other, "client", address), address))
            assert not opens(lab, other, "stranger", address)
    finally:
        lab.exec(other, "calicoctl workload delete client stranger; ip netns del client; ip netns del stranger")
    for command in stop:
        lab.exec(node, command)
    assert lab.exec(node, "systemctl is-active web", check=False).stdout.strip() == "inactive"
    lab.exec(node, "rm -r /etc/systemd/system/calico-netns@web.service.d && systemctl daemon-reload")

    lab.exec(node, "rm -rf /srv/tree && cp -a /srv/box /srv/tree && mkdir -p /srv/tree/usr /srv/tree/etc")
    lab.exec(node, "touch /srv/tree/etc/os-release")
    lab.exec(node, by_nspawn[0])
    (web,) = added(lab, node)
    assert "--network-namespace-path=/run/netns/%i" in nspawn
    shown = lab.exec(node, by_nspawn[1].replace(" ip address", " /bin/ip address")).stdout
    assert all(address in shown for address in web["addresses"])
    (shared,) = (line for line in blocks("how-to/systemd.md", "text") if "lxc" in line)
    put(lab, node, "/etc/lxc/job.conf", f"lxc.rootfs.path = dir:/srv/box\n{shared}")
    shown = lab.exec(node, by_lxc[1].replace("-- ip", "-- /bin/ip")).stdout
    assert all(address in shown for address in web["addresses"])
    lab.exec(node, by_lxc[2])


@pytest.mark.parametrize("node", NODES)
def test_a_service_outlives_the_agent_and_starts_with_its_host(lab: BaseLab, fleet: Fleet, node: str) -> None:
    lab.exec(node, "systemctl add-wants -q multi-user.target calico-netns@kept && systemctl start calico-netns@kept")
    (before,) = added(lab, node)
    lab.exec(node, "systemctl kill -s KILL calico-agent")
    until(lambda: lab.exec(node, "calicoctl version", check=False).returncode == 0)
    assert added(lab, node) == [before]
    lab.reboot(node)
    until(lambda: lab.exec(node, "systemctl is-active calico-netns@kept", check=False).returncode == 0, 60)
    (after,) = added(lab, node)
    assert (after["name"], after["addresses"]) == (before["name"], before["addresses"])
    assert after["addresses"][0] in lab.exec(node, "ip -n kept address").stdout
    lab.exec(
        node, "rm /etc/systemd/system/multi-user.target.wants/calico-netns@kept.service && systemctl daemon-reload"
    )


def test_a_namespace_that_stops_waits_for_the_agent(lab: BaseLab, fleet: Fleet) -> None:
    """A stop removes workload, address and namespace, although the agent is down and starts only seconds later."""
    node = NODES[0]
    lab.exec(node, "systemctl start calico-netns@brief")
    lab.exec(node, "systemctl stop calico-agent")
    lab.exec(node, "systemd-run -q sh -c 'sleep 3; systemctl start calico-agent'")
    lab.exec(node, "systemctl stop calico-netns@brief")
    assert added(lab, node) == []
    assert "brief" not in lab.exec(node, "ip netns list").stdout


REFUSED = [
    ("a:b", "", "name 'a:b' must be 1 to 200 letters, digits, '-', '_' and '.', a letter or digit at its ends."),
    ("..-x", "", "must be 1 to 200 letters, digits, '-', '_' and '.', a letter or digit at its ends."),
    ("odd", "--label app", "invalid label app. Write it as key=value."),
    ("odd", "--publish 99999:80", "--publish: The port of the host 99999 is not a port."),
]


def configured(lab: BaseLab, name: str, options: str) -> str:
    """Give a unit options for one start without repetition, and return its name for sh."""
    unit = shlex.quote(f"calico-netns@{name}.service")
    lab.exec(NODES[0], f"mkdir -p /run/systemd/system/{unit}.d")
    text = f'[Service]\nRestart=no\nEnvironment="CALICO_OPTIONS={options}"\n'
    lab.exec(NODES[0], f"cat > /run/systemd/system/{unit}.d/x.conf && systemctl daemon-reload", input=text)
    return unit


def test_a_refused_name_or_option_has_its_reason_in_the_log(lab: BaseLab, fleet: Fleet) -> None:
    """Bad names and options end in the unit's log."""
    for name, options, words in REFUSED:
        unit = configured(lab, name, options)
        assert lab.exec(NODES[0], f"systemctl start {unit}", check=False).returncode != 0
        assert words in lab.exec(NODES[0], f"journalctl -q -o cat -u {unit}").stdout
        lab.exec(NODES[0], f"systemctl reset-failed {unit}; rm -r /run/systemd/system/{unit}.d")
    lab.exec(NODES[0], "systemctl daemon-reload")


def test_a_namespace_of_somebody_else_stays(lab: BaseLab, fleet: Fleet) -> None:
    lab.exec(NODES[0], "ip netns add theirs && ip -n theirs link set lo up")
    unit = configured(lab, "theirs", "")
    lab.exec(NODES[0], f"systemctl start {unit}; systemctl stop {unit}", check=False)
    assert "lo " in lab.exec(NODES[0], "ip -n theirs -br link").stdout
    lab.exec(NODES[0], f"rm -r /run/systemd/system/{unit}.d; systemctl daemon-reload; ip netns del theirs")


@pytest.mark.parametrize("node", NODES)
def test_containers_of_ctr_get_and_release_an_address(lab: BaseLab, fleet: Fleet, node: str) -> None:
    """Containers of ctr have an address of their node, and give it back."""
    start_docker(lab, node)
    lab.exec(node, "docker save box | ctr images import --snapshotter native -")
    lab.exec(node, "systemctl stop docker.socket docker")
    run, label = (block.splitlines() for block in blocks("how-to/containerd.md", "sh"))
    for command in run[1:2]:
        line = command.replace("docker.io/library/nginx:latest web", f"{CTR} {IMAGE} web /bin/sleep 10000")
        lab.exec(node, line)
    (web,) = added(lab, node)
    assert web["id"] == "calico.default-web.eth0"
    ping = f"ctr run --cni --rm {CTR} {IMAGE} ping /bin/ping -c 1 -W 2 {web['addresses'][0]}"
    assert "1 packets received" in lab.exec(node, ping, check=False).stdout
    lab.exec(node, label[0])
    assert "0 packets received" in lab.exec(node, ping, check=False).stdout  # policy allows clients alone
    for command in run[2:]:
        lab.exec(node, command)
    assert added(lab, node) == []


def test_the_table_of_runtimes_has_the_versions_of_the_hosts(lab: BaseLab) -> None:
    """README's table names what runs here; a newer package of Debian makes it wrong."""
    table = [line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("| [")]
    packages = ("podman", "docker.io", "containerd", "systemd", "systemd-container", "lxc")
    rows = [[cell.strip() for cell in line.split("|")[2:4]] for line in table if re.search(r"\d+\.\d+|25\d", line)]
    query = f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(packages)}"
    for column, node in enumerate(NODES):
        versions = dict(line.split() for line in lab.exec(node, query).stdout.splitlines())
        for row, package in zip(rows, packages):
            upstream = re.match(r"(?:\d+:)?(\d+(?:\.\d+)*)", versions[package])
            assert upstream is not None
            assert upstream[1] == row[column] or upstream[1].startswith(f"{row[column]}."), (node, row, versions)
