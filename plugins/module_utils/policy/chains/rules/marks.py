# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bits of the packet mark that policy uses, the only ones that it touches.

Nothing else in this collection marks packets. Others do: kube-proxy 0x4000 and 0x8000, Tailscale 0xff0000 (which is why
the mask can be chosen). A mark is cleared before it is used, so what others left in our bits does no harm to us.
"""

from __future__ import annotations

import typing as t

#: Felix's IptablesMarkMask.
DEFAULT_MASK = 0xFFFF0000


class Marks(t.NamedTuple):
    """`accept`: a policy or profile allows. `passed`: a policy passes on to the next tier. `staged`: a staged policy
    of the tier has a rule for the packet. `first`, `second`: conditions of a rule that is written as several.
    """

    accept: int
    passed: int
    first: int
    second: int
    staged: int

    @property
    def pending(self) -> int:
        """Between filter OUTPUT and mangle POSTROUTING: policy for hosts has yet to be asked."""
        return self.second

    @property
    def cut(self) -> int:
        """Of a connection's mark, not a packet's: it was allowed when it began, and policy denies it now."""
        return self.first

    @property
    def every(self) -> int:
        return self.accept | self.passed | self.first | self.second | self.staged

    @property
    def verdict(self) -> int:
        return self.accept | self.passed | self.staged


def marks(mask: int = DEFAULT_MASK) -> Marks:
    """The lowest bits of `mask`. Raises ValueError when there are fewer than five."""
    bits = [1 << index for index in range(32) if mask >> index & 1]
    wanted = len(Marks._fields)
    if len(bits) < wanted:
        raise ValueError(
            f"The mark mask {mask:#x} has {len(bits)} bits, and policy needs {wanted}."
            f" Give it at least {wanted}, as {DEFAULT_MASK:#x} has."
        )
    return Marks(*bits[:wanted])
