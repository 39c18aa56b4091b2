# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make test` lets ansible-test import some files, and all others are imported by these."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

from tests.conftest import COLLECTIONS, ROOT

RUN = pathlib.Path(__file__).resolve().parents[2] / "run"
sys.path.insert(0, str(RUN))

import sanity  # noqa: E402

IMPORT = """\
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sys.modules)
"""


def module_of(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("ansible_collections.baremetal.host_routing", *parts)).removesuffix(".__init__")


def test_every_file_is_imported() -> None:
    started = [module_of(path) for pattern in sanity.STARTED for path in sorted(ROOT.glob(pattern))]
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, *started], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    files = {module_of(path) for path in ROOT.glob("plugins/**/*.py") if "doc_fragments" not in path.parts}
    assert sorted(files - set(done.stdout.split())) == []
