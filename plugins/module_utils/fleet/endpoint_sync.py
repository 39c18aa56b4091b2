# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node is told of the others, out of what they all told. Pure; runs on the controller."""

from __future__ import annotations

import dataclasses
import typing as t

from ..policy.model import Endpoint
from ..state.answers import limits
from ..state.answers.endpoints import OwnBlocks, read_endpoints
from ..state.answers.left_out import LeftOut, shown
from ..state.policy_json import to_plain
from ..state.remote_endpoints import Collected

#: What the module remote_endpoints_info answers: `node`, `endpoints`, and `known` {node: {digest}}.
Answer = t.Mapping[str, t.Any]


@dataclasses.dataclass(frozen=True)
class Teller:
    """A node that answered: its workloads that others may know, its blocks by the lockfile, and by the name of another
    node the digest of what it knows of that one's."""

    endpoints: tuple[Endpoint, ...]
    blocks: tuple[str, ...] = ()
    known: t.Mapping[str, str] = dataclasses.field(default_factory=dict)


def refusal(host: str, answer: Answer) -> str:
    """Return why nothing of a host's answer can be used, "" if something can."""
    node, endpoints = answer.get("node"), answer.get("endpoints")
    if not isinstance(endpoints, (list, tuple)):
        return f"it answered no list of its workloads, but {shown(endpoints)}"
    if node != host and (node != "" or endpoints):
        return f"it says that it is {shown(node)}"
    return ""


def teller(host: str, answer: Answer, blocks: t.Iterable[str]) -> tuple[Teller, tuple[LeftOut, ...]]:
    """Return what is passed on of a host's answer, which has no `refusal`, and what is left out of it.

    `blocks` are those that the lockfile gives to the host, spare ones included.
    """
    own = OwnBlocks(blocks)
    endpoints, left_out = read_endpoints(host, answer["endpoints"], own)
    known = answer.get("known")
    return Teller(endpoints, own.cidrs, _digests(known)), left_out


def _digests(known: t.Any) -> dict[str, str]:
    """Return {node: digest}. A node that says something else here is sent more than it needs, and no more."""
    if not isinstance(known, t.Mapping) or len(known) > limits.ENTRIES:
        return {}
    found = {}
    for name, entry in known.items():
        digest = entry.get("digest") if isinstance(entry, t.Mapping) else None
        if isinstance(name, str) and isinstance(digest, str):
            found[name] = digest
    return found


def parts(tellers: t.Mapping[str, Teller], nodes: t.Collection[str], when: str) -> dict[str, dict[str, t.Any]]:
    """Return {node that answered: what it is told, in the words of node.endpoint_sync.take}.

    `nodes` are all of the fleet, `when` the answers were asked for. Of a node whose endpoints it knows already a node
    is told no more than that they are as they were, and the node's blocks. Of a node that did not answer no node is
    told anything.
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
