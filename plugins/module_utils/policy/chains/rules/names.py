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

# The first character cannot be "_", because chains that are named by a digest have one there.
_PLAIN = re.compile(r"[A-Za-z0-9.][A-Za-z0-9._/-]*", re.ASCII)

# The chains through which packets of workloads and hosts pass. Most names are those of Felix.
FROM_WORKLOAD, TO_WORKLOAD = "cali-from-workload", "cali-to-workload"
FROM_WORKLOAD_DISPATCH, TO_WORKLOAD_DISPATCH = "cali-from-wl-dispatch", "cali-to-wl-dispatch"
WORKLOAD_TO_HOST = "cali-wl-to-host"
#: Chains for the packets from and to the probe endpoint, with or without policy: `probe_rules.py` says what passes.
FROM_PROBE, TO_PROBE = "cali-from-probe", "cali-to-probe"
PROBE_TO_HOST = "cali-probe-to-host"
#: Chains in the table raw on every node of group calico_nodes: `source_checks.py` says what they do.
WORKLOAD_SOURCES, LINK_LOCAL = "cali-wl-sources", "cali-wl-link-local"
SPOOFED, ENCAPSULATED, TO_ETCD = "cali-spoofed", "cali-encapsulated", "cali-to-etcd"
FROM_HOST_ENDPOINT, TO_HOST_ENDPOINT = "cali-from-host-endpoint", "cali-to-host-endpoint"
FROM_HOST_FORWARD, TO_HOST_FORWARD = "cali-from-hep-forward", "cali-to-hep-forward"
FAILSAFE_IN, FAILSAFE_OUT = "cali-failsafe-in", "cali-failsafe-out"
#: The targets of rules that allow or pass, and of rules of staged policies: these chains mark the packet, which returns
#: to the endpoint's chain.
ALLOWED, PASSED, STAGED = "cali-allow", "cali-pass", "cali-staged"


@functools.lru_cache(maxsize=65536)
def chain_name(prefix: str, name: str) -> str:
    """Return `prefix` followed by `name`, if the name is plain and the result has at most 28 characters.

    A plain name has only ASCII letters, digits and "._/-", and begins with a letter, a digit or ".". Otherwise return
    `prefix`, "_" and a base64url SHA-256 of the name, cut to 28 characters.
    """
    if _PLAIN.fullmatch(name) and len(prefix) + len(name) <= NAME_LIMIT:
        return prefix + name
    digest = base64.urlsafe_b64encode(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()).decode()
    return f"{prefix}_{digest}"[:NAME_LIMIT]


def policy_chain(name: str, direction: str) -> str:
    """Return the name of the chain of a policy in one direction, "Ingress" or "Egress"."""
    return chain_name("cali-pi-" if direction == INGRESS else "cali-po-", name)


def profile_chain(name: str, direction: str) -> str:
    """Return the name of the chain of a profile in one direction."""
    return chain_name("cali-pri-" if direction == INGRESS else "cali-pro-", name)


def workload_chain(group: str, direction: str) -> str:
    """Return the name of the chain of a group of workloads; `group` is its ID. Ingress is packets to them."""
    return chain_name("cali-tw-" if direction == INGRESS else "cali-fw-", group)


def host_chain(interface: str, direction: str, forward: bool = False) -> str:
    """Return the name of the chain of the HostEndpoint of `interface`. Ingress is packets from the network.

    With `forward` it is the chain for forwarded packets in the table filter.
    """
    if forward:
        return chain_name("cali-fhfw-" if direction == INGRESS else "cali-thfw-", interface)
    return chain_name("cali-fh-" if direction == INGRESS else "cali-th-", interface)
