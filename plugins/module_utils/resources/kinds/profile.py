# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Profile: labels that endpoints inherit, and rules for packets that no policy decides.

Source: https://docs.tigera.io/calico/latest/reference/resources/profile
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..fields import field
from ..metadata import LABELS
from ..resource import Resource
from ..rules import RULES, Rule


@dataclasses.dataclass(frozen=True)
class Profile(Resource):
    """Labels and rules of endpoints. An endpoint's own value of a label wins over the profile's."""

    KIND: t.ClassVar[str] = "Profile"

    labelsToApply: t.Mapping[str, str] = field(LABELS, dict)
    ingress: tuple[Rule, ...] = field(RULES, ())
    egress: tuple[Rule, ...] = field(RULES, ())
