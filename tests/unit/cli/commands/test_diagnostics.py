# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl node diags`: everything that helps, readable by root only, and no password."""

from __future__ import annotations

import gzip
import pathlib
import stat
import tarfile

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.commands.node import diagnostics

from tests.unit.cli.commands.test_node_status import wire
from tests.unit.cli.conftest import POD, WEB, Node

SECRET = "hunter2 with spaces, and \\ and ]"
CONFIG = f'protocol bgp tor {{\n  neighbor 10.10.1.1 as 65000;\n  password "{SECRET}";\n}}\n'


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = ("sh", "-c", "echo oops >&2; exit 3")
    commands = {"date": ("date",), "none": ("no-such-program-anywhere",), "fails": fails}
    monkeypatch.setattr(diagnostics, "COMMANDS", commands)


def members(path: pathlib.Path) -> dict[str, str]:
    found = {}
    with tarfile.open(path) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            assert stream is not None and member.mode == 0o600
            found[member.name.partition("/")[2]] = stream.read().decode()
    return found


@pytest.mark.usefixtures("quick")
def test_the_archive_has_every_part_and_no_secret(node: Node) -> None:
    node.store(bird_config=CONFIG)
    (node.folder / "bird.cfg").write_text(CONFIG)
    agent = node.agent()
    agent.answers.update({"status": {"note": f'password "{SECRET}"'}, "ipam.show": {}, "ipam.check": {"problems": 0}})
    bird = node.bird(wire("Name"))
    bird.answers["show route all"] = [[wire("10.244.7.0/26 unicast")]]
    status, out, err = node.run("node", "diags", "--log-dir", f"{node.folder}/new/place")
    (path,) = (node.folder / "new" / "place").iterdir()
    assert (status, out, err) == (0, f"Collecting diagnostics\nDiags saved to NODE/new/place/{path.name}\n", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = members(path)
    assert set(found) >= {"date.txt", "bird/bird.cfg", "state/state.json", "agent/status.json"}
    assert found["none.txt"] == "$ no-such-program-anywhere\nNo such file or directory\n"
    assert found["fails.txt"] == "$ sh -c echo oops >&2; exit 3\noops\nexit status 3\n"
    assert found["bird/show-route-all.txt"] == "10.244.7.0/26 unicast\n"
    assert found["bird/bird.cfg"] == CONFIG.replace(SECRET, "********")
    assert SECRET.split()[0].encode() not in gzip.decompress(path.read_bytes())
    assert WEB.id in found["agent/workload.list.json"] and POD.id in found["agent/workload.list.json"]


@pytest.mark.usefixtures("quick")
def test_diagnostics_of_a_host_that_is_no_node_are_gathered(node: Node) -> None:
    status, dummy, err = node.run("node", "diags", "--log-dir", f"{node.folder}/d")
    assert (status, err) == (
        0,
        "calicoctl: this host is no node: it has no NODE/calico/state.json and no engine in NODE/engine. What is "
        "gathered is of this host alone.\n",
    )
    (path,) = (node.folder / "d").iterdir()
    found = members(path)
    assert found["bird/show-status.txt"].startswith("BIRD does not answer. Its control socket is ")
    assert found["agent/status.json"].startswith("the agent of this node does not answer. Its socket is ")
    assert found["state.txt"].endswith("/calico: No such file or directory\n")


@pytest.mark.usefixtures("quick")
def test_no_room_for_it(node: Node) -> None:
    node.store()
    (node.folder / "file").write_text("")
    status, out, err = node.run("node", "diags", "--log-dir", f"{node.folder}/file")
    assert (status, out) == (1, "Collecting diagnostics\n")
    assert err.startswith("calicoctl: NODE/file/diags-")
    assert err.endswith(".tar.gz could not be written: File exists. Name another folder with --log-dir.\n")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('password "x";', 'password "********";'),
        ("password 'a\"b';", "password '********';"),
        (r'{"bird_config": "  password \"x\";\n"}', r'{"bird_config": "  password \"********\";\n"}'),
        ('{"password": "x", "a": "b"}', '{"password": "********", "a": "b"}'),
        ('Password = "x" secret: "y"', 'Password = "********" secret: "********"'),
        ('{"bgp_password": "x"}', '{"bgp_password": "********"}'),
        ('{"bgp_passwords": "x"}', '{"bgp_passwords": "********"}'),
        ('api-token: "x"', 'api-token: "********"'),
        ("password checks are on", "password checks are on"),
        ('mypassword "x"', 'mypassword "x"'),
        ('password "unterminated\nnext', 'password "********\nnext'),
    ],
)
def test_passwords_and_secrets_are_redacted(text: str, shown: str) -> None:
    assert diagnostics.redacted(text) == shown
