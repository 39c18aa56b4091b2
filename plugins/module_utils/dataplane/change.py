# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes, which all drivers return and apply, and the error that says which of them failed and why."""

from __future__ import annotations

import typing as t

from ..base import terminal_text
from .kernel.port import KernelError

#: The values of `Change.action`: `+` adds, `~` changes and `-` removes an object. `!` is a conflict: nothing is touched
#: and applying it fails with its note. `=` is an object that is kept on purpose or left out: nothing is applied and it
#: does not count as a change.
Action = t.Literal["+", "~", "-", "!", "="]
ACTIONS: tuple[Action, ...] = ("+", "~", "-", "!", "=")


class Change(t.NamedTuple):
    """One difference between the desired and the observed state, for people and for the driver that applies it.

    `kind` is the kind of object, such as `route` or `device`, and `subject` names the object. `before` and `after` are
    texts of one line (None: absent or not shown). `note` says why, in words. `old` and `new` are the driver's own
    values. `detail` is a longer text such as a diff, "" if there is none.
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
        """Return the change as one line of text for people, safe for a terminal.

        `width` is the least width of the subject's column, in characters. Example:

            ~ route    10.244.7.0/26  via 10.10.1.12 dev eth0  ->  via 10.10.1.12 dev tunl0 onlink    note
        """
        if self.before and self.after and self.action == "~":
            text = f"{self.before}  ->  {self.after}"
        else:
            text = (self.before if self.action == "-" else self.after) or ""
        note = f"    {self.note}" if self.note else ""
        return terminal_text.line(f"{self.action} {self.kind:<8} {self.subject:<{width}}  {text}".rstrip() + note)


def change_lines(changes: t.Sequence[Change]) -> list[str]:
    """Return one line of text for each change; columns behind subjects of up to 40 characters are aligned."""
    width = min(max((len(change.subject) for change in changes), default=0), 40)
    return [change.line(width) for change in changes]


def in_reading_order(changes: t.Iterable[Change]) -> list[Change]:
    """Return the changes as people read them: problems first, then removals, changes, additions and notes."""
    return sorted(changes, key=lambda change: "!-~+=".index(change.action))


class ObserveError(Exception):
    """The error for a kernel that cannot be read, or whose state is not safe to continue from, with the remedy."""


class ApplyError(Exception):
    """The changes of one call that could not be made.

    All others were made, except for those that must wait for the failed ones (see `apply.apply_node`). `failures` has
    them as (change, reason); `change` and `reason` are its first. A reason says what was refused and why, mostly with
    the remedy. If a table of iptables, or ipset, fails as a whole, one change stands for all of it; the others are
    `unmade`. `unfinished` are changes whose additions were made, but which keep what is to go because others failed.
    """

    def __init__(
        self,
        change: Change,
        reason: str,
        more: t.Sequence[tuple[Change, str]] = (),
        unmade: t.Sequence[Change] = (),
        unfinished: t.Sequence[Change] = (),
    ) -> None:
        self.change = change
        self.reason = reason
        self.failures: list[tuple[Change, str]] = [(change, reason), *more]
        self.unmade = tuple(unmade)
        self.unfinished = tuple(unfinished)
        super().__init__(change, reason)

    def __str__(self) -> str:
        lines = [f"{change.kind} {change.subject}: {reason}" for change, reason in self.failures[:5]]
        if len(self.failures) > 5:
            lines.append(f"... and {len(self.failures) - 5} more failures of this kind.")
        return "\n".join(lines)


class SetAside(ApplyError):
    """Single chains that were refused: each is as it was before, is left out, or ends before the refused rule.

    A new chain that ends there drops the packets that reach its end, except in table nat. All other changes of the
    driver's call were made. Later stages of a plan may still be begun.
    """


class Failures:
    """A list of failed changes, collected while the rest of a driver's changes are applied."""

    def __init__(self) -> None:
        self.failures: list[tuple[Change, str]] = []
        self.unmade: list[Change] = []
        self.unfinished: list[Change] = []

    def add(self, change: Change, reason: str, others: t.Iterable[Change] = ()) -> None:
        """Add a failed change, which stands for `others` if they were not made for the same reason."""
        self.failures.append((change, reason))
        self.unmade.extend(others)

    def extend(self, error: ApplyError) -> None:
        self.failures.extend(error.failures)
        self.unmade.extend(error.unmade)
        self.unfinished.extend(error.unfinished)

    def raise_if_any(self, error: type[ApplyError] = ApplyError) -> None:
        """Raise an exception of the class `error` with all collected failures; do nothing if there are none."""
        if self.failures:
            (change, reason), *more = self.failures
            raise error(change, reason, more, self.unmade, self.unfinished)


def apply_each(
    changes: t.Iterable[Change],
    act: t.Callable[[Change], None],
    reason: t.Callable[[Change, KernelError], t.Optional[str]],
) -> None:
    """Call `act` with each change that is no conflict, also after one of them has failed.

    A conflict (`!`) fails with its note. If `act` raises KernelError, `reason` returns a text that says why, or None if
    the refusal does no harm; other errors are passed on at once. Raise ApplyError with all changes that failed.
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
    """Return two sentences with the refused operation and the kernel's words, for an error without a better text."""
    return f"The kernel refused to {error.operation}. It said: {error.said}."
