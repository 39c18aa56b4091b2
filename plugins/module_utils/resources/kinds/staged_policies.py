# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Staged policies, whose effect can be examined before they are in force.

Sources: https://docs.tigera.io/calico/latest/reference/resources/stagednetworkpolicy and .../stagedglobalnetworkpolicy
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import Refused
from ..fields import OneOf, field
from .policies import GlobalNetworkPolicy, NetworkPolicy

SET, DELETE = "Set", "Delete"
_ACTION = OneOf((SET, DELETE), SET)
#: The fields that a staged deletion may set.
_OF_DELETION = ("metadata", "tier", "stagedAction")


@dataclasses.dataclass(frozen=True)
class StagedGlobalNetworkPolicy(GlobalNetworkPolicy):
    """A GlobalNetworkPolicy to create or change (`stagedAction` Set), or to delete (Delete).

    A deletion has no field but metadata and tier that is not the default.
    """

    KIND: t.ClassVar[str] = "StagedGlobalNetworkPolicy"

    stagedAction: str = field(_ACTION, SET)

    def checked(self) -> StagedGlobalNetworkPolicy:
        if self.stagedAction == DELETE:
            _check_deletion(self)
            return self
        return t.cast(StagedGlobalNetworkPolicy, super().checked())


@dataclasses.dataclass(frozen=True)
class StagedNetworkPolicy(NetworkPolicy):
    """A NetworkPolicy to create or change (`stagedAction` Set), or to delete (Delete).

    A deletion has no field but metadata and tier that is not the default.
    """

    KIND: t.ClassVar[str] = "StagedNetworkPolicy"

    stagedAction: str = field(_ACTION, SET)

    def checked(self) -> StagedNetworkPolicy:
        if self.stagedAction == DELETE:
            _check_deletion(self)
            return self
        return super().checked()


def _check_deletion(policy: t.Union[StagedGlobalNetworkPolicy, StagedNetworkPolicy]) -> None:
    for one in dataclasses.fields(policy):
        if one.name not in _OF_DELETION and getattr(policy, one.name) != one.default:
            raise Refused(
                None,
                "cannot stand together with stagedAction Delete.",
                "Leave it out: a policy that is to go is named, with its tier.",
                one.name,
            )
