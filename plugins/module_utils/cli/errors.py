# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The errors of calicoctl and its exit statuses."""

from __future__ import annotations

#: The exit statuses of calicoctl: success, or the verdict "yes"; problems found, the verdict "no", or a failure; a
#: wrong command line, or no verdict.
DONE, PROBLEMS, MISUNDERSTOOD = 0, 1, 2


class CommandError(Exception):
    """A command that failed, with exit status 1, or 2 for the subclasses. The text says what, where and the remedy."""

    status = PROBLEMS


class UsageError(CommandError):
    """A command line that makes no sense, with exit status 2."""

    status = MISUNDERSTOOD


class NoVerdict(CommandError):
    """The error for a question that has no answer. Its exit status is 2, since 1 means "no" in some commands."""

    status = 2
