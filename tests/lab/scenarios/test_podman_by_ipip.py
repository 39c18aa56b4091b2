# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container of podman in the emulated machine, whose kernel has IPIP: packets to another host, allowed and denied."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.lab import containers
from tests.lab.containers import Container
from tests.lab.fleet import Workload, ping, workloads
from tests.lab.handle import BaseLab
from tests.lab.machines import images

from .conftest import MACHINE, Fleet

pytestmark = pytest.mark.skipif(MACHINE == "native", reason="this machine's kernel has no ipip; lab-ipip runs this")

#: Debian 12, whose podman attaches by CNI.
NODE = "node1"
#: What of podman's layer a host needs to run a container; all else of it triples what has to be sent.
NEEDED = ("etc/containers", "etc/cni", "srv/box", "usr/bin", "usr/libexec", "usr/lib/x86_64-linux-gnu")


@pytest.fixture(scope="module")
def box(lab: BaseLab, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container on NODE, which gets podman as Debian's packages have it. The machine's disk stays without."""
    images.build(["bookworm"], podman=True)
    layer = images.layer_path("podman", "bookworm")
    archive = tmp_path_factory.mktemp("podman") / "podman.tar.gz"
    names = [name for name in NEEDED if (layer / name).exists()]
    subprocess.run(["tar", "-C", str(layer), "-czf", str(archive), *names], check=True)
    lab.put(NODE, archive, "/root/podman.tar.gz")
    # Without --keep-directory-symlink a folder of the layer would replace what is a link on the host.
    lab.exec(NODE, "tar -C / --keep-directory-symlink -xzf /root/podman.tar.gz && rm /root/podman.tar.gz && ldconfig")
    box = containers.run(lab, NODE, "box")
    yield box
    containers.remove(lab, box)


@pytest.fixture(scope="module")
def far(lab: BaseLab) -> Workload:
    """A workload in the other subnet, so that packets to it are in IPIP in its CrossSubnet mode as well."""
    racks = {node.name: node.rack for node in lab.nodes}
    return next(workload for workload in workloads(lab) if racks[workload.node] != racks[NODE])


def test_a_container_reaches_another_host_and_is_reached_by_ipip(lab: BaseLab, box: Container, far: Workload) -> None:
    with lab.capturing(NODE, "ip proto 4") as seen:
        assert containers.ping(lab, box, far.address)
        assert ping(lab, far.node, box.address, netns=far.name)
    directions = [f"{one} > {other}: ICMP echo request" for one, other in _both(box.address, far.address)]
    assert [text for text in directions if not any(text in line for line in seen.lines)] == [], seen.lines


def test_policy_denies_packets_to_it(lab: BaseLab, box: Container, far: Workload) -> None:
    """The label by which a policy of the inventory selects it closes it to others, and it still reaches them."""
    listed = json.loads(lab.exec(NODE, ["calicoctl", "workload", "list", "-o", "json"]).stdout)
    (workload,) = [entry["id"] for entry in listed["workloads"] if box.address in entry["addresses"]]
    lab.exec(NODE, ["calicoctl", "workload", "label", workload, "closed=yes"])
    assert not ping(lab, far.node, box.address, netns=far.name)
    assert containers.ping(lab, box, far.address)
    lab.exec(NODE, ["calicoctl", "workload", "label", workload, "closed-"])
    assert ping(lab, far.node, box.address, netns=far.name)


def test_nothing_of_it_is_left(lab: BaseLab, box: Container) -> None:
    lab.exec(NODE, ["podman", "stop", "-t", "0", box.name])
    assert box.address not in containers.workload_addresses(lab, NODE).values()
    assert "found 0 problems" in lab.exec(NODE, ["calicoctl", "ipam", "check"]).stdout


def _both(one: str, other: str) -> list[tuple[str, str]]:
    return [(one, other), (other, one)]
