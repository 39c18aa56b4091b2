# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a status says about the members of the etcd cluster. `silent` has the reason for each that does not answer."""

from __future__ import annotations

import typing as t


def problems(silent: t.Mapping[str, str]) -> list[str]:
    """Return a sentence for each member that does not answer."""
    return [
        f"etcd: member {url} does not answer: {reason}. playbooks/etcd_status.yml asks its host."
        for url, reason in silent.items()
    ]


def verdict(members: int, silent: t.Mapping[str, str]) -> list[str]:
    """Return the part of the line about the fleet, in a list that is empty if no member was asked."""
    return [f"{members - len(silent)}/{members} members of etcd answer"] if members else []
