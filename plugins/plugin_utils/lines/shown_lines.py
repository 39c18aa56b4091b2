# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines that actions print. They contain texts from nodes, which must be shown without controlling the terminal."""

from __future__ import annotations

import typing as t

from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text


def show(lines: t.Iterable[str], color: t.Optional[str] = None) -> None:
    """Print each of `lines` as one line, in `color` if it is given, with control characters as visible text."""
    for line in lines:
        Display().display(terminal_text.line(line), color=color)


def warn(text: str) -> None:
    """Print a warning that belongs to no task's result, with control characters but line feeds and tabs as text."""
    Display().warning(terminal_text.text(text))
