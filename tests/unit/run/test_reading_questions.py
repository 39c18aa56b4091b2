# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/reading/questions.yml: 30 complete questions, whose pages exist and are pages that a reader has."""

from __future__ import annotations

import typing as t

import pytest
import yaml

from tests.conftest import ROOT

KEYS = {"number", "question", "answer", "must_have", "pages"}
QUESTIONS: list[dict[str, t.Any]] = yaml.safe_load((ROOT / "tests" / "reading" / "questions.yml").read_text("utf-8"))

COMPLETE = {
    "number": 1,
    "question": "Which file is it?",
    "answer": "It is this one.",
    "must_have": ["this one"],
    "pages": ["README.md"],
}


def faults(entry: t.Mapping[str, t.Any]) -> list[str]:
    """Return what is wrong with the form of a question, [] if nothing is."""
    if set(entry) != KEYS:
        return [f"its keys are {sorted(entry)} instead of {sorted(KEYS)}"]
    found = [f"{key} is empty" for key in ("question", "answer") if not str(entry[key]).strip()]
    if not entry["must_have"] or not all(isinstance(fact, str) and fact.strip() for fact in entry["must_have"]):
        found.append("must_have has no facts, or one that is no text")
    if not 1 <= len(entry["pages"]) <= 2:
        found.append(f"it has {len(entry['pages'])} pages instead of one or two")
    for page in entry["pages"]:
        if page != "README.md" and not (page.startswith("docs/") and page.endswith(".md")):
            found.append(f"{page} is no page that the reader has")
        elif not (ROOT / page).is_file():
            found.append(f"{page} does not exist")
    return found


def test_there_are_thirty_questions_with_numbers_of_their_own() -> None:
    assert [entry["number"] for entry in QUESTIONS] == list(range(1, 31))


@pytest.mark.parametrize("entry", QUESTIONS, ids=lambda entry: str(entry.get("number")))
def test_a_question_is_complete(entry: dict[str, t.Any]) -> None:
    assert faults(entry) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"answer": " "}, "answer is empty"),
        ({"must_have": []}, "must_have has no facts, or one that is no text"),
        ({"must_have": ["this one", ""]}, "must_have has no facts, or one that is no text"),
        ({"pages": []}, "it has 0 pages instead of one or two"),
        ({"pages": ["docs/none.md"]}, "docs/none.md does not exist"),
        ({"pages": ["tests/reading/README.md"]}, "tests/reading/README.md is no page that the reader has"),
    ],
)
def test_a_fault_is_found(change: dict[str, t.Any], fault: str) -> None:
    assert faults({**COMPLETE, **change}) == [fault]


def test_a_missing_key_is_found() -> None:
    assert faults({"number": 1}) != [] == faults(COMPLETE)
