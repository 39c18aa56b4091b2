# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the agent's settings: defaults, the errors for wrong ones, and their documentation."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import settings

from tests.conftest import ROOT


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", "it is a list, not a table."),
        ('{"grup": "x"}', "grup is not known. There are: group, metrics_address, metrics_port, log_level,"
         " resync_interval, cleanup_grace, leak_grace, cooldown, sticky, runtime_labels."),
        ('{"cooldown": "x"}', "cooldown is x, not a number from 0 to 1e+12."),
        ('{"metrics_port": 1.5}', "metrics_port is 1.5, not a whole number from 0 to 65535."),
        ('{"metrics_port": 65536}', "metrics_port is 65536, not a whole number from 0 to 65535."),
        ('{"log_level": "loud"}', "log_level is loud, not one of debug, info, warning, error."),
        ('{"leak_grace": -1}', "leak_grace is -1, not a number from 0 to 1e+12."),
        ('{"cooldown": Infinity}', "it cannot be read: Infinity is not a number of JSON."),
        ('{"cooldown": 1e999}', "cooldown is inf, not a number from 0 to 1e+12."),
        ('{"cooldown": 1, "cooldown": 2}', "it cannot be read: an object has the key cooldown twice."),
        ('{"runtime_labels": "a"}', "runtime_labels is a, not a list of at most 32."),
        ('{"runtime_labels": [""]}', "runtime_labels[0] is '', not the beginning of a label's key, such as"
         " example.org/."),
        ('{"runtime_labels": ["projectcalico.org/"]}', "runtime_labels[0] is projectcalico.org/, not the beginning of a"
         " label's key, such as example.org/."),
        ('{"group": null}', "group is None, not a text of at most 4096 characters."),
        ('{"leak_grace": NaN}', "it cannot be read: NaN is not a number of JSON."),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(tmp_path, content, words):
    path = tmp_path / "agent.json"
    path.write_text(content)
    with pytest.raises(settings.SettingsError) as caught:
        settings.load(str(path))
    assert str(caught.value) == f"{path}: {words} Correct it, then start the agent again."


def test_settings_are_loaded_with_defaults_and_damage_is_an_error(tmp_path):
    assert settings.load(str(tmp_path / "none")) == (settings.AgentSettings(), "")
    path = tmp_path / "agent.json"
    path.write_text('{"group": "", "cooldown": 1}')
    loaded = settings.load(str(path))
    assert (loaded.settings.group, loaded.settings.cooldown, len(loaded.digest)) == ("", 1, 16)
    path.write_text("{")
    with pytest.raises(settings.SettingsError, match="cannot be read"):
        settings.load(str(path))


def test_every_setting_is_documented():
    page = (ROOT / "docs" / "reference" / "agent.md").read_text()
    for field in dataclasses.fields(settings.AgentSettings):
        default = f"{field.default:g}" if isinstance(field.default, float) else str(field.default or "[]")
        (line,) = [line for line in page.splitlines() if line.startswith("|") and f"`{field.name}`" in line]
        assert default in line, line
