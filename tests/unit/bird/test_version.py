# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The supported versions of BIRD."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import version
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import VersionUnknown


@pytest.mark.parametrize(
    ("text", "onlink"),
    [
        ("2.0.7-4.1", False),  # Debian 11
        ("2.0.8-2", False),  # Ubuntu 22.04
        ("2.0.12-7", True),  # Debian 12
        ("2.14-1build2", True),  # Ubuntu 24.04
        ("2.17.5-0+deb13u1", True),  # Debian 13
        ("2.20.0-1", True),
        ("3.0.1", False),
        ("3.1.7-0+deb13u1", False),  # Debian 13's bird3
        ("3.2", True),
        ("3.4.0-1", True),
        ("BIRD version 1.6.8", False),
    ],
)
def test_onlink_in_filters(text: str, onlink: bool) -> None:
    assert version.parse(text).has_onlink is onlink


@pytest.mark.parametrize(("text", "races"), [("2.20.0-1", False), ("3.2.0-1", False), ("3.4.0-1", True), ("3.5", True)])
def test_versions_that_may_end_themselves(text: str, races: bool) -> None:
    assert version.parse(text).may_end_itself is races


def test_a_version_reads_as_bird_writes_it() -> None:
    assert [str(version.parse(text)) for text in ("2.0.12", "2.17", "BIRD version 3.4.0")] == ["2.0.12", "2.17", "3.4"]
    with pytest.raises(ValueError, match="no version in 'none'"):
        version.parse("none")


def program(folder: pathlib.Path, script: str) -> str:
    path = folder / "bird"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_installed_one_is_asked(tmp_path: pathlib.Path) -> None:
    assert version.installed(str(tmp_path / "bird")) is None
    assert version.installed(program(tmp_path, "echo BIRD version 2.0.12 >&2")) == (2, 0, 12)
    path = program(tmp_path, "echo what?")
    with pytest.raises(VersionUnknown) as caught:
        version.installed(path)
    assert str(caught.value) == (
        f"The version of BIRD could not be read. `{path} --version` says 'what?'. "
        "Install the package bird2 of Debian 12 or 13."
    )


def test_the_candidate_of_apt() -> None:
    policy = "bird2:\n  Installed: (none)\n  Candidate: 2.0.12-7\n  Version table:\n     2.0.12-7 500\n"
    assert version.candidate(policy) == (2, 0, 12)
    assert version.candidate(policy.replace("2.0.12-7", "1:2.17.5-0+deb13u1")) == (2, 17, 5)
    assert version.candidate(policy.replace("Candidate: 2.0.12-7", "Candidate: (none)")) is None
    assert version.candidate("") is None
