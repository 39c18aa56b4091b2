# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a compilation remembers of the one before, so that only what has changed is made anew."""

from __future__ import annotations

import typing as t

T = t.TypeVar("T")


class ResultCache:
    """Results by key, each with what it was made of. What a round does not ask for is forgotten after it."""

    def __init__(self) -> None:
        self._before: dict[t.Hashable, tuple[t.Any, t.Any]] = {}
        self._now: dict[t.Hashable, tuple[t.Any, t.Any]] = {}

    def begin(self) -> None:
        """Another round."""
        self._before, self._now = self._now, {}

    def recall(self, key: t.Hashable, given: t.Any, make: t.Callable[[], T]) -> T:
        """What `make` returned for `key` when it was last made of a value equal to `given`."""
        found = self._now.get(key) or self._before.get(key)
        if found is None or not (found[0] is given or found[0] == given):
            found = (given, make())
        self._now[key] = found
        return t.cast(T, found[1])
