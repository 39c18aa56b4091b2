# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Syntax trees of the sources that the tests of this folder judge, each parsed once in a process."""

from __future__ import annotations

import ast
import functools
import pathlib


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    """Return the syntax tree of a Python file, which is parsed once. Raise OSError or SyntaxError if it cannot be."""
    return ast.parse(path.read_text("utf-8"))
