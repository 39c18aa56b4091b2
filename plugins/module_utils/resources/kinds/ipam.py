# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""IPReservation and IPAMConfiguration: settings of the assignment of addresses.

Source: https://docs.tigera.io/calico/latest/reference/resources/ipreservation
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..errors import Refused
from ..fields import FLAG, NETWORK, Filled, Integer, Items, OneOf, field
from ..resource import Resource

_MOST_BLOCKS = 1_000_000
_LONGEST_COOLDOWN = 1200  # seconds


@dataclasses.dataclass(frozen=True)
class IPReservation(Resource):
    """Ranges of addresses, or single ones, that are not assigned unless a workload requests them."""

    KIND: t.ClassVar[str] = "IPReservation"

    reservedCIDRs: tuple[str, ...] = field(Items(Filled(NETWORK.check, NETWORK.rule, NETWORK.remedy)), ())


@dataclasses.dataclass(frozen=True)
class IPAMConfiguration(Resource):
    """The way in which nodes get blocks. `checked_metadata` raises Refused for another name than default."""

    KIND: t.ClassVar[str] = "IPAMConfiguration"

    strictAffinity: bool = field(FLAG, False)
    autoAllocateBlocks: bool = field(FLAG, True)
    maxBlocksPerHost: int = field(Integer(0, _MOST_BLOCKS), 0)
    ipCooldownSeconds: t.Optional[int] = field(Integer(0, _LONGEST_COOLDOWN))
    kubeVirtVMAddressPersistence: t.Optional[str] = field(OneOf(("Enabled", "Disabled")))

    def checked_metadata(self) -> IPAMConfiguration:
        if self.name != "default":
            raise Refused(self.name, "is not the name of the only one, default.", "Write default.", "name")
        return self
