# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an NFLOG record says about why a packet was logged: `verdict:direction:kind:rule:name`, at most 63 characters.

The kernel keeps 64 bytes with the final zero (struct xt_nflog_info). A name that does not fit is cut and gets a digest;
who reads records knows the names in use, shortens each by `shortened` and compares.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ...model import EGRESS, INGRESS

LIMIT = 63

#: Verdicts: dropped; logged by the action Log; logged for it would be dropped, were it not for staging or audit mode.
DENY, LOG, AUDIT = "deny", "log", "audit"
#: Kinds. A tier's default action, a profile that does not exist and the end of all profiles have rule 0.
POLICY, PROFILE, TIER, NO_PROFILE, HOST = "policy", "profile", "tier", "no-profile", "host"
#: Names of the kind HOST: what the host drops before any policy is asked.
UNKNOWN_INTERFACE, SPOOFED, INVALID_STATE = "unknown-interface", "spoofed", "invalid-state"
ENCAPSULATION, ENDPOINT_TO_HOST = "encapsulation", "endpoint-to-host"
#: What was allowed when it began, and a new policy ended.
CUT = "cut"

_DIRECTIONS = {"in": INGRESS, "out": EGRESS}
_WORDS = {direction: word for word, direction in _DIRECTIONS.items()}
_OTHER_THAN_NAMES = re.compile(r"[^A-Za-z0-9._/-]", re.ASCII)
_DIGEST = 12


class Reason(t.NamedTuple):
    """`direction` is "Ingress" or "Egress" of the endpoint; `rule` counts from 1, 0 is none; `name` as shortened."""

    verdict: str
    direction: str
    kind: str
    rule: int
    name: str


def shortened(name: str, room: int = 34) -> str:
    """`name` as it stands in a prefix."""
    plain = _OTHER_THAN_NAMES.sub("_", name)
    if plain == name and len(name) <= room:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: room - _DIGEST - 1]}~{digest}"


def prefix(reason: Reason) -> str:
    return f"{reason.verdict}:{_WORDS[reason.direction]}:{reason.kind}:{reason.rule}:{shortened(reason.name)}"


def reason(text: str) -> t.Optional[Reason]:
    """What `prefix` was made of, None for the prefix of somebody else."""
    words = text.split(":", 4)
    if len(words) != 5 or words[1] not in _DIRECTIONS or not words[3].isdecimal():
        return None
    return Reason(words[0], _DIRECTIONS[words[1]], words[2], int(words[3]), words[4])
