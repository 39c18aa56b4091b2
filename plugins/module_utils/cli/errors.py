# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What calicoctl says when it cannot do what it was asked to."""

from __future__ import annotations

#: Exit statuses.
DONE, PROBLEMS, MISUNDERSTOOD = 0, 1, 2


class CommandError(Exception):
    """The text says what, where and how to go on; the exit status is 1."""

    status = PROBLEMS


class UsageError(CommandError):
    """The command line makes no sense; the exit status is 2."""

    status = MISUNDERSTOOD


class NoVerdict(CommandError):
    """A question with the answers 0 and 1 has no answer; the exit status is 2."""

    status = 2
