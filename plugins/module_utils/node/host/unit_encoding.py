# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The encoder of unit names for systemctl.

Unit files are shipped as they are (roles/calico_node/files/systemd): no value is written into them.
"""

from __future__ import annotations

import re

from ...base.not_encodable import NotEncodable

# Names of units as in systemd.unit(5), without the characters of its escapes and globs. 201 characters may come before
# the type.
_NAME = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9:_.@-]{0,200}"
    r"\.(?:service|socket|device|mount|automount|swap|target|path|timer|slice|scope)",
    re.ASCII,
)


def unit_name(value: str) -> str:
    """Return the name of a unit unchanged. systemctl cannot read it as a pattern, an option or a path.

    Raise NotEncodable unless it is at most 201 ASCII letters, digits and ":_.@-", and a unit's type such as ".service".
    """
    if not _NAME.fullmatch(value):
        allowed = "Allowed are letters, digits and :_.@- with the unit's type at the end, as in calico-bird.service"
        raise NotEncodable("systemctl", "a unit", value, allowed)
    return value
