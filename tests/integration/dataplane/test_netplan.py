# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host whose network is netplan's, as on Ubuntu: systemd-networkd leaves our devices and routes alone.

Debian's netplan.io writes the configuration, and the machine's systemd-networkd runs by it in namespaces of its own.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import typing as t

import pytest

from tests.integration import debian_archive

ROOT = pathlib.Path(__file__).resolve().parents[3]
OURS = ROOT / "roles" / "calico_node" / "files" / "networkd"
#: A careless configuration: it takes each device for one of the host's own.
NETPLAN = """\
network:
  version: 2
  renderer: networkd
  ethernets:
    eth0:
      addresses: [10.10.1.11/24]
    others:
      match: {name: "*"}
      dhcp4: true
      accept-ra: true
"""
#: $1 is the folder for which netplan generated its files, $2 ours or nothing.
SCRIPT = """\
set -eu
mount -t sysfs -o ro sysfs /sys  # networkd waits for udev where /sys can be written
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/netif/links /run/systemd/netif/leases /run/systemd/network /run/systemd/networkd.conf.d
chown -R systemd-network /run/systemd/netif
cp "$1"/run/systemd/network/*.network /run/systemd/network/
if [ -n "$2" ]; then
    cp "$2/05-calico.network" /run/systemd/network/
    cp "$2/10-calico.conf" /run/systemd/networkd.conf.d/
fi
ip link add eth0 type veth peer name wire
ip link add cali1234 type veth peer name workload
ip link add vxlan.calico type vxlan id 4096 dev eth0 dstport 4789
for device in lo eth0 wire cali1234 workload vxlan.calico; do ip link set $device up; done
ip address add 10.10.1.11/24 dev eth0
ip route add 10.244.7.0/26 via 10.10.1.12 dev eth0 protocol 179
ip route add blackhole 10.244.1.0/26 protocol 179
timeout 4 /lib/systemd/systemd-networkd 2>&1 || true
ip route show protocol 179
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder with the files that netplan generates from NETPLAN."""
    tree = ROOT / ".build" / "netplan"
    root = debian_archive.unpacked(tree, "bookworm", "netplan.io", ("libnetplan*", "libglib2.0-0", "libyaml-0-2"))
    folder = tmp_path_factory.mktemp("host")
    source = folder / "etc" / "netplan" / "50-cloud-init.yaml"
    source.parent.mkdir(parents=True)
    source.write_text(NETPLAN)
    source.chmod(0o600)
    [library] = (root / "usr" / "lib").glob("*/libnetplan.so.*")
    libraries = f"{library.parent}:{root / 'lib' / library.parent.name}"
    program = root / "usr" / "libexec" / "netplan" / "generate"
    subprocess.run([program, "--root-dir", folder], env={"LD_LIBRARY_PATH": libraries}, check=True, timeout=60)
    return folder


def networkd(generated: pathlib.Path, ours: t.Union[pathlib.Path, str]) -> tuple[set[str], set[str]]:
    """Return the devices that systemd-networkd configures, and the destinations of our routes that are left."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "--propagation", "private", "sh", "-c", SCRIPT, "sh"]
    done = subprocess.run([*command, generated, ours], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    configured = set(re.findall(r"^(\S+): Configuring with .*/10-netplan-\w+\.network\.$", done.stdout, re.MULTILINE))
    return configured, set(re.findall(r"\b10\.244\.\d+\.\d+/26\b", done.stdout))


def test_netplan_configures_each_device_without_our_files(generated: pathlib.Path) -> None:
    """The configuration would reach our devices: this is what our files are for."""
    configured, dummy = networkd(generated, "")
    assert {"eth0", "cali1234", "vxlan.calico"} <= configured


def test_our_devices_and_routes_are_left_alone(generated: pathlib.Path) -> None:
    """Our files come before netplan's by name, and the routes that networkd did not write stay."""
    configured, routes = networkd(generated, OURS)
    assert "eth0" in configured
    assert not configured & {"cali1234", "vxlan.calico"}
    # Without udev, networkd configures links before it has read the routes. So these stay without 10-calico.conf, too.
    assert routes == {"10.244.7.0/26", "10.244.1.0/26"}
