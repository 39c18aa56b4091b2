# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node receives about the others, kept for the length of a run in a private folder on the controller."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t
import urllib.parse

from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded

Part = dict[str, t.Any]


def save(parts: t.Mapping[str, Part]) -> str:
    """Write the parts, by host, into a new folder on the controller and return its path.

    The folder has mode 0700, and is removed when ansible-playbook ends. Raise OSError if it cannot be written.
    """
    folder = tempfile.mkdtemp(prefix="host_routing-", dir=constants.DEFAULT_LOCAL_TMP)
    for host, part in parts.items():
        with open(_path(folder, host), "w", encoding="utf-8") as stream:
            json.dump(part, stream)
    return folder


def load(folder: str, host: str) -> t.Optional[Part]:
    """Return the part that `save` wrote for `host`, lists for tuples, or None. Raise OSError if it cannot be read."""
    try:
        return t.cast(Part, bounded.read_json(_path(folder, host)))
    except FileNotFoundError:
        return None


def _path(folder: str, host: str) -> str:
    return os.path.join(folder, f"part-{urllib.parse.quote(host, safe='')}.json")
