# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords of BGP sessions (TCP MD5 signatures, RFC 2385): their names, their limits, and the one file that has them.

A secret is known by `name:key`, as in a secretKeyRef. Only that one file has the password; all else that is stored or
printed has the name. bird.cfg says `password 'calico_secret_tor-a:password';` and includes the file, which defines this
symbol. No message of this module contains a password.
"""

from __future__ import annotations

import base64
import json
import re
import typing as t

from ..base.not_encodable import NotEncodable
from ..base.typed_json import by_name, parse, secret

#: The longest key that the kernel accepts, in bytes (TCP_MD5SIG_MAXKEYLEN of linux/tcp.h).
LONGEST = 80

_SYMBOL = "calico_secret_"
#: The most characters of a secret's `name:key`, which is a part of a BIRD symbol. A symbol has at most 64 characters; a
#: quoted one may contain letters, digits and `_-.:`.
LONGEST_NAME = 64 - len(_SYMBOL)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)  # begins and ends with a letter or digit
_KEY = re.compile(r"[-._a-zA-Z0-9]+", re.ASCII)
_SECRET_NAME = re.compile(r"[-._a-zA-Z0-9]+(:[-._a-zA-Z0-9]+)?", re.ASCII)
_DEFINITION = re.compile(rf"define '{_SYMBOL}([^']+)' = \"([^\"]*)\";", re.ASCII)
#: The reader of what `pack` packed.
_PASSWORDS = by_name(secret())
_HEAD = """\
# Passwords of BGP sessions, read by BIRD with bird.cfg. Written by baremetal.host_routing from calico_bgp_secrets.
"""


class Passwords(t.Mapping[str, str]):
    """A mapping from `name:key` to the password, iterated in the order of names. Its repr has only the names."""

    def __init__(self, values: t.Optional[t.Mapping[str, str]] = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> t.Iterator[str]:
        return iter(sorted(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Passwords({', '.join(self)})"


class SecretProblem(t.NamedTuple):
    """A problem with a secret's name or password. Its texts never contain the password.

    `rule` says what is wrong, as a sentence without its subject ("is empty."), and `remedy` how to go on.
    """

    rule: str
    remedy: str


def secret_name(name: str, key: str) -> str:
    """Return the name by which a secret is known everywhere, `name:key`."""
    return f"{name}:{key}"


def problem_of_name(name: t.Any, key: t.Any) -> t.Optional[SecretProblem]:
    """Return why `name` and `key`, of any type, cannot name a secret as `name:key`, or None if they can.

    `name` may have small letters, digits, "-" and ".", the first and last a letter or digit. `key` may have letters,
    digits, "-", "_" and ".". `name:key` has at most 50 characters.
    """
    for word, value, form in (("name", name, _NAME), ("key", key, _KEY)):
        if not isinstance(value, str) or not form.fullmatch(value):
            letters = "small letters, digits, '-' and '.'" if word == "name" else "letters, digits, '-', '_' and '.'"
            return SecretProblem(f"is not a {word} that a secret can have.", f"Use {letters}.")
    if len(secret_name(name, key)) > LONGEST_NAME:
        return SecretProblem(
            "is too long: BIRD has to know the secret by a symbol of 64 characters.",
            f"Let its name and its key have at most {LONGEST_NAME - 1} characters together.",
        )
    return None


def problem_of_password(value: t.Any) -> t.Optional[SecretProblem]:
    """Return why BIRD or the kernel would not accept `value`, of any type, as a password, or None if they do.

    They accept a text of 1 to 80 bytes (UTF-8) without double quotes and ASCII control characters.
    """
    if not isinstance(value, str):
        return SecretProblem("is not text.", "Write the password in quotes.")
    if not value:
        return SecretProblem("is empty.", "Write the password there, or remove the secret.")
    if '"' in value or any(ord(character) < 32 or ord(character) == 127 for character in value):
        return SecretProblem(
            "has a double quote or a control character, which BIRD cannot be told.", "Choose another one."
        )
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        return SecretProblem("has half of a surrogate pair, which is no character.", "Choose another one.")
    if size > LONGEST:
        return SecretProblem(f"has {size} bytes.", f"TCP MD5 signatures take at most {LONGEST}: choose a shorter one.")
    return None


def to_text(passwords: t.Mapping[str, str]) -> str:
    """Return the text of the file that BIRD includes, with one definition per password.

    Raise NotEncodable, whose text has no password, if a name or a password cannot be written.
    """
    return _HEAD + "".join(_definition(name, passwords[name]) for name in sorted(passwords))


def _definition(name: str, password: str) -> str:
    protocol = "the file of BIRD's passwords"
    if len(name) > LONGEST_NAME or not _SECRET_NAME.fullmatch(name):
        raise NotEncodable(
            protocol, "a secret's name", name, "Allowed are letters, digits and _-.: as in tor-a:password"
        )
    problem = problem_of_password(password)
    if problem is not None:
        raise NotEncodable(
            protocol, "a password", f"the value of {name}", f"It {problem.rule} {problem.remedy}".rstrip(".")
        )
    return f"define '{_SYMBOL}{name}' = \"{password}\";\n"


def from_text(text: str) -> Passwords:
    """Return the passwords in a text that `to_text` made, by name. Any text that is no definition is ignored."""
    return Passwords(dict(_DEFINITION.findall(text)))


def placeholders(names: t.Iterable[str]) -> Passwords:
    """Return a dummy password for each name. A parse check of bird.cfg needs the definitions, but not their values."""
    return Passwords(dict.fromkeys(names, "placeholder"))


def pack(passwords: t.Mapping[str, str]) -> str:
    """Return the passwords as one opaque base64 text, in which a module receives them.

    Ansible removes every `no_log` text from a module's output. A password that is a common word would remove that word.
    """
    return base64.b64encode(json.dumps({name: passwords[name] for name in sorted(passwords)}).encode()).decode()


def unpack(packed: t.Optional[str]) -> Passwords:
    """Return the passwords that `pack` packed; no passwords for None or "".

    Raise ValueError, whose text does not contain `packed`, if it cannot be read.
    """
    if not packed:
        return Passwords()
    try:
        return Passwords(_PASSWORDS(parse(base64.b64decode(packed, validate=True))))
    except ValueError:
        raise ValueError(
            "the passwords that arrived cannot be read. They are filled in by the module's action."
        ) from None
