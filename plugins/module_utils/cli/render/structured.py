# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers for programs: JSON, or YAML."""

from __future__ import annotations

import json
import sys
import typing as t


def is_for_people(output: str) -> bool:
    """Return whether `output`, the word after -o, is a table, beside which a sentence on stderr helps."""
    return output not in ("json", "yaml", "yml", "name")


def written(output: str, value: t.Any) -> bool:
    """Print plain data if `output`, the word after -o, is json or yaml; return whether it is."""
    if output == "json":
        sys.stdout.write(json.dumps(value, indent=2) + "\n")
    elif output == "yaml":
        from . import yaml_text

        sys.stdout.write(yaml_text.dump(value))
    return output in ("json", "yaml")
