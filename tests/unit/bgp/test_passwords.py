# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passwords of sessions: valid ones, their transport and storage, and that no output shows them."""

from __future__ import annotations

import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import passwords
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.passwords import Passwords, SecretProblem
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.from_regex(r"[a-z0-9][-a-z0-9.]{0,10}[a-z0-9]:[-._a-zA-Z0-9]{1,10}", fullmatch=True)
VALUES = st.text(min_size=1, max_size=60).filter(lambda text: passwords.problem_of_password(text) is None)
SOME = st.dictionaries(NAMES, VALUES, max_size=4)


@settings(max_examples=20)
@given(SOME)
def test_written_passwords_are_read_back(values: dict[str, str]) -> None:
    assert passwords.from_text(passwords.to_text(values)) == values
    assert passwords.unpack(passwords.pack(values)) == values


@settings(max_examples=100)
@given(st.text(max_size=100))
def test_a_password_is_refused_where_bird_or_the_kernel_would_not_take_it(text: str) -> None:
    def taken() -> bool:
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            return False
        # BIRD's strings contain neither double quotes nor control characters. The kernel takes 1 to 80 bytes.
        return 0 < size <= 80 and re.fullmatch(r'[^"\x00-\x1f\x7f]+', text) is not None

    assert (passwords.problem_of_password(text) is None) == taken()


def test_why_a_password_is_refused() -> None:
    assert passwords.problem_of_password(12345) == SecretProblem("is not text.", "Write the password in quotes.")
    assert passwords.problem_of_password("") == SecretProblem(
        "is empty.", "Write the password there, or remove the secret."
    )
    assert passwords.problem_of_password('se"cret') == SecretProblem(
        "has a double quote or a control character, which BIRD cannot be told.", "Choose another one."
    )
    assert passwords.problem_of_password("\u00fc" * 41) == SecretProblem(
        "has 82 bytes.", "TCP MD5 signatures take at most 80: choose a shorter one."
    )
    assert passwords.problem_of_password("\u00fc" * 40) is None
    assert passwords.problem_of_password("se\ud800cret") == SecretProblem(
        "has half of a surrogate pair, which is no character.", "Choose another one."
    )


@pytest.mark.parametrize(
    ("name", "key", "problem"),
    [
        ("tor-a.rack1", "Pass_word.1-x", None),
        ("a" * 24, "b" * 25, None),
        (
            "a" * 25,
            "b" * 25,
            SecretProblem(
                "is too long: BIRD has to know the secret by a symbol of 64 characters.",
                "Let its name and its key have at most 49 characters together.",
            ),
        ),
        ("Tor", "p", SecretProblem("is not a name that a secret can have.", "Use small letters, digits, '-' and '.'.")),
        (
            "tor",
            "p w",
            SecretProblem("is not a key that a secret can have.", "Use letters, digits, '-', '_' and '.'."),
        ),
        (7, "p", SecretProblem("is not a name that a secret can have.", "Use small letters, digits, '-' and '.'.")),
    ],
)
def test_names_and_keys_of_secrets_are_validated(name: object, key: object, problem: object) -> None:
    assert passwords.problem_of_name(name, key) == problem


def test_nothing_prints_a_password() -> None:
    held = Passwords({"tor-a:password": "hunter2"})
    for text in (repr(held), str(held), f"{held}"):
        assert text == "Passwords(tor-a:password)"
    with pytest.raises(KeyError) as caught:
        held["other:password"]
    assert "hunter2" not in repr(caught.value)


@pytest.mark.parametrize(
    "garbage", ["hunter2", "aHVudGVyMg==", passwords.pack({"a:b": "x"})[:-3], "W10=", "!" + passwords.pack({})]
)
def test_an_error_about_broken_passwords_does_not_repeat_them(garbage: str) -> None:
    with pytest.raises(ValueError) as caught:
        passwords.unpack(garbage)
    assert str(caught.value) == (
        "the passwords that arrived cannot be read. They are filled in by the module's action."
    )
    assert caught.value.__context__ is None or "hunter2" not in repr(caught.value.__context__)


def test_a_file_is_what_bird_reads() -> None:
    assert passwords.to_text({"tor-a:password": "a'b\\c $d{"}).splitlines()[1:] == [
        "define 'calico_secret_tor-a:password' = \"a'b\\c $d{\";"
    ]
    assert passwords.unpack(None) == passwords.unpack("") == Passwords()


@pytest.mark.parametrize(
    ("name", "written"),
    [("a" * 50, True), ("a" * 51, False), ("a b", False), ("a'", False), ("tor-a:Pass_word.1", True)],
)
def test_a_name_that_is_no_symbol_of_bird_is_not_written(name: str, written: bool) -> None:
    """A symbol of BIRD has at most 64 characters, and 14 of them are before the name.

    A longer name, or one with a blank or a quote, is refused by an error that does not show the password.
    """
    if written:
        assert f'{name}\' = "secret";' in passwords.to_text({name: "secret"})
        return
    with pytest.raises(NotEncodable) as caught:
        passwords.to_text({name: "secret"})
    assert 'secret"' not in str(caught.value)
