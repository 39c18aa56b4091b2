# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of sysctls: the source check of all interfaces, sysctls that reset others, and refusals."""

from __future__ import annotations

import errno

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import sysctl
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import Sysctl

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.suites.drivers import converge, fail, lines, underlay

ALL = "net/ipv4/conf/all/rp_filter"
FORWARD = Sysctl("net/ipv4/ip_forward", "1")


def source_check(value: str, device: str = "eth0") -> Sysctl:
    return Sysctl(f"net/ipv4/conf/{device}/rp_filter", value)


@pytest.mark.parametrize(
    ("wanted", "of_all", "right"),
    [
        (("1",), "0", None),
        (("1",), "1", None),
        (("1",), "2", "0 or 1"),
        (("0",), "0", None),
        (("0",), "1", "0"),
        (("0", "1"), "1", None),
        (("0", "1"), "2", "0 or 1"),
        (("2",), "1", None),
        (("2", "1"), "2", "0 or 1"),
        ((), "2", None),
    ],
)
def test_a_source_check_of_all_interfaces_that_overrules_that_of_workloads_is_a_problem(
    kernel: FakeKernel, wanted: tuple[str, ...], of_all: str, right: str | None
) -> None:
    """A value of `all` above those of all workloads, if any, is a problem: the kernel takes the greater one of both.

    Interfaces that are desired with 2, the host's own, do not count.
    """
    kernel.sysctl_write(ALL, of_all)
    desired = [source_check(value, f"cali{number}") for number, value in enumerate(wanted)]
    found = sysctl.overruled(kernel, [*desired, FORWARD])
    assert [(change.action, change.before) for change in found] == ([] if right is None else [("!", of_all)])
    assert all(f"Set it to {right} where it is set" in change.note for change in found)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (errno.EROFS, "cannot be written here"),
        (errno.EACCES, "cannot be written here"),
        (errno.EPERM, "cannot be written here"),
        (errno.ENOENT, "There is no /proc/sys/net/ipv4/ip_forward to write 1 to."),
        (errno.EINVAL, "Writing 1 to /proc/sys/net/ipv4/ip_forward was refused."),
    ],
)
def test_a_refusal_says_what_to_do(kernel: FakeKernel, error: int, text: str) -> None:
    kernel.fail_next("sysctl_write", error)
    assert text in fail(sysctl, kernel, [FORWARD])


def test_values_with_several_numbers_are_compared_by_number() -> None:
    ports = Sysctl("net/ipv4/ip_local_port_range", "32768 60999")
    assert sysctl.diff([ports], {ports.key: "32768\t60999"}) == []
    assert lines(sysctl.diff([ports], {ports.key: "32768\t61000"})) == [
        "~ sysctl   net.ipv4.ip_local_port_range  32768\\t61000  ->  32768 60999"
    ]


def test_forwarding_of_an_interface_is_set_after_ip_forward(kernel: FakeKernel) -> None:
    """An interface's `forwarding` that is desired is set after ip_forward, which sets that of every interface."""
    underlay(kernel)
    closed = Sysctl("net/ipv4/conf/wire0/forwarding", "0")
    assert converge(sysctl, kernel, [FORWARD, closed]) == ["~ sysctl   net.ipv4.ip_forward  0  ->  1"]
    assert kernel.sysctl_read("net/ipv4/conf/eth0/forwarding") == "1"
    assert kernel.sysctl_read(closed.key) == "0"
    closed6, forward6 = Sysctl("net/ipv6/conf/wire0/forwarding", "0"), Sysctl("net/ipv6/conf/all/forwarding", "1")
    converge(sysctl, kernel, [forward6, closed6])
    assert kernel.sysctl_read("net/ipv6/conf/eth0/forwarding") == "1"


@pytest.mark.parametrize(
    ("before", "after", "noted"), [("1", "2", True), ("0", "2", False), ("1", "0", False), ("2", "1", False)]
)
def test_a_source_check_that_gets_looser_has_a_reason(before: str, after: str, noted: bool) -> None:
    wanted = source_check(after)
    (change,) = sysctl.diff([wanted], {wanted.key: before})
    assert change.note.startswith("loose, or packets would be lost") == noted


def test_a_sysctl_that_cannot_be_written_is_a_problem_and_others_are_not(kernel: FakeKernel) -> None:
    bad = Sysctl("net/../../etc/passwd", "1")
    desired = [bad, FORWARD]
    changes = sysctl.diff(desired, sysctl.observe(kernel, desired))
    assert [change.action for change in changes] == ["!", "~"]
    with pytest.raises(ApplyError, match="cannot be a key for /proc/sys"):
        sysctl.apply(kernel, changes)
    assert kernel.sysctl_read(FORWARD.key) == "1"
