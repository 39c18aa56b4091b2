# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a lockfile that somebody has changed in version control, or put in its place.

The lockfile is the root of trust for addresses, so a valid one counts. These tests are about invalid ones.
"""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store

from tests.integration.attacks import hostile_answers as answers
from tests.integration.attacks.document.test_hostile_document import DOCUMENTS, TIME, hostile_places
from tests.unit.plugin_utils import controller

NAME = lockfile_store.NAME
CLEAR = "\x1b[2J\x1b[1;1Hgood\r\u202e"
_POOLS = "version: 1\ngeneration: 3\npools:\n  p: {cidr: 10.244.0.0/16, blockSize: 26}\n"


def blocks(*texts: str, pool: str = "p", node: str = "node1") -> str:
    """Return a lockfile in which a node has these blocks of a pool."""
    listed = "".join(f"      - {{cidr: {text}, pool: {pool}}}\n" for text in texts)
    return f"{_POOLS}nodes:\n  {node}:\n    blocks:\n{listed}"


#: {what is wrong: (the lockfile, a part of the error)}
LOCKFILES: dict[str, tuple[str, str]] = {
    "a command in a tag": ('!!python/object/apply:os.system ["touch TOUCHED"]\n', "could not determine a constructor"),
    "a command in a value": (f"{_POOLS}nodes: !!python/name:os.system\n", "could not determine a constructor"),
    "a vault": ("version: !vault x\n", "could not determine a constructor"),
    "a version of another release": ("version: 2\ngeneration: 1\n", "has version 2; this release reads version 1."),
    "true as version": ("version: true\ngeneration: 1\n", "has version True"),
    "a huge generation": (f"version: 1\ngeneration: {2**70}\n", "generation is 1180591620717411303424, not a whole"),
    "a negative generation": ("version: 1\ngeneration: -1\n", "generation is -1, not a whole number"),
    "infinity as generation": ("version: 1\ngeneration: .inf\n", "generation is inf, not a whole number"),
    "a block outside of its pool": (blocks("10.245.0.0/26"), "10.245.0.0/26"),
    "a block of another size": (blocks("10.244.0.0/25"), "10.244.0.0/25"),
    "the whole pool as a block": (blocks("10.244.0.0/16"), "10.244.0.0/16"),
    "a block of IPv6": (blocks("'fd00::/26'"), "fd00::/26"),
    "a block with host bits": (blocks("10.244.0.1/26"), "10.244.0.1/26"),
    "a block with leading zeros": (blocks("010.244.0.0/26"), "wrong block"),
    "a block in other digits": (blocks("'١٠.٢٤٤.٠.٠/26'"), "wrong block"),
    "a block that is a command": (blocks('"10.244.0.0/26\\nsave -file /etc/cron.d/x"'), "wrong block"),
    "a block twice": (blocks("10.244.0.0/26", "10.244.0.0/26"), "10.244.0.0/26"),
    "a block of two nodes": (
        f"{blocks('10.244.0.0/26')}  node2:\n    blocks:\n      - {{cidr: 10.244.0.0/26, pool: p}}\n",
        "10.244.0.0/26",
    ),
    "a block of an unknown pool": (blocks("10.244.0.0/26", pool="q"), "q"),
    "a node twice": (f"{_POOLS}nodes:\n  node1: {{}}\n  node1: {{}}\n", "has node1 twice (line 7)."),
    "an address outside of its blocks": (
        f"{blocks('10.244.0.0/26')}    workloads: {{w: 10.244.0.64}}\n",
        "10.244.0.64",
    ),
    "an address twice": (f"{blocks('10.244.0.0/26')}    workloads: {{w: 10.244.0.5, x: 10.244.0.5}}\n", "10.244.0.5"),
    "a workload of two nodes": (
        f"{blocks('10.244.0.0/26')}    workloads: {{w: 10.244.0.5}}\n"
        "  node2:\n    blocks: [{cidr: 10.244.0.64/26, pool: p}]\n    workloads: {w: 10.244.0.65}\n",
        "has workload w twice, at node1 and at node2.",
    ),
    "terminal commands in a wrong block": (blocks(f'"{CLEAR}"'.replace("\x1b", "\\e").replace("\r", "\\r")), "wrong"),
    "terminal commands in a wrong field": (
        f'{_POOLS}nodes:\n  "\\e[2J\\r": {{"\\e]0;x\\a": 1}}\n',
        "has a wrong field",
    ),
    "a template": (blocks("\"{{ lookup('pipe', 'touch TOUCHED') }}\""), "wrong block"),
    "a field of its own": (f"{_POOLS}approve: yes\n", "has a wrong field"),
    "an unfinished merge": (f"{_POOLS}<<<<<<< ours\nnodes: {{}}\n", "has marks of a merge that was not finished"),
    **{f"hostile {name}": (content, "") for name, (content, _error) in DOCUMENTS.items() if name.endswith(".yaml")},
}


def refusal(path: pathlib.Path) -> str:
    """Return why a lockfile is refused."""
    began = time.monotonic()
    with pytest.raises(FleetError) as refused:
        lockfile_store.read(str(path))
    assert time.monotonic() - began < TIME
    return str(refused.value)


@pytest.mark.parametrize("name", LOCKFILES)
def test_a_hostile_lockfile(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Commit a lockfile with foreign and double blocks, tags, templates, terminal commands, or without an end.

    Gain: Addresses of others, a command on the controller, or a run that does not end.
    Precedent: CVE-2017-18342 (PyYAML's load), CVE-2019-11253, CWE-150.
    Closed: 0.3.0
    Result: It is refused with what is wrong and where it stands. Nothing is run or written.
    """
    monkeypatch.chdir(tmp_path)
    content, words = LOCKFILES[name]
    path = tmp_path / NAME
    path.write_text(content, "utf-8")
    said = refusal(path)
    assert said.startswith(f"lockfile {path} ") and words in said and len(said) < 2_000
    assert "\x1b" not in terminal_text.line(said) and "\r" not in terminal_text.line(said)
    assert path.read_text("utf-8") == content and os.listdir(tmp_path) == [NAME]


def test_a_lockfile_that_is_no_file(tmp_path: pathlib.Path) -> None:
    """Replace the lockfile by a pipe, a device, a socket, a loop of links, a terabyte, or other bytes than UTF-8.

    Gain: A run that blocks or takes all memory.
    Precedent: CWE-400.
    Closed: 0.3.0
    Result: Each is refused and named.
    """
    for name in hostile_places(tmp_path):
        said = refusal(tmp_path / name)
        assert said.startswith(f"lockfile {tmp_path / name} ") and len(said) < 2_000


def test_a_run_with_a_hostile_lockfile(tmp_path: pathlib.Path) -> None:
    """Give a run a lockfile whose names and blocks have terminal commands.

    Gain: Forged or hidden lines on the operator's screen.
    Precedent: CWE-150.
    Closed: 0.3.0
    Result: The run is refused before anything is written, and the text is escaped.
    """
    (tmp_path / "hosts.yml").write_text(
        "all:\n  vars: {calico_ip_pools: [{name: p, cidr: 10.244.0.0/16}]}\n"
        "  children: {calico_nodes: {hosts: {node1: {calico_node_address: 10.10.1.11/24}}}}\n"
    )
    content = f'{_POOLS}nodes:\n  "\\e[2Jnode1\\r": {{blocks: [{{cidr: "\\e[1;1Hgood", pool: p}}]}}\n'
    (tmp_path / NAME).write_text(content)
    seen = {"node1": {"seen": answers.node_info(None)}}
    (result,) = controller.run([controller.Run("fleet", {"observed": "seen"}, str(tmp_path / "hosts.yml"), seen)])
    assert result.get("failed") and "exception" not in result, result
    assert "\x1b" not in str(result["msg"]) and "\r" not in str(result["msg"])
    assert (tmp_path / NAME).read_text() == content and sorted(os.listdir(tmp_path)) == [NAME, "hosts.yml"]
