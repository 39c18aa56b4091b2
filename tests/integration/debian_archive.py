# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages, fetched and unpacked beside the machine instead of installed, so that no service starts."""

from __future__ import annotations

import fcntl
import pathlib
import subprocess
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def unpacked(
    tree: pathlib.Path,
    release: str,
    package: str,
    dependencies: t.Sequence[str] = (),
    finish: t.Optional[t.Callable[[pathlib.Path], None]] = None,
) -> pathlib.Path:
    """Return the folder below `tree` that holds the files of a package; fetch it at the first use.

    `dependencies` are patterns of the names of required packages to unpack as well; without them the package has to
    work with the machine's own. `finish` is called with `tree` after unpacking. Raise RuntimeError with the output of
    apt-get or dpkg-deb if one of them fails, and subprocess.TimeoutExpired if one takes more than 300 seconds. Another
    process that fetches into `tree` is waited for without a limit.
    """
    tree.mkdir(parents=True, exist_ok=True)
    with open(f"{tree}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / "complete").exists():
            _unpack(tree, release, package, dependencies)
            if finish is not None:
                finish(tree)
            (tree / "complete").write_text("")
    return tree / "root"


def _unpack(tree: pathlib.Path, release: str, package: str, dependencies: t.Sequence[str]) -> None:
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
    archives = tree / "cache" / "archives"
    _run([*apt, "update"])
    if dependencies:
        _run([*apt, "--no-install-recommends", "--download-only", "install", package])
    else:
        _run([*apt, "download", package], archives)
    for pattern in (package, *dependencies):
        for deb in sorted(archives.glob(f"{pattern}_*.deb")):
            _run(["dpkg-deb", "-x", str(deb), str(tree / "root")])


def _mirror() -> str:
    """Return the URL of the archive that this machine uses, or Debian's if it is unknown."""
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


def _run(command: list[str], folder: t.Optional[pathlib.Path] = None) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
