# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD as Debian ships it, unpacked with its libraries beside the machine instead of installed on it.

So that one machine runs the BIRD of several releases, and none of them as a service.
"""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / ".build" / "bird"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

#: release -> package; the two releases that hosts may run, and BIRD 3 from the one after.
RELEASES = {"bookworm": "bird2", "trixie": "bird2", "forky": "bird3"}


@dataclasses.dataclass(frozen=True)
class Build:
    release: str
    version: str  # "2.0.12"
    bird: str  # paths of programs
    birdc: str


@functools.cache
def debian_bird(release: str) -> Build:
    """Download and unpack on first use; raises RuntimeError with apt's words."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with open(CACHE / f"{release}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tree = CACHE / release
        if not (tree / "complete").exists():
            _unpack(release, tree)
    version = subprocess.run([tree / "bird", "--version"], capture_output=True, text=True, check=True, timeout=20)
    found = re.search(r"\d+\.\d+(\.\d+)?", version.stdout + version.stderr)
    assert found, version
    return Build(release, found.group(), str(tree / "bird"), str(tree / "birdc"))


def _unpack(release: str, tree: pathlib.Path) -> None:
    for folder in ("lists/partial", "state", "cache/archives/partial", "root"):
        (tree / folder).mkdir(parents=True, exist_ok=True)
    (tree / "status").write_text("")  # nothing is installed, so that apt fetches every library
    (tree / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {release} main\n")
    options = {
        "Dir::Etc::SourceList": tree / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": tree / "state",
        "Dir::State::Lists": tree / "lists",
        "Dir::State::status": tree / "status",
        "Dir::Cache": tree / "cache",
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    apt = ["apt-get", "-q", "-y", *(f"-o{key}={value}" for key, value in options.items())]
    _run([*apt, "update"])
    _run([*apt, "--no-install-recommends", "--download-only", "install", RELEASES[release]])
    archives = tree / "cache" / "archives"
    for deb in sorted([*archives.glob("bird*.deb"), *archives.glob("lib*.deb")]):
        _run(["dpkg-deb", "-x", str(deb), str(tree / "root")])
    root = tree / "root"
    libraries = [path for path in (root / "lib", root / "usr" / "lib") for path in path.glob("*-linux-gnu*")]
    loader = next(path for folder in libraries for path in folder.glob("ld-linux*"))
    for program in ("bird", "birdc"):
        wrapper = tree / program
        wrapper.write_text(
            f'#!/bin/sh\nexec {loader} --library-path {":".join(map(str, libraries))} {root}/usr/sbin/{program} "$@"\n'
        )
        wrapper.chmod(0o755)
    (tree / "complete").write_text("")


def _mirror() -> str:
    """The archive that this machine uses itself, where it says so."""
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)"],
        capture_output=True,
        text=True,
        check=False,
    )
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[:2] == ["Debian", "main"] and "security" not in words[2]:
            return words[2].rstrip("/")
    return "http://deb.debian.org/debian"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
