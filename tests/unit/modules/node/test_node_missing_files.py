# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the node that others delete are written again by the node, and what others change is named by the status."""

from __future__ import annotations

import datetime
import os
import subprocess
import threading

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import node_status_info
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.change import command, missing_files
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import lock
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Store
from ansible_collections.baremetal.host_routing.plugins.modules import node, teardown

from tests.conftest import ROOT
from tests.unit.modules.node.test_node import PARAMS
from tests.unit.node.systemctl import Systemctl

CONFLIST = "/etc/cni/net.d/10-calico.conflist"
TIMER = "/etc/systemd/system/calico-files.timer"
FILES = [
    {"path": "/opt/cni/bin/calico", "content": "#!/bin/sh\n", "mode": "0755"},
    {"path": TIMER, "content": "[Timer]\n", "mode": "0644"},
    {"path": CONFLIST, "content": "{}\n", "mode": "0644", "last": True},
]
UNITS = [{"name": "calico-files.timer", "enabled": True, "started": True}]
NOW = datetime.datetime(2026, 11, 28, tzinfo=datetime.timezone.utc)


@pytest.fixture
def systemctl(host):
    fake = Systemctl(host.folder / "systemd")
    host.machine.systemctl = str(fake.program)
    return fake


@pytest.fixture
def installed(host, systemctl, monkeypatch):
    """A node with FILES, whose unit for watching folders runs."""
    monkeypatch.setitem(missing_files.restore.__kwdefaults__, "pause", 0.0)
    systemctl.have("calico-files.path.started")
    host.run(node, units=UNITS, **{**PARAMS, "files": FILES})
    return host


def there(host, path):
    return host.folder / "root" / path.lstrip("/")


def restore(host):
    return [change.subject for change in missing_files.restore(host.machine)]


def files_problem(host):
    """Return the problem of the status that is about files, "" if there is none."""
    found = [text for text in node_status_info.gather(host.machine, NOW)["problems"] if "files" in text]
    assert len(found) <= 1, found
    return "".join(found)


def test_missing_files_come_back_and_others_stay(installed):
    installed.folder.joinpath("asked").write_text("")
    there(installed, "/opt/cni/bin/calico").write_text("changed")
    there(installed, CONFLIST).unlink()
    there(installed, CONFLIST).parent.rmdir()
    assert restore(installed) == [str(there(installed, CONFLIST))]
    assert there(installed, CONFLIST).read_text() == "{}\n"
    assert there(installed, "/opt/cni/bin/calico").read_text() == "changed"
    assert restore(installed) == []


def test_systemd_reads_a_unit_that_came_back(installed, systemctl):
    reads = installed.folder / "systemd" / "reads"
    before = len(reads.read_text()) if reads.exists() else 0
    there(installed, TIMER).unlink()
    assert restore(installed) == [str(there(installed, TIMER))]
    assert len(reads.read_text()) == before + 1


def test_a_link_that_leads_nowhere_is_not_missing(installed):
    there(installed, CONFLIST).unlink()
    there(installed, CONFLIST).symlink_to("nowhere")
    assert restore(installed) == []


def test_an_interrupted_change_does_not_announce_the_node(installed):
    """What tells runtimes that the node is ready is not restored before the node is."""
    store = Store(installed.machine.store)
    stored = store.load()
    store.save(stored.__class__(stored.state, stored.bird_config, stored.files, complete=False))
    for path in (CONFLIST, "/opt/cni/bin/calico"):
        there(installed, path).unlink()
    assert restore(installed) == [str(there(installed, "/opt/cni/bin/calico"))]


def test_it_waits_for_a_run_and_restores_nothing_after_a_teardown(installed):
    done = []
    with lock.held("a run", path=installed.machine.lock):
        there(installed, CONFLIST).unlink()
        waiting = threading.Thread(target=lambda: done.append(restore(installed)))
        waiting.start()
        Store(installed.machine.store)
        os.rename(installed.folder / "calico", installed.folder / "gone")
    waiting.join(60)
    assert done == [[]] and not there(installed, CONFLIST).exists()
    os.rename(installed.folder / "gone", installed.folder / "calico")
    assert installed.run(teardown)["changed"] is True
    assert restore(installed) == [] and not there(installed, TIMER).exists()


def test_a_run_names_what_it_writes_and_the_status_what_differs(installed):
    assert files_problem(installed) == ""
    there(installed, CONFLIST).unlink()
    there(installed, "/opt/cni/bin/calico").write_text("changed")
    there(installed, TIMER).chmod(0o666)
    there(installed, "/etc/cni").chmod(0o700)
    assert files_problem(installed) == (
        f"files of the node are not as the last run left them: {there(installed, '/etc/cni')}/ (another mode: 0700), "
        f"{there(installed, '/opt/cni/bin/calico')} (another content), {there(installed, TIMER)} (another mode: 0666), "
        f"{there(installed, CONFLIST)} (missing). calico-files.service restores missing ones within a minute. Run "
        "playbooks/site.yml for the others; --check --diff shows what it would change."
    )
    assert installed.run(node, units=UNITS, **{**PARAMS, "files": FILES})["changed"] is True
    assert files_problem(installed) == ""


SENTENCE = (
    "calico-files.path does not run, so that calico-files.timer restores missing files, within a minute. The host may "
    "have no inotify instances left ('Too many open files' in journalctl -u calico-files.path). Raise "
    "fs.inotify.max_user_instances and fs.inotify.max_user_watches by sysctl; the node then starts it by itself."
)


def test_a_stopped_path_unit_for_the_files_is_reported(installed, systemctl, capsys):
    (installed.folder / "systemd" / "calico-files.path.started").unlink()
    assert files_problem(installed) == SENTENCE
    answer = installed.run(node, units=UNITS, **{**PARAMS, "files": FILES})
    assert answer["changed"] is False and f"node1: {SENTENCE}" in answer["warnings"]
    systemctl.have("calico-files.path.broken")
    capsys.readouterr()
    assert command.main(["files"], installed.machine) == 0
    assert capsys.readouterr().err == f"<4>{SENTENCE}\n"
    (installed.folder / "systemd" / "calico-files.path.broken").unlink()
    there(installed, CONFLIST).unlink()
    assert command.main(["files"], installed.machine) == 0
    assert capsys.readouterr() == (f"<5>+ file     {there(installed, CONFLIST)}  1 lines, mode 0644\n", "")
    assert files_problem(installed) == ""


def test_dockers_socket_is_opened_again(installed, systemctl):
    assert restore(installed) == []
    systemctl.have("calico-docker.socket.started")
    assert restore(installed) == ["calico-docker.socket"]
    there(installed, missing_files.DOCKER_SOCKET).parent.mkdir(parents=True)
    there(installed, missing_files.DOCKER_SOCKET).touch()
    assert restore(installed) == []


def test_the_unit_sees_cheaply_whether_a_file_is_missing(installed, tmp_path):
    """The condition of calico-files.service holds if a file of the list is missing, or nobody watches."""
    listed = installed.folder / "calico" / "files"
    assert listed.read_text().splitlines() == [entry["path"] for entry in FILES]
    text = (ROOT / "roles/calico_node/files/systemd/calico-files.service").read_text("utf-8").replace("\\\n", "")
    (line,) = [line for line in text.splitlines() if line.startswith("ExecCondition=")]
    assert line.startswith("ExecCondition=+"), "making the sandbox takes longer than the look, every minute"
    script = line.partition("-c '")[2].rstrip("'").replace("$$", "$")
    paths = [str(there(installed, entry["path"])) for entry in FILES]
    listed.write_text("".join(f"{path}\n" for path in paths))
    (tmp_path / "systemctl").write_text("#!/bin/sh\nexit ${ACTIVE:-0}\n")
    (tmp_path / "systemctl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def status(**more):
        command = ["/bin/sh", "-c", script.replace("/var/lib/calico/files", str(listed))]
        return subprocess.run(command, env={**environment, **more}, check=False).returncode

    assert (status(), status(ACTIVE="3")) == (1, 0)
    there(installed, CONFLIST).unlink()
    assert status() == 0
    there(installed, CONFLIST).symlink_to("nowhere")
    assert status() == 1
