# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The synchronization of workloads: what the controller sends to each node, from the answers of all. It is pure."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base import typed_json
from ..base.typed_json import shown
from ..policy.model import Endpoint
from ..state.answers.endpoints import OwnBlocks, read_endpoints
from ..state.answers.left_out import LeftOut
from ..state.plain_data import to_plain
from ..state.remote_endpoints import Collected

#: The answer of the module remote_endpoints_info, not trusted: `node` (its name), `endpoints` (its workloads, a list),
#: and `known`, which maps names of other nodes to tables with a `digest`.
Answer = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Teller:
    """A node that answered.

    `endpoints` are its workloads that other nodes may receive, `blocks` (CIDRs) its blocks in the lockfile. `known`
    maps the name of another node to the digest of the workloads that this node has stored for it.
    """

    endpoints: tuple[Endpoint, ...]
    blocks: tuple[str, ...] = ()
    known: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


def refusal(host: str, answer: Answer) -> str:
    """Return why a host's answer is unusable as a whole (a clause without a full stop), "" if it is usable."""
    node, endpoints = answer.get("node"), answer.get("endpoints")
    if not isinstance(endpoints, (list, tuple)):
        return f"it answered no list of its workloads, but {shown(endpoints)}"
    if node != host and (node != "" or endpoints):
        return f"it says that it is {shown(node)}"
    return ""


def teller(host: str, answer: Answer, blocks: t.Iterable[str]) -> tuple[Teller, tuple[LeftOut, ...]]:
    """Return the usable part of an answer that `refusal` accepts, and the parts of its `endpoints` that are left out.

    Invalid entries of `known` are dropped without being reported. `blocks` (CIDRs) are the host's blocks in the
    lockfile, including spare blocks. Raise ValueError if one of them is not a CIDR, or has host bits.
    """
    own = OwnBlocks(blocks)
    endpoints, left_out = read_endpoints(host, answer["endpoints"], own)
    known = answer.get("known")
    return Teller(endpoints, own.cidrs, _digests(known)), left_out


def _digests(known: t.Any) -> dict[str, str]:
    """Return the valid digests by node name in an untrusted `known`: a missing one only makes the node receive more."""
    if not isinstance(known, t.Mapping) or len(known) > typed_json.ENTRIES:
        return {}
    found = {}
    for name, entry in known.items():
        digest = entry.get("digest") if isinstance(entry, t.Mapping) else None
        if isinstance(name, str) and isinstance(digest, str):
            found[name] = digest
    return found


def parts(tellers: t.Mapping[str, Teller], nodes: t.Collection[str], when: str) -> dict[str, dict[str, t.Any]]:
    """Return what to send to each node that answered: a mapping from node name to the arguments of its update.

    The arguments are `nodes`, the sorted names of all nodes, and `told`, a mapping from the name of each other node
    that answered to {collected, blocks, endpoints}. `endpoints` is left out if the receiving node has the same ones
    already. `when`, sent as `collected`, is the time at which the answers were requested (ISO 8601, UTC). Nothing is
    sent about nodes that did not answer.
    """
    same = {name: {"collected": when, "blocks": list(one.blocks)} for name, one in tellers.items()}
    fresh = {name: {**same[name], "endpoints": to_plain(one.endpoints)} for name, one in tellers.items()}
    digests = {name: Collected("", one.endpoints).digest for name, one in tellers.items()}
    found = {}
    for name, one in tellers.items():
        told = {
            other: (same if one.known.get(other) == digests[other] else fresh)[other]
            for other in tellers
            if other != name
        }
        found[name] = {"nodes": sorted(nodes), "told": told}
    return found
