# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An ad-hoc task compiles once for all its hosts, and its result serves no other task or run."""

from __future__ import annotations

import collections.abc
import multiprocessing
import os
import pathlib
import stat
import typing as t

import pytest
from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    fleet_source,
    lockfile_store,
    shared_targets,
)

from tests.unit.fleet import fleets
from tests.unit.fleet.fleets import LAB, pool, states

FORKS = multiprocessing.get_context("fork")


class HostVars(collections.abc.Mapping):  # type: ignore[type-arg]
    """Variables like Ansible's; reading a host's leaves a line in `log`, from any process."""

    def __init__(self, variables: dict[str, dict[str, t.Any]], log: pathlib.Path) -> None:
        self.variables, self.log = variables, log

    def __getitem__(self, host: str) -> dict[str, t.Any]:
        with open(self.log, "a", encoding="utf-8") as stream:
            stream.write(f"{host}\n")
        return self.variables[host]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)


class Run:
    """A run of ansible over four nodes with blocks in the lockfile.

    `read` is the number of times that a host's variables were read since the last use of `read`.
    """

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.log = folder / "log"
        temporary = folder / "tmp"
        temporary.mkdir(mode=0o700)
        monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(temporary))
        self.shared = temporary / "host_routing-shared"
        lockfile_store.write(str(folder / ".calico.lock.yml"), fleets.build(pool("ipip")).allocation)
        self.batch = list(LAB)

    def variables(self, *pools: t.Mapping[str, t.Any], **rest: t.Any) -> dict[str, t.Any]:
        hosts = fleets.hosts(*pools, **rest)
        return {
            "groups": {"calico_nodes": [host.name for host in hosts]},
            "hostvars": HostVars({host.name: dict(host.variables) for host in hosts}, self.log),
            "inventory_dir": str(self.folder),
            "ansible_play_batch": self.batch,
        }

    @property
    def read(self) -> int:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.write_text("")
        return len(lines)


@pytest.fixture
def run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, monkeypatch)


def encapsulation(found: t.Any) -> str:
    return str(found.state("node2").pools[0].encapsulation)


def test_the_first_host_compiles_for_all(run: Run) -> None:
    variables = run.variables(pool("ipip"))
    alone = fleet_source.planned(variables).targets
    once = run.read
    for host in LAB:
        assert shared_targets.of_task(variables, "task", host, None).state(host) == alone.state(host)
    assert run.read == once
    assert stat.S_IMODE(os.stat(run.shared).st_mode) == 0o700


def test_forks_at_the_same_time_compile_once(run: Run) -> None:
    variables = run.variables(pool("ipip"))
    fleet_source.planned(variables)
    once = run.read
    start = FORKS.Barrier(8)

    def fork() -> None:
        start.wait(60)
        shared_targets.of_task(variables, "task", "node1", None).state("node1")

    forks = [FORKS.Process(target=fork) for dummy in range(8)]
    for process in forks:
        process.start()
    for process in forks:
        process.join(60)
    assert [process.exitcode for process in forks] == [0] * 8
    assert run.read == once


def test_a_fork_killed_while_it_compiles_does_not_block_others(run: Run) -> None:
    variables = run.variables(pool("ipip"))

    class Killed(HostVars):
        def __getitem__(self, host: str) -> dict[str, t.Any]:
            os._exit(9)

    dying = {**variables, "hostvars": Killed({}, run.log)}
    process = FORKS.Process(target=lambda: shared_targets.of_task(dying, "task", "node1", None))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert encapsulation(shared_targets.of_task(variables, "task", "node2", None)) == "IPIP"


def test_a_different_task_batch_or_mode_is_compiled_again(run: Run) -> None:
    ipip, direct = run.variables(pool("ipip")), run.variables(pool("direct"))
    assert encapsulation(shared_targets.of_task(ipip, "one", "node1", None)) == "IPIP"
    assert encapsulation(shared_targets.of_task(direct, "two", "node1", None)) == "None"
    run.batch = ["node2"]
    assert encapsulation(shared_targets.of_task(run.variables(pool("direct")), "one", "node2", None)) == "None"
    for mode, expected in (("vxlan", "VXLAN"), ("direct", "None")):
        assert encapsulation(shared_targets.of_task(ipip, "one", "node1", None, "default", mode)) == expected


def test_a_different_run_is_compiled_again(run: Run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert encapsulation(shared_targets.of_task(run.variables(pool("ipip")), "task", "node1", None)) == "IPIP"
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "other"))
    assert encapsulation(shared_targets.of_task(run.variables(pool("direct")), "task", "node1", None)) == "None"


def test_an_error_is_found_once_and_reported_for_every_host(run: Run) -> None:
    variables = run.variables(pool("ipip", blockSize=33))
    said = set()
    for host in LAB:
        with pytest.raises(FleetError) as caught:
            shared_targets.of_task(variables, "task", host, None)
        said.add(str(caught.value))
        assert run.read == (len(LAB) if host == "node1" else 0)
    assert len(said) == 1
    assert said.pop().startswith("calico_ip_pools[0].blockSize 33 ")


def test_a_new_host_stops_while_a_change_is_pending_and_the_others_go_on(run: Run) -> None:
    plan = lockfile_store.read(str(run.folder / ".calico.lock.yml"))
    assert plan is not None
    lockfile_store.remember(str(run.folder / ".calico.lock.yml"), {"default": "IPIP"})
    nodes = {**LAB, "node5": "10.10.2.15/24"}
    variables = run.variables(pool("direct"), nodes=nodes)
    running = states(fleets.build(pool("ipip"), previous=plan))
    assert encapsulation(shared_targets.of_task(variables, "task", "node1", running["node1"])) == "None"
    with pytest.raises(FleetError) as caught:
        shared_targets.of_task(variables, "task", "node5", None)
    assert str(caught.value).startswith(
        "calico_ip_pools[0] asks for mode direct of pool default, and node1, node2, node3 and 1 more still run it in "
        "mode ipip; node5 would not reach them. "
    )
