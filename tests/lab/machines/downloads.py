# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages and wheels for hosts of the lab, which have no internet: fetched by this machine, and kept in the cache."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..handle import BaseLab
from ..shell import locked, progress, run
from ..topology import CACHE_ROOT
from . import images, packages

#: glibc of Debian 12 and 13 runs wheels of these standards.
_MANYLINUX = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")


def debs(release: str, wanted: Sequence[str]) -> Path:
    """Return a folder that apt can use as a repository, with packages that a plain host of the lab lacks.

    These are the packages `wanted` of the Debian release `release`, and what they depend on. They are fetched once.
    Raise LabError if Debian's archive does not have them or cannot be reached.
    """
    target = CACHE_ROOT / f"debs-{release}-{images.digest(images.layer_path('base', release).name, sorted(wanted))}"
    packages.install(packages.IMAGES)
    with locked(CACHE_ROOT / ".downloads.lock"):
        if target.is_dir():
            return target
        images.build_base(release)  # what a plain host has is not fetched again
        progress(f"{release}: fetching {' '.join(wanted)}")
        with images.filled(target) as half:
            images.fetch_repository(release, wanted, half, Path(f"{half}.scratch"))
    return target


def wheels(python: str, requirements: Path) -> Path:
    """Return a folder with the wheels that pip installs for the file `requirements`, fetched once.

    `python` is the version that will use them, such as "3.13". Raise LabError if pip finds no wheel for it, and
    FileNotFoundError without the file.
    """
    target = CACHE_ROOT / f"wheels-{python}-{images.digest(platform.machine(), requirements.read_text())}"
    with locked(CACHE_ROOT / ".downloads.lock"):
        if not target.is_dir():
            progress(f"Python {python}: fetching wheels")
            with images.filled(target) as half:
                platforms = [f"--platform={name}_{platform.machine()}" for name in _MANYLINUX]
                pip = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
                run([*pip, f"--python-version={python}", *platforms, f"--dest={half}", f"--requirement={requirements}"])
    return target


def put_folder(lab: BaseLab, node: str, folder: Path, remote: str) -> None:
    """Copy the files of `folder` into a host's folder `remote`, made if missing; raise CommandFailed if it is off."""
    packed = subprocess.run(["tar", "-c", "-C", folder, "."], capture_output=True, check=True).stdout
    lab.exec(node, f"mkdir -p {remote} && tar -x -C {remote}", input=packed, text=False)


def give_repository(lab: BaseLab, node: str, folder: Path) -> None:
    """Let apt on a host use `folder`, which `debs` returned, beside the repository that the host has.

    Raise CommandFailed if the host is off.
    """
    put_folder(lab, node, folder, "/srv/more")
    lab.exec(
        node, "echo 'deb [trusted=yes] file:/srv/more ./' > /etc/apt/sources.list.d/more.list && apt-get update -qq"
    )


def give_wheels(lab: BaseLab, node: str, folder: Path) -> None:
    """Let pip on a host install from `folder`, which `wheels` returned, and from nowhere else.

    Raise CommandFailed if the host is off.
    """
    put_folder(lab, node, folder, "/srv/wheels")
    lab.exec(node, "cat > /etc/pip.conf", input="[global]\nno-index = true\nfind-links = /srv/wheels\n")
