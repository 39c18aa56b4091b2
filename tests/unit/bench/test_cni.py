# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of bench/cni.py: a missed goal and a failed execution are seen, however the figures are printed."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest

from bench import cni

MANY = 1000


def figures(**ours: float) -> dict[str, t.Any]:
    """Return figures as `measure` does, with which all goals are met unless `ours` changes that.

    `ours` is {key of the figures: seconds of an ADD by our plugin}, with an underscore for a blank.
    """
    names = ("0", "10", str(MANY), *(name.replace(" ", "_") for name in cni.POLICED))
    found: dict[str, t.Any] = {
        name.replace("_", " "): {
            "ADD": {"calico": [ours.get(name, 0.005)] * 3, "ptp": [0.01] * 3},
            "DEL": {"calico": [0.003] * 3, "ptp": [0.01] * 3},
        }
        for name in names
    }
    alone = {name: [0.001] for name in ("shim", "restore", "fdatasync")}
    return {**found, "parallel": {"calico": [300.0], "ptp": [100.0]}, "rules": 1, **alone}


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (figures(), []),
        (figures(sets=0.02), ["ADD, sets"]),
        (figures(chains=0.0064), []),
        (figures(chains=0.0066), ["ADD, chains : few chains"]),
        (figures(**{"chains,_foreign": 0.0076}), ["ADD, chains, foreign : chains"]),
        (figures(**{"sets,_dual": 0.0071}), ["ADD, sets, dual : sets"]),
        (figures(**{"10": 0.003}), ["ADD, many : 10"]),
        (figures(**{"0": 0.009}), ["ADD beside 0"]),
        ({**figures(), "parallel": {"calico": [150.0], "ptp": [100.0]}}, ["ADD 8 parallel"]),
    ],
)
def test_exactly_the_missed_goals_are_found(
    found: dict[str, t.Any], missed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert [name for name, one in cni.ratios(found, MANY).items() if not one.met] == missed
    cni.report(found, MANY)
    assert capsys.readouterr().out.count("MISSED") == len(missed)


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(("seconds", "status"), [(0.005, 0), (0.02, 1)])
def test_the_exit_status_says_whether_a_goal_was_missed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: list[str], seconds: float, status: int
) -> None:
    _inside(monkeypatch, lambda *_: figures(sets=seconds), form)
    assert cni.main() == status
    out = capsys.readouterr().out
    if form:
        assert json.loads(out)["goals"]["ADD, sets"] is (status == 0)
        assert json.loads(out)["ratios"]["ADD, sets"] == seconds / 0.01


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_failed_execution_is_no_figure(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], form: list[str]
) -> None:
    program = tmp_path / "plugin"
    program.write_text("#!/bin/sh\necho no address left\nexit 3\n")
    program.chmod(0o755)

    def measure(*_: object) -> float:
        plugin = cni.Plugin(str(program), {})
        try:
            return plugin.status()
        finally:
            plugin.close()

    _inside(monkeypatch, measure, form)
    assert cni.main() == 2
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors == f"bench/cni.py: {program}, STATUS: exit status 3, and it said: no address left\n"


def _inside(monkeypatch: pytest.MonkeyPatch, measure: t.Callable[..., t.Any], form: list[str]) -> None:
    """Let `main` think that it is root in a namespace of its own and that all files exist, and measure with `measure`.

    `form` are its command-line arguments. It makes no folder and runs no program.
    """
    monkeypatch.setenv("CALICO_BENCH_INSIDE", "1")
    for module, name, value in (
        (cni.os, "geteuid", lambda: 0),
        (cni.os, "makedirs", lambda *_, **__: None),
        (cni.os.path, "exists", lambda _: True),
        (cni.subprocess, "run", lambda *_, **__: None),
        (cni, "measure", measure),
        (sys, "argv", ["cni.py", *form]),
    ):
        monkeypatch.setattr(module, name, value)
