# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement whether an observed host can take its state."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import shapes
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState


class NotJudged(Exception):
    """The error for an answer that cannot be judged. Its text says why."""


class HostCheck(t.NamedTuple):
    """What was found on a host, errors first, and the packages that it lacks."""

    findings: t.Sequence[judge.HostFinding]
    missing_packages: t.Sequence[str]


def check(answer: t.Mapping[str, t.Any], state: NodeState, cni: bool, cni_default: bool = False) -> HostCheck:
    """Return the judgement whether a host can take `state`, by its answer to node_info.

    With `cni`, packages that the CNI plugin recommends are looked for, too, and its network must not become a new
    default of the host's containers, unless `cni_default` is True. Raise NotJudged if the part `preflight` of
    the answer is missing, or is not as the module gives it.
    """
    try:
        facts = shapes.plain(answer.get("preflight"))
        networks = judge.cni_findings(facts) if cni and not cni_default else []
        return HostCheck([*networks, *judge.judge(facts, state)], judge.missing_packages(facts, state, cni))
    except shapes.Unreadable as error:
        raise NotJudged(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NotJudged("a part is missing, or is something else") from error
