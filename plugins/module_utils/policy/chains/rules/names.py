# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of chains. All begin with `cali-` and have at most 28 characters (XT_EXTENSION_MAXNAMELEN of the kernel)."""

from __future__ import annotations

import base64
import functools
import hashlib
import re

from ...model import INGRESS

NAME_LIMIT = 28

# A name as it is could otherwise be the same as the digest of another.
_PLAIN = re.compile(r"[A-Za-z0-9.][A-Za-z0-9._/-]*", re.ASCII)

# Where the packets of a workload, a host and policies in general go; Felix has the same names for the same things.
FROM_WORKLOAD, TO_WORKLOAD = "cali-from-workload", "cali-to-workload"
FROM_WORKLOAD_DISPATCH, TO_WORKLOAD_DISPATCH = "cali-from-wl-dispatch", "cali-to-wl-dispatch"
WORKLOAD_TO_HOST = "cali-wl-to-host"
#: In the table raw, on every node.
WORKLOAD_SOURCES, LINK_LOCAL = "cali-wl-sources", "cali-wl-link-local"
SPOOFED, ENCAPSULATED = "cali-spoofed", "cali-encapsulated"
FROM_HOST_ENDPOINT, TO_HOST_ENDPOINT = "cali-from-host-endpoint", "cali-to-host-endpoint"
FROM_HOST_FORWARD, TO_HOST_FORWARD = "cali-from-hep-forward", "cali-to-hep-forward"
FAILSAFE_IN, FAILSAFE_OUT = "cali-failsafe-in", "cali-failsafe-out"
#: Where a rule that decides goes: they mark the packet, and it returns to the endpoint's chain.
ALLOWED, PASSED, STAGED = "cali-allow", "cali-pass", "cali-staged"


@functools.lru_cache(maxsize=65536)
def chain_name(prefix: str, name: str) -> str:
    """`prefix` and `name`, or as much of a digest of the name as there is room for."""
    if _PLAIN.fullmatch(name) and len(prefix) + len(name) <= NAME_LIMIT:
        return prefix + name
    digest = base64.urlsafe_b64encode(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()).decode()
    return f"{prefix}_{digest}"[:NAME_LIMIT]


def policy_chain(name: str, direction: str) -> str:
    return chain_name("cali-pi-" if direction == INGRESS else "cali-po-", name)


def profile_chain(name: str, direction: str) -> str:
    return chain_name("cali-pri-" if direction == INGRESS else "cali-pro-", name)


def workload_chain(group: str, direction: str) -> str:
    """Of all workloads that have the same policies. Ingress is what goes to them."""
    return chain_name("cali-tw-" if direction == INGRESS else "cali-fw-", group)


def host_chain(interface: str, direction: str, forward: bool = False) -> str:
    """Ingress is what comes from the network."""
    if forward:
        return chain_name("cali-fhfw-" if direction == INGRESS else "cali-thfw-", interface)
    return chain_name("cali-fh-" if direction == INGRESS else "cali-th-", interface)
