# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes, the common currency of the drivers, and the error that says which of them failed and why."""

from __future__ import annotations

import typing as t

from ..base import terminal_text
from .kernel.port import KernelError

#: What `Change.action` can be. `!` stands in the way: nothing is touched and applying it fails with its note.
#: `=` is kept on purpose although nothing desires it: nothing is applied and it does not count as a change.
Action = t.Literal["+", "~", "-", "!", "="]
ACTIONS: tuple[Action, ...] = ("+", "~", "-", "!", "=")


class Change(t.NamedTuple):
    """One difference between what is desired and what is observed, for people and for the driver that applies it.

    `subject` names the object, `before` and `after` are one-line texts (None: absent), `note` says why in words.
    `old` and `new` are the driver's own values. `detail` is a longer text (a unified diff), "" where there is none.
    """

    kind: str
    action: Action
    subject: str
    before: t.Optional[str] = None
    after: t.Optional[str] = None
    note: str = ""
    old: t.Any = None
    new: t.Any = None
    detail: str = ""

    def line(self, width: int = 0) -> str:
        """`~ route    10.244.7.0/26  via 10.10.1.12 dev eth0  ->  via 10.10.1.12 dev tunl0 onlink    note`.

        `width` is the least width of the subject's column.
        """
        if self.before and self.after and self.action == "~":
            text = f"{self.before}  ->  {self.after}"
        else:
            text = (self.before if self.action == "-" else self.after) or ""
        note = f"    {self.note}" if self.note else ""
        return terminal_text.line(f"{self.action} {self.kind:<8} {self.subject:<{width}}  {text}".rstrip() + note)


def change_lines(changes: t.Sequence[Change]) -> list[str]:
    """Return a line for people for each change, columns aligned."""
    width = min(max((len(change.subject) for change in changes), default=0), 40)
    return [change.line(width) for change in changes]


class ObserveError(Exception):
    """What is there cannot be read or is not safe to go on from. The text says what, where and how to go on."""


class ApplyError(Exception):
    """Changes that could not be made. `failures` has all of them as (change, reason); the others of the call were made.

    `reason` is in words: what was refused, what the kernel said, how to go on.
    """

    def __init__(self, change: Change, reason: str, more: t.Sequence[tuple[Change, str]] = ()) -> None:
        self.change = change
        self.reason = reason
        self.failures: list[tuple[Change, str]] = [(change, reason), *more]
        super().__init__(change, reason)

    def __str__(self) -> str:
        lines = [f"{change.kind} {change.subject}: {reason}" for change, reason in self.failures[:5]]
        if len(self.failures) > 5:
            lines.append(f"... and {len(self.failures) - 5} more failures of this kind.")
        return "\n".join(lines)


class SetAside(ApplyError):
    """Objects that the kernel refused and that are closed, or as they were before. All others stand.

    What comes after them may be made all the same.
    """


class Failures:
    """Collects what fails while the rest of a driver's changes are applied."""

    def __init__(self) -> None:
        self.failures: list[tuple[Change, str]] = []

    def add(self, change: Change, reason: str) -> None:
        self.failures.append((change, reason))

    def extend(self, error: ApplyError) -> None:
        self.failures.extend(error.failures)

    def raise_if_any(self, error: type[ApplyError] = ApplyError) -> None:
        """Raise this error with all that failed, if anything did."""
        if self.failures:
            (change, reason), *more = self.failures
            raise error(change, reason, more)


def apply_each(
    changes: t.Iterable[Change],
    act: t.Callable[[Change], None],
    reason: t.Callable[[Change, KernelError], t.Optional[str]],
) -> None:
    """Applies changes one by one, whatever becomes of the others. What stands in the way (`!`) fails with its note.

    `reason` says in words why the kernel refused one, or None where that does no harm. Raises ApplyError.
    """
    failures = Failures()
    for change in changes:
        if change.action == "!":
            failures.add(change, change.note)
            continue
        try:
            act(change)
        except KernelError as error:
            words = reason(change, error)
            if words is not None:
                failures.add(change, words)
    failures.raise_if_any()


def refused(error: KernelError) -> str:
    """The reason where there is nothing better to say."""
    return f"The kernel refused to {error.operation}. It said: {error.said}."
