# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pytest setup: a clone of any name is importable as ansible_collections.baremetal.host_routing from any folder."""

from __future__ import annotations

import gc
import os
import pathlib
import sys
import typing as t

import pytest

from tests.long_form import LONG

# Some shared helpers assert, and are no test modules. Without this line pytest would not show the values compared.
pytest.register_assert_rewrite("tests.unit")

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLLECTIONS = ROOT / ".build" / "collections"
LINK = COLLECTIONS / "ansible_collections" / "baremetal" / "host_routing"


def _link_collection() -> None:
    LINK.parent.mkdir(parents=True, exist_ok=True)
    try:
        # The link is relative, so that a clone can be moved.
        LINK.symlink_to(os.path.relpath(ROOT, LINK.parent), target_is_directory=True)
    except FileExistsError:
        pass  # `make setup`, or another pytest worker, has made it


_link_collection()
sys.path.insert(0, str(COLLECTIONS))
# Ansible processes that tests start find the collection through this variable.
os.environ["ANSIBLE_COLLECTIONS_PATH"] = str(COLLECTIONS)
# What programs under test keep for later is not this user's.
os.environ["XDG_CACHE_HOME"] = str(ROOT / ".build" / "cache")


#: The number of new objects after which the garbage collector runs. Python's default of 700 slows all tests.
NEW_OBJECTS = 50_000


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> t.Generator[None]:
    """Collect tests without the garbage collector, exempt them from its later passes, and make those passes rarer.

    The 15,000 tests are some millions of objects that stay until the end: each full pass over them takes seconds.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests with the mark `soak` unless LONG."""
    left_out = [] if LONG else [item for item in items if item.get_closest_marker("soak")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
