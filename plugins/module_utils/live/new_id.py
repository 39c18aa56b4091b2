# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ids of changes, and the time in them."""

from __future__ import annotations

import datetime
import secrets
import typing as t

from ..datastore.live.history import is_change_id


def new_id(now: float) -> str:
    """Return an id for a change: the time in UTC, by which ids are sorted, and 24 random bits."""
    moment = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    return f"{moment:%Y%m%dT%H%M%S}.{moment.microsecond // 1000:03d}-{secrets.token_hex(3)}"


def time_of(change: str) -> t.Optional[datetime.datetime]:
    """Return the time in an id, by the clock of its writer's host. Return None for an id of another form."""
    try:
        moment = datetime.datetime.strptime(change[:15], "%Y%m%dT%H%M%S") if is_change_id(change) else None
    except ValueError:
        return None
    return moment and moment.replace(tzinfo=datetime.timezone.utc)
