# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The writer of YAML from plain data, without PyYAML, which nodes need not have.

It writes the subset of YAML 1.1 and 1.2 that all readers understand alike: block mappings and lists, plain scalars if
they are unambiguous, else JSON's double quotes.
"""

from __future__ import annotations

import math
import re
import typing as t

#: Texts that need no quotes, unless they end in a space or are in _WORDS: they begin with a letter, "_" or "/" and
#: contain no syntax ("a: b", "a #b"), or are IPv4 addresses and ranges.
_PLAIN = re.compile(r"[A-Za-z_/](?:[\w./()@=+,*\[\] -]|:(?=\S))*|\d+(?:\.\d+){3}(?:/\d+)?", re.ASCII)
#: Words, in lower case, that some reader of YAML may take for a boolean, a number or null.
_WORDS = frozenset({"y", "n", "yes", "no", "true", "false", "on", "off", "null", "nan", "inf", "none"})


def dump(value: t.Any, step: int = 2, list_step: int = 0) -> str:
    """Return `value` as YAML that ends in a newline, with keys sorted by name as in Calico's output.

    `value` is made of dicts with text keys, lists, tuples, texts, numbers, booleans and None, else TypeError is raised.
    A mapping below a key is indented by `step` characters, a list by `list_step`.
    """
    return "\n".join(_block(value, step, list_step)) + "\n"


def _block(value: t.Any, step: int, list_step: int) -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key in sorted(value):
            inner, name = value[key], _text(key)
            if isinstance(inner, dict) and inner:
                lines += [f"{name}:", *(f"{' ' * step}{line}" for line in _block(inner, step, list_step))]
            elif isinstance(inner, (list, tuple)) and inner:
                lines += [f"{name}:", *(f"{' ' * list_step}{line}" for line in _block(inner, step, list_step))]
            else:
                lines.append(f"{name}: {flat(inner)}")
        return lines
    if isinstance(value, (list, tuple)) and value:
        lines = []
        for item in value:
            first, *rest = _block(item, step, list_step)
            lines += [f"- {first}", *(f"  {line}" for line in rest)]
        return lines
    return [flat(value)]


def flat(value: t.Any) -> str:
    """Return a number, text, boolean, None or an empty mapping or list on one line. Raise TypeError for another."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise TypeError(f"{type(value).__name__} has no form in YAML")


def _number(value: float) -> str:
    """Return a float as YAML 1.1 requires it: with a dot, and with a sign after an e; else .nan, .inf or -.inf."""
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{e}{exponent}"


def _text(value: t.Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a key is a text, not {type(value).__name__}")
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS and not value.endswith(" "):
        return value
    return '"' + "".join(_character(character) for character in value) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    code = ord(character)
    if character.isprintable() and not 0xD800 <= code <= 0xDFFF:
        return character
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
