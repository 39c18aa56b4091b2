# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make `import ansible_collections.baremetal.host_routing...` work in a clone of any name, wherever pytest starts."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

# Suites, and what they ask for, lie in modules that are no tests themselves; their asserts are to say as much.
pytest.register_assert_rewrite("tests.unit")

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".build" / "collections"
LINK = COLLECTIONS / "ansible_collections" / "baremetal" / "host_routing"


def _link_collection() -> None:
    LINK.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Relative, so that a clone can be moved.
        LINK.symlink_to(os.path.relpath(ROOT, LINK.parent), target_is_directory=True)
    except FileExistsError:
        pass  # `make setup`, or another pytest worker, was first


_link_collection()
sys.path.insert(0, str(COLLECTIONS))
# For the ansible processes that tests start.
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(COLLECTIONS)
