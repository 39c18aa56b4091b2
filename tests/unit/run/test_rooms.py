# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit tests that `make unit ROOM=...` and `make unit CHANGED=1` select."""

from __future__ import annotations

import pathlib

import pytest

from tests.run import rooms


def test_rooms_and_their_tests_exist() -> None:
    for room, tests in rooms.ROOMS.items():
        assert (rooms.ROOT / rooms.ENGINE / room).is_dir()
        assert [test for test in tests if not (rooms.ROOT / test).exists()] == []


@pytest.mark.parametrize(
    ("room", "tests"),
    [
        ("policy", ("tests/unit/policy", rooms.VALUES)),
        ("agent", ("tests/unit/agent",)),
        ("agent/workloads", ("tests/unit/agent/workloads",)),
        ("plugin_utils", ("tests/unit/plugin_utils",)),
    ],
)
def test_a_room_has_tests(room: str, tests: tuple[str, ...]) -> None:
    assert rooms.tests_of_room(room) == tests


@pytest.mark.parametrize("room", ["polcy", "", "policy/../agent", "/etc"])
def test_a_name_that_is_no_room_is_refused(room: str) -> None:
    with pytest.raises(ValueError) as caught:
        rooms.tests_of_room(room)
    known = {path.name for path in (rooms.ROOT / rooms.UNIT).glob("[!_]*") if path.is_dir()} | set(rooms.ROOMS)
    assert str(caught.value) == f"ROOM={room} is no room with unit tests. Name one of {', '.join(sorted(known))}."


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("tests/unit/policy/test_labels.py", {"tests/unit/policy/test_labels.py"}),
        ("tests/unit/cli/conftest.py", {"tests/unit/cli"}),
        ("tests/fakes/kernel.py", {"tests/unit"}),
        ("tests/conftest.py", {"tests/unit"}),
        ("tests/run/prose.py", {"tests/unit/run", "tests/unit/architecture"}),
        ("tests/lab/page.py", {"tests/unit/lab"}),
        ("roles/calico_node/tasks/main.yml", {"tests/unit/roles"}),
        ("docs/index.md", {"tests/unit/architecture"}),
        ("plugins/modules/node.py", {"tests/unit/modules", "tests/unit/architecture"}),
        ("plugins/action/fleet.py", {"tests/unit/plugin_utils", "tests/unit/architecture"}),
        ("plugins/plugin_utils/gone.py", {"tests/unit/plugin_utils", "tests/unit/architecture"}),
    ],
)
def test_a_file_is_judged_by_tests(path: str, tests: set[str]) -> None:
    assert set(rooms.tests_of_file(pathlib.Path(path))) == tests


def test_a_file_of_the_engine_is_judged_by_its_room_and_by_those_who_import_it() -> None:
    found = rooms.tests_of_file(pathlib.Path("plugins/module_utils/files/folders.py"))
    assert found[0] == "tests/unit/files" and found[-1] == "tests/unit/architecture"
    others = found[1:-1]
    assert others == rooms.importers(pathlib.Path("plugins/module_utils/files/folders.py"))
    for test in others:
        assert "files" in (rooms.ROOT / test).read_text("utf-8") and not test.startswith("tests/unit/files/")


def test_a_test_is_selected_once() -> None:
    given = ["tests/unit/run", "tests/unit/run/test_rooms.py", "tests/unit/gone", "tests/unit/agent", "tests/unit/run"]
    assert rooms.without_repetition(given) == ("tests/unit/agent", "tests/unit/run")


def test_changed_files_are_paths_below_the_root() -> None:
    assert all(not path.is_absolute() for path in rooms.changed_files())
