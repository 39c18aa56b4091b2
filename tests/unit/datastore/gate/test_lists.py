# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a gate that runs: the fleet's addresses and revoked certificates."""

from __future__ import annotations

import ipaddress
import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate.lists import (
    ListFile,
    address,
    fingerprint,
)


def test_a_file_is_read_again_when_it_changes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "fleet.txt"
    found = ListFile(str(path), address)
    assert not found.changed() and not found.entries
    path.write_text("# the fleet\n10.0.0.1\n\n2001:DB8::1\n")
    assert found.changed() and not found.changed()
    assert found.entries == {ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("2001:db8::1")}
    path.unlink()
    assert found.changed() and found.entries == frozenset()
    assert not ListFile("", address).changed()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("10.0.0.1\n10.0.0.0/24\n", "'10.0.0.0/24' is no address"),
        ("host\x1b[1m\n", "'host\\x1b[1m' is no address"),
        ("#\n" * (3 << 20), "it has more than 4194304 bytes"),
    ],
)
def test_a_file_that_cannot_be_used_changes_nothing(tmp_path: pathlib.Path, content: str, reason: str) -> None:
    path = tmp_path / "fleet.txt"
    path.write_text("10.0.0.9\n")
    found = ListFile(str(path), address)
    assert found.changed()
    path.write_text(content)
    assert found.changed() and not found.changed()
    assert found.problem == f"{path} cannot be used: {reason}. What it had before counts."
    assert found.entries == {ipaddress.ip_address("10.0.0.9")}
    path.write_text("10.0.0.8\n")
    assert found.changed() and not found.problem


def test_a_folder_is_no_file(tmp_path: pathlib.Path) -> None:
    found = ListFile(str(tmp_path), address)
    assert found.changed()
    assert found.problem == f"{tmp_path} cannot be used: Is a directory. What it had before counts."


@pytest.mark.parametrize("line", ["", "AB" * 32, "ab" * 31, "ab" * 33, "zz" * 32, "ab:" * 21 + "a"])
def test_an_invalid_fingerprint_is_refused(line: str) -> None:
    with pytest.raises(ValueError) as refused:
        fingerprint(line)
    assert str(refused.value) == f"{line[:80]!r} is no SHA-256 fingerprint of 64 hex digits"
    assert fingerprint("0a" * 32) == "0a" * 32
