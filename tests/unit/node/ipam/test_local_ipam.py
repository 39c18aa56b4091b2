# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the node's IPAM: acknowledged writes survive a crash, no address is given twice, failed ones are undone."""

from __future__ import annotations

import dataclasses
import errno
import os
import subprocess
import sys
import threading

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam.allocations import (
    AddressTaken,
    HandleTaken,
    NoAddress,
    Usage,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.desired import desired
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam import allocation_journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import (
    IpamNotWritten,
    IpamUnreadable,
    LocalIpam,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.attachment import AttachedWorkload
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    PROBE_INTERFACE,
    PROBE_NETNS,
    Block,
    NodeIpam,
    NodeState,
    Pool,
    TunnelDevice,
    VethEndpoint,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.fleet.fleets import ADDRESSES6, MODES, build, pool, states

A, B = Block("10.0.0.0/30", "p"), Block("10.0.0.4/30", "p")
STATE = NodeState(
    "node1",
    "10.10.1.11/24",
    pools=(Pool("p", "10.0.0.0/24", 30, "IPIP"),),
    ipam=NodeIpam(blocks=(A,), spare_blocks=(B,), tunnels={"ipip": "10.0.0.0"}, workloads={"web-1": "10.0.0.1"}),
    devices=(TunnelDevice("tunl0", "ipip", 1480, "10.10.1.11", "10.0.0.0"),),
    workloads=(VethEndpoint("web-1", "cali1", "10.0.0.1", 1480, "p"),),
)


class Machine:
    """A machine with a journal, a clock in seconds and a boot id. `start` returns an IPAM as after an agent's start."""

    def __init__(self, folder):
        self.folder = folder
        self.seconds = 100.0
        self.boot = "boot-1"

    def start(self, state=STATE):
        ipam = LocalIpam(str(self.folder), lambda: self.seconds, lambda: self.boot)
        ipam.load()
        assert ipam.grant(state) == []
        return ipam

    @property
    def file(self):
        return self.folder / "allocations"


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "ipam")


def held(ipam):
    return {found.address: found.handle for found in ipam.allocations()}


def refuse(*arguments, **options):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


REFUSAL = (
    "{}/allocations could not be written: No space left on device. No address was given or taken back. Make room or "
    "correct the file system, then try again."
)


# --- These tests are about restarts, what may be assigned, and records that cannot be read or do not fit ------------


def test_allocations_and_opened_blocks_outlive_the_process(machine):
    ipam = machine.start()
    for number in range(3):
        ipam.assign(f"h{number}", {"pod": f"é{number}"})
    ipam.release("h0")
    ipam.flush()
    again = machine.start()
    assert again.allocations() == ipam.allocations()
    assert held(again) == {"10.0.0.3": "h1", "10.0.0.4": "h2"}
    assert again.opened == ("10.0.0.4/30",)
    assert again.by_handle("h1") == again.by_address("10.0.0.3") == ipam.by_handle("h1")
    assert again.by_handle("h2").attributes == {"pod": "é2"}
    assert again.usage() == [
        Usage("10.0.0.0/30", "p", 4, 3, 0, 0, False, 1),
        Usage("10.0.0.4/30", "p", 4, 1, 0, 3, False, 0),
    ]


def test_addresses_of_tunnels_and_of_the_inventory_are_never_given(machine):
    ipam = machine.start()
    assert [ipam.assign(f"h{number}", {}).address for number in range(6)] == [
        *("10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7")
    ]
    with pytest.raises(NoAddress):
        ipam.assign("h6", {})
    for address, whose in (("10.0.0.0", "this node's ipip tunnel"), ("10.0.0.1", "inventory workload web-1")):
        with pytest.raises(AddressTaken, match=f"{address} belongs to {whose}"):
            ipam.assign("h6", {}, address=address)


PROBED = dataclasses.replace(
    STATE,
    ipam=dataclasses.replace(STATE.ipam, probes={"p": "10.0.0.3"}),
    probe_endpoint=VethEndpoint("probe", PROBE_INTERFACE, "10.0.0.3", 1480, "p", "calico-system", PROBE_NETNS),
)


def test_the_address_of_the_probe_endpoint_is_never_given(machine):
    ipam = machine.start(PROBED)
    assert [ipam.assign(f"h{number}", {}).address for number in range(2)] == ["10.0.0.2", "10.0.0.4"]
    with pytest.raises(AddressTaken, match=r"10\.0\.0\.3 belongs to this node's probe endpoint in pool p"):
        ipam.assign("h6", {}, address="10.0.0.3")
    assert ipam.usage()[0] == Usage("10.0.0.0/30", "p", 4, 4, 0, 0, False, 0)


@pytest.mark.parametrize("mode", MODES)
def test_a_node_is_in_order_after_its_first_run(tmp_path, mode):
    pools = pool(mode), pool("vxlan", "zone", "10.245.0.0/16"), pool("direct", "six", "fd00:10:244::/64")
    for name, state in states(build(*pools, own=ADDRESSES6)).items():
        ipam = Machine(tmp_path / name).start(state)
        report = ipam.check(state, ())
        assert (report.problems, "Found 3 probe endpoint IPs." in report.lines) == (0, True)


def test_a_check_counts_the_probe_endpoint_and_says_if_it_is_missing(machine):
    ipam = machine.start(PROBED)
    report = ipam.check(PROBED, ())
    assert (report.problems, "Found 1 probe endpoint IPs." in report.lines) == (0, True)
    missing = ipam.check(dataclasses.replace(PROBED, probe_endpoint=None), ())
    assert missing.unused == (("10.0.0.3", "probe-addr-node1-p"),)
    assert "Found 1 probe endpoint IPs." not in missing.lines
    stray = dataclasses.replace(PROBED, ipam=STATE.ipam)
    assert ipam.check(stray, ()).missing == (("10.0.0.3", "probe-addr-node1"),)
    assert ipam.check(dataclasses.replace(stray, phase=Phase.FLIP), ()).problems == 0


@pytest.mark.parametrize(
    ("had", "addresses", "error"),
    [
        ((), {6: "fd00::1:0"}, AddressTaken),
        ((6,), {6: "fd00::2"}, HandleTaken),
        ((6,), {4: "10.0.0.1"}, AddressTaken),
        ((4,), {6: "fd00::1:0"}, AddressTaken),
    ],
)
def test_a_handle_that_cannot_have_every_address_keeps_what_it_had(machine, had, addresses, error):
    state = dataclasses.replace(
        STATE,
        pools=(*STATE.pools, Pool("six", "fd00::/64", 126, "VXLAN")),
        ipam=dataclasses.replace(STATE.ipam, blocks=(A, Block("fd00::/126", "six"), Block("fd00::1:0/126", "six"))),
    )
    ipam = machine.start(state)
    ipam.assign("other", {}, address="fd00::1:0")
    for version in had:
        ipam.assign("web", {}, version=version)
    before = held(ipam)
    with pytest.raises(error):
        ipam.assign_each("web", {}, addresses=addresses, versions=(4, 6))
    assert held(ipam) == before
    ipam.flush()
    assert held(machine.start(state)) == before


def test_the_boot_is_written_down_once(machine):
    for boot in ("boot-1", "boot-1", "boot-2"):
        machine.boot = boot
        ipam = machine.start()
        for _ in range(2):
            ipam.assign("h", {})
            ipam.flush()
            ipam.release("h")
            ipam.flush()
    records = allocation_journal.AllocationJournal(str(machine.file)).load()
    assert records[0] == ["calico-ipam", 1]
    assert [record for record in records[1:] if record[0] in ("calico-ipam", "boot")] == [
        ["boot", "boot-1", 0.0],
        ["boot", "boot-2", 100.0],
    ]


def test_uses_modes_and_reservations_are_those_of_the_state(machine):
    pools = (
        Pool("m", "10.0.1.0/24", 30, "None", assignment_mode="Manual"),
        Pool("t", "10.0.2.0/24", 30, "None", allowed_uses=("Tunnel",)),
        Pool("off", "10.0.3.0/24", 30, "None", disabled=True),
    )
    blocks = (Block("10.0.1.0/30", "m"), Block("10.0.2.0/30", "t"), Block("10.0.3.0/30", "off"))
    state = dataclasses.replace(
        STATE, pools=STATE.pools + pools, ipam=NodeIpam(blocks=(*blocks, A), reservations=("10.0.0.0/31",))
    )
    ipam = machine.start(state)
    assert ipam.assign("h", {}).address == "10.0.0.2"
    assert ipam.assign("asks", {}, pools=("m",)).address == "10.0.1.0"


def test_loading_writes_nothing(machine):
    machine.start()
    assert not machine.folder.exists()
    ipam = machine.start()
    ipam.assign("h", {})
    ipam.flush()
    machine.boot = "boot-2"
    before = machine.file.read_bytes()
    machine.start().flush()
    assert machine.file.read_bytes() == before


def test_nothing_is_given_before_it_is_known_what_was_given(machine):
    machine.folder.mkdir()
    machine.file.write_text("garbage\n")
    ipam = LocalIpam(str(machine.folder))
    with pytest.raises(IpamUnreadable):
        ipam.load()
    ipam.grant(STATE)
    with pytest.raises(RuntimeError):
        ipam.assign("h", {})
    with pytest.raises(RuntimeError):
        ipam.release("h")
    assert machine.file.read_text() == "garbage\n"


def _no_boot_id() -> str:
    raise PermissionError(13, "Permission denied")


def test_without_the_boot_s_id_no_address_is_given(machine):
    ipam = LocalIpam(str(machine.folder), lambda: machine.seconds, _no_boot_id)
    with pytest.raises(IpamUnreadable) as error:
        ipam.load()
    assert str(error.value) == (
        "The time since an address was released is not known: /proc/sys/kernel/random/boot_id cannot be read: "
        "Permission denied. No address is assigned meanwhile. Mount /proc, then start calico-agent again."
    )


WHY = "a field of record 1 cannot be read: it is"
SECONDS = "not a number from -1.79769e+308 to 1.79769e+308"


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([["calico-ipam", 2]], "record 1 is of a kind that is not known here"),
        ([["calico-ipam", 1], ["assign", "10.0.0.1"]], "record 2 is not complete"),
        ([["calico-ipam", 1], 7], "record 2 is not complete"),
        (
            [["assign", "10.0.0.1", "h", {"a": 1}, "p", "10.0.0.0/26"]],
            "a field of record 1 cannot be read: a is 1, not a text of at most 4096 characters",
        ),
        ([["release", "10.0.0.1", "now"]], f"{WHY} now, {SECONDS}"),
        ([["release", "10.0.0.1", 10**400]], f"{WHY} a very large number, {SECONDS}"),
        ([["boot", "a", -(10**400)]], f"{WHY} a very large number, {SECONDS}"),
        ([["release", "x", 1.0]], "'x' is not an IP address"),
        ([["assign", "10.0.0.1", handle, {}, "p", "10.0.0.0/30"] for handle in "ab"], "10.0.0.1 is given to two"),
    ],
)
def test_records_of_another_release_are_not_guessed_at(machine, records, why):
    journal = allocation_journal.AllocationJournal(str(machine.file))
    journal.load()
    journal.append(records)
    with pytest.raises(IpamUnreadable) as error:
        machine.start()
    assert str(error.value) == allocation_journal.unreadable(str(machine.file), why)


# --- crashes --------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(st.sampled_from(["assign", "assign", "release", "flush"]), st.integers(0, 7)), min_size=1, max_size=12
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, data=st.data())
def test_cut_off_anywhere_all_that_was_answered_for_is_there_and_nothing_is_given_twice(tmp_path_factory, steps, data):
    machine = Machine(tmp_path_factory.mktemp("ipam"))
    ipam = machine.start()
    answered = [(0, {})]  # (length of the file, what is assigned at that length)
    for what, number in [*steps, ("flush", 0)]:
        if what == "assign":
            try:
                ipam.assign(f"h{number}", {})
            except NoAddress:
                continue
        elif what == "release":
            ipam.release(f"h{number}")
            machine.seconds += 20
        else:
            ipam.flush()
            answered.append((machine.file.stat().st_size if machine.file.exists() else 0, held(ipam)))
    whole = machine.file.read_bytes() if machine.file.exists() else b""
    ends = [length for length, dummy in answered]
    for length in sorted({*ends, *data.draw(st.lists(st.integers(0, len(whole)), max_size=20))}):
        machine.file.write_bytes(whole[:length])
        again = machine.start()
        assert held(again) == [known for end, known in answered if end <= length][-1]
        before = held(again)
        with pytest.raises(NoAddress):
            for number in range(9):
                address = again.assign(f"new{number}", {}).address
                assert address not in before
                assert address in ("10.0.0.2", "10.0.0.3") or "10.0.0.4/30" in again.opened
        again.flush()
        assert held(machine.start()) == held(again)


def test_a_spare_block_is_open_on_the_disk_before_an_address_of_it_is_answered_for(machine):
    ipam = machine.start()
    for number in range(3):
        ipam.assign(f"h{number}", {})
    ipam.flush()
    records = allocation_journal.AllocationJournal(str(machine.file)).load()
    kinds = [tuple(record[:2]) for record in records]
    assert kinds.index(("open", "10.0.0.4/30")) < kinds.index(("assign", "10.0.0.4"))


def test_a_process_killed_while_it_compacts_loses_nothing(machine, monkeypatch):
    monkeypatch.setattr(allocation_journal, "COMPACT_ABOVE", 300)
    for name in ("pwrite", "fsync", "replace"):
        ipam = machine.start()
        ipam.assign("stays", {})
        ipam.flush()

        with pytest.MonkeyPatch.context() as patch:
            real = getattr(os, name)

            def die(*arguments, name=name, real=real):
                if name != "pwrite" or arguments[2] == 0:
                    raise KeyboardInterrupt
                return real(*arguments)

            patch.setattr(os, name, die)
            with pytest.raises(KeyboardInterrupt):
                for number in range(100):
                    ipam.assign(f"h{number % 2}", {})
                    ipam.flush()
                    ipam.release(f"h{number % 2}")
                    ipam.flush()
                    machine.seconds += 30
        assert machine.start().allocations() == ipam.allocations()


def test_the_file_stays_small_and_says_the_same_after_it_was_compacted(machine, monkeypatch):
    monkeypatch.setattr(allocation_journal, "COMPACT_ABOVE", 1000)
    ipam = machine.start()
    ipam.assign("stays", {"pod": "x"})
    sizes = []
    for number in range(60):
        machine.seconds += 11
        ipam.assign(f"h{number}", {})
        ipam.flush()
        ipam.release(f"h{number}")
        ipam.flush()
        sizes.append(machine.file.stat().st_size)
    assert max(sizes) < 1100 and sizes != sorted(sizes)
    again = machine.start()
    assert (again.allocations(), again.usage(), again.opened) == (ipam.allocations(), ipam.usage(), ipam.opened)
    machine.seconds += 30
    assert [again.assign(f"n{n}", {}).address for n in range(3)] == [ipam.assign(f"n{n}", {}).address for n in range(3)]


CHILD = """
import sys
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import node_state as ns
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam import allocation_journal
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.ipam.local_ipam import LocalIpam
allocation_journal.COMPACT_ABOVE = 1000
ipam = LocalIpam(sys.argv[1], cooldown=0.0)
ipam.load()
ipam.grant(ns.NodeState("n", "10.10.1.11/24", pools=(ns.Pool("p", "10.0.0.0/24", 28, "None"),),
                        ipam=ns.NodeIpam(blocks=(ns.Block("10.0.0.0/28", "p"),))))
for number in range(10**6):
    handle = f"h{number % 10}"
    if ipam.by_handle(handle):
        ipam.release(handle)
        ipam.flush()
        print("-", handle, flush=True)
    else:
        address = ipam.assign(handle, {}).address
        ipam.flush()
        print(address, handle, flush=True)
"""


@pytest.mark.parametrize("answers", [1, 7, 40])
def test_a_process_that_is_killed_kept_its_word(machine, answers):
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(machine.folder)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    lines = [process.stdout.readline() for _ in range(answers)]
    process.kill()
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    answered = {}
    for line in lines:
        if not line.endswith("\n"):
            continue  # the process was killed while it wrote this answer, so nobody has it
        address, handle = line.split()
        if address == "-":
            del answered[handle]
        else:
            answered[handle] = address
    ipam = LocalIpam(str(machine.folder))
    ipam.load()
    found = {held.handle: held.address for held in ipam.allocations()}
    assert len(answered.items() ^ found.items()) <= 1  # the last request may be on the disk and not acknowledged yet


# --- clocks ---------------------------------------------------------------------------------------------------------


def waits(ipam, machine, address):
    """Advance the clock until no address of the first block rests, assign `address`, and return the seconds.

    Raise AssertionError if one still rests after 100 seconds, or if another address is assigned.
    """
    for second in range(100):
        machine.seconds += 1
        if ipam.usage()[0].cooling == 0:
            assert ipam.assign("next", {}).address == address
            return second + 1
    raise AssertionError("never")


SMALL = dataclasses.replace(STATE, ipam=NodeIpam(blocks=(Block("10.0.0.4/32", "p"),)))


def released(machine):
    ipam = machine.start(SMALL)
    ipam.assign("h", {})
    ipam.release("h")
    ipam.flush()
    return ipam


def test_the_cooldown_goes_on_over_a_restart(machine):
    released(machine)
    machine.seconds += 10
    assert waits(machine.start(SMALL), machine, "10.0.0.4") == 20


def test_the_cooldown_goes_on_over_a_reboot_however_often_the_agent_starts(machine):
    released(machine)
    machine.boot, machine.seconds = "boot-2", 4.0  # the machine is up for four seconds
    machine.start(SMALL)
    machine.seconds += 6
    assert waits(machine.start(SMALL), machine, "10.0.0.4") == 20


def test_a_clock_that_went_back_blocks_nothing_for_long(machine):
    released(machine)
    machine.seconds = 3.0
    assert waits(machine.start(SMALL), machine, "10.0.0.4") == 30


def test_times_go_on_over_many_boots(machine):
    released(machine)
    for number in range(2, 5):
        machine.boot, machine.seconds = f"boot-{number}", 50.0
        ipam = machine.start(SMALL)
        assert ipam.assign("h", {}).address == "10.0.0.4"  # its cooldown ended within the 50 seconds since the boot
        ipam.release("h")
        ipam.flush()
        with pytest.raises(NoAddress):
            ipam.assign("early", {})


# --- These tests are about disks that refuse, and writes that serve several callers ---------------------------------


@pytest.mark.parametrize("failing", ["open", "pwrite", "fdatasync"])
def test_changes_that_cannot_be_written_are_undone(machine, monkeypatch, failing):
    ipam = machine.start()
    ipam.assign("a", {})
    ipam.assign("b", {})
    ipam.flush()
    ipam.close()
    before, usage, data = ipam.allocations(), ipam.usage(), machine.file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, failing, refuse)
        ipam.assign("c", {})
        ipam.release("a")
        with pytest.raises(IpamNotWritten) as error:
            ipam.flush()
    assert str(error.value) == REFUSAL.format(machine.folder)
    assert (ipam.allocations(), ipam.usage(), ipam.opened) == (before, usage, ())
    assert machine.file.read_bytes() == data
    assert ipam.assign("c", {}).address == "10.0.0.4"
    ipam.flush()
    assert held(machine.start()) == held(ipam)


def test_the_error_for_a_read_only_folder_names_the_reason(machine, monkeypatch):
    def read_only(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    ipam = machine.start()
    ipam.assign("a", {})
    with monkeypatch.context() as patch:
        patch.setattr(os, "mkdir", read_only)
        with pytest.raises(IpamNotWritten, match="could not be written: Read-only file system"):
            ipam.flush()
    assert ipam.allocations() == []


def test_callers_that_came_during_a_failed_flush_fail_as_well(machine, monkeypatch):
    """If a flush fails, callers that came during it fail as well.

    They may have seen the first caller's address, or have an address of a block that it opened.
    """
    ipam = machine.start()
    for number in range(2):
        ipam.assign(f"h{number}", {})
    ipam.flush()
    ipam.assign("first", {})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        write = ipam.prepare()
        assert ipam.assign("first", {}).address == "10.0.0.4"
        ipam.assign("second", {})
        with pytest.raises(IpamNotWritten):
            write()
    assert sorted(held(ipam).values()) == ["h0", "h1"]
    with pytest.raises(IpamNotWritten):
        ipam.flush()
    ipam.flush()
    assert ipam.opened == ()
    assert ipam.assign("second", {}).address == "10.0.0.4"
    ipam.flush()
    assert held(machine.start()) == held(ipam)


def test_two_concurrent_flushes_fail_together(machine, monkeypatch):
    ipam = machine.start()
    ipam.assign("a", {})
    first = ipam.prepare()
    assert ipam.assign("a", {}).address == "10.0.0.2"
    second = ipam.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", refuse)
        with pytest.raises(IpamNotWritten):
            second()
    with pytest.raises(IpamNotWritten):
        first()
    assert ipam.allocations() == []
    ipam.flush()


def test_one_write_serves_all_that_are_queued(machine, monkeypatch):
    synced = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda handle: synced.append(handle) or real(handle))
    ipam = machine.start()
    for number in range(6):
        ipam.assign(f"h{number}", {})
    ipam.flush()
    ipam.flush()
    assert len(synced) == 1
    assert len(held(machine.start())) == 6


def test_threads_flush_while_another_assigns(machine, monkeypatch):
    monkeypatch.setattr(allocation_journal, "COMPACT_ABOVE", 2000)
    ipam = machine.start()
    errors = []

    def flush():
        try:
            for _ in range(40):
                ipam.flush()
        except Exception as error:  # noqa: BLE001  looked at below
            errors.append(error)

    threads = [threading.Thread(target=flush) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(200):
        machine.seconds += 31
        ipam.assign(f"h{number}", {})
        if number >= 4:
            ipam.release(f"h{number - 4}")
    for thread in threads:
        thread.join()
    ipam.flush()
    assert errors == []
    assert held(machine.start()) == held(ipam)


# --- workloads that the journal does not have ---


def test_a_journal_that_was_moved_away_is_written_again_from_the_records(machine):
    ipam = machine.start()
    workloads = [
        AttachedWorkload(f"default/w{number}", f"w{number}", addresses=(ipam.assign(f"default/w{number}", {}).address,))
        for number in range(3)
    ]
    ipam.flush()
    assert ipam.adopt(workloads) == []
    machine.file.unlink()
    again = machine.start()
    assert again.adopt(workloads) == []
    again.flush()
    assert held(machine.start()) == held(ipam)
    assert machine.start().opened == ("10.0.0.4/30",)
    assert again.assign("new", {}).address == "10.0.0.5"


def test_an_address_of_another_workload_is_not_adopted_and_is_reported(machine):
    ipam = machine.start()
    ipam.assign("default/a", {})
    assert ipam.adopt([AttachedWorkload("default/b", "b", addresses=("10.0.0.2",))]) == [
        "workload default/b uses 10.0.0.2, which cannot be its own: 10.0.0.2 belongs to default/a. Delete the workload "
        "and add it again."
    ]
    assert held(ipam) == {"10.0.0.2": "default/a"}


# --- check ----------------------------------------------------------------------------------------------------------


def test_check_compares_with_the_state_and_the_workloads(machine):
    ipam = machine.start()
    ipam.assign("net.c1.eth0", {"node": "node1"})
    good = AttachedWorkload("net.c1.eth0", "c1", addresses=("10.0.0.2",))
    report = ipam.check(STATE, [good])
    assert report.problems == 0
    assert "IPAM blocks record 3 allocations." in report.lines
    assert "Workloads and nodes are using 3 IPs." in report.lines
    ipam.assign("net.c2.eth0", {})
    report = ipam.check(STATE, [good, AttachedWorkload("net.c3.eth0", "c3", addresses=("10.0.0.7",))])
    assert ipam.check(desired(STATE, [good], ()), [good]).problems == 1
    assert [found.address for found in report.leaked] == ["10.0.0.3"]
    assert report.missing == (("10.0.0.7", "net.c3.eth0"),)
