# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of many rules on this machine's kernel: the cache matches the kernel, and other programs' rules are kept."""

from __future__ import annotations

import dataclasses
import random
import threading
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset, iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers.iptables_backend import (
    FAMILIES,
    default,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Hook, IpSet, IptablesTable

from tests.unit.dataplane.suites.drivers import lines
from tests.unit.dataplane.suites.suite_chains import dispatch, filtering, shown

HOOK = Hook("INPUT", "-j cali-INPUT")


class Tables(CachedTables):
    """The cached tables of the backend given ("nft" or "legacy"), which may differ from the host's own."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self._forced = backend

    def observe(self, kernel: LinuxKernel, desired: t.Sequence[IptablesTable]) -> iptables.Observed:
        sign = self._signed(kernel, self._forced)
        found = super().observe(kernel, desired)
        programs = {family: f"{name}-{self._forced}" for family, name in FAMILIES.items()}
        if found.programs == programs:
            return found  # The tables are those of the backend given, from the cache or read anew.
        own = f"-{default(kernel)}"
        tables = {
            place if "-" in place.program else place._replace(program=place.program + own): chains
            for place, chains in found.tables.items()
        }
        found = dataclasses.replace(found, programs=programs, tables=tables, backend=self._forced)
        self._observed, self._sign, self.backend = found, sign, self._forced
        return found


def settle(driver: t.Any, kernel: LinuxKernel, desired: t.Sequence[t.Any]) -> int:
    changes = driver.diff(desired, driver.observe(kernel, desired))
    driver.apply(kernel, changes)
    return len(changes)


@pytest.fixture
def reads(kernel: LinuxKernel, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that the kernel object has run so far; the list grows with each run."""
    programs: list[str] = []
    run = kernel.run

    def watch(argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> t.Any:
        programs.append(argv[0])
        return run(argv, stdin, timeout)

    monkeypatch.setattr(kernel, "run", watch)
    return programs


def test_one_own_transaction_is_one_generation(kernel: LinuxKernel, reads: list[str]) -> None:
    """A transaction of the collection is one generation of the ruleset, as the cache assumes, for each kind of write.

    So nothing is read between writes, and the cache still matches the kernel.
    """
    tables = Tables("nft")
    entries, chains = dispatch(40)
    both = [filtering(entries, chains), filtering(*dispatch(3, 6), 6)]
    settle(tables, kernel, both)
    for desired in (
        [filtering([*entries[:20], "-o cali999 -j DROP", *entries[20:]], chains), both[1]],
        [filtering(entries[:20], chains), both[1]],
        [filtering(entries[:2], {**chains, "cali-tw-000": ("-j DROP",)})],
        [IptablesTable("filter", {"cali-INPUT": ("-j RETURN",)}, (HOOK, Hook("INPUT", "-j cali-INPUT", last=True)))],
        both,
    ):
        reads.clear()
        assert settle(tables, kernel, desired) > 0
        assert settle(tables, kernel, desired) == 0
        assert {name.rpartition("-")[2] for name in reads} == {"restore"}
        fresh = Tables("nft")
        assert lines(fresh.diff(desired, fresh.observe(kernel, desired))) == []


def test_a_remembered_set_is_what_is_there(kernel: LinuxKernel) -> None:
    chance, sets = random.Random(3), CachedSets()
    addresses = [f"10.0.{n // 250}.{n % 250}" for n in range(1000)]
    for _round in range(8):
        desired = [
            IpSet(f"cali40{name}", "hash:net", tuple(chance.sample(addresses, chance.choice([0, 5, 400]))))
            for name in chance.sample("abcd", 3)
        ]
        settle(sets, kernel, desired)
        assert ipset.diff(desired, ipset.observe(kernel, desired)) == []


@pytest.mark.parametrize("backend", ["nft", "legacy"])
def test_a_concurrent_writer_loses_no_rule(kernel: LinuxKernel, backend: str) -> None:
    """No rule is lost when another program adds and deletes rules in our chain and before our hook at the same time."""
    entries, chains = dispatch(60)
    tables, stop, errors = Tables(backend), threading.Event(), []
    settle(tables, kernel, [filtering(entries, chains)])
    theirs: list[str] = []

    def somebody() -> None:
        chance = random.Random(5)
        other = LinuxKernel(kernel._netns, netns_folder=kernel._netns_folder, marker_folder=kernel._marker_folder)
        while not stop.is_set():
            if theirs and chance.random() < 0.4:
                line = f"-D FORWARD {theirs.pop(chance.randrange(len(theirs)))}"
            else:
                rule = f"-s 192.0.2.{chance.randrange(256)}/32 -j ACCEPT"
                theirs.append(rule)
                line = f"-I FORWARD 1 {rule}"
            text = f"*filter\n{line}\n-I cali-to-wl 1 -j RETURN\nCOMMIT\n"
            done = other.run([f"iptables-{backend}-restore", "--noflush", "-w", "10"], text)
            if done.code != 0:
                errors.append(done.errors)
        other.close()

    thread = threading.Thread(target=somebody)
    thread.start()
    chance = random.Random(6)
    try:
        for _round in range(25):
            chance.shuffle(entries)
            try:
                settle(tables, kernel, [filtering(entries[: chance.randrange(30, 60)], chains)])
            except ApplyError as error:
                errors.append(str(error))
            if backend == "legacy":
                tables.forget()
    finally:
        stop.set()
        thread.join()
    assert errors == []
    desired = [filtering(entries, chains)]
    tables.forget()
    settle(tables, kernel, desired)
    program = f"iptables-{backend}"
    assert shown(kernel, "cali-to-wl", program) == entries
    in_chain = shown(kernel, "FORWARD", program)
    assert in_chain[0] == "-j cali-FORWARD"
    assert sorted(in_chain[1:]) == sorted(theirs)
