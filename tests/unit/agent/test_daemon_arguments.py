# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the agent's process, with files that cannot be used."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import daemon

KEYS = "the keys are the fields of Machine in node/machine.py, netns_folder and marker_folder."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"stores": "/tmp"}', f"has the unknown key stores. Correct or remove it; {KEYS}"),
        ('{"kernel": "/tmp"}', f"has the unknown key kernel. Correct or remove it; {KEYS}"),
        ('{"a\\u001b[2J": ""}', rf"has the unknown key a\x1b[2J. Correct or remove it; {KEYS}"),
        ('["store"]', 'is no JSON object. Write one into it, such as {"store": "/tmp/store"}.'),
    ],
)
def test_a_file_of_paths_with_other_content_is_a_wrong_argument(tmp_path, capsys, text, said):
    paths = tmp_path / "paths.json"
    paths.write_text(text)
    with pytest.raises(SystemExit) as ended:
        daemon.main(["--settings", str(tmp_path / "missing"), "--paths", str(paths)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"calico-agent: error: {paths} {said}"


def test_a_file_of_paths_that_cannot_be_read_fails(tmp_path, capsys):
    for paths, said in ((tmp_path / "missing", "No such file or directory"), (tmp_path / "bad", "Expecting value")):
        if paths.name == "bad":
            paths.write_text("")
        assert daemon.main(["--settings", str(tmp_path / "none"), "--paths", str(paths)]) == 1
        assert said in capsys.readouterr().err
