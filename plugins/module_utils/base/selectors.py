# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calico's selector language: `parse("rack == 'a' && !has(spare)").matches(labels)`.

    or          = and { "||" and }
    and         = operation { "&&" operation }
    operation   = { "!" } ( "(" or ")" | test )
    test        = "all()" | "global()" | "has(" label ")" | label operator
    operator    = ("==" | "!=" | "contains" | "starts with" | "ends with") string | ("in" | "not in") set
    set         = "{" [ string { "," string } [ "," ] ] "}"
    string      = '"' ... '"' | "'" ... "'"          (no escapes)
    label       = 1 to 512 of [a-zA-Z0-9_./-]

Words are keywords only where the grammar can use them, so `in in {"in"}` compares a label called `in`. Only space and
tab separate tokens. Line breaks and form feeds are also accepted inside `not in`, `starts with`, `ends with`,
`has(...)`, `all(...)` and `global(...)`. `notin`, `startswith` and `endswith` are the same operators. A text of spaces
and tabs alone, or of nothing, means `all()`.

Source: the selector syntax of the Calico documentation (EntityRule, "Selector syntax") and the behaviour of Calico's
own parser. Parsing, matching and printing are not recursive: memory limits the depth of a selector, not the
stack.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
import typing as t
from dataclasses import dataclass

Labels = t.Mapping[str, str]


class SelectorError(ValueError):
    """A text that is not a selector.

    `text` is the whole text. `position` is the offset (from 0) of the part that cannot be read, or the length of
    `text` if it ends too early. `expected` says in words what would be valid there.
    """

    def __init__(self, text: str, position: int, expected: str) -> None:
        self.text = text
        self.position = position
        self.expected = expected
        super().__init__(text, position, expected)

    def __str__(self) -> str:
        found = _excerpt(self.text[self.position :], 24) if self.position < len(self.text) else "the end of the text"
        return (
            f"selector {_excerpt(self.text, 120)} cannot be read at column {self.position + 1}: "
            f"expected {self.expected}, found {found}."
        )


def _excerpt(text: str, limit: int) -> str:
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


# --- the tree -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expression:
    """A node in the tree of a selector: a Leaf, a Not with its `operand`, or an And or Or with their `operands`."""


@dataclass(frozen=True)
class Leaf(Expression):
    """A node that tests labels and has no operands. `str(leaf)` is its canonical text."""

    def test(self, labels: Labels) -> bool:
        """Return whether this condition of a selector is true for an object with these labels (name to value)."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class All(Leaf):
    """`all()`: true for any labels."""

    def test(self, labels: Labels) -> bool:
        return True

    def __str__(self) -> str:
        return "all()"


@dataclass(frozen=True)
class Global(Leaf):
    """`global()`: true for any labels. As a namespaceSelector it means endpoints and sets without a namespace."""

    def test(self, labels: Labels) -> bool:
        return True

    def __str__(self) -> str:
        return "global()"


@dataclass(frozen=True)
class Has(Leaf):
    """`has(label)`: true if the label exists."""

    label: str

    def test(self, labels: Labels) -> bool:
        return self.label in labels

    def __str__(self) -> str:
        return f"has({self.label})"


@dataclass(frozen=True)
class Comparison(Leaf):
    """A comparison of a label with one string."""

    operator: t.ClassVar[str]

    label: str
    value: str

    def __str__(self) -> str:
        return f"{self.label} {self.operator} {_quoted(self.value)}"


class LabelEquals(Comparison):
    """`label == "value"`: false if the label is absent."""

    operator = "=="

    def test(self, labels: Labels) -> bool:
        return labels.get(self.label) == self.value


class LabelNotEquals(Comparison):
    """`label != "value"`: also true if the label is absent."""

    operator = "!="

    def test(self, labels: Labels) -> bool:
        return labels.get(self.label) != self.value


class LabelContains(Comparison):
    """`label contains "part"`: false if the label is absent."""

    operator = "contains"

    def test(self, labels: Labels) -> bool:
        return self.label in labels and self.value in labels[self.label]


class LabelStartsWith(Comparison):
    """`label starts with "prefix"`: false if the label is absent."""

    operator = "starts with"

    def test(self, labels: Labels) -> bool:
        return self.label in labels and labels[self.label].startswith(self.value)


class LabelEndsWith(Comparison):
    """`label ends with "suffix"`: false if the label is absent."""

    operator = "ends with"

    def test(self, labels: Labels) -> bool:
        return self.label in labels and labels[self.label].endswith(self.value)


@dataclass(frozen=True)
class Membership(Leaf):
    """A comparison of a label with a set of strings; `values` are sorted and unique."""

    operator: t.ClassVar[str]

    label: str
    values: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.label} {self.operator} {{{', '.join(map(_quoted, self.values))}}}"


class LabelIn(Membership):
    """`label in {"a", "b"}`: false if the label is absent."""

    operator = "in"

    def test(self, labels: Labels) -> bool:
        return labels.get(self.label) in self.values


class LabelNotIn(Membership):
    """`label not in {"a", "b"}`: also true if the label is absent."""

    operator = "not in"

    def test(self, labels: Labels) -> bool:
        return labels.get(self.label) not in self.values


@dataclass(frozen=True)
class Not(Expression):
    """`!operand`: true if the operand is false."""

    operand: Expression


@dataclass(frozen=True)
class And(Expression):
    """A conjunction: two or more operands that must all be true."""

    operands: tuple[Expression, ...]


@dataclass(frozen=True)
class Or(Expression):
    """A disjunction: two or more operands, at least one of them must be true."""

    operands: tuple[Expression, ...]


def _quoted(value: str) -> str:
    """Return `value` as a string of the language.

    Raise ValueError if it has both kinds of quotes, because the language has no escapes. A parsed value never has both.
    """
    if '"' in value and "'" in value:
        raise ValueError(
            f"the value {value!r} of a label cannot stand in a selector: it has both kinds of quotes, and one of them "
            "would end it. Use a value with at most one kind."
        )
    return f"'{value}'" if '"' in value else f'"{value}"'


def leaves(root: Expression) -> t.Iterator[Leaf]:
    """Yield all leaves of the tree `root` in the order of the text; repeated ones each time."""
    pending = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Leaf):
            yield node
        elif isinstance(node, Not):
            pending.append(node.operand)
        elif isinstance(node, (And, Or)):
            pending.extend(reversed(node.operands))


def replace_leaves(root: Expression, replacement: t.Callable[[Leaf], Expression]) -> Expression:
    """Return a copy of the tree `root` in which each leaf is replaced by the result of `replacement(leaf)`."""
    waiting: list[tuple[Expression, bool]] = [(root, False)]
    done: list[Expression] = []  # a stack of finished copies; a Not, And or Or takes its operands from the top
    while waiting:
        node, visited = waiting.pop()
        if isinstance(node, Leaf):
            done.append(replacement(node))
        elif isinstance(node, Not):
            if visited:
                done.append(Not(done.pop()))
            else:
                waiting += [(node, True), (node.operand, False)]
        elif isinstance(node, (And, Or)):
            if visited:
                operands = tuple(done[-len(node.operands) :])
                del done[-len(operands) :]
                done.append(type(node)(operands))
            else:
                waiting.append((node, True))
                waiting.extend((operand, False) for operand in reversed(node.operands))
    return done[0]


# --- the selector ---------------------------------------------------------------------------------------------------


class Selector:
    """A parsed, immutable selector. Two are equal if their canonical forms are.

    `root` is the tree of nodes, `canonical` the normal form of the text.
    """

    __slots__ = ("_steps", "_uid", "canonical", "root")

    def __init__(self, root: Expression) -> None:
        self.root = root
        self.canonical = canonical(root)
        self._uid = ""
        self._steps = _steps(root)

    def matches(self, labels: Labels) -> bool:
        """Return whether this selects an object with these labels, a mapping from name to value."""
        steps = self._steps
        at = 0
        while at >= 0:
            test, if_true, if_false = steps[at]
            at = if_true if test(labels) else if_false
        return at == _MATCH

    @property
    def uid(self) -> str:
        """Calico's name for the set of the selected addresses: "s:" and a digest in base64url without padding.

        The digest is the SHA-224 of "s:" followed by the canonical form.
        """
        if not self._uid:
            digest = hashlib.sha224(f"s:{self.canonical}".encode("utf-8", "surrogatepass")).digest()
            self._uid = "s:" + base64.urlsafe_b64encode(digest).decode("ascii").rstrip("=")
        return self._uid

    @property
    def labels(self) -> frozenset[str]:
        """The names of all labels that occur in the selector."""
        return frozenset(leaf.label for leaf in leaves(self.root) if isinstance(leaf, (Has, Comparison, Membership)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and other.canonical == self.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __str__(self) -> str:
        return self.canonical

    def __repr__(self) -> str:
        return f"Selector({self.canonical!r})"


def canonical(root: Expression) -> str:
    """Return the normal form of the text of a tree, as `Selector.canonical`."""
    parts: list[str] = []
    pending: list[t.Union[Expression, str]] = [root]
    while pending:
        item = pending.pop()
        if isinstance(item, Not):
            parts.append("!")
            pending.append(item.operand)
        elif isinstance(item, (And, Or)):
            glue = " && " if isinstance(item, And) else " || "
            parts.append("(")
            pending.append(")")
            for index, operand in enumerate(reversed(item.operands)):
                if index:
                    pending.append(glue)
                pending.append(operand)
        else:
            parts.append(str(item))
    return "".join(parts)


_MATCH, _NO_MATCH = -1, -2

_Test = t.Callable[[Labels], bool]


class _Place:
    """The target of a jump in the list of tests: a verdict, or the first leaf of a node."""

    __slots__ = ("step",)

    def __init__(self, step: int = 0) -> None:
        self.step = step


def _steps(root: Expression) -> list[tuple[_Test, int, int]]:
    """Return the tree as short-circuit code: a list of (test, next index if true, next index if false).

    The next index is _MATCH or _NO_MATCH where evaluation ends.
    """
    laid_out: list[tuple[_Test, _Place, _Place]] = []
    match, no_match = _Place(_MATCH), _Place(_NO_MATCH)
    pending: list[tuple[Expression, _Place, _Place, _Place]] = [(root, _Place(), match, no_match)]
    while pending:
        node, here, if_true, if_false = pending.pop()
        # Leaves are laid out from left to right. So the first leaf of `node` gets the next index.
        here.step = len(laid_out)
        if isinstance(node, Leaf):
            laid_out.append((node.test, if_true, if_false))
        elif isinstance(node, Not):
            pending.append((node.operand, _Place(), if_false, if_true))
        elif isinstance(node, (And, Or)):
            # Operands are handled from the last to the first: each may jump to the beginning of the next one.
            following: t.Optional[_Place] = None
            for operand in reversed(node.operands):
                place = _Place()
                if following is None:
                    pending.append((operand, place, if_true, if_false))
                elif isinstance(node, And):
                    pending.append((operand, place, following, if_false))
                else:
                    pending.append((operand, place, if_true, following))
                following = place
    return [(test, if_true.step, if_false.step) for test, if_true, if_false in laid_out]


# --- text to tokens -------------------------------------------------------------------------------------------------

# The white space that is accepted between the words of "not in", "starts with" and "ends with", and inside the
# parentheses of has(), all() and global().
_GAP = r"[\t\n\f\r ]*"
#: The most characters of a label.
LABEL_LIMIT = 512
_LABEL = rf"[a-zA-Z0-9_./-]{{1,{LABEL_LIMIT}}}"

_BLANKS = re.compile(r"[ \t]*")
_PUNCTUATION = re.compile(r"==|!=|&&|\|\||[(){},!]")
_STRING = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_OPERATOR = re.compile(
    rf"(?P<contains>contains)|(?P<starts>starts{_GAP}with)|(?P<ends>ends{_GAP}with)"
    # \b: "inside" does not begin with the operator "in". "containsx" is "contains" followed by x, as Calico reads it.
    rf"|(?P<notin>not{_GAP}in\b)|(?P<in>in\b)",
    re.ASCII,
)
_TERM = re.compile(
    rf"has\({_GAP}(?P<has>{_LABEL}){_GAP}\)|(?P<all>all\({_GAP}\))|(?P<global>global\({_GAP}\))|(?P<label>{_LABEL})"
)

_AN_OPERATOR = "an operator (==, !=, in, not in, contains, starts with, ends with)"
_A_TERM = 'a label, has(...), all(), global(), "!" or "("'
_HALVES = {"=": '"=="', "&": '"&&"', "|": '"||"'}


class _Token(t.NamedTuple):
    kind: str  # a sign such as "&&", the name of a group of _OPERATOR or _TERM, or "string", "end", "error"
    value: str  # the text of a label, string or word, what an "error" expected ("": any term), "" for a sign or the end
    start: int  # the offset of the token in the text, from 0


def _tokens(text: str) -> list[_Token]:
    """Return the tokens of `text`. The last one has kind "end", or "error" at what is no token."""
    tokens: list[_Token] = []
    at = 0
    while True:
        at = t.cast("re.Match[str]", _BLANKS.match(text, at)).end()
        if at == len(text):
            tokens.append(_Token("end", "", at))
            return tokens
        after_label = bool(tokens) and tokens[-1].kind == "label"
        found = _PUNCTUATION.match(text, at)
        if found:
            tokens.append(_Token(found.group(), "", at))
        elif text[at] in "\"'":
            found = _STRING.match(text, at)
            if not found:
                tokens.append(_Token("error", f"a closing {text[at]} for the string that begins here", at))
                return tokens
            tokens.append(_Token("string", found.group()[1:-1], at))
        elif text[at] in _HALVES:
            tokens.append(_Token("error", _HALVES[text[at]], at))
            return tokens
        else:
            found = (_OPERATOR if after_label else _TERM).match(text, at)
            if not found:
                tokens.append(_Token("error", _AN_OPERATOR if after_label else "", at))
                return tokens
            kind = t.cast(str, found.lastgroup)
            tokens.append(_Token(kind, found.group(kind), at))
        at = found.end()


# --- tokens to tree -------------------------------------------------------------------------------------------------

_COMPARISONS: dict[str, type[Comparison]] = {
    "==": LabelEquals,
    "!=": LabelNotEquals,
    "contains": LabelContains,
    "starts": LabelStartsWith,
    "ends": LabelEndsWith,
}
_MEMBERSHIPS: dict[str, type[Membership]] = {"in": LabelIn, "notin": LabelNotIn}
_FUNCTIONS = {"has": "has(label) with one label, without quotes,", "all": "all()", "global": "global()"}


class _Group:
    """The part of a selector since an open parenthesis or the beginning: alternatives, and the last conjunction."""

    __slots__ = ("alternatives", "conjunction", "negated")

    def __init__(self, negated: bool) -> None:
        self.negated = negated  # whether an odd number of "!" stood before the parenthesis
        self.alternatives: list[Expression] = []
        self.conjunction: list[Expression] = []

    def close_conjunction(self) -> None:
        """Add the present conjunction to the alternatives, and begin a new one."""
        node = self.conjunction[0] if len(self.conjunction) == 1 else And(tuple(self.conjunction))
        self.alternatives.append(node)
        self.conjunction = []

    def close(self) -> Expression:
        self.close_conjunction()
        node = self.alternatives[0] if len(self.alternatives) == 1 else Or(tuple(self.alternatives))
        return Not(node) if self.negated else node


class _Parser:
    """A parser of one text into the tree of a selector. `at` is the index of the next token.

    Methods that read raise SelectorError for tokens that they cannot read.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    def fail(self, expected: str) -> SelectorError:
        """Return, not raise, the error at the next token, with `expected` unless the tokenizer expected something."""
        token = self.tokens[self.at]
        # The tokenizer names in `value` what it expected, which is more precise; "" stands for any term.
        return SelectorError(self.text, token.start, (token.kind == "error" and token.value) or expected)

    def accept(self, kind: str) -> t.Optional[_Token]:
        """Consume the next token and return it if it is of this kind, else return None."""
        token = self.tokens[self.at]
        if token.kind != kind:
            return None
        self.at += 1
        return token

    def selector(self) -> Expression:
        """Return the tree of the whole text, All() for a blank one."""
        if self.accept("end"):
            return All()
        groups = [_Group(False)]
        while True:
            # An operation comes next, after any number of "!" and "(".
            negated = False
            while self.accept("!"):
                negated = not negated
            if self.accept("("):
                groups.append(_Group(negated))
                continue
            leaf = self.leaf()
            groups[-1].conjunction.append(Not(leaf) if negated else leaf)
            # After the operation come closing parentheses, and then "&&", "||" or the end.
            while self.accept(")"):
                if len(groups) == 1:
                    self.at -= 1
                    raise self.fail('"&&", "||" or the end, for no "(" is open here')
                closed = groups.pop().close()
                groups[-1].conjunction.append(closed)
            if self.accept("&&"):
                continue
            if self.accept("||"):
                groups[-1].close_conjunction()
                continue
            if len(groups) > 1:
                raise self.fail('"&&", "||" or ")"')
            if not self.accept("end"):
                raise self.fail('"&&", "||" or the end')
            return groups[0].close()

    def leaf(self) -> Leaf:
        """Consume and return one test, such as `has(a)`."""
        if self.accept("all"):
            return All()
        if self.accept("global"):
            return Global()
        token = self.accept("has")
        if token:
            return Has(token.value)
        token = self.accept("label")
        if not token:
            raise self.fail(_A_TERM)
        operator = self.tokens[self.at].kind
        if operator in _COMPARISONS:
            self.at += 1
            value = self.accept("string")
            if not value:
                raise self.fail("a string in quotes")
            return _COMPARISONS[operator](token.value, value.value)
        if operator in _MEMBERSHIPS:
            self.at += 1
            return _MEMBERSHIPS[operator](token.value, self.set())
        if operator == "(" and token.value.lower() in _FUNCTIONS:
            # A word before "(" that is no valid function was read as a label. Name the function that it resembles.
            raise SelectorError(self.text, token.start, f"{_FUNCTIONS[token.value.lower()]} in lower case")
        raise self.fail(_AN_OPERATOR)

    def set(self) -> tuple[str, ...]:
        """Consume a set, such as `{"a", "b"}`, and return its strings, sorted and unique."""
        if not self.accept("{"):
            raise self.fail('a set such as {"a", "b"}')
        values: set[str] = set()
        while True:
            value = self.accept("string")
            if value:
                values.add(value.value)
            if not value or not self.accept(","):
                break
        if not self.accept("}"):
            raise self.fail('"," or "}"' if value else 'a string in quotes or "}"')
        return tuple(sorted(values))


def parse(text: str) -> Selector:
    """Return the selector that `text` spells, from a cache of the 1024 valid texts that were used last.

    Raise SelectorError if it is not a selector or not a str. Use `parse_once` for texts that callers of an API send.
    """
    if not isinstance(text, str):
        raise SelectorError(str(text), 0, "a text")
    return _parse(text)


def parse_once(text: str) -> Selector:
    """Return the selector that `text` spells, without caching it. Raise SelectorError if it is not a selector."""
    return Selector(_Parser(text).selector())


# `parse` calls this function for its cache: fleets repeat the same few selectors, and a Selector is immutable.
@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Selector:
    return Selector(_Parser(text).selector())
