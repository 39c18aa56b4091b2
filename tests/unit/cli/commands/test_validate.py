# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl validate`: every document of every file, with its line, and nothing else."""

from __future__ import annotations

import io
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources.api import KINDS

from tests.unit.cli.conftest import Node

POOL = "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata:\n  name: a\nspec:\n  cidr: 10.1.0.0/16\n"
NODE = '{"kind": "Node", "metadata": {"name": "n"}}'
PEER = "kind: BGPPeer\nmetadata: {name: b}\nspec:\n  peerIP: 10.0.0.1\n  asNumbr: 3\n"
LIST = """\
apiVersion: v1
kind: List
items:
- kind: IPPool
  metadata: {name: a}
  spec: {cidr: 10.1.0.0/16}
- kind: IPPool
  metadata: {name: b}
  spec:
    cidr: 10.2.0.0/16
    blockSize: 33
"""
POLICY = """\
kind: GlobalNetworkPolicy
metadata: {name: a}
spec:
  ingress:
  - {action: Allow, http: {methods: [GET]}}
"""
NO_KIND = f"document: kind is missing. Write one of {', '.join(KINDS)}."


def put(node: Node, **files: str) -> str:
    for name, text in files.items():
        path = node.folder / "files" / name.replace("_", ".")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return str(node.folder / "files")


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            POOL.replace("10.1.0.0/16", "10.1.0.0/33"),
            ["6: IPPool a: spec.cidr 10.1.0.0/33 is not a range of addresses. "
             "Write it as address/prefix length, for example 10.244.0.0/16."],
        ),
        (f"{POOL}---\n{PEER}", ["12: BGPPeer b: spec.asNumbr is not a field here. Did you mean asNumber?"]),
        (
            LIST,
            ["11: IPPool b: spec.blockSize 33 is out of range. A block of an IPv4 pool is between /20 and /32. "
             "Choose a length in between, or leave it out for /26."],
        ),
        (
            POLICY,
            ["5: GlobalNetworkPolicy a: spec.ingress[0].http is not supported here. "
             "Nothing on a node reads HTTP: match addresses and ports, and leave the rest to the server."],
        ),
        # A missing field has no line of its own: the error has the line of the mapping that lacks it.
        ("\n\nkind: IPPool\nmetadata: {}\nspec: {cidr: 10.1.0.0/16}\n",
         ["4: IPPool: metadata.name is missing. Give the resource a name, as default-ipv4-ippool."]),
        ("# a comment\na: 1\n", [f"2: {NO_KIND}"]),
        ("- 1\n", ["1: document 1 is not a mapping. Write apiVersion, kind, metadata and spec."]),
    ],
)  # fmt: skip
def test_errors_of_documents_are_listed_with_their_lines(node: Node, text: str, errors: list[str]) -> None:
    put(node, x_yaml=text)
    status, out, err = node.run("validate", "-f", f"{node.folder}/files/x.yaml")
    assert (status, out) == (1, "")
    assert err.splitlines()[:-1] == [f"NODE/files/x.yaml:{error}" for error in errors]


def test_files_and_folders(node: Node) -> None:
    folder = put(node, a_yaml=f"{POOL}---\n---\n{POOL}", b_yml=POOL, c_json=NODE)
    put(node, d_txt="not looked at: [")
    (node.folder / "files" / "deep").mkdir()
    (node.folder / "files" / "deep" / "e.yaml").write_text(PEER)
    assert node.run("validate", "-f", folder) == (0, "Successfully validated 4 resource(s)\n", "")
    expected = (
        "NODE/files/deep/e.yaml:5: BGPPeer b: spec.asNumbr is not a field here. Did you mean asNumber?\n"
        "1 of 5 are not valid\n"
    )
    assert node.run("validate", "-R", "-f", folder) == (1, "", expected)


def test_validate_reads_documents_from_stdin(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(POOL))
    assert node.run("validate", "-f", "-") == (0, "Successfully validated 1 resource(s)\n", "")


def test_closed_stdin(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python has no sys.stdin if the shell closed it (`<&-`)."""
    monkeypatch.setattr(sys, "stdin", None)
    expected = "calicoctl: - is standard input, which is closed. Give the text there, or the path of a file.\n"
    assert node.run("validate", "-f", "-") == (1, "", expected)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("x.yaml", "a: [", "1: is not YAML: expected the node content, but found '<stream end>'."),
        ("x.yaml", "a: b: c", "1: is not YAML: mapping values are not allowed here."),
        ("x.yaml", "a: !!python/object:os.system {}\n", "1: is not YAML: could not determine a constructor for the tag "
                                                       "'tag:yaml.org,2002:python/object:os.system'."),
        ("x.yaml", "a: 2026-13-45\n", " is not YAML: month must be in 1..12."),
        ("x.yaml", "a: \x07", " is not YAML: unacceptable character #x0007: special characters are not allowed\n"
                              '  in "<unicode string>", position 3.'),
        ("x.yaml", "1: a\n0x1: b\n", "2: has key 0x1 twice. Remove one of them."),
        ("x.yaml", '"<<": 1\n"<<": 2\n', "2: has key << twice. Remove one of them."),
        # Two merge keys are not a duplicate. The document is read, and it is not a resource.
        ("x.yaml", "a: &a {x: 1}\nb: &b {y: 2}\nc: {<<: *a, <<: *b}\n", "1: " + NO_KIND),
        ("x.json", '{"a": \n}', "2: is not JSON: Expecting value."),
        ("x.yaml", "", " has no document. Write apiVersion, kind, metadata and spec."),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_is_reported_with_the_reason(node: Node, name: str, text: str, error: str) -> None:
    put(node, **{name.replace(".", "_"): text})
    expected = f"NODE/files/{name}:{error}\n1 of 1 are not valid\n"
    assert node.run("validate", "-f", f"{node.folder}/files/{name}") == (1, "", expected)


def test_files_that_are_not_there(node: Node) -> None:
    put(node)
    (node.folder / "empty").mkdir()
    (node.folder / "latin.yaml").write_bytes(b"a: \xe9\n")
    for name, error in (
        ("nope", "NODE/nope cannot be read: No such file or directory."),
        ("empty", "no resources specified in directory NODE/empty. It has no file *.yaml, *.yml or *.json."),
        ("latin.yaml", "NODE/latin.yaml is not UTF-8 at byte 3. Save it as UTF-8."),
    ):
        assert node.run("validate", "-f", f"{node.folder}/{name}") == (1, "", f"calicoctl: {error}\n")


def test_without_a_yaml_library_json_can_be_validated(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(node, c_json=NODE, x_yaml=POOL)
    monkeypatch.setitem(t.cast("dict[str, t.Any]", sys.modules), "yaml", None)
    assert node.run("validate", "-f", f"{folder}/c.json")[0] == 0
    expected = (
        "calicoctl: PyYAML is not installed here, so only files *.json can be validated. "
        "Install python3-yaml, or validate on the controller.\n"
    )
    assert node.run("validate", "-f", f"{folder}/x.yaml") == (1, "", expected)
