# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each node is told of the others, out of what they all told. Pure; runs on the controller."""

from __future__ import annotations

import typing as t

#: What the module remote_endpoints_info answers: `endpoints`, their `digest`, and `known` {node: {digest}}.
Answer = t.Mapping[str, t.Any]


def parts(answers: t.Mapping[str, Answer], nodes: t.Collection[str], when: str) -> dict[str, dict[str, t.Any]]:
    """{node that answered: what it is told, in the words of node.endpoint_exchange.take}.

    `nodes` are all of the fleet, `when` the answers were asked for. Of a node whose endpoints it knows already a node
    is told no more than that they are as they were: what is sent is what has changed. Of a node that did not answer
    nobody is told anything.
    """
    fresh = {name: {"collected": when, "endpoints": answer["endpoints"]} for name, answer in answers.items()}
    same = {name: {"collected": when} for name in answers}
    found = {}
    for name, answer in answers.items():
        known = {other: entry["digest"] for other, entry in answer["known"].items()}
        told = {
            other: (same if known.get(other) == one["digest"] else fresh)[other]
            for other, one in answers.items()
            if other != name
        }
        found[name] = {"nodes": sorted(nodes), "told": told}
    return found
