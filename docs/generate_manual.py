# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the manual and bash's completion of calicoctl, which the role installs on nodes.

With --check it writes nothing, and fails if one of them is out of date. Both are made from the command line's parser.
"""

from __future__ import annotations

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "roles" / "calico_node" / "files" / "shell"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generate_variables import written  # noqa: E402

from plugins.module_utils.cli import parser  # noqa: E402
from plugins.module_utils.cli.commands.shell import completion, manual  # noqa: E402

# REUSE-IgnoreStart
HEAD = (
    "Copyright (c) 2026, baremetal.host_routing contributors",
    "GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)",
    "SPDX-License-Identifier: GPL-3.0-or-later",
    "Written by docs/generate_manual.py. Do not edit it.",
)
# REUSE-IgnoreEnd


def pages() -> dict[str, str]:
    """Return the text of each file by its name."""
    root = parser.build()
    return {
        "calicoctl.1": "".join(f'.\\" {line}\n' for line in HEAD) + manual.page(root),
        "calicoctl.bash": "".join(f"# {line}\n" for line in HEAD) + completion.script("bash"),
    }


if __name__ == "__main__":
    sys.exit(max(written(FOLDER / name, text) for name, text in pages().items()))
