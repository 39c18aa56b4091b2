# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and first runs on bare hosts.

On hosts without any of the packages, the plan works and changes nothing, the run installs and converges, and every plan
is true. A printed plan is compared with observations of the hosts before and after the run.

The tests build upon each other: one fleet goes from bare hosts to another mode.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab import Lab
from tests.lab.handle import BaseLab
from tests.lab.measure import checks
from tests.lab.measure.checks import Pool
from tests.lab.measure.observed import Observed, in_lab, observe, send

from . import inventory, printed_plan
from .conftest import LAB, ROOT, Fleet, Run

NODES = ("node1", "node2", "node3", "node4")
NAME = f"{LAB}-install"
PACKAGES = {"bird2", "ipset", "iptables", "netcat-openbsd", "python3-pyroute2"}

FIRST = Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True)
MORE = Pool("more", "10.250.0.0/20", "direct", block_size=28, nat_outgoing=True)
WORKLOADS = [inventory.workload(f"web-{name[-1]}", name) for name in NODES]
EXTERNAL = {name: [f"10.10.{1 if name in ('node1', 'node2') else 2}.1"] for name in NODES}

#: The changes of units on a host that has none of them.
UNITS = {
    ("+", "bird.service", "masked"),
    ("+", "calico-firewall.service", "enabled"),
    ("+", "calico-node-state.service", "enabled"),
    ("+", "calico-bird.service", "enabled, started"),
    ("+", "calico-agent.service", "enabled, started"),
    ("+", "calico-files.timer", "enabled, started"),
}
#: The umask of root's SSH sessions on hardened hosts, one of each release; a host of the same release has 022.
UMASKS = {"node2": "077", "node3": "027"}
COMPARED = {"node2": "node4", "node3": "node1"}
#: Folders in which the run makes files or folders.
PLACES = "/etc /opt /usr/local /usr/share/bash-completion /var/lib/calico /run/calico"
#: Observed values that change while no run is under way.
MOVING = ("bird_protocols", "bird_routes", "iptables", "ip6tables")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BaseLab, Path]]:
    lab = Lab(NAME, machine="native")
    lab.down()
    lab.up(baked=False)
    for name, umask in UMASKS.items():
        lab.exec(name, f"echo 'session optional pam_umask.so umask=0{umask}' >> /etc/pam.d/common-session")
        session = ["ssh", "-F", str(lab.ssh_config), name, "umask"]
        assert subprocess.run(session, capture_output=True, text=True, check=True).stdout.strip() == f"0{umask}"
    yield lab, tmp_path_factory.mktemp("installation")
    lab.down()


@pytest.fixture(autouse=True)
def _hardened_controller() -> Iterator[None]:
    """The controller has the umask 077, too."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def modes(lab: BaseLab, name: str) -> dict[str, str]:
    """Return the kind and the mode of each file and folder in PLACES of a host, by its path."""
    listed = lab.exec(name, f"find {PLACES} ! -type l -printf '%M %p\\n'").stdout
    return dict(reversed(line.split(" ", 1)) for line in listed.splitlines())


def check_modes(lab: BaseLab) -> None:
    """Assert that the umask of root changed no mode: hosts with another umask have what a host with 022 has."""
    for name, like in COMPARED.items():
        found, usual = modes(lab, name), modes(lab, like)
        assert {path for path in found if "calico" in path} >= {
            "/etc/calico/bird.cfg",
            "/etc/cni/net.d/10-calico.conflist",
            "/opt/cni/bin/calico",
            "/var/lib/calico/state.json",
        }
        other = {path: (found[path], usual[path]) for path in found.keys() & usual if found[path] != usual[path]}
        assert other == {}, f"{name} has umask {UMASKS[name]}, {like} 022"


def write(folder: Path, pools: list[Pool], workloads: list[dict[str, object]] = WORKLOADS) -> str:
    return inventory.write(folder, [inventory.pool(pool) for pool in pools], workloads, bgp_peers=inventory.ROUTER)


def read(lab: BaseLab) -> dict[str, Observed]:
    return observe(in_lab(lab), NODES)


def unmoved(observed: dict[str, Observed]) -> dict[str, dict[str, Any]]:
    return {
        name: {"chains": node.chains, **{key: value for key, value in node.raw.items() if key not in MOVING}}
        for name, node in observed.items()
    }


def plan(lab: BaseLab, path: str) -> tuple[dict[str, list[printed_plan.Line]], Run, dict[str, Observed]]:
    """Run site.yml with --check --diff; assert that it succeeds and changes neither lockfile nor result of `unmoved`.

    Return the lines of the plan by node, the run, and the hosts as observed before it.
    """
    before = read(lab)
    lockfile = Path(path).parent / inventory.LOCKFILE
    plan_before = lockfile.read_text() if lockfile.exists() else None
    run = Fleet(lab).site("--check", "--diff", "-e", "files=true", inventory=path).check()
    after = read(lab)
    for name in NODES:
        changed = [key for key, value in unmoved(before)[name].items() if unmoved(after)[name][key] != value]
        assert not changed, f"--check changed {changed} on {name}"
    assert (lockfile.read_text() if lockfile.exists() else None) == plan_before
    return printed_plan.read(run.output), run, before


def converge(lab: BaseLab, path: str, pools: list[Pool]) -> dict[str, Observed]:
    Fleet(lab).site(inventory=path).check()
    after = read(lab)
    fleet = checks.Fleet(pools, after, external=EXTERNAL)
    for node in after.values():
        checks.check_host(fleet, node)
        checks.check_sessions(fleet, node)
    checks.check_pings(fleet, send(in_lab(lab), checks.pings(fleet)))
    return after


def check_truth(
    planned: dict[str, list[printed_plan.Line]], before: dict[str, Any], after: dict[str, Any], files: bool = True
) -> None:
    assert set(planned) <= set(NODES)
    for name in NODES:
        printed_plan.check(planned.get(name, []), before[name], after[name], files)


def check_that_truth_is_noticed(lines: list[printed_plan.Line], before: Observed, after: Observed) -> None:
    """Assert that `lines` are accepted as a plan, and refused if one of them is wrong or missing.

    A line about a file, bird.cfg or a sysctl is replaced by a wrong one; each other line is left out.
    """
    printed_plan.check(lines, before, after, files=False)
    for line in lines:
        others = [other for other in lines if other is not line]
        if line.kind in ("file", "bird"):
            wrong = [*others, line._replace(subject=f"{line.subject}.new")]
        elif line.kind == "sysctl":
            wrong = [*others, line._replace(after=f"{line.after}7")]
        else:
            wrong = others
        with pytest.raises(AssertionError):
            printed_plan.check(wrong, before, after, files=False)


def test_bare_hosts_are_planned_converged_and_left_alone(plain: tuple[BaseLab, Path]) -> None:
    lab, folder = plain
    path = write(folder, [FIRST])
    planned, run, before = plan(lab, path)
    for node in before.values():
        assert not PACKAGES & set(node.raw["packages"]), f"{node.name} is not bare"
    assert set(planned) == set(NODES)
    for name, lines in planned.items():
        kinds = {line.kind for line in lines}
        assert kinds >= {
            "device",
            "address",
            "workload",
            "route",
            "sysctl",
            "ipset",
            "iptables",
            "bird",
            "file",
            "unit",
        }, name
        assert {(line.action, line.subject, line.after) for line in lines if line.kind == "unit"} == UNITS, name
    assert "+protocol bgp Mesh_10_10_1_12 from calico_fleet {" in run.output
    assert "+-A cali-nat-outgoing -s 10.244.0.0/16 -j MASQUERADE" in run.output
    assert "fleet  4 of 4 nodes change · 0 BGP sessions reset · 0 routes withdrawn" in run.output

    after = converge(lab, path, [FIRST])
    check_truth(planned, before, after, files=False)
    check_that_truth_is_noticed(planned["node1"], before["node1"], after["node1"])
    for name, node in after.items():
        assert set(node.raw["packages"]) >= PACKAGES
        # Debian's own service bird.service was installed with the package, and never ran.
        assert node.raw["units"]["bird.service"]["ActiveState"] == "inactive"
        journal = lab.exec(name, ["journalctl", "-u", "bird.service", "--no-pager", "-q"]).stdout
        assert "Started" not in journal, journal

    check_modes(lab)
    assert stat.S_IMODE((folder / inventory.LOCKFILE).stat().st_mode) == 0o644
    Fleet(lab).site(inventory=path).unchanged(*NODES)
    assert unmoved(read(lab)) == unmoved(after)


def test_a_change_of_the_inventory_is_planned_as_it_happens(plain: tuple[BaseLab, Path]) -> None:
    """The plan matches the changes when workloads come and go, a pool loses masquerading, and a pool is added."""
    lab, folder = plain
    pools = [Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=False), MORE]
    workloads = [
        *(entry for entry in WORKLOADS if entry["name"] != "web-4"),
        inventory.workload("db-1", "node1", pool="more"),
        inventory.workload("db-3", "node3", pool="more"),
    ]
    path = write(folder, pools, workloads)
    planned, _, before = plan(lab, path)
    after = converge(lab, path, pools)
    check_truth(planned, before, after)


def test_the_plan_of_a_change_of_mode_matches_the_run(plain: tuple[BaseLab, Path]) -> None:
    """The plan of a change of mode, here to direct, matches what all phases of the run change together.

    The plan after the run is empty.
    """
    lab, folder = plain
    pools = [Pool("default-ipv4-ippool", "10.244.0.0/16", "direct", nat_outgoing=True), MORE]
    path = write(folder, pools)
    planned, _, before = plan(lab, path)
    after = converge(lab, path, pools)
    check_truth(planned, before, after)
    nothing, run, _ = plan(lab, path)
    assert nothing == {}
    assert "fleet  nothing to change on 4 of 4 nodes" in run.output


def test_every_phase_of_a_switch_is_planned_as_it_happens(plain: tuple[BaseLab, Path]) -> None:
    """The printed plan of each phase matches what the phase changes; the test runs the phases one by one."""
    lab, folder = plain
    path = str(folder / "hosts.yml")
    before = read(lab)
    run = Fleet(lab).switch("vxlan", "--check", "--diff", inventory=path).check()
    assert {name: unmoved(read(lab))[name] for name in NODES} == unmoved(before)
    phases = printed_plan.read_phases(run.output)
    assert list(phases) == ["prepare", "links", "flip", "retire"]
    assert re.search(r"^prepare +\d+ changes? on node", run.output, re.MULTILINE), run.output
    assert re.search(r"^fleet  4 of 4 nodes change · 0 BGP sessions reset · ", run.output, re.MULTILINE)
    assert phases["links"], "the links' MTU differs between the modes"
    start = before
    for phase, planned in phases.items():
        by_hand(lab, path, f"pool=default-ipv4-ippool mode=vxlan phase={phase}")
        if phase == "retire":
            # Because no session changes, the playbook uses no backup routes. Phases run by hand use them, and the phase
            # retire removes them from bird.cfg.
            going = printed_plan.Line("~", "bird", "/etc/calico/bird.cfg", "", "")
            planned = {name: [*planned.get(name, []), going] for name in NODES}
        before = after_phase(lab, phase, planned, before)
    check_truth(printed_plan.read(run.output), start, before)
    fleet = checks.Fleet(
        [Pool("default-ipv4-ippool", "10.244.0.0/16", "vxlan", nat_outgoing=True), MORE], before, external=EXTERNAL
    )
    checks.check_pings(fleet, send(in_lab(lab), checks.pings(fleet)))


def after_phase(
    lab: BaseLab, phase: str, planned: dict[str, list[printed_plan.Line]], before: dict[str, Observed]
) -> dict[str, Observed]:
    """Return what there is 3 seconds after a phase, or as soon after that as the plan is true of it.

    BIRD writes its routes a moment after the phase, those that the plan lacks as well. Raise AssertionError if the plan
    is not true within 90 more seconds.
    """
    time.sleep(3)
    deadline = time.monotonic() + 90
    while True:
        after = read(lab)
        try:
            check_truth(planned, before, after)
        except AssertionError as error:
            if time.monotonic() > deadline:
                raise AssertionError(f"{phase}: {error}") from error
            time.sleep(1)
        else:
            return after


def by_hand(lab: BaseLab, path: str, arguments: str) -> None:
    command = ["ansible", "calico_nodes", "-i", path, "-m", "baremetal.host_routing.node", "-a", arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=Fleet(lab).environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
