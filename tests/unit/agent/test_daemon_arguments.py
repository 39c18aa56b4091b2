# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the agent's process, with files that cannot be used."""

from __future__ import annotations

import types

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent import daemon

#: The folders of the kernel's own, and the fields of Machine that are texts and numbers.
KEYS = (
    "There are: netns_folder, marker_folder, root, store, engine, ipam, workloads, datastore, agent_socket, lock,"
    " engine_alarm, bird_config, bird_socket, bird_program, netstat, watched, systemctl, podman, docker_socket,"
    " cni_deleted, writer_lock, lock_timeout, boot_wait, agent_patience."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"stores": "/tmp"}', f"stores is not known. {KEYS}"),
        ('{"kernel": "/tmp"}', f"kernel is not known. {KEYS}"),
        ('{"a\\u001b[2J": ""}', rf"'a\x1b[2J' is not known. {KEYS}"),
        ('["store"]', "it is a list, not a table."),
        ('{"store": ["/tmp"]}', "store is a list, not a text of at most 4096 characters."),
        ('{"lock_timeout": "1"}', "lock_timeout is 1, not a number from 0 to 1e+12."),
        ('{"agent": "x"}', f"agent is not known. {KEYS}"),
    ],
)
def test_a_file_of_paths_with_other_content_is_a_wrong_argument(tmp_path, capsys, text, said):
    paths = tmp_path / "paths.json"
    paths.write_text(text)
    with pytest.raises(SystemExit) as ended:
        daemon.main(["--settings", str(tmp_path / "missing"), "--paths", str(paths)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"calico-agent: error: {paths}: {said} Correct or remove it."


def test_a_file_of_paths_that_cannot_be_read_fails(tmp_path, capsys):
    bad = "Expecting value: line 1 column 1 (char 0)"
    for paths, said in ((tmp_path / "missing", "No such file or directory"), (tmp_path / "bad", bad)):
        if paths.name == "bad":
            paths.write_text("")
        assert daemon.main(["--settings", str(tmp_path / "none"), "--paths", str(paths)]) == 1
        assert capsys.readouterr().err == (
            f"calico-agent: {paths} cannot be read: {said}. Correct it, or leave --paths out.\n"
        )


def test_a_lock_that_cannot_be_opened_ends_the_agent_with_its_path(tmp_path, caplog, monkeypatch):
    (tmp_path / "run").write_text("")
    writer_lock = tmp_path / "run" / "writer.lock"
    machine = types.SimpleNamespace(lock_timeout=0.0, writer_lock=str(writer_lock))
    monkeypatch.setattr(daemon, "_here", lambda paths, mounts: (machine, None))
    assert daemon.main(["--settings", str(tmp_path / "none")]) == 1
    assert caplog.messages == [
        f"The agent does not start: the lock {writer_lock} cannot be opened: File exists. Nothing was changed. Run as"
        " root, and correct the file system or what is in its place, then run again."
    ]
