# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reporter of names and labels: what it asks runtimes, when, and what it tells the agent."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.reporter import engine_api
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.reporter.engine_api import (
    EngineApi,
    EngineError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.reporter.reporter import (
    PENDING_LIMIT,
    Pending,
    Reporter,
    dockerd_runs,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.pauses import pause
from tests.unit.runtimes.reporter.fake_engine import FakeAgent, FakeEngine

WEB, DB, POD = "ab" * 32, "cd" * 32, "12" * 32
ENDPOINT = "ee" * 32


class Setting:
    """A reporter beside an agent, a dockerd and podman."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.agent = FakeAgent(folder)
        self.docker, self.podman = FakeEngine(folder / "docker.sock"), FakeEngine(folder / "podman.sock")
        self.dockerd = True
        self.ended = threading.Event()
        apis = {"docker": EngineApi(self.docker.path, 5), "podman": EngineApi(self.podman.path, 5)}
        self.reporter = Reporter(self.agent.path, apis, lambda: self.dockerd, self.ended, pace=0.01)

    def start(self) -> None:
        self.reporter.start()
        threading.Thread(target=self._follow, daemon=True).start()

    def end(self) -> None:
        self.ended.set()
        for engine in (self.docker, self.podman):
            engine.end()
        self.agent.stop()

    def _follow(self) -> None:
        while not self.ended.wait(0.01):
            with contextlib.suppress(AgentError):
                self.reporter.follow_agent()

    def until(self, condition: t.Callable[[], object]) -> None:
        began = time.monotonic()
        while not condition():
            assert time.monotonic() < began + 10, self.agent.told
            pause(began)

    def names(self) -> list[tuple[str, str]]:
        return [(one["container"], one["name"]) for one in self.agent.told]


@pytest.fixture
def setting(tmp_path: pathlib.Path) -> t.Iterator[Setting]:
    made = Setting(tmp_path)
    yield made
    made.end()


def test_containers_that_run_already_are_reported(setting: Setting) -> None:
    setting.docker.add(WEB, "web", [ENDPOINT], {"x.org/tier": "front", "other": "x", "com.docker.compose.service": "w"})
    setting.podman.add(POD, "pod", labels={"x.org/tier": "back"})
    setting.agent.known["containers"] = [POD, DB]
    setting.start()
    setting.until(lambda: len(setting.agent.told) == 2)
    labels = {"x.org/tier": "front", "com.docker.compose.service": "w"}
    assert sorted(setting.agent.told, key=lambda one: one["runtime"]) == [
        {"runtime": "docker", "container": WEB, "name": "web", "endpoints": [ENDPOINT], "labels": labels},
        {"runtime": "podman", "container": POD, "name": "pod", "endpoints": [], "labels": {"x.org/tier": "back"}},
    ]
    # podman is asked about the containers of workloads alone, and only once: its API is a program for each time.
    assert sorted(setting.podman.asked) == [f"/containers/{POD}/json", f"/containers/{DB}/json"]


def test_events_name_the_containers_to_look_at(setting: Setting) -> None:
    setting.start()
    setting.until(lambda: setting.docker.asked)
    setting.docker.add(WEB, "web", [ENDPOINT])
    setting.docker.connected(WEB)
    setting.until(lambda: setting.names() == [(WEB, "web")])
    setting.docker.add(WEB, "shop", [ENDPOINT])
    setting.docker.renamed(WEB)
    setting.until(lambda: setting.names()[-1] == (WEB, "shop"))
    setting.podman.add(POD, "pod")
    setting.agent.tell({"event": "added", "docker": False, "containers": [POD]})
    setting.until(lambda: setting.names()[-1] == (POD, "pod"))


def test_podman_is_not_asked_while_no_label_is_chosen(setting: Setting) -> None:
    setting.agent.known.update(prefixes=[], containers=[POD])
    setting.docker.add(WEB, "web", labels={"x.org/a": "b", "com.docker.compose.service": "w"})
    setting.start()
    setting.until(lambda: setting.agent.told)
    assert setting.podman.asked == [] and setting.agent.told[0]["labels"] == {}


def test_a_dockerd_that_does_not_run_is_left_alone_until_it_does(setting: Setting) -> None:
    """A connection to its socket would start one that was stopped."""
    setting.dockerd = False
    setting.docker.add(WEB, "web")
    setting.start()
    setting.until(lambda: setting.agent.streams)
    time.sleep(0.2)
    assert setting.docker.asked == []
    setting.dockerd = True
    setting.agent.tell({"event": "added", "docker": True, "containers": []})
    setting.until(lambda: setting.names() == [(WEB, "web")])
    # It ends, and another one starts.
    setting.docker.end_streams()
    setting.docker.add(WEB, "other")
    setting.until(lambda: setting.names()[-1] == (WEB, "other"))


def test_an_agent_that_restarts_is_told_everything_again(setting: Setting) -> None:
    setting.docker.add(WEB, "web", labels={"x.org/a": "b", "y.org/a": "c"})
    setting.start()
    setting.until(lambda: setting.agent.told)
    setting.agent.known["prefixes"] = ["y.org/"]
    setting.agent.tell(None)
    setting.until(lambda: setting.agent.told[-1]["labels"] == {"y.org/a": "c"})


def test_a_refusal_for_now_is_repeated_and_another_one_is_logged(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    setting.docker.add(WEB, "web")
    setting.agent.refusals = [AgentError("try_again", "later")] * 9 + [AgentError("not_written", "the disk is full")]
    setting.start()
    setting.until(lambda: setting.names() == [(WEB, "web")])
    setting.agent.refusals = [AgentError("invalid_params", "no \x1b[2J name")]
    with caplog.at_level(logging.WARNING):
        setting.docker.renamed(WEB)
        setting.until(lambda: caplog.messages)
    assert caplog.messages == [f"The agent refuses the name or labels of container {WEB[:12]}: no \\x1b[2J name"]


def test_a_missing_podman_socket_is_named_once(setting: Setting, caplog: pytest.LogCaptureFixture) -> None:
    os.unlink(setting.podman.path)
    setting.agent.known["containers"] = [POD, DB]
    with caplog.at_level(logging.WARNING):
        setting.start()
        setting.docker.add(WEB, "web")
        setting.until(lambda: setting.agent.told)
        setting.until(lambda: caplog.messages)
        time.sleep(0.1)
    assert caplog.messages == [
        "podman.socket does not run, so labels of podman's containers are not known. Start it: systemctl enable --now"
        " podman.socket"
    ]


def test_a_hostile_container_keeps_no_other_from_being_reported(
    setting: Setting, caplog: pytest.LogCaptureFixture
) -> None:
    """Labels by the thousand, a name with control characters, an answer and an event without end, no JSON."""
    many = {f"x.org/{number:05d}": "x" * 200 for number in range(10_000)}
    setting.docker.add("01" * 32, "many", labels={**many, "x.org/00001": "y", "x.org/00002": "\x1b[2J"})
    setting.docker.add("02" * 32, "\x1b[2J")
    setting.docker.add("03" * 32, "huge", labels={"x": "y" * engine_api.CONTAINER_LIMIT})
    setting.docker.add("04" * 32, "odd")
    setting.docker.answers[f"/containers/{'04' * 32}/json"] = (200, b"[" * 100_000)
    setting.docker.add("05" * 32, "failing")
    setting.docker.answers[f"/containers/{'05' * 32}/json"] = (500, b"{}")
    setting.docker.add(WEB, "web")
    with caplog.at_level(logging.WARNING):
        setting.start()
        setting.until(lambda: (WEB, "web") in setting.names())
    assert next(one["labels"] for one in setting.agent.told if one["name"] == "many") == {"x.org/00001": "y"}
    assert all("\x1b" not in line for line in caplog.messages)
    for event in (b"x" * (engine_api.EVENT_LIMIT + 10), b"{", b'{"Type": "network"}', b"\xff"):
        setting.docker.tell(event)
    setting.docker.add(DB, "db")
    setting.docker.connected("../../info")
    setting.docker.connected(DB)
    setting.until(lambda: (DB, "db") in setting.names())
    assert "/info" not in "".join(setting.docker.asked)


def test_a_flood_of_events_is_one_look() -> None:
    pending = Pending()
    for dummy in range(10_000):
        pending.add("docker", WEB)
    assert pending.take() == [("docker", WEB, 0)]
    for number in range(PENDING_LIMIT + 100):
        pending.add("docker", f"{number:064x}")
        pending.add("podman", POD)
    found = pending.take()
    assert len(found) <= 200 and ("docker", "", 0) in found and ("podman", POD, 0) in found
    pending.add("docker", WEB, attempts=5)
    pending.add("docker", DB, attempts=4)
    assert pending.take() == [("docker", DB, 4)]


def test_dockerd_runs_if_the_process_of_its_file_does(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "docker.pid"
    assert not dockerd_runs(str(file))
    for text, runs in ((str(os.getpid()), True), ("1", True), (str(2**22 + 1), False), ("", False), ("9" * 19, False)):
        file.write_text(text)
        assert dockerd_runs(str(file)) is runs, text


def test_answers_that_are_none_are_errors(setting: Setting) -> None:
    api = EngineApi(setting.docker.path, 5)
    path = f"/containers/{WEB}/json"
    for status, body in ((200, b"[]"), (200, b"{}"), (200, b'{"Name": 3}'), (200, b""), (503, b"")):
        setting.docker.answers[path] = (status, body)
        with pytest.raises(EngineError):
            api.inspect(WEB)
    setting.docker.answers[path] = (404, b"gone")
    assert api.inspect(WEB) is None
    setting.docker.answers["/containers/json"] = (200, json.dumps([{"Id": "../x"}]).encode())
    with pytest.raises(EngineError):
        api.containers()
    # podman leaves out what is empty.
    setting.docker.answers[path] = (
        200,
        b'{"Name": "web", "Config": {"Labels": null}, "NetworkSettings": {"Networks": null}}',
    )
    assert api.inspect(WEB) == ("web", {}, [])
