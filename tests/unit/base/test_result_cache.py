# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cache of results: what it computes again, and what it keeps."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.result_cache import ResultCache


class Made:
    """A function that makes results, and the keys that it was called for."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def __call__(self, key: str, value: tuple[int, ...]) -> list[int]:
        self.keys.append(key)
        if not value:
            raise ValueError(key)
        return [*value]


def test_only_what_changed_is_made_again() -> None:
    cache, made = ResultCache[str, tuple[int, ...], list[int]](), Made()
    first = cache.map({"a": (1,), "b": (2,)}, made)
    assert first == {"a": [1], "b": [2]} and made.keys == ["a", "b"]
    one = int("1")  # (one,) is no constant, so that it is an object of its own
    second = cache.map({"c": (3,), "a": (one,), "b": (4,)}, made)
    assert list(second.items()) == [("c", [3]), ("a", [1]), ("b", [4])] and made.keys == ["a", "b", "c", "b"]
    assert second["a"] is first["a"]  # of an equal value, which is another object
    # Only the last call counts.
    assert cache.map({"b": (4,)}, made)["b"] is second["b"]
    assert cache.map({"a": (1,)}, made)["a"] is not first["a"]


def test_a_copy_keeps_the_results_and_goes_its_own_way() -> None:
    cache, made = ResultCache[str, tuple[int, ...], list[int]](), Made()
    first = cache.map({"a": (1,)}, made)
    copy = cache.copy()
    copy.map({"a": (2,)}, made)
    assert cache.map({"a": (1,)}, made)["a"] is first["a"]


def test_a_failure_keeps_the_results_of_the_last_call() -> None:
    cache, made = ResultCache[str, tuple[int, ...], list[int]](), Made()
    first = cache.map({"a": (1,)}, made)
    with pytest.raises(ValueError, match=r"^b$"):
        cache.map({"a": (2,), "b": ()}, made)
    assert cache.map({"a": (1,)}, made)["a"] is first["a"]
