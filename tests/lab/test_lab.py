# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the lab itself: real boots, reboots and power cuts, a router that routes, and exact packet counts.

Run them with `pytest tests/lab/test_lab.py`; HOST_ROUTING_LAB_MACHINE=qemu runs them in the emulated machine.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, LabError, names
from tests.lab.handle import BaseLab
from tests.lab.measure.drops import causes, growth, per_cpu
from tests.lab.measure.streams import Report, Stream, Streams, Transfer
from tests.lab.topology import CACHE_ROOT

pytestmark = pytest.mark.lab

ROOT = Path(__file__).resolve().parent.parent.parent
MACHINE = os.environ.get("HOST_ROUTING_LAB_MACHINE", "native")
# Everything takes about ten times as long under software emulation.
SLOW = 1 if MACHINE == "native" else 10

STATIC_BIRD = """
router id 10.10.1.11;
protocol device {}
protocol static { ipv4; route 10.244.7.0/26 blackhole; route 10.10.9.0/24 blackhole; }
protocol bgp lab { local as 64512; neighbor 10.10.1.1 as 65000; connect delay time 1;
    ipv4 { import none; export all; }; }
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    lab = Lab("lab-test", MACHINE)
    lab.up(["node1", "node2", "node3"])
    yield lab
    lab.down()


def ssh(lab: BaseLab, node: str, command: str) -> str:
    argv = ["ssh", "-F", str(lab.ssh_config), "-o", "BatchMode=yes", node, command]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL).stdout


def reaches(lab: BaseLab, where: str, address: str) -> bool:
    return lab.exec(where, ["ping", "-c1", f"-W{1 + SLOW // 5}", address], check=False).returncode == 0


@pytest.mark.parametrize(("node", "version"), [("node1", "12"), ("node2", "13"), ("node3", "12")])
def test_a_host_is_a_booted_debian_that_ssh_knows(lab: BaseLab, node: str, version: str) -> None:
    said = ssh(lab, node, "hostname; . /etc/os-release; echo $VERSION_ID; systemctl is-system-running; id -u")
    assert said.split() == [node, version, "running", "0"]


def test_bird_is_installed_and_does_not_run(lab: BaseLab) -> None:
    said = ssh(lab, "node2", "bird --version 2>&1; systemctl is-enabled bird; systemctl is-active bird; true")
    assert said.startswith("BIRD version 2.")
    assert said.split()[-2:] == ["masked", "inactive"]


def test_up_again_changes_nothing(lab: BaseLab) -> None:
    before = lab.get("node1", "/proc/sys/kernel/random/boot_id")
    lab.up(["node1", "node2", "node3"])
    assert lab.get("node1", "/proc/sys/kernel/random/boot_id") == before


def test_other_kind_of_hosts_is_refused(lab: BaseLab) -> None:
    with pytest.raises(LabError, match="take it down first"):
        lab.up(["node1"], baked=False)


def test_ansible_reaches_the_hosts_by_the_inventory(lab: BaseLab) -> None:
    ansible = Path(sys.executable).with_name("ansible")
    argv = [str(ansible), "-i", "inventories/lab", "node1,node2,node3", "-m", "ansible.builtin.ping"]
    environment = {**os.environ, "HOST_ROUTING_LAB": lab.name}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("pong") == 3


def test_hosts_keep_the_byte_code_of_modules(lab: BaseLab) -> None:
    """A host reuses the byte code of an earlier call, and tracebacks name the archive of the present call."""
    kept = lab.exec("node1", "ls /run/zip-byte-code").stdout.split()
    assert len(kept) > 10 and all(re.fullmatch(r"[0-9a-f]{16}-\d+-cpython-\d+-0", name) for name in kept), kept
    program = """
import sys, zipfile
for value in ("one", "two", "one"):
    with zipfile.ZipFile(f"/tmp/{value}.zip", "w") as archive:
        archive.writestr("said.py", f"value = {value!r}\\ndef where(): pass\\n")
    sys.path.insert(0, f"/tmp/{value}.zip")
    sys.modules.pop("said", None)
    import said
    print(said.value, said.where.__code__.co_filename)
"""
    for dummy in range(2):
        said = lab.exec("node1", ["python3", "-c", program]).stdout.splitlines()
        assert said == ["one /tmp/one.zip/said.py", "two /tmp/two.zip/said.py", "one /tmp/one.zip/said.py"]
    again = lab.exec("node1", "ls /run/zip-byte-code").stdout.split()
    assert len(again) == len(kept) + 2, "kept by content"
    lab.exec("node1", "for kept in /run/zip-byte-code/*; do echo broken > $kept; done")
    assert lab.exec("node1", ["python3", "-c", program]).stdout.splitlines()[0] == "one /tmp/one.zip/said.py"


def test_hosts_reach_each_other_through_the_router_and_see_a_default_route(lab: BaseLab) -> None:
    assert lab.exec("node1", "ip route show default").stdout.strip() == "default via 10.10.1.1 dev eth0"
    assert reaches(lab, "node1", "10.10.1.12")
    assert reaches(lab, "node1", "10.10.2.11")
    assert reaches(lab, "node3", "192.0.2.10")


def test_outside_has_no_way_to_a_pool(lab: BaseLab) -> None:
    done = lab.outside_exec(["ip", "route", "get", "10.244.1.1"], check=False)
    assert done.returncode != 0
    assert "unreachable" in done.stderr


def test_ipip_is_where_it_should_be(lab: BaseLab) -> None:
    there = lab.exec("node1", "ip link show tunl0", check=False).returncode == 0
    if MACHINE == "qemu":
        assert there, "the emulated machine is there for IPIP"
    else:
        assert there == Path("/sys/class/net/tunl0").exists()


def test_capture_sees_what_crosses_the_link(lab: BaseLab) -> None:
    with lab.capturing("node3", "icmp") as seen:
        assert reaches(lab, "node1", "10.10.2.11")
        time.sleep(0.2 * SLOW)
    assert [line for line in seen.lines if "10.10.1.11 > 10.10.2.11: ICMP echo request" in line]
    with lab.capturing("node2", "icmp") as seen:
        assert reaches(lab, "node1", "10.10.2.11")
        time.sleep(0.2 * SLOW)
    assert seen.lines == []


def test_router_learns_blocks_and_nothing_of_the_underlay(lab: BaseLab) -> None:
    lab.exec("node1", "mkdir -p /run/bird; cat > /run/test.conf", input=STATIC_BIRD)
    bird = lab.background("node1", ["bird", "-f", "-c", "/run/test.conf", "-s", "/run/test.ctl"])
    try:
        end = time.monotonic() + 10 * max(1, SLOW / 3)
        routes = ""
        while "10.244.7.0/26" not in routes and time.monotonic() < end:
            routes = lab.router_exec(["ip", "route"]).stdout
            time.sleep(0.2)
        assert "10.244.7.0/26 via 10.10.1.11 dev br1 proto bird" in routes
        assert "10.10.9.0" not in routes
    finally:
        bird.stop()


def test_a_reboot_keeps_the_disk_and_loses_the_kernel_state(lab: BaseLab) -> None:
    lab.exec("node2", "echo kept > /root/kept; ip route add blackhole 198.51.100.0/24; ip netns add lost")
    before = lab.get("node2", "/proc/sys/kernel/random/boot_id")
    lab.reboot("node2")
    assert lab.get("node2", "/proc/sys/kernel/random/boot_id") != before
    assert lab.get("node2", "/root/kept") == b"kept\n"
    assert "198.51.100" not in lab.exec("node2", "ip route").stdout
    assert lab.exec("node2", "ip netns").stdout == ""
    assert reaches(lab, "node1", "10.10.1.12")


def test_a_power_cut_is_silent(lab: BaseLab) -> None:
    connect = "import socket; socket.create_connection(('10.10.1.12', 22), 1.5)"
    assert lab.exec("node1", ["python3", "-c", connect]).returncode == 0
    lab.power_cut("node2")
    assert not lab.is_running("node2")
    done = lab.exec("node1", ["python3", "-c", connect], check=False)
    assert "Connection refused" not in done.stderr
    assert "timed out" in done.stderr or "No route to host" in done.stderr
    lab.start("node2")
    assert lab.exec("node1", ["python3", "-c", connect], timeout=60).returncode == 0


def test_a_pulled_cable_takes_the_carrier_away(lab: BaseLab) -> None:
    lab.link("node1", up=False)
    try:
        assert not reaches(lab, "node3", "10.10.1.11")
        assert lab.get("node1", "/sys/class/net/eth0/carrier") == b"0\n"
    finally:
        lab.link("node1", up=True)
    end = time.monotonic() + 10
    while not reaches(lab, "node3", "10.10.1.11"):
        assert time.monotonic() < end


def _entries(lab: BaseLab) -> list[Stream | Transfer]:
    return [
        Stream("node1", None, "node3", None, "10.10.2.11", 64),
        Stream("node3", None, "node1", None, "10.10.1.11", "full"),
        Transfer("node2", None, "node3", None, "10.10.2.11"),
    ]


def test_streams_lose_nothing_on_a_quiet_lab(lab: BaseLab) -> None:
    with Streams(lab, _entries(lab)) as streams:
        time.sleep(3)
    report = streams.report
    assert report is not None
    assert (report.lost_by_us, report.resets, report.corrupt, report.bytes_missing) == (0, 0, 0, 0), report.summary()
    assert report.sent > 2 * 450 * 3
    assert report.streams[1].sizes == {"1500": report.streams[1].sent}
    assert report.transfers[0].received > 2 * 50_000 * 2


def test_streams_count_what_a_cut_link_loses(lab: BaseLab) -> None:
    with Streams(lab, _entries(lab)[:2]) as streams:
        time.sleep(1)
        lab.exec("router", "ip link set node1 down; sleep 0.3; ip link set node1 up")
        time.sleep(3)
    report = streams.report
    assert report is not None
    assert all(result.lost > 50 for result in report.streams), report.summary()
    assert report.lost_by_us == report.lost and "of" in report.summary()
    assert report.streams[1].missing_ranges


def _one_way(lab: BaseLab, prepare: tuple[str, str], restore: str, **options: int) -> Report:
    """Return the report on a stream from node1 to node3 during which `prepare`, (host, command), ran and took effect.

    `restore` is a command for the same host. `options` are those of Streams.
    """
    entry = Stream("node1", None, "node3", None, "10.10.2.11", 64, pps=200)
    where, command = prepare
    streams = Streams(lab, [entry], **options)
    with streams:
        time.sleep(1)
        lab.exec(where, command)
        try:
            time.sleep(1 * max(1, SLOW / 3))
            streams.stop()
        finally:
            lab.exec(where, restore)
    assert streams.report is not None
    return streams.report


@pytest.mark.parametrize(
    ("where", "command", "restore"),
    [
        ("node1", "ip route del default", "ip route add default via 10.10.1.1 dev eth0"),
        ("router", "ip route add blackhole 10.10.2.11", "ip route del blackhole 10.10.2.11"),
    ],
    ids=["at the sender", "on the way"],
)
def test_a_missing_route_loses_by_us(lab: BaseLab, where: str, command: str, restore: str) -> None:
    report = _one_way(lab, (where, command), restore)
    assert report.lost > 50 and report.drops == {"no route": report.lost}, report.summary()
    assert report.lost_by_us == report.lost, report.summary()


def test_a_packet_filter_loses_by_us(lab: BaseLab) -> None:
    rule = "INPUT -p udp --dport 7400 -j DROP"
    report = _one_way(lab, ("node3", f"iptables -I {rule}"), f"iptables -D {rule}")
    assert report.lost > 50 and report.drops == {"policy": report.lost}, report.summary()
    assert report.lost_by_us == report.lost, report.summary()


def test_a_loss_that_no_counter_claims_is_by_us(lab: BaseLab) -> None:
    """A loss is by us if the rule that dropped the packets is gone with its counter.

    Its cause is "unknown", or what the kernel counted meanwhile for another lab: it counts packets without a route and
    failed resolutions of all namespaces together.
    """
    rule = "INPUT -p udp --dport 7400 -j DROP"
    command = f"iptables -I {rule}; sleep 0.5; iptables -D {rule}"
    report = _one_way(lab, ("node3", command), "true")
    assert report.lost > 50 and report.drops.keys() <= {"unknown", "neighbour", "no route"}, report.summary()
    assert report.lost_by_us == report.lost, report.summary()


def test_a_full_socket_buffer_is_excused(lab: BaseLab) -> None:
    with Streams(lab, _entries(lab)[:1], tick=0.1, buffer=1) as streams:
        time.sleep(3)
    report = streams.report
    assert report is not None
    assert report.lost > 50 and report.drops == {"socket buffer": report.lost}, report.summary()
    assert report.lost_by_us == 0 and "0 of them by us" in report.summary()


@pytest.mark.parametrize(
    ("grown", "drops"),
    [
        ({"machine backlog": 9, "node1 eth0 tx dropped": 4}, {"backlog": 4, "unknown": 6}),
        ({"machine backlog": 9}, {"unknown": 10}),
        ({"machine backlog": 7, "node1 eth0 tx dropped": 37}, {"unknown": 10}),
        ({"node1 eth0 tx dropped": 9}, {"unknown": 10}),
        ({"router node1 rx fifo": 3}, {"ring": 3, "unknown": 7}),
        ({"machine res_failed": 1, "router node1 rx fifo": 99}, {"neighbour": 1, "ring": 9}),
        ({"machine unresolved_discards": 2}, {"neighbour": 10}),
        (
            {"machine in_no_route": 7, "node2 *raw :PREROUTING DROP": 2, "router node1 rx fifo": 99},
            {"no route": 7, "policy": 2, "ring": 1},
        ),
        ({"node1/web-1 TcpExt.IPReversePathFilter": 10}, {"policy": 10}),
        ({"machine in_no_route": 7, "node2 *raw :PREROUTING DROP": 8}, {"policy": 8, "no route": 2}),
        (
            {"machine dst_discard": 2, "node2 *raw :PREROUTING DROP": 7},
            {"policy": 7, "replaced route": 2, "unknown": 1},
        ),
    ],
)
def test_overload_gets_only_what_no_other_counter_claims(grown: dict[str, int], drops: dict[str, int]) -> None:
    assert causes(10, 0, 0, grown) == drops


def test_discarded_packets_are_counted_by_the_function_that_discards_them() -> None:
    text = """==> /sys/kernel/tracing/events/skb/kfree_skb/hist <==
# trigger info: hist:keys=location.sym:vals=hitcount:sort=hitcount:size=2048 [active]
{ location: [ffffffff8d88ba21] icmp_rcv                                      } hitcount:        176
{ location: [ffffffff8d7f1c05] dst_discard                                   } hitcount:          1
{ location: [ffffffff8d7f1c25] dst_discard_out                               } hitcount:         12
"""
    assert per_cpu(text) == {"machine dst_discard": 13}


def test_a_counter_that_began_anew_grew_from_zero() -> None:
    before = {"tunl0 tx dropped": 5, "eth0 tx dropped": 5, "lo tx dropped": 5}
    after = {"tunl0 tx dropped": 3, "eth0 tx dropped": 7, "lo tx dropped": 5, "cali1 tx dropped": 2}
    assert growth(before, after) == {"tunl0 tx dropped": 3, "eth0 tx dropped": 2, "cali1 tx dropped": 2}


def test_streams_notice_a_reset(lab: BaseLab) -> None:
    with Streams(lab, [Transfer("node1", None, "node3", None, "10.10.2.11")]) as streams:
        time.sleep(1)
        lab.exec("node3", "ss -K dport != 22 sport = 7401 || true")
        lab.exec("node3", "iptables -I INPUT -p tcp --dport 7401 -j REJECT --reject-with tcp-reset")
        time.sleep(2)
    lab.exec("node3", "iptables -D INPUT -p tcp --dport 7401 -j REJECT --reject-with tcp-reset")
    assert streams.report is not None
    assert streams.report.resets == 1, streams.report.summary()


@pytest.mark.skipif(MACHINE != "native", reason="the emulated machine goes away as a whole")
def test_two_labs_at_once_and_nothing_left_of_the_second() -> None:
    other = Lab("lab-test-2", "native")
    other.up(["node1", "node4"], baked=False)
    try:
        assert {"lab-test-2"} <= set(names())
        assert other.exec("node4", "bird --version", check=False).returncode == 127
        ssh(other, "node4", "apt-get update -qq && apt-get install -y -qq ipset >/dev/null && ipset --version")
        (other.places.work / "node1/upper").stat()
        # Like a crash: a host whose supervisor is gone, and a lab that has forgotten that it is up.
        os.kill(int((other.places.state / "node1/supervisor").read_text()), 9)
        (other.places.state / "lab.json").unlink()
    finally:
        other.down()
    assert "lab-test-2" not in names()
    assert not [path for path in Path("/run/netns").iterdir() if path.name.startswith("lab-test-2-")]
    assert not [line for line in Path("/proc/mounts").read_text().splitlines() if "lab-test-2" in line]
    assert not (CACHE_ROOT / "labs/lab-test-2").exists()
    assert not [path for top in other.places.cgroups for path in [top] if path.exists()]
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes())
        except OSError:
            continue
    assert not [command for command in commands if b"/lab-test-2/" in command]
