# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What galaxy_import.py makes of the importer's output."""

from __future__ import annotations

import pytest

from tests.run import galaxy_import

GOOD = """\
Importing with galaxy-importer 0.4.44
Loading module node
Linting collection via ansible-lint 26.10.1...
...ansible-lint run complete
Collection loading complete
Importer processing completed successfully
"""


def test_a_good_import_has_no_complaints() -> None:
    """An import that says all steps and nothing else has no complaints, and the exit status is not judged here."""
    assert galaxy_import.complaints(GOOD) == []


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Could not get role description, no role metadata found",
        "ERROR: The import failed for the following reason: No role readme found.",
        "CRITICAL: out of memory",
    ],
)
def test_each_warning_and_error_is_a_complaint(line: str) -> None:
    """Each line of level WARNING, ERROR or CRITICAL is reported unchanged as a complaint."""
    assert galaxy_import.complaints(f"{line}\n{GOOD}") == [line]


@pytest.mark.parametrize("step", [galaxy_import.LINTED, galaxy_import.ACCEPTED])
def test_a_step_that_is_missing_is_a_complaint(step: str) -> None:
    """An import without ansible-lint, or without the last line, is no success, whatever else it says."""
    assert galaxy_import.complaints(GOOD.replace(step, "")) == [f"the importer did not say: {step}"]


def test_the_importer_sees_no_other_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the caller's Ansible and importer do not reach it, and ansible-test is off."""
    monkeypatch.setenv("ANSIBLE_CONFIG", "/etc/ansible/ansible.cfg")
    monkeypatch.setenv("GALAXY_IMPORTER_RUN_ANSIBLE_TEST", "true")
    monkeypatch.setenv("GALAXY_IMPORTER_TMP_ROOT_DIR", "/elsewhere")
    env = galaxy_import.environment()
    ours = {name: value for name, value in env.items() if name.startswith(("ANSIBLE_", "GALAXY_IMPORTER_"))}
    assert ours == {f"GALAXY_IMPORTER_{name}": value for name, value in galaxy_import.SETTINGS.items()}
    assert ours["GALAXY_IMPORTER_RUN_ANSIBLE_TEST"] == "false"
