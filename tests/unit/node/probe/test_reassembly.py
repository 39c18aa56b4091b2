# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's counter of reassembled packets, in every text that a file can have."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import reassembly
from hypothesis import given
from hypothesis import strategies as st

SNMP = """\
Ip: Forwarding DefaultTTL ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates
Ip: 1 64 2 34 17 1 5 0 10
Icmp: InMsgs ReasmOKs
Icmp: 3 4
"""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (SNMP, 17),
        (SNMP.replace(" 17 ", " -1 "), None),
        (SNMP.replace(" 17 ", " 1" + "0" * 20 + " "), None),
        (SNMP.replace(" 17 ", " ٣ "), None),
        (SNMP.replace(" ReasmOKs ", " Other "), None),
        (SNMP.partition("\n")[0], None),
        ("", None),
    ],
)
def test_number_in_a_text(text: str, number: int | None) -> None:
    """The number is that of IPv4, and none where the text has none."""
    assert reassembly.parse(text) == number


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    """No text of the file raises an error."""
    reassembly.parse(f"Ip: {text}\nIp: {text}")


def test_file_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    """A file that is missing, too large or not of ASCII has no number; that of this kernel has one."""
    path = tmp_path / "snmp"
    assert reassembly.read(str(path)) is None
    path.write_bytes(SNMP.encode() + b"\xff")
    assert reassembly.read(str(path)) is None
    path.write_bytes(SNMP.encode() + b" " * (64 << 10))
    assert reassembly.read(str(path)) is None
    path.write_text(SNMP)
    assert reassembly.read(str(path)) == 17
    assert (reassembly.read() or 0) >= 0 and reassembly.read() is not None
