# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's transactions as lines of its log at the level debug: two for each, with the names that it is about.

    attach "default/web": begun
    attach "default/web": done in 3.1 ms, 10.244.3.5 on cali0a1b2c

A name is JSON, because workloads, neighbours and the datastore choose names: it stays on its line and between its
quotes. A line has at most 64 names of at most 120 characters each, and at most 4000 characters about its end. Labels,
documents and settings are in none.
"""

from __future__ import annotations

import json
import logging
import time
import typing as t

from ...base.terminal_text import cut

_log = logging.getLogger("calico.transactions")

_MOST_NAMES, _NAME_CHARACTERS, _TEXT_CHARACTERS = 64, 120, 4000


class QuotedNames:
    """Names that become text only where a line is written: at most 64 JSON strings, and the number of the rest."""

    __slots__ = ("_names",)

    def __init__(self, names: t.Iterable[str]) -> None:
        self._names = names

    def __str__(self) -> str:
        every = list(self._names)
        shown = ", ".join(json.dumps(cut(name, _NAME_CHARACTERS)) for name in every[:_MOST_NAMES])
        return shown + (f" and {len(every) - _MOST_NAMES} more" if len(every) > _MOST_NAMES else "")


class Transaction:
    """The lines of one transaction, written by `async with`: one at its begin, one at its end."""

    __slots__ = ("_began", "_end", "_what")

    def __init__(self, what: str, names: t.Iterable[str]) -> None:
        self._what = f"{what} {QuotedNames(names)}".rstrip()
        self._end: tuple[str, tuple[object, ...]] = ("", ())

    def ends(self, form: str, *values: object) -> None:
        """Note what the last line says if nothing is raised: `form` % `values`, formatted only then."""
        self._end = form, values

    async def __aenter__(self) -> Transaction:
        self._began = time.perf_counter()
        _log.debug("%s: begun", self._what)
        return self

    async def __aexit__(self, kind: t.Optional[type[BaseException]], error: object, traceback: object) -> None:
        took = f"{(time.perf_counter() - self._began) * 1000:.1f} ms"
        if kind is None:
            form, values = self._end
            end = f"done in {took}{', ' if form else ''}{form % values}".rstrip()
        elif issubclass(kind, Exception):
            end = f"failed after {took}: {kind.__name__}: {error}"
        else:
            end = f"given up after {took}"
        _log.debug("%s: %s", self._what, cut(end, _TEXT_CHARACTERS))


class _Unlogged(Transaction):
    """A transaction that writes no lines."""

    __slots__ = ()

    def ends(self, form: str, *values: object) -> None:
        pass

    async def __aenter__(self) -> Transaction:
        return self

    async def __aexit__(self, *dummy: object) -> None:
        pass


_UNLOGGED = _Unlogged("", ())


def transaction(what: str, *names: str, more: t.Iterable[str] = ()) -> Transaction:
    """Return the lines of a transaction, for `async with`: none, and `more` is not iterated, unless at level debug."""
    return Transaction(what, (*names, *more)) if _log.isEnabledFor(logging.DEBUG) else _UNLOGGED
