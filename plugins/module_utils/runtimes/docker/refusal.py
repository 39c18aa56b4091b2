# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The refusal of a request of Docker's, and values in the text of one."""

from __future__ import annotations

import typing as t

from ...base.terminal_text import cut


class RefusedRequest(Exception):
    """A request that is refused. The text says what is wrong and what to do."""


def shown(value: t.Any) -> str:
    """Return a value for a message, on one line, cut to 80 characters."""
    return cut(repr(value))
