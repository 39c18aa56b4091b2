# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the check `prose`: each of its rules refuses what it is for, and lets plain sentences stand."""

from __future__ import annotations

import pathlib
import sys
import textwrap

import pytest

RUN = pathlib.Path(__file__).resolve().parents[2] / "run"
sys.path.insert(0, str(RUN))

import prose  # noqa: E402

PROSE = prose.Prose(prose.read_verbs(), prose.read_banned())


def problems(source: str, in_tests: bool = False) -> list[str]:
    """Return the problems of `source` as "LINE WHAT".

    `in_tests` exempts functions named test_... from beginning with a verb.
    """
    return [f"{line} {what}" for line, what, _ in PROSE.check(textwrap.dedent(source), in_tests)]


def function(docstring: str, name: str = "routes", decorator: str = "") -> str:
    """Return the source of a function with this docstring in line 2, or in line 3 below a decorator."""
    return f'{decorator}\ndef {name}():\n    """{docstring}"""\n'.lstrip("\n")


@pytest.mark.parametrize("word", ["The", "Returns", "Whether", "A", "All", "return"])
def test_a_function_begins_with_a_verb_of_the_list(word: str) -> None:
    assert problems(function(f"{word} routes.")) == [
        f"2 docstring of routes() begins with {word!r}, not with a verb of verbs.txt"
    ]


def test_a_verb_that_is_used_as_a_noun_is_none() -> None:
    assert problems(function("Name of the pool.")) == [
        "2 docstring of routes() begins with 'Name of', not with a verb of verbs.txt"
    ]


@pytest.mark.parametrize("text", ["Return the routes.", "Cut the connections that policy denies; return their number."])
def test_an_imperative_sentence_is_accepted(text: str) -> None:
    assert problems(function(text)) == []


def test_methods_and_coroutines_are_functions() -> None:
    source = '''
        class Speaker:
            """A BGP speaker."""

            async def routes(self):
                """The routes."""
    '''
    assert problems(source) == ["6 docstring of routes() begins with 'The', not with a verb of verbs.txt"]


@pytest.mark.parametrize("decorator", ["@property", "@functools.cached_property", "@pytest.fixture(scope='module')"])
def test_a_property_or_fixture_may_have_a_noun_phrase(decorator: str) -> None:
    assert problems(function("The routes.", decorator=decorator)) == []


def test_a_test_says_what_holds() -> None:
    assert problems(function("A second agent refuses to start.", "test_second"), in_tests=True) == []


def test_a_function_named_like_a_test_is_none_outside_the_tests() -> None:
    assert problems(function("A second agent refuses to start.", "test_second")) != []


@pytest.mark.parametrize(
    ("text", "opening"),
    [("Of a node.", "Of"), ("Those with BGP.", "Those"), ("By its name.", "By"), ("As the function.", "As the")],
)
def test_banned_openings_are_refused_in_docstrings_and_comments(text: str, opening: str) -> None:
    assert problems(f'"""{text}"""\n') == [f"1 begins with {opening!r}"]
    assert problems(f'class A:\n    """{text}"""\n') == [f"2 begins with {opening!r}"]
    assert problems(function(text, "test_it"), in_tests=True) == [f"2 begins with {opening!r}"]
    assert problems(f"#: {text}\nA = 1\n") == [f"1 begins with {opening!r}"]


def test_an_opening_is_refused_at_the_beginning_only() -> None:
    assert problems("# The blocks\n# Of a node\nA = 1\n") == []


def test_an_opening_may_lead_to_a_whole_sentence() -> None:
    assert problems('"""With two pools, the smaller MTU wins."""\n') == []
    assert problems('"""With two pools."""\n') == ["1 begins with 'With'"]


def test_a_banned_phrase_is_found_in_a_docstring_on_its_line() -> None:
    assert problems('"""A node.\n\nIt has links, one of\nwhich is down.\n"""\n') == ["3 contains 'of which'"]


def test_a_banned_phrase_is_found_across_the_lines_of_a_comment() -> None:
    assert problems("A = 1\n# links, one of\n# which is down\nB = 2  # what stands here\n") == [
        "2 contains 'of which'",
        "4 contains 'what stands'",
    ]


def test_a_banned_phrase_is_refused_in_any_case() -> None:
    assert problems('"""Whoever asks."""\n') == ["1 begins with 'Whoever'", "1 contains 'whoever'"]


def test_a_hash_inside_a_string_is_no_comment() -> None:
    assert problems("A = 'x # whoever'\nB = '''\n# whoever\n'''\n") == []


@pytest.mark.parametrize(
    "statement",
    [
        "raise ValueError('the peer is told')",
        "raise missing(f'the peer {name} is told')",
        "error = port.KernelError('the peer is told', 5)",
        "print('The peer is told.')",
        "print(f'The peer {name} is told.')",
        "DOCUMENTATION = 'description: the peer is told'",
    ],
)
def test_a_banned_phrase_is_refused_in_messages_and_documentation(statement: str) -> None:
    assert problems(statement + "\n") == ["1 contains 'is told'"]


def test_a_line_of_documentation_is_named() -> None:
    assert problems("DOCUMENTATION = '''\nmodule: x\ndescription: who is told\n'''\n") == ["3 contains 'is told'"]


def test_data_is_no_message() -> None:
    assert problems("print('is told')\nWORDS = ['whoever', 'of which']\n") == []


def test_quoted_text_is_not_checked() -> None:
    assert problems('# the phrase "is told", and `whoever`\nA = 1\n') == []


def test_every_phrase_comes_with_a_remedy(tmp_path: pathlib.Path) -> None:
    (tmp_path / "phrases.txt").write_text("is told\n")
    with pytest.raises(ValueError, match=r"phrases\.txt: 'is told' is not `phrase -> remedy`"):
        prose.read_banned(tmp_path / "phrases.txt")
    assert all(banned.remedy for banned in prose.read_banned())


def test_the_verbs_are_sorted_and_different() -> None:
    verbs = prose.read_verbs()
    assert verbs == sorted(set(verbs))
    assert all(verb.isalpha() and verb.islower() for verb in verbs)


def test_a_problem_is_shown_with_its_place_and_its_remedy(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text('"""A peer that is told."""\n')
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    monkeypatch.setattr(prose, "checked_files", lambda: ["a.py"])
    assert prose.main([]) == 1
    assert capsys.readouterr().out.splitlines() == [
        'a.py:1: contains \'is told\': receives; or name the sender: "Send ...", "Advertise ..."',
        "1 problems in 1 files",
    ]


LONG = " ".join(["word"] * 26)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (f"{LONG}.\n", ["1 a sentence of 26 words, beginning 'word word word word word'"]),
        (
            f"# Title\n\n- one\n- {LONG[5:]} `code with\n  blanks`.\n",
            ["4 a sentence of 26 words, beginning 'word word"],
        ),
        (f"| a | b |\n|---|---|\n| x | {LONG} |\n", ["3 a sentence of 26 words"]),
        ("A peer\nwith an example,\n" + "as " + "ever.\n", ["3 contains 'as ever'"]),
    ],
    ids=["a paragraph", "an item", "a cell", "a phrase"],
)
def test_a_page_has_short_sentences_and_no_banned_phrase(page: str, found: list[str]) -> None:
    said = [f"{line} {what}" for line, what, _ in PROSE.check_page(page)]
    assert len(said) == len(found) and all(a.startswith(b) for a, b in zip(said, found)), said


@pytest.mark.parametrize(
    "page",
    [
        f"{LONG[5:]}.\n{LONG[5:]}.\n",
        f"{LONG[5:]}: {LONG[5:]}\n",
        "It has a TTL of 62. " + LONG[25:] + "\n",
        f"## {LONG}\n",
        f"```\n{LONG} is told\n```\n<!-- {LONG}\nis told -->\n",
        f"[{LONG[60:]}](a-page.md#that-is-told) {LONG[85:]}, e.g. this.\n",
        '`is told` and "is told" are quoted.\n',
    ],
    ids=["two sentences", "a colon", "a number", "a heading", "code and comments", "a link", "quotations"],
)
def test_a_plain_page_is_accepted(page: str) -> None:
    assert PROSE.check_page(page) == []
