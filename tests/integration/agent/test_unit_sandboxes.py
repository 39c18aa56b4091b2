# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the sandboxes of all roles' units, by systemd's own measure, and of their limits of memory.

The lab shows that the units work inside their sandboxes, with the systemd of Debian 12 and 13.
"""

from __future__ import annotations

import configparser
import contextlib
import os
import pathlib
import subprocess
import typing as t

import pytest

from tests.conftest import ROOT

#: The highest exposure of each unit that passes, in tenths of the level of `systemd-analyze security`. Less is better;
#: a unit without any sandbox has 96.
MOST = {
    "calico-agent": 39,
    "calico-bird": 31,
    "calico-docker": 12,
    "calico-etcd": 15,
    "calico-etcd-firewall": 17,
    "calico-etcd-gate": 15,
    "calico-files": 30,
    "calico-firewall": 21,
    "calico-netns@": 15,
    "calico-node-state": 45,
    "calico-runtimes": 12,
}
#: The number of rules of a large policy (docs/reference/benchmarks.md).
RULES = 35_000


def unit_files() -> dict[str, str]:
    """Return {name of the unit without .service: its text} for the units of all roles."""
    return {path.stem: path.read_text("utf-8") for path in (ROOT / "roles").glob("*/files/systemd/*.service")}


def setting(unit: str, name: str) -> str:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(unit_files()[unit])
    return parser["Service"][name]


def test_every_unit_has_its_limit() -> None:
    """No file of a role is a unit of a service without a limit here, wherever it is."""
    assert unit_files().keys() == MOST.keys()
    anywhere = [path for path in (ROOT / "roles").rglob("*") if path.is_file() and b"\nExecStart=" in path.read_bytes()]
    assert len(anywhere) == len(MOST)


@pytest.mark.parametrize("unit", sorted(MOST))
def test_the_exposure_of_each_unit_is_below_its_threshold(unit: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{unit}.service"
    path.write_text(unit_files()[unit])
    command = ["systemd-analyze", "security", "--offline=true", f"--threshold={MOST[unit]}", "--no-pager", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    instance = unit.replace("@", "@i")
    assert f"Overall exposure level for {instance}.service" in done.stdout


def test_units_that_write_the_firewall_have_the_same_sandbox() -> None:
    """The agent and the boot unit have the same limits of capabilities, namespaces, address families and memory.

    The agent alone binds published ports.
    """
    capabilities = [setting(unit, "CapabilityBoundingSet").split() for unit in ("calico-agent", "calico-node-state")]
    assert set(capabilities[0]) - set(capabilities[1]) == {"CAP_NET_BIND_SERVICE"}
    assert set(capabilities[1]) <= set(capabilities[0])
    for name in ("RestrictNamespaces", "RestrictAddressFamilies", "MemoryMax"):
        assert setting("calico-agent", name) == setting("calico-node-state", name), name


def test_oom_scores_order_the_units_by_what_their_end_costs() -> None:
    """The order is by what the end costs: gate, member of etcd, agent and Docker's driver, BIRD."""
    order = ["calico-etcd-gate", "calico-etcd", "calico-agent", "calico-docker", "calico-bird"]
    assert [int(setting(unit, "OOMScoreAdjust")) for unit in order] == [-250, -500, -800, -800, -900]
    # Others are there for moments, and end as any other program.
    assert all("OOMScoreAdjust" not in unit_files()[unit] for unit in MOST.keys() - set(order))


def test_each_long_running_unit_except_bird_has_a_limit_of_memory() -> None:
    """Every unit that runs for long has one, except BIRD, whose end would cost packets."""
    unlimited = {name for name, text in unit_files().items() if "MemoryMax=" not in text and "Type=oneshot" not in text}
    assert unlimited == {"calico-bird", "calico-etcd"}
    assert "MemoryMax={{ calico_etcd_memory }}\n" in (ROOT / "roles/calico_etcd/templates/memory.conf.j2").read_text()


@contextlib.contextmanager
def memory_limit(mebibytes: int) -> t.Iterator[pathlib.Path]:
    """Yield the path of cgroup.procs of a new cgroup with this limit of memory in MiB; remove the cgroup at the end.

    Raise OSError if it cannot be created, or still has processes at the end.
    """
    legacy = pathlib.Path("/sys/fs/cgroup/memory")
    top, limit = (legacy, "memory.limit_in_bytes") if legacy.is_dir() else (legacy.parent, "memory.max")
    folder = top / f"host-routing-test-{os.getpid()}"
    folder.mkdir()
    try:
        (folder / limit).write_text(f"{mebibytes << 20}\n")
        yield folder / "cgroup.procs"
    finally:
        folder.rmdir()


def rules() -> str:
    """Return a text for iptables-restore with 35,000 rules like those of policies, 35 to a chain."""
    chains = [f"cali-pi-{number:05d}" for number in range(RULES // 35)]
    match = "-p tcp -m set --match-set test src -m multiport --dports %d,8080 -m mark --mark 0x0/0x10000"
    comment = '-m comment --comment "host-routing:abcdefghijklmnop"'
    lines = [f":{chain} - [0:0]" for chain in chains]
    lines += [f"-A {chain} {comment} {match % port} -j ACCEPT" for chain in chains for port in range(1, 36)]
    return "\n".join(["*filter", *lines, "COMMIT", ""])


def restored(backend: str, mebibytes: int) -> int:
    """Load `rules()` twice in a new network namespace; return the exit status of the script, 0 if both loads succeed.

    Its processes may use at most this many mebibytes. The second load replaces the rules of the first. Raise
    subprocess.TimeoutExpired after 120 seconds.
    """
    with memory_limit(mebibytes) as processes:
        restore = f"iptables-{backend}-restore --noflush"
        script = f"""
            echo $$ > {processes} && mount -t tmpfs none /run && cat > /run/rules &&
            ipset create test hash:net && {restore} < /run/rules && {restore} < /run/rules
        """
        words = ["unshare", "--net", "--mount", "sh", "-c", script]
        return subprocess.run(words, input=rules(), text=True, capture_output=True, check=False, timeout=120).returncode


@pytest.mark.parametrize("backend", ["nft", "legacy"])
def test_half_of_the_agents_memory_is_room_for_a_large_policy(backend: str) -> None:
    """Half of the agent's memory suffices for a large policy.

    The kernel's part is included, for the rules before and for those that replace them.
    """
    limit = setting("calico-agent", "MemoryMax")
    assert limit.endswith("G")
    assert restored(backend, int(limit[:-1]) * 1024 // 2) == 0


def test_a_limit_of_memory_would_be_noticed() -> None:
    assert restored("nft", 64) != 0
