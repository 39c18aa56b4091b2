# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The output of actions that answer a question about an inventory, and the file for cli/inventory_playbook.py."""

from __future__ import annotations

import json
import typing as t

from ..lines import shown_lines

OPTIONS: dict[str, dict[str, t.Any]] = {
    "output": {"type": "str", "choices": ["text", "json", "none"], "default": "text"},
    "answer_file": {"type": "path"},
}


def give(args: t.Mapping[str, t.Any], answer: t.Mapping[str, t.Any], lines: t.Sequence[str]) -> None:
    """Write `lines` and `answer` as a JSON object to the answer file, if one is given, and print what the user wants.

    `args` are OPTIONS: output "text" prints `lines`, "json" `answer`. Raise OSError if the file cannot be written.
    """
    _write(args["answer_file"], {"lines": lines, "answer": answer})
    printed = {"text": lines, "json": json.dumps(answer, indent=2).splitlines(), "none": []}
    shown_lines.show(printed[args["output"]])


def refuse(args: t.Mapping[str, t.Any], error: Exception) -> None:
    """Write {"error": text} as JSON to the answer file, if one is given. Raise OSError if it cannot be written."""
    _write(args["answer_file"], {"error": str(error)})


def _write(path: t.Optional[str], content: t.Mapping[str, t.Any]) -> None:
    if path:
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(content, stream)
