# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by documents that are given to a user to validate, or that lie beside an inventory."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import lockfile_store, resource_files

from tests.integration.ansible_playbook import BIN, ROOT
from tests.unit.fleet.fleets import hosts

#: The most seconds that one program, or the reading of a lockfile, may take on a busy machine. Without limits some
#: documents take minutes.
TIME = 40.0
MANY = (
    "has more than 1,000,000 values, those of its aliases counted each time. Split it into several files, and write"
    " out what its aliases stand for."
)
VARIABLE = "calico_policy_files"
RESOURCES = "calico_resource_files"
DEEP = "is nested deeper than 64 levels. No resource needs more than about ten: write it flat."
TAG = "is not YAML: a value does not fit its tag."


def number(characters: str) -> str:
    return f"has a number of {characters} characters, and 64 are the most. Write it in quotes if it is text."


def doubled(first: str, more: str) -> str:
    """Return forty lines of YAML: `first`, and `more` with LAST replaced by an alias of the line before.

    Each line expands to twice as much as the one before if `more` has LAST twice.
    """
    return f"a0: &a0 {first}\n" + "".join(f"a{n}: &a{n} {more}\n".replace("LAST", f"*a{n - 1}") for n in range(1, 40))


#: {name of a file: (its content, the error without the file's path: a line number if known, and the text)}
DOCUMENTS: dict[str, tuple[str, str]] = {
    # a document of 38 KB whose aliases stand for 28 million values
    "aliases.yaml": (f"a: &a [{','.join(['x'] * 14000)}]\nb:\n" + "- *a\n" * 2000, f"73: {MANY}"),
    "laughs.yaml": (doubled("[x, x]", "[LAST, LAST]"), f"18: {MANY}"),
    "merges.yaml": (doubled("{x: 1}", "{<<: [LAST, LAST]}"), f"18: {MANY}"),
    "itself.yaml": ("a: 1\nb: &b [*b]\n", "2: has alias *b inside of what it stands for. Write it out."),
    "chain.yaml": ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000)), f"64: {DEEP}"),
    "deep-flow.yaml": ("[" * 50_000, f"1: {DEEP}"),
    "deep-mappings.yaml": ("{a: " * 50_000, f"1: {DEEP}"),
    "deep-block.yaml": ("- " * 50_000, f"1: {DEEP}"),
    "deep-lines.yaml": ("".join(f"{' ' * n}a:\n" for n in range(2000)), f"65: {DEEP}"),
    "deep.json": ('{"a":\n[' * 50_000, f"33: {DEEP}"),
    "deep-strings.json": ('"' + '\\"' * 500_000, "1: is not JSON: Unterminated string starting at."),
    "number.yaml": (f"a: 1\nb: {'9' * 100_000}\n", f"2: {number('100,000')}"),
    "number.json": (f'{{"a": {"9" * 100_000}}}', f" {number('100,000')}"),
    "base-60.yaml": ("a: 1" + ":1" * 500_000, f"1: {number('1,000,001')}"),
    "base-60-fraction.yaml": ("a: 1" + ":1" * 5000 + ".0", f"1: {number('10,003')}"),
    "base-60-tag.yaml": (f'a: !!int "1{":1" * 50_000}"', f"1: {number('100,001')}"),
    "nan.json": ('{"a": NaN}', " has NaN, which JSON has not. Write a number."),
    "infinity.json": ('{"a": -Infinity}', " has -Infinity, which JSON has not. Write a number."),
    "twice.json": ('{"a": 1, "a": 2}', " has key a twice. Remove one of them."),
    "twice.yaml": ("a: 1\nb: 2\na: 3\n", "3: has key a twice. Remove one of them."),
    "twice-as-number.yaml": ("1: a\n0x1: b\n", "2: has key 0x1 twice. Remove one of them."),
    "twice-as-text.yaml": ('"<<": 1\n"<<": 2\n', "2: has key << twice. Remove one of them."),
    "tag-bool.yaml": ("a: !!bool maybe\n", f" {TAG}"),
    "tag-int.yaml": ('a: !!int ""\n', f" {TAG}"),
    "tag-timestamp.yaml": ("a: !!timestamp never\n", f" {TAG}"),
    "tag-object.yaml": (
        '!!python/object/apply:os.system ["touch TOUCHED"]\n',
        "1: is not YAML: could not determine a constructor for the tag "
        "'tag:yaml.org,2002:python/object/apply:os.system'.",
    ),
    "nul.json": ('{"a": "\0"}', "1: is not JSON: Invalid control character at."),
}


def calicoctl(*words: t.Union[str, pathlib.Path], **more: t.Any) -> tuple[int, str, float]:
    """Run the real program; return its exit status, stdout with stderr after it, and its time in seconds.

    `more` are further arguments of subprocess.run. Raise subprocess.TimeoutExpired after 120 seconds.
    """
    environment = {**os.environ, "PYTHON": sys.executable, "PATH": f"{BIN}:{os.environ['PATH']}"}
    began = time.monotonic()
    done = subprocess.run(
        [ROOT / "bin" / "calicoctl", *words],
        capture_output=True, text=True, timeout=120, check=False, env=environment, **more,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr, time.monotonic() - began


def test_a_document_ends_neither_time_nor_memory_nor_the_program(tmp_path: pathlib.Path) -> None:
    """Make the validation of a document hang or crash, by aliases, nesting, numbers or tags.

    Gain: a pipeline that does not end, or a document that passes because its check crashed.
    Precedent: CVE-2019-11253 (YAML aliases against the Kubernetes API server).
    Closed: 0.2.0
    Result: Each document is refused with its file, the reason and, where known, the line. All of them together take
    less than 40 seconds, and no command in a tag is run.
    """
    for name, (content, dummy) in DOCUMENTS.items():
        (tmp_path / name).write_text(content)
    status, said, seconds = calicoctl("validate", "-f", tmp_path, cwd=tmp_path)
    expected = [f"{tmp_path}/{name}:{text}" for name, (dummy, text) in sorted(DOCUMENTS.items())]
    assert said.splitlines() == [*expected, f"{len(DOCUMENTS)} of {len(DOCUMENTS)} are not valid"]
    assert status == 1
    assert seconds < TIME
    assert not (tmp_path / "TOUCHED").exists()


def hostile_places(folder: pathlib.Path) -> dict[str, str]:
    """Create entries of `folder` that are not read as documents; return {name: the error without the path}."""
    os.mkfifo(folder / "pipe.yaml")
    with socket.socket(socket.AF_UNIX) as here:
        here.bind(str(folder / "socket.yaml"))
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    (folder / "utf-16.yaml").write_bytes("kind: IPPool\n".encode("utf-16"))
    (folder / "latin.yaml").write_bytes(b"kind: \xe9\n")
    with (folder / "large.yaml").open("wb") as stream:
        stream.truncate(1 << 40)  # takes no place on the disk
    no_file = "{}, no file. Give the path of a file."
    return {
        "pipe.yaml": no_file.format("is a pipe"),
        "socket.yaml": "cannot be read: No such device or address.",
        "loop.yaml": "cannot be read: Too many levels of symbolic links.",
        "zero.yaml": no_file.format("is a device"),
        "utf-16.yaml": "is not UTF-8 at byte 0. Save it as UTF-8.",
        "latin.yaml": "is not UTF-8 at byte 6. Save it as UTF-8.",
        "large.yaml": "is larger than 10 MiB. Split it into several files.",
    }


def test_a_file_that_has_no_end_is_not_read(tmp_path: pathlib.Path) -> None:
    """Replace a document by a pipe, a device, a socket, a loop of links, a terabyte, or text that is not UTF-8.

    Gain: A check that blocks or takes all memory.
    Precedent: CWE-400.
    Closed: 0.2.0
    Result: Each is refused and named, by calicoctl and by the reader of calico_policy_files.
    """
    for name, text in hostile_places(tmp_path).items():
        status, said, seconds = calicoctl("validate", "-f", tmp_path / name)
        assert (status, said) == (1, f"calicoctl: {tmp_path}/{name} {text}\n")
        assert seconds < TIME
        folder = tmp_path / f"policy-{name}"
        folder.mkdir()
        (tmp_path / name).rename(folder / name)
        with pytest.raises(FleetError) as refused:
            resource_files.documents({VARIABLE: [str(folder)]}, {"inventory_dir": str(tmp_path)})
        remedy = " Correct its permissions." if "cannot be read" in text else ""
        assert str(refused.value) == f"calico_policy_files[0] {folder}/{name} {text}{remedy}"


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_policy_file_is_bounded(tmp_path: pathlib.Path, name: str) -> None:
    """Put a document with hostile aliases, nesting, numbers or tags among the files of calico_policy_files.

    Gain: a run that does not end.
    Precedent: CVE-2019-11253.
    Closed: 0.2.0
    Result: The run is refused, with file and, if it is known, line.
    """
    content, text = DOCUMENTS[name]
    (tmp_path / name).write_text(content)
    with pytest.raises(FleetError) as refused:
        resource_files.documents({VARIABLE: [name]}, {"inventory_dir": str(tmp_path)})
    line, dummy, rule = text.partition(" ")
    where = f"{tmp_path}/{name}:{line}" if line else f"{tmp_path}/{name}: "
    assert str(refused.value).replace(f"{tmp_path}/{name}: document", f"{tmp_path}/{name}:  document") == (
        f"{where} document {rule} Correct it."
    )


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        *((kind, entry) for kind in ("file", "nested") for entry in ("policy", "policy/*.yml", "p*/*.yml")),
        ("folder", "policies/*/a.yml"),
    ],
)
def test_a_link_among_policy_files_shows_nothing(tmp_path: pathlib.Path, kind: str, entry: str) -> None:
    """Put a link to a file of secrets among the files of calico_policy_files, or a file that is no document.

    Gain: a line of that file, such as the password of a vault, in the errors of a run.
    Precedent: CVE-2019-13139, CVE-2018-11235.
    Closed: 0.3.0
    Result: The run is refused; the error has the link's path, and nothing of the file.
    """
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "a.yml").write_text("vault-password-4711\n")
    policy = tmp_path / "policy"
    policy.mkdir()
    link = policy / "a.yml"
    if kind == "file":
        link.symlink_to("../secrets/a.yml")
    elif kind == "nested":  # a link to a link that leads out
        (policy / ".hop").symlink_to(tmp_path / "secrets")
        link.symlink_to(".hop/a.yml")
        link = policy / ".hop" if entry == "policy" else link  # a folder's own links are looked at first
    else:
        shutil.rmtree(policy)
        policy = tmp_path / "policies"
        policy.mkdir()
        (policy / "sub").symlink_to("../secrets")
        link = policy / "sub" / "a.yml"
    with pytest.raises(FleetError) as refused:
        resource_files.documents({VARIABLE: [entry]}, {"inventory_dir": str(tmp_path)})
    assert str(refused.value) == (
        f"calico_policy_files[0] {link} is a link that leads out of {policy}. Put the file itself there, or name what "
        "it points to in calico_policy_files."
    )
    with pytest.raises(FleetError) as named:
        given = resource_files.documents({VARIABLE: ["secrets/a.yml"]}, {"inventory_dir": str(tmp_path)})
        inventory.read(hosts(), given[VARIABLE])
    assert str(named.value) == (
        f"{tmp_path}/secrets/a.yml:1: document is not a dictionary. Write the fields of one resource there."
    )


def many_files(folder: pathlib.Path) -> str:
    for number in range(10_001):
        (folder / f"{number}.yml").touch()
    return f"{RESOURCES}[0] is beyond 10,000 files in all."


def many_entries(folder: pathlib.Path) -> str:
    (folder / "sub").mkdir()
    for number in range(100_000):
        os.symlink("nothing", folder / "sub" / f"{number}")
    return f"{RESOURCES}[0] {folder} has more than 100,000 files and folders below it."


def deep_folders(folder: pathlib.Path) -> str:
    folder.joinpath(*["a"] * 40).mkdir(parents=True)
    return f"{RESOURCES}[0] {folder} has folders inside each other down to more than 32 levels."


def much_text(folder: pathlib.Path) -> str:
    for number in range(4):
        (folder / f"{number}.yml").write_text("#\n" * (9 * 1024 * 1024 // 2))
    return f"{RESOURCES}[0] {folder}/3.yml brings the text of all files to more than 32 MiB."


@pytest.mark.parametrize("fill", [many_files, many_entries, deep_folders, much_text])
def test_a_folder_of_documents_is_bounded(tmp_path: pathlib.Path, fill: t.Callable[[pathlib.Path], str]) -> None:
    """Fill the folder of calico_resource_files with files, with folders inside each other, or with text.

    Gain: a run that does not end.
    Precedent: CWE-400.
    Closed: 0.3.0
    Result: The run is refused, with the limit.
    """
    folder = tmp_path / "resources"
    folder.mkdir()
    rule = fill(folder)
    began = time.monotonic()
    with pytest.raises(FleetError) as refused:
        resource_files.documents({RESOURCES: ["resources"]}, {"inventory_dir": str(tmp_path)})
    assert str(refused.value).startswith(rule)
    assert time.monotonic() - began < TIME


def test_a_loop_of_folders_is_read_once(tmp_path: pathlib.Path) -> None:
    """Put a link to its own folder among the documents.

    Gain: a run that does not end, or a document that counts many times.
    Precedent: CWE-835.
    Closed: 0.3.0
    Result: Each file is read once, and a link to a folder above is refused.
    """
    folder = tmp_path / "resources" / "sub"
    folder.mkdir(parents=True)
    (folder / "a.yml").write_text("kind: Tier\nmetadata: {name: a}\n")
    (folder / "again").symlink_to(".")
    (folder / "b.yml").symlink_to("a.yml")
    found = resource_files.documents({RESOURCES: ["resources"]}, {"inventory_dir": str(tmp_path)})
    assert [one.file for one in found[RESOURCES]] == [str(folder / "a.yml")]
    (folder / "up").symlink_to("..")
    with pytest.raises(FleetError, match="is a link that leads out of"):
        resource_files.documents({RESOURCES: ["resources"]}, {"inventory_dir": str(tmp_path)})


def test_a_document_cannot_replace_what_a_variable_says(tmp_path: pathlib.Path) -> None:
    """Drop a document among those of calico_resource_files that says otherwise than a variable.

    Gain: another pool, another AS number, or host ports that policy does not close.
    Precedent: CWE-1188.
    Closed: 0.3.0
    Result: The run is refused with both places.
    """
    text = {
        "kind: FelixConfiguration\nmetadata: {name: default}\nspec: {vxlanPort: 4790}\n": "spec.vxlanPort",
        "kind: IPPool\nmetadata: {name: default}\nspec: {cidr: 10.9.0.0/16}\n": "metadata.name",
        "kind: Node\nmetadata: {name: node1}\nspec: {bgp: {ipv4Address: 10.9.9.9/24}}\n": "spec.bgp.ipv4Address",
    }
    for number, (document, field) in enumerate(text.items()):
        (tmp_path / f"{number}.yml").write_text(document)
        given = resource_files.documents({RESOURCES: [f"{number}.yml"]}, {"inventory_dir": str(tmp_path)})
        (error,) = merged(hosts(vxlan_port=4789), given[RESOURCES]).errors
        assert error.variable.endswith(f": {field}")
        assert "stands in two places: also in calico_" in error.rule


def test_the_text_of_a_document_does_not_reach_the_terminal(tmp_path: pathlib.Path) -> None:
    r"""Name a resource in a file with control characters, and have it refused.

    Gain: a forged line, or a command to the terminal, in the output of a run.
    Precedent: CVE-2021-25743 (kubectl does not escape control characters of a terminal).
    Closed: 0.3.0
    Result: The error shows them as \x1b.
    """
    nodes = {"calico_nodes": {"hosts": {"n1": {"calico_node_address": "10.0.0.1/24"}}}}
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "hosts.yml").write_text(json.dumps(nodes))
    (tmp_path / "prod" / "group_vars").mkdir()
    shared = {RESOURCES: ["../r.yml"], "calico_ip_pools": [{"name": "default", "cidr": "10.244.0.0/16"}]}
    (tmp_path / "prod" / "group_vars" / "all.yml").write_text(json.dumps(shared))
    (tmp_path / "r.yml").write_text('kind: IPPool\nmetadata: {name: "a\\e]0;own\\a\\nok: all"}\nspec: {cidr: x}\n')
    status, said, dummy = calicoctl("validate", "-i", tmp_path / "prod")
    assert status == 1
    assert "\x1b" not in said
    assert "\a" not in said
    assert "\\x1b]0;own\\x07\\nok: all" in "".join(said.split("\n  "))


@pytest.mark.parametrize("name", ["laughs.yaml", "deep-flow.yaml", "base-60.yaml", "tag-bool.yaml", "itself.yaml"])
def test_a_lockfile_is_bounded(tmp_path: pathlib.Path, name: str) -> None:
    """Replace the lockfile by a document with hostile aliases, nesting, numbers or tags, or by a pipe.

    Gain: a run that does not end.
    Precedent: CVE-2019-11253.
    Closed: 0.2.0
    Result: The run is refused before it changes a host.
    """
    path = tmp_path / ".calico.lock.yml"
    path.write_text(DOCUMENTS[name][0])
    began = time.monotonic()
    with pytest.raises(FleetError, match=r"^lockfile "):
        lockfile_store.read(str(path))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FleetError, match=r"is a pipe, no file\. Restore the file from version control"):
        lockfile_store.read(str(path))
    assert time.monotonic() - began < TIME


def test_a_variable_of_the_inventory_is_bounded(tmp_path: pathlib.Path) -> None:
    """Write a variable whose aliases expand to a billion values.

    Gain: a run that does not end.
    Precedent: CVE-2019-11253.
    Closed: 0.2.0
    Result: The error names the variable, the limit and the remedy.
    """
    hosts = {"calico_nodes": {"hosts": {"n1": {"calico_node_address": "10.0.0.1/24"}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps(hosts))
    (tmp_path / "group_vars").mkdir()
    lines = [f"x{n}: &x{n} [{f'*x{n - 1}, *x{n - 1}' if n else '{name: a}, {name: b}'}]" for n in range(30)]
    (tmp_path / "group_vars" / "all.yml").write_text("\n".join([*lines, "calico_workloads: *x29", ""]))
    status, said, seconds = calicoctl("validate", "-i", tmp_path / "hosts.yml")
    assert status == 1
    assert f"calico_workloads {MANY}" in " ".join(said.split())
    assert seconds < TIME
