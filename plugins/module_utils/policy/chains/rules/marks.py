# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bits of the packet mark that policy uses. It does not change other bits.

Other programs mark packets, too: kube-proxy uses 0x4000 and 0x8000, Tailscale 0xff0000. So the mask can be configured.
The bits of an incoming packet are cleared first, so values left in them by others have no effect.
"""

from __future__ import annotations

import typing as t

#: The bits of the packet mark that policy may use, by default: those of Felix's IptablesMarkMask.
DEFAULT_MASK = 0xFFFF0000


class Marks(t.NamedTuple):
    """The bits of the packet mark, each a number with one bit set.

    `accept`: a policy or profile allows the packet. `passed`: a policy passes it to the next tier. `staged`: a rule of
    a staged policy of the tier matches it. `first`, `second`: it meets a condition of a rule that is several lines.
    """

    accept: int
    passed: int
    first: int
    second: int
    staged: int

    @property
    def pending(self) -> int:
        """The bit that says, between filter OUTPUT and mangle POSTROUTING, that policy for the host is not applied yet.

        It is the bit `second`, which has another use inside of rules.
        """
        return self.second

    @property
    def cut(self) -> int:
        """The bit of a connection's mark, not a packet's, for a connection that began before policy denied it."""
        return self.first

    @property
    def every(self) -> int:
        return self.accept | self.passed | self.first | self.second | self.staged

    @property
    def verdict(self) -> int:
        """The bits with which policies and profiles decide: `accept`, `passed` and `staged`."""
        return self.accept | self.passed | self.staged


def marks(mask: int = DEFAULT_MASK) -> Marks:
    """Return the marks made of the five lowest bits that are set in `mask`, a number of 32 bits.

    Raise ValueError if fewer than five bits are set.
    """
    bits = [1 << index for index in range(32) if mask >> index & 1]
    wanted = len(Marks._fields)
    if len(bits) < wanted:
        raise ValueError(
            f"The mark mask {mask:#x} has {len(bits)} bits, and policy needs {wanted}."
            f" Give it at least {wanted}, as {DEFAULT_MASK:#x} has."
        )
    return Marks(*bits[:wanted])
