# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The prefix of an NFLOG record, which says why a packet was logged: `verdict:direction:kind:rule:name`.

It has at most 63 characters: the kernel keeps 64 bytes with the final zero (struct xt_nflog_info). A name that does not
fit is cut and gets a digest. A reader of records finds the full name by applying `shortened` to all names in use.
"""

from __future__ import annotations

import hashlib
import re
import typing as t

from ...model import EGRESS, INGRESS

#: Verdicts: dropped or rejected; logged by the action Log; logged instead of dropped because of a staged policy or
#: audit mode.
DENY, LOG, AUDIT = "deny", "log", "audit"
#: Kinds. A tier's default action, a profile that does not exist and the end of all profiles have rule 0, and so has the
#: kind HOST.
POLICY, PROFILE, TIER, NO_PROFILE, HOST = "policy", "profile", "tier", "no-profile", "host"
#: Names of the kind HOST: the reasons for which the host drops packets without policy.
UNKNOWN_INTERFACE, SPOOFED, INVALID_STATE = "unknown-interface", "spoofed", "invalid-state"
ENCAPSULATION, ENDPOINT_TO_HOST, ETCD = "encapsulation", "endpoint-to-host", "etcd"
PROBE_ENDPOINT = "probe-endpoint"
#: Another name of the kind HOST: for packets of a connection that was allowed when it began and is denied since.
CUT = "cut"

_DIRECTIONS = {"in": INGRESS, "out": EGRESS}
_WORDS = {direction: word for word, direction in _DIRECTIONS.items()}
_OTHER_THAN_NAMES = re.compile(r"[^A-Za-z0-9._/-]", re.ASCII)
_ROOM, _DIGEST = 34, 12  # the most characters of a name in a prefix, and those of its digest


class Reason(t.NamedTuple):
    """The reason why a packet was logged.

    `verdict` is "deny", "log" or "audit". `direction` is "Ingress" or "Egress", as seen from the endpoint. `kind` is
    "policy", "profile", "tier", "no-profile" or "host". `rule` counts from 1, and is 0 for no rule. `name` is that of
    the policy, profile or tier, "" for "no-profile", and for "host" the reason, such as "spoofed".
    """

    verdict: str
    direction: str
    kind: str
    rule: int
    name: str


def shortened(name: str) -> str:
    """Return `name` as it occurs in a prefix, with at most 34 characters.

    A longer name, or one with characters other than letters, digits and "._/-", gets "~" and 12 hex digits of its
    SHA-256.
    """
    plain = _OTHER_THAN_NAMES.sub("_", name)
    if plain == name and len(name) <= _ROOM:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{plain[: _ROOM - _DIGEST - 1]}~{digest}"


def prefix(reason: Reason) -> str:
    """Return the prefix for a reason, with its name shortened. Raise KeyError if the direction is not valid."""
    return f"{reason.verdict}:{_WORDS[reason.direction]}:{reason.kind}:{reason.rule}:{shortened(reason.name)}"


def reason(text: str) -> t.Optional[Reason]:
    """Return the reason, with a shortened name, that the prefix `text` says, or None if it has another form.

    The words for verdict and kind are not checked.
    """
    words = text.split(":", 4)
    if len(words) != 5 or words[1] not in _DIRECTIONS or not words[3].isdecimal():
        return None
    return Reason(words[0], _DIRECTIONS[words[1]], words[2], int(words[3]), words[4])
