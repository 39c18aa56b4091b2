# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that the networks and containers of podman and Docker have in common: labels, and an MTU."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.naming import MTU, is_mtu

MTU_OPTION = "mtu"
MTU_RULE = f"a number of bytes from {MTU[0]} to {MTU[1]}; 0, or left out, is that of the IP pool."
#: The beginning of an option that is a label.
LABEL = "label."

_Self = t.TypeVar("_Self", bound="ContainerOptions")


@dataclasses.dataclass(frozen=True)
class ContainerOptions:
    """What a network gives to its containers, or a container asks for: labels, and an MTU in bytes, None for any."""

    labels: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    mtu: t.Optional[int] = None

    def overridden_by(self: _Self, other: _Self) -> _Self:
        """Return these options with those of `other` in place of the same ones; labels are merged by key."""
        given = {field.name: getattr(other, field.name) for field in dataclasses.fields(other)}
        asked = {name: value for name, value in given.items() if value}
        return dataclasses.replace(self, **{**asked, "labels": {**self.labels, **other.labels}})


def mtu_of(text: t.Any) -> t.Optional[int]:
    """Return the MTU in a text, None for "" and "0". Raise ValueError for anything else that is no MTU."""
    if text in ("", "0"):
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= 5 and is_mtu(int(text))):
        raise ValueError("no MTU")
    return int(text)
