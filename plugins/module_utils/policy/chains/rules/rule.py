# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules of iptables as values: conditions that must all hold, and what is done then.

Both are texts of iptables' own, made by the functions here and in no other place; `render` joins them to what
iptables-restore reads after `-A chain`. Names and addresses go through iptables_encoding.py into them.
"""

from __future__ import annotations

import typing as t

from ....base import iptables_encoding as encoding
from .marks import Marks


class IptablesRule(t.NamedTuple):
    conditions: tuple[str, ...]
    action: str
    comment: str = ""

    def render(self) -> str:
        """One line of iptables-restore, without -A and the chain."""
        comment = (f'-m comment --comment "{self.comment}"',) if self.comment else ()
        # -p comes first: matches of the protocol's own are refused before it.
        return " ".join((*self.conditions, *comment, self.action))

    def targets(self) -> tuple[str, ...]:
        """The chain of ours that it leads to, if any."""
        words = self.action.split(" ")
        return (words[1],) if words[1].startswith("cali-") else ()


#: {chain: its rules}
Chains = dict[str, tuple[IptablesRule, ...]]

# --- actions --------------------------------------------------------------------------------------------------------

ACCEPT = "-j ACCEPT"
DROP = "-j DROP"
REJECT = "-j REJECT"
RETURN = "-j RETURN"
#: In the table raw: conntrack leaves the packet alone.
NOTRACK = "-j CT --notrack"


def jump(chain: str) -> str:
    return f"-j {encoding.chain(chain)}"


def goto(chain: str) -> str:
    """As `jump`, but what returns from `chain` goes on where this chain was jumped to."""
    return f"-g {encoding.chain(chain)}"


def set_marks(bits: int) -> str:
    return f"-j MARK --set-xmark {bits:#x}/{bits:#x}"


def clear_marks(bits: int) -> str:
    return f"-j MARK --set-xmark 0x0/{bits:#x}"


def log(group: int, prefix: str) -> str:
    """To whoever listens to an NFLOG group; the packet goes on. Headers are enough of it."""
    return f"-j NFLOG --nflog-group {group} --nflog-size 128 --nflog-prefix {encoding.word(prefix)}"


# --- conditions -----------------------------------------------------------------------------------------------------


def marked(bits: int) -> str:
    """All of `bits` are set."""
    return f"-m mark --mark {bits:#x}/{bits:#x}"


def marked_at_all(bits: int) -> str:
    """One of `bits` is set, or several."""
    return f"-m mark ! --mark 0x0/{bits:#x}"


def unmarked(bits: int) -> str:
    """None of `bits` is set."""
    return f"-m mark --mark 0x0/{bits:#x}"


def undecided(marks: Marks) -> str:
    """No policy of the tier has accepted or passed the packet."""
    return unmarked(marks.accept | marks.passed)


def connection_marked(bits: int) -> str:
    """As `marked`, of the mark that the packet's connection has."""
    return f"-m connmark --mark {bits:#x}/{bits:#x}"


def state(states: str) -> str:
    return f"-m conntrack --ctstate {states}"


ESTABLISHED = state("RELATED,ESTABLISHED")
INVALID = state("INVALID")


def comes_in_by(interface: str) -> str:
    return f"-i {encoding.interface(interface)}"


def goes_out_by(interface: str) -> str:
    return f"-o {encoding.interface(interface)}"


def in_set(name: str, side: str, negated: bool = False) -> str:
    """`side`: src or dst, of a set with two dimensions for both: src,src."""
    return f"-m set {'! ' if negated else ''}--match-set {encoding.set_name(name)} {side}"
