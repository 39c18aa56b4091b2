# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tier: a group of policies with an order among the other groups.

Source: https://docs.tigera.io/calico/latest/reference/resources/tier
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import Refused
from ..fields import NUMBER, OneOf, field, is_label
from ..resource import Resource

DEFAULT_TIER = "default"
#: The order of the tier `default`, and of tiers that give none.
DEFAULT_TIER_ORDER = 1_000_000.0
#: The most characters of a tier's name, as of a label's value: Calico keeps it in a label of each policy.
TIER_NAME_LIMIT = 63


@dataclasses.dataclass(frozen=True)
class Tier(Resource):
    """A tier. `defaultAction` (Deny or Pass) decides packets of its policies' endpoints that no rule decided.

    `checked` raises Refused if the tier `default` has another order than 1,000,000 or another action than Deny,
    `checked_metadata` for a name that is no label of at most 63 characters.
    """

    KIND: t.ClassVar[str] = "Tier"

    order: float = field(NUMBER, DEFAULT_TIER_ORDER)
    defaultAction: str = field(OneOf(("Deny", "Pass"), "Deny"), "Deny")

    def checked(self) -> Tier:
        if self.name == DEFAULT_TIER:
            if self.order != DEFAULT_TIER_ORDER:
                raise Refused(
                    NUMBER.write(self.order),
                    f"is not that of the tier {DEFAULT_TIER}, which stays at {DEFAULT_TIER_ORDER:.0f}.",
                    "Leave it out, and give the other tiers a lower or a higher one.",
                    "order",
                )
            if self.defaultAction != "Deny":
                raise Refused(
                    self.defaultAction,
                    f"is not that of the tier {DEFAULT_TIER}.",
                    "Leave it out: behind this tier come profiles, and its policies deny what they do not allow.",
                    "defaultAction",
                )
        return self

    def checked_metadata(self) -> Tier:
        if not is_tier_name(self.name):
            raise Refused(self.name, TIER_NAME_RULE, TIER_NAME_REMEDY, "name")
        return self


def is_tier_name(text: str) -> bool:
    return is_label(text) and len(text) <= TIER_NAME_LIMIT


TIER_NAME_RULE = "is not a name that a tier can have."
TIER_NAME_REMEDY = f"Use at most {TIER_NAME_LIMIT} lower case letters, digits and '-', without dots."
