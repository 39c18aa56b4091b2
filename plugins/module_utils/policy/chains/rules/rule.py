# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of iptables as values: conditions that must all hold, and an action.

Both are texts in the syntax of iptables, which the functions here return. `render` joins them to the text that
iptables-restore reads after `-A chain`. `iptables_encoding.py` encodes the names in them. Nothing here raises: a name
that is not valid becomes a text that `iptables_encoding.check_line` refuses.
"""

from __future__ import annotations

import typing as t

from ....base import iptables_encoding as encoding
from .marks import Marks


class IptablesRule(t.NamedTuple):
    """A rule: conditions that must all hold, the action, and a comment, "" for none."""

    conditions: tuple[str, ...]
    action: str
    comment: str = ""

    def render(self) -> str:
        """Return the rule as a line of iptables-restore, without `-A` and the chain."""
        comment = (f'-m comment --comment "{self.comment}"',) if self.comment else ()
        # -p must come first: iptables refuses matches of a protocol before it.
        return " ".join((*self.conditions, *comment, self.action))

    def targets(self) -> tuple[str, ...]:
        """Return (the `cali-` chain that the rule leads to,), or ()."""
        words = self.action.split(" ")
        return (words[1],) if words[1].startswith("cali-") else ()


#: A mapping from the name of a chain to its rules.
Chains = dict[str, tuple[IptablesRule, ...]]

# --- actions --------------------------------------------------------------------------------------------------------

ACCEPT = "-j ACCEPT"
DROP = "-j DROP"
REJECT = "-j REJECT"
RETURN = "-j RETURN"
#: An action for the table raw: conntrack ignores the packet.
NOTRACK = "-j CT --notrack"


def jump(chain: str) -> str:
    """Return the action that jumps to `chain`; a packet that `chain` does not decide continues at the next rule."""
    return f"-j {encoding.chain(chain)}"


def goto(chain: str) -> str:
    """Return the action that goes to `chain`; a packet that it does not decide skips the rest of the present chain."""
    return f"-g {encoding.chain(chain)}"


def set_marks(bits: int) -> str:
    """Return the action that sets `bits` of the packet mark and leaves all others unchanged."""
    return f"-j MARK --set-xmark {bits:#x}/{bits:#x}"


def clear_marks(bits: int) -> str:
    """Return the action that clears `bits` of the packet mark and leaves all others unchanged."""
    return f"-j MARK --set-xmark 0x0/{bits:#x}"


def log(group: int, prefix: str) -> str:
    """Return the action that sends the first 128 bytes of a packet, which continues, to an NFLOG group."""
    return f"-j NFLOG --nflog-group {group} --nflog-size 128 --nflog-prefix {encoding.word(prefix)}"


# --- conditions -----------------------------------------------------------------------------------------------------


def marked(bits: int) -> str:
    """Return the condition that all of `bits` are set in the packet mark."""
    return f"-m mark --mark {bits:#x}/{bits:#x}"


def marked_at_all(bits: int) -> str:
    """Return the condition that at least one of `bits` is set in the packet mark."""
    return f"-m mark ! --mark 0x0/{bits:#x}"


def unmarked(bits: int) -> str:
    """Return the condition that none of `bits` is set in the packet mark."""
    return f"-m mark --mark 0x0/{bits:#x}"


def undecided(marks: Marks) -> str:
    """Return the condition that no policy of the tier has accepted or passed the packet."""
    return unmarked(marks.accept | marks.passed)


def connection_marked(bits: int) -> str:
    """Return the condition that all of `bits` are set in the mark of the packet's connection (connmark)."""
    return f"-m connmark --mark {bits:#x}/{bits:#x}"


def state(states: str) -> str:
    """Return the condition that conntrack has one of `states`, a list with commas, for the packet."""
    return f"-m conntrack --ctstate {states}"


ESTABLISHED = state("RELATED,ESTABLISHED")
INVALID = state("INVALID")


def comes_in_by(interface: str) -> str:
    """Return the condition that a packet comes in by an interface, a name or a pattern such as "cali+"."""
    return f"-i {encoding.interface(interface)}"


def goes_out_by(interface: str) -> str:
    """Return the condition that a packet goes out by an interface, a name or a pattern such as "cali+"."""
    return f"-o {encoding.interface(interface)}"


def in_set(name: str, side: str, negated: bool = False) -> str:
    """Return the condition that the packet is in the IP set `name`, or with `negated` that it is not.

    `side` is "src" or "dst". A set with two dimensions needs one for each: "src,src".
    """
    return f"-m set {'! ' if negated else ''}--match-set {encoding.set_name(name)} {side}"
