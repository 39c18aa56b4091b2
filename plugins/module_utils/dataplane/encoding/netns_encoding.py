# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of names of network namespaces that we make and delete: each is one file of a folder, never a path."""

from __future__ import annotations

import re

from ...base.not_encodable import NotEncodable

_NAME = re.compile(r"(?!\.\.?$)[^/\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")


def name(value: str) -> str:
    """Return `value`, the name of a network namespace, unchanged.

    Raise NotEncodable unless it is a clean file name of 1 to 255 characters.
    """
    if not _NAME.fullmatch(value):
        allowed = "Allowed is the name of a file, without '/' and control characters"
        raise NotEncodable("/run/netns", "a network namespace", value, allowed)
    return value
