# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of unconfirmed.json and went-back.json: for root only, without secrets, and checked when they are read."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.atomic_file import FileError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.store import Stored
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.stored_file import StoreError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.unconfirmed import (
    Unconfirmed,
    UnconfirmedStore,
    Uptime,
)

from tests.unit.agent.node_under_test import STATE

PEER = BirdPeer("peer", "10.10.1.1", 64512, "external", password="bgp:rack")
PREVIOUS = Stored(
    dataclasses.replace(STATE, bird=dataclasses.replace(t.cast("t.Any", STATE.bird), peers=(PEER,))),
    'include "secrets.conf";\nprotocol bgp peer { password bgp_rack; }\n',
    None,
    "admin@ctl",
    "2026-11-23T06:00:00Z",
)
PENDING = Unconfirmed(("abc",), PREVIOUS, "p" * 64, "boot", 70.0, 60.0, True, "10.10.1.1 51444 10.10.1.11 22", ("x",))


@pytest.fixture
def waiting(tmp_path: pathlib.Path) -> t.Iterator[UnconfirmedStore]:
    """A store in a process whose umask restricts nothing. The umask is restored at the end."""
    before = os.umask(0)
    yield UnconfirmedStore(str(tmp_path / "calico"))
    os.umask(before)


def written(tmp_path: pathlib.Path, name: str) -> pathlib.Path:
    return tmp_path / "calico" / f"{name}.json"


def test_both_are_roots_alone_and_hold_no_value_of_a_secret(waiting: UnconfirmedStore, tmp_path: pathlib.Path) -> None:
    waiting.save(PENDING)
    assert waiting.load() == PENDING
    assert oct((tmp_path / "calico").stat().st_mode) == "0o40700"
    assert oct(written(tmp_path, "unconfirmed").stat().st_mode) == "0o100600"
    held = json.loads(written(tmp_path, "unconfirmed").read_text())
    assert sorted(held) == ["bgp", "boot", "changes", "cut", "deadline", "plan", "previous", "session", "within"]
    assert sorted(held["previous"]) == ["bird_config", "state", "when", "who"]
    # The file has names of passwords, and no values.
    assert [peer["password"] for peer in held["previous"]["state"]["bird"]["peers"]] == ["bgp:rack"]
    waiting.record_revert(PENDING.reverted("it was not confirmed within 60 s"))
    assert not written(tmp_path, "unconfirmed").exists()
    assert oct(written(tmp_path, "went-back").stat().st_mode) == "0o100600"
    held = json.loads(written(tmp_path, "went-back").read_text())
    assert sorted(held) == ["changes", "cut", "from_plan", "plan", "problem", "reason", "told", "when"]


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("changes", [], "changes is a list of 0, not a list of 1 to 131072"),
        ("changes", "abc", "changes is abc, not a list of 1 to 131072"),
        ("changes", [["abc"]], "changes[0] is a list, not a text of at most 4096 characters"),
        ("plan", 7, "plan is 7, not a text of at most 4096 characters"),
        ("deadline", float("nan"), "NaN is not a number of JSON"),
        ("deadline", float("inf"), "Infinity is not a number of JSON"),
        ("deadline", 10**400, "deadline is a very large number, not a number from 0 to 1e+12"),
        ("deadline", "70", "deadline is 70, not a number from 0 to 1e+12"),
        ("within", True, "within is True, not a number from 0 to 1e+12"),
        ("within", -1, "within is -1, not a number from 0 to 1e+12"),
        ("bgp", "yes", "bgp is yes, not true or false"),
        ("session", None, "session is None, not a text of at most 4096 characters"),
        ("cut", {"a": 1}, "cut is a table, not a list of at most 131072"),
        ("previous", [], "previous is a list, not a table"),
        ("previous", {}, "previous.state is missing"),
        (
            "previous",
            {"state": {}, "bird_config": 7, "who": "", "when": ""},
            "previous.bird_config is 7, not a text of at most 268435456 characters",
        ),
    ],
)
def test_a_wrong_value_in_an_unconfirmed_change_is_refused(
    waiting: UnconfirmedStore, tmp_path: pathlib.Path, field: str, value: t.Any, why: str
) -> None:
    """Each wrong value is refused. A deadline of NaN or infinity would never come, and the node would never revert."""
    waiting.save(PENDING)
    path = written(tmp_path, "unconfirmed")
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(StoreError) as caught:
        waiting.load()
    assert str(caught.value) == (
        f"{path} cannot be read: {why}. It was damaged or written by another release. See that the node is as it should"
        " be, remove the file, then run again."
    )


@pytest.mark.parametrize("text", ["[]", "7", "null", '"x"', "{", "[" * 100_000, "{}", '{"changes": "x"}'])
@pytest.mark.parametrize("name", ["unconfirmed", "went-back"])
def test_a_document_of_another_form_is_refused(
    waiting: UnconfirmedStore, tmp_path: pathlib.Path, name: str, text: str
) -> None:
    waiting.save(PENDING)
    written(tmp_path, name).write_text(text)
    with pytest.raises(StoreError, match="cannot be read: "):
        waiting.load() if name == "unconfirmed" else waiting.last_revert()


def test_a_permission_error_says_to_become_root(
    waiting: UnconfirmedStore, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*dummy: t.Any, **more: t.Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refused)
    for name, read in (("unconfirmed", waiting.load), ("went-back", waiting.unseen_revert)):
        with pytest.raises(StoreError) as caught:
            read()
        assert str(caught.value) == (
            f"{written(tmp_path, name)} may be read by root alone. Become root, then run again."
        )


@pytest.mark.parametrize(("field", "value"), [("plan", 7), ("told", "no"), ("reason", None), ("when", {}), ("more", 1)])
def test_a_wrong_value_in_a_revert_record_is_refused(
    waiting: UnconfirmedStore, tmp_path: pathlib.Path, field: str, value: t.Any
) -> None:
    waiting.record_revert(PENDING.reverted("it was not confirmed within 60 s"))
    news = waiting.last_revert()
    assert news is not None and "from plan pppppppppppp" in news.sentence
    path = written(tmp_path, "went-back")
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(StoreError, match=r"went-back\.json cannot be read: "):
        waiting.last_revert()


def test_after_a_reboot_no_time_is_left() -> None:
    assert PENDING.left(Uptime("boot", 10.0)) == 60.0
    assert PENDING.left(Uptime("another", 10.0)) == 0.0


def test_a_folder_that_cannot_be_made_is_a_file_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "calico"
    said = (
        f"{folder} could not be made: Not a directory. Nothing was stored. Make room or correct the file"
        " system, then run again."
    )
    waiting = UnconfirmedStore(str(folder))
    for write in (
        lambda: waiting.save(PENDING),
        lambda: waiting.record_revert(PENDING.reverted("it was not confirmed within 60 s")),
    ):
        with pytest.raises(FileError) as caught:
            write()
        assert str(caught.value) == said
