# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
r"""The encoder of iptables-restore's input: tokens of rules, and whole lines.

iptables-restore reads lines into a buffer of 10240 bytes and treats the rest of a longer line as the next line. White
space outside of double quotes ends a token. Inside of quotes, a backslash escapes the next character.

The compilers of policy and firewall render many rules, and must not fail because of one of them. So `interface`, `cidr`
and similar functions do not raise. For an invalid value they return a *refused token*, which says what is wrong and is
marked by the control character SUBSTITUTE. `check_line` raises for a line with such a token, before iptables-restore
reads any line. The driver then sets that rule's chain aside if possible (iptables_restore.py).
"""

from __future__ import annotations

import functools
import re
import typing as t

from .not_encodable import NotEncodable

PROTOCOL = "iptables-restore"

TABLES = ("filter", "nat", "mangle", "raw", "security")

_SUBSTITUTE = "\x1a"
_REFUSED = re.compile(f"{_SUBSTITUTE}([^{_SUBSTITUTE}]*){_SUBSTITUTE}")

_LONGEST_LINE = 2000  # characters, of up to four bytes each; iptables-restore reads a line into 10240 bytes

_CHAIN = re.compile(r"[A-Za-z0-9_.:][A-Za-z0-9_.:/=+~@-]{0,27}", re.ASCII)
_INTERFACE = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.:@~=#$%&^-]{0,14}\+?", re.ASCII)
_SET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=~-]{0,30}", re.ASCII)
_CIDR = re.compile(r"(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*)(?:/[0-9]{1,3})?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:~/-]{0,62}", re.ASCII)

# Characters that may not occur: control characters (line feeds and tabs too), halves of surrogate pairs, and the line
# and paragraph separators.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# The bytes that the fast check `are_good` accepts: printable ASCII without the backslash, and line feeds.
_FIT = b"\n" + bytes(range(0x20, 0x5C)) + bytes(range(0x5D, 0x7F))
_QUOTED = re.compile(r'(?:[^"]|"(?:[^"\\]|\\.)*")*')


def _token(form: re.Pattern[str], kind: str, allowed: str, value: str) -> str:
    if isinstance(value, str) and form.fullmatch(value):
        return value
    words = str(NotEncodable(PROTOCOL, kind, value, allowed)).rstrip(".")
    return f"{_SUBSTITUTE}{words}{_SUBSTITUTE}"


@functools.lru_cache(maxsize=65536)
def cidr(value: str) -> str:
    """Return an IPv4 or IPv6 address or CIDR unchanged, or a refused token if `value` does not have that form.

    The form is checked roughly: no number for its range, and no IPv6 address for the count of its groups.
    """
    return _token(_CIDR, "an address", "Allowed is an IPv4 or IPv6 address, with or without a prefix length", value)


@functools.lru_cache(maxsize=8192)
def interface(value: str) -> str:
    """Return the name of an interface unchanged, or a refused token. A `+` at the end stands for any ending."""
    allowed = "Allowed are 15 letters, digits and _.:@~=#$%&^- , the first a letter, digit, _ or ., and a + at the end"
    return _token(_INTERFACE, "an interface", allowed, value)


@functools.lru_cache(maxsize=65536)
def set_name(value: str) -> str:
    """Return the name of an IP set, 1 to 31 ASCII characters, unchanged, or a refused token."""
    return _token(
        _SET, "an IP set", "Allowed are 31 letters, digits and _.:=~- , the first a letter, digit or _", value
    )


@functools.lru_cache(maxsize=65536)
def chain(value: str) -> str:
    """Return the name of a chain, 1 to 28 ASCII characters, unchanged, or a refused token."""
    allowed = "Allowed are 28 letters, digits and _.:/=+~@- , the first a letter, digit, _, . or :"
    return _token(_CHAIN, "a chain", allowed, value)


@functools.lru_cache(maxsize=65536)
def word(value: str) -> str:
    """Return the name of a protocol or a log prefix unchanged, or a refused token if `value` is not one plain word."""
    return _token(_WORD, "a word", "Allowed are 63 letters, digits and _.:~/- , the first a letter or digit", value)


def check_table(value: str) -> None:
    if value not in TABLES:
        raise NotEncodable(PROTOCOL, "a table", value, f"Allowed is one of {', '.join(TABLES)}")


def check_chain(value: str, ours: bool) -> None:
    """Raise NotEncodable if `value` cannot be the name of a chain, with `ours` one that begins with "cali-".

    Without `ours` it may be a chain of others that holds a rule of ours.
    """
    if not _CHAIN.fullmatch(value) or (ours and not value.startswith("cali-")):
        allowed = "Allowed are 28 letters, digits and _.:/=+~@- , the first a letter, digit, _, . or :"
        allowed = "Allowed are 28 letters, digits and _.:/=+~@- , the first cali-" if ours else allowed
        raise NotEncodable(PROTOCOL, "a chain of ours" if ours else "a chain", value, allowed)


def are_good(lines: t.Sequence[str]) -> bool:
    """Return whether a fast check accepts all of `lines`. True means that `check_line` raises for none of them.

    False means that at least one line needs `check_line`, which may still accept it.
    """
    if not lines:
        return True
    text = "\n".join(lines)
    return (
        text.isascii()
        and not text.encode("ascii").translate(None, _FIT)
        and text.count("\n") == len(lines) - 1
        and max(map(len, lines)) <= _LONGEST_LINE
        and not any(line.count('"') & 1 for line in lines)
    )


def check_line(line: str) -> None:
    """Raise NotEncodable if `line` is not safe as one line of iptables-restore's input.

    It is unsafe if it has a refused token, a control character (a line feed or tab, too), U+2028, U+2029, half of a
    surrogate pair, more than 2000 characters, or an unclosed double quote.
    """
    refused = _REFUSED.search(line)
    if refused:
        raise NotEncodable(PROTOCOL, "a rule", without_refused(line), refused.group(1))
    if _UNFIT.search(line):
        raise NotEncodable(PROTOCOL, "a rule", line, "It has a line break or another control character")
    if len(line) > _LONGEST_LINE:
        raise NotEncodable(PROTOCOL, "a rule", line, f"A line may have {_LONGEST_LINE} characters")
    if not _QUOTED.fullmatch(line):
        raise NotEncodable(PROTOCOL, "a rule", line, "A quotation mark is missing its other half")


def without_refused(line: str) -> str:
    """Return `line` with "(refused)" in place of each refused token, for messages."""
    return _REFUSED.sub("(refused)", line)
