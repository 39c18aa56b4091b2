# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check `prose`: the rules of CONTRIBUTING.md on docstrings, comments, messages and pages that a program can hold.

`prose.py` checks the repository, `prose.py PATH...` those paths. `prose.py --first-words` counts the first words of
function docstrings.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import pathlib
import re
import subprocess
import sys
import typing as t

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from tests.run import pages  # noqa: E402

#: A problem at one place of a file: the line, what is wrong there, and the remedy.
Problem = t.Tuple[int, str, str]
Function = (ast.FunctionDef, ast.AsyncFunctionDef)

#: Decorators (the last part of their names) of functions that are named for a value. A noun phrase documents them.
VALUE_DECORATORS = {"property", "cached_property", "abstractproperty", "setter", "fixture"}
#: Assigned strings that Ansible shows to users.
DOCUMENTATION = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
#: The end of the name of a called class or function that makes an error, as in ValueError(...), port.KernelError(...).
_ERROR = re.compile(r"(Error|Exception|Refused|Refusal)$")
#: Strings and comments of valid Python; only comments are captured.
_COMMENT = re.compile(
    r"""[rbfuRBFU]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|\#(?P<comment>[^\n]*)""",
    re.DOTALL,
)
_MACHINE_COMMENT = re.compile(
    r"\s*(noqa|type:|fmt:|pragma|pylint:|SPDX-|Copyright \(c\)|GNU General Public License|!/)"
)
_QUOTED = re.compile(r"``[^`]*``|`[^`]*`|\"[^\"\n]*\"")


@dataclasses.dataclass(frozen=True)
class Banned:
    """One line of banned_phrases.txt: what is refused, and what to write instead.

    `opening` True: the phrase is refused only at the beginning of a text.
    """

    text: str
    remedy: str
    pattern: t.Pattern[str]
    opening: bool
    fragment: bool  # refused only when the first sentence has no comma

    def found(self, text: str) -> t.Optional[int]:
        """Return the offset of the phrase in `text`, or None if `text` may stand."""
        match = self.pattern.match(text) if self.opening else self.pattern.search(text)
        if match is None or (self.fragment and "," in first_sentence(text)):
            return None
        return match.start("phrase")


def first_sentence(text: str) -> str:
    """Return `text` up to its first `.`, `:`, `?` or `!` before white space, or all of it; both ends are stripped."""
    return re.split(r"(?<=[.:?!])\s", text.strip(), maxsplit=1)[0]


def read_verbs(path: pathlib.Path = HERE / "verbs.txt") -> list[str]:
    """Return the verbs of `path` in its order."""
    return path.read_text(encoding="utf-8").split()


def read_banned(path: pathlib.Path = HERE / "banned_phrases.txt") -> list[Banned]:
    """Return the phrases of `path`; its first lines explain the format.

    Raise ValueError for a line without a phrase or a remedy. Empty lines and those that begin with # are left out.
    """
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        text, arrow, remedy = (part.strip() for part in line.partition("->"))
        if not arrow or not text or not remedy:
            raise ValueError(f"{path.name}: {line!r} is not `phrase -> remedy`.")
        words = text.lstrip("^").rstrip("*").split()
        phrase = r"(?P<phrase>\b" + r"\s+".join(map(re.escape, words)) + r"\b)"
        opening = text.startswith("^")
        # Openings are words of a sentence's beginning: case matters. Phrases are refused in any case.
        pattern = re.compile(r"\s*" + phrase) if opening else re.compile(phrase, re.IGNORECASE)
        found.append(Banned(text.strip("^*"), remedy, pattern, opening, text.endswith("*")))
    return found


class Prose:
    """The check of one Python file against the verbs and the banned phrases."""

    def __init__(self, verbs: t.Iterable[str], banned: t.Sequence[Banned]):
        self.verbs = {verb.capitalize() for verb in verbs}
        self.banned = banned

    def check(self, source: str, in_tests: bool = False) -> list[Problem]:
        """Return the problems of the docstrings, comments and messages of `source`, sorted by line.

        Messages are the texts of errors, Ansible's documentation, and other literals that end with a dot. A phrase that
        occurs twice in one text is one problem. `in_tests` exempts functions named test_... from beginning with a verb.
        Raise SyntaxError if `source` is not Python.
        """
        tree = ast.parse(source)
        found: set[Problem] = set()
        docstrings: set[int] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and _text(node.value):
                # All strings that stand alone are docstrings here, since some document an attribute.
                docstrings.add(id(node.value))
                found.update(self._phrases(_text(node.value), node.lineno, openings=True))
            elif isinstance(node, Function) and needs_verb(node, in_tests):
                found.update(self._verb(node))
        for node, text, lines in _messages(tree, docstrings):
            # Openings are not looked for: the beginning of YAML is no beginning of a sentence.
            found.update(self._phrases(text, node.lineno, openings=False, last=lines))
        for line, text in comments(source):
            found.update(self._phrases(text, line, openings=True))
        return sorted(found)

    def check_page(self, page: str) -> list[Problem]:
        """Return the problems of a page of Markdown, sorted by line: banned phrases and sentences that are too long."""
        found = set(self._phrases(pages.prose_of(page), 1, openings=False))
        for sentence in pages.sentences(page):
            if sentence.words > pages.MOST_WORDS:
                what = f"a sentence of {sentence.words} words, beginning {' '.join(sentence.text.split()[:5])!r}"
                found.add((sentence.line, what, f"make two of it: at most {pages.MOST_WORDS} words"))
        return sorted(found)

    def _verb(self, function: t.Any) -> t.Iterator[Problem]:
        text = ast.get_docstring(function)
        word = first_word(text or "")
        noun = f"{word} of " in (text or "")[: len(word) + 5]
        if text and (word not in self.verbs or noun):
            yield (
                function.body[0].lineno,
                f"docstring of {function.name}() begins with {word + ' of' * noun!r}, not with a verb of verbs.txt",
                'write an imperative sentence ("Return ...", "Raise ..."), or add the verb to the list',
            )

    def _phrases(self, text: str, line: int, openings: bool, last: t.Optional[int] = None) -> t.Iterator[Problem]:
        # A quotation is a name or an example. Its length stays, so that lines are right.
        text = _QUOTED.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), text)
        for banned in self.banned:
            offset = banned.found(text) if openings or not banned.opening else None
            if offset is not None:
                at = line + text.count("\n", 0, offset)
                kind = "begins with" if banned.opening else "contains"
                yield at if last is None else min(at, last), f"{kind} {banned.text!r}", banned.remedy


def needs_verb(function: t.Any, in_tests: bool) -> bool:
    """Return whether the docstring of `function` must begin with a verb: properties and fixtures are exempt.

    So are tests, that is functions named test_... if `in_tests` is true.
    """
    if in_tests and function.name.startswith("test_"):
        return False
    names = set()
    for decorator in function.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return not names & VALUE_DECORATORS


def first_word(text: str) -> str:
    """Return the first word of `text` without punctuation, "" if `text` begins with none."""
    match = re.match(r"\s*([\w-]+)", text)
    return match[1] if match else ""


def comments(source: str) -> t.Iterator[tuple[int, str]]:
    """Yield (number of the first line, text) of each comment of `source`.

    A line of nothing but a comment continues a comment of the line before. Comments for programs, such as noqa, and
    those about licences are left out.
    """
    block: list[str] = []
    begin = end = 0
    for match in _COMMENT.finditer(source):
        text = match["comment"]
        if text is None or _MACHINE_COMMENT.match(text):
            continue
        line = source.count("\n", 0, match.start()) + 1
        alone = not source[source.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        if block and alone and line == end + 1:
            block.append(text.lstrip(":"))
        else:
            if block:
                yield begin, "\n".join(block)
            block, begin = [text.lstrip(":")], line
        end = line
    if block:
        yield begin, "\n".join(block)


def _text(node: ast.AST) -> str:
    """Return the text of a string literal with {} for the values in it, "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def _messages(tree: ast.AST, docstrings: set[int]) -> t.Iterator[tuple[t.Any, str, int]]:
    """Yield (node, text, last line) of each literal that people read: documentation, errors, and full sentences.

    A full sentence ends with a dot. Literals without a blank inside are left out, and so are nodes whose ids are in
    `docstrings`.
    """
    seen = set(docstrings)
    for node in ast.walk(tree):
        of_people = False
        parts: list[ast.AST] = [node]
        if isinstance(node, ast.Assign):
            of_people = bool({getattr(target, "id", "") for target in node.targets} & DOCUMENTATION)
            parts = [node.value]
        elif isinstance(node, ast.Raise) or (isinstance(node, ast.Call) and _ERROR.search(_called(node))):
            of_people = True
            parts = list(ast.walk(node))
        for part in parts:
            text = _text(part)
            if text and id(part) not in seen and " " in text.strip() and (of_people or text.rstrip().endswith(".")):
                seen.update(id(inner) for inner in ast.walk(part))
                yield part, text, _last_line(part)


def _last_line(node: ast.AST) -> int:
    last: t.Any = getattr(node, "end_lineno", None)
    return int(last or getattr(node, "lineno", 0))


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def checked_files() -> list[str]:
    """Return the sorted paths, relative to the root, of all Python files and pages that git knows or would take.

    Scripts without a suffix are among them. Raise CalledProcessError if this is not a git work tree.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, check=True,
    ).stdout  # fmt: skip
    return sorted({name for name in listed.decode().split("\0") if name and (is_page(name) or _is_python(ROOT / name))})


def is_page(name: str) -> bool:
    """Return whether the file `name` (relative to the root) is a page for users or contributors."""
    return name.endswith(".md") and not name.startswith("tests/") and (ROOT / name).is_file()


def _is_python(path: pathlib.Path) -> bool:
    if path.suffix or not path.is_file():
        return path.suffix == ".py" and path.is_file()
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first


def in_tests(name: str) -> bool:
    """Return whether the file `name` (relative to the root) may hold tests, by its folder."""
    return name.startswith(("tests/", "molecule/"))


def count_first_words(names: t.Iterable[str]) -> collections.Counter[str]:
    """Return how many function docstrings in the files `names` begin with each word; exempt functions do not count.

    Raise SyntaxError for a file that is not Python.
    """
    counts: collections.Counter[str] = collections.Counter()
    for name in names:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, Function) and needs_verb(node, in_tests(name)):
                text = ast.get_docstring(node)
                counts.update([first_word(text)] if text else [])
    return counts


def main(arguments: list[str]) -> int:
    names = checked_files()
    if arguments == ["--first-words"]:
        for word, count in count_first_words(name for name in names if not is_page(name)).most_common():
            print(count, word)
        return 0
    checked = names
    if arguments:
        wanted = [str(pathlib.Path(argument).resolve().relative_to(ROOT)) for argument in arguments]
        checked = [name for name in names if any(name == path or name.startswith(path + "/") for path in wanted)]
    lines = []
    prose = Prose(read_verbs(), read_banned())
    for name in checked:
        text = (ROOT / name).read_text(encoding="utf-8")
        for line, what, remedy in prose.check_page(text) if is_page(name) else prose.check(text, in_tests(name)):
            lines.append(f"{name}:{line}: {what}: {remedy}")
    print("\n".join([*lines, f"{len(lines)} problems in {len(checked)} files"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
