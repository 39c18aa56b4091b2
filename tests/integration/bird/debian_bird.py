# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD as Debian ships it, unpacked with its libraries beside the machine instead of installed on it.

So one machine runs the BIRDs of several releases, and none of them as a service.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import subprocess

import pytest

from tests.integration.debian_archive import ROOT, unpacked

CACHE = ROOT / ".build" / "bird"

#: release -> package: the two releases that hosts may run, and the release after them, which has BIRD 3.
RELEASES = {"bookworm": "bird2", "trixie": "bird2", "forky": "bird3"}
#: The releases, the newest BIRD 2 there is (forky-bird2), and a BIRD 3 without `onlink` in filters (trixie-bird3).
BUILDS = {**RELEASES, "forky-bird2": "bird2", "trixie-bird3": "bird3"}
#: RELEASES as parameters of a test. The lab's hosts run the BIRDs of Debian 12 and 13 in every scenario: here the
#: oldest and the newest release are enough, except in `make soak`.
EACH_RELEASE = [pytest.param(name, marks=pytest.mark.soak) if name == "trixie" else name for name in RELEASES]
#: The builds of BIRD that the collection supports.
USABLE = [name for name in BUILDS if name != "trixie-bird3"]


@dataclasses.dataclass(frozen=True)
class Build:
    release: str
    version: str  # such as "2.0.12"
    bird: str  # the path of the daemon; `birdc` is that of its client
    birdc: str


@functools.cache
def debian_bird(release: str) -> Build:
    """Return the build for `release`, a key of BUILDS.

    It is downloaded and unpacked at the first use. Raise KeyError for another `release`, RuntimeError with the output
    of the failed command if it cannot be downloaded or unpacked, and subprocess.CalledProcessError if it does not run.
    Raise subprocess.TimeoutExpired if one command takes more than 300 seconds, or `bird --version` more than 20.
    """
    tree = CACHE / release
    unpacked(tree, release.partition("-")[0], BUILDS[release], ["lib*"], _wrap)
    version = subprocess.run([tree / "bird", "--version"], capture_output=True, text=True, check=True, timeout=60)
    found = re.search(r"\d+\.\d+(\.\d+)?", version.stdout + version.stderr)
    assert found, version
    return Build(release, found.group(), str(tree / "bird"), str(tree / "birdc"))


def _wrap(tree: pathlib.Path) -> None:
    """Write the wrappers `bird` and `birdc` in `tree`, which run the programs with the unpacked libraries.

    Raise StopIteration if there is no dynamic loader among the libraries.
    """
    root = tree / "root"
    libraries = [path for path in (root / "lib", root / "usr" / "lib") for path in path.glob("*-linux-gnu*")]
    loader = next(path for folder in libraries for path in folder.glob("ld-linux*"))
    for program in ("bird", "birdc"):
        wrapper = tree / program
        wrapper.write_text(
            f'#!/bin/sh\nexec {loader} --library-path {":".join(map(str, libraries))} {root}/usr/sbin/{program} "$@"\n'
        )
        wrapper.chmod(0o755)
