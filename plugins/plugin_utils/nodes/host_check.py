# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement whether an observed host can take its state."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.preflight import judge
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import podman_networks


class NotJudged(Exception):
    """The error for an answer that cannot be judged. Its text says why."""


class HostCheck(t.NamedTuple):
    """What was found on a host, errors first, and the packages that it lacks."""

    findings: t.Sequence[judge.HostFinding]
    missing_packages: t.Sequence[str]


class PodmanWish(t.NamedTuple):
    """Networks that podman is to get: their names, and whether the inventory demands them or lets the host decide."""

    names: t.Collection[str] = ()
    demanded: bool = False


def check(
    answer: t.Mapping[str, t.Any],
    state: NodeState,
    cni: bool,
    cni_default: bool = False,
    podman: t.Optional[PodmanWish] = None,
) -> HostCheck:
    """Return the judgement whether a host can take `state`, by its answer to node_info.

    With `cni`, packages that the CNI plugin recommends are looked for, too. Its network must not become a new default
    of the host's containers; with `cni_default` it shall, and no other network may come before it. With `podman`, the
    host's podman gets networks if that demands them, or if it can take them. Raise NotJudged if the part `preflight` of
    the answer is missing, or is not as the module gives it.
    """
    try:
        facts = typed_json.plain(answer.get("preflight"))
        of_cni = judge.first_network_findings if cni_default else judge.cni_findings
        networks = of_cni(facts) if cni else []
        gets = podman is not None and bool(podman.demanded or facts["podman"]["plugins"])
        if podman is not None and gets:
            networks += judge.podman_findings(facts, podman.names, podman.demanded)
        packages = judge.missing_packages(facts, state, cni or gets)
        return HostCheck([*networks, *judge.judge(facts, state)], packages)
    except typed_json.Unreadable as error:
        raise NotJudged(str(error)) from error
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise NotJudged("a part is missing, or is something else") from error


def podman_wish(wanted: str, networks: t.Any) -> t.Optional[PodmanWish]:
    """Return the wish of the inventory: `wanted` is no, auto or yes, `networks` is calico_node_podman_networks.

    Return None if podman is to get none. Raise FleetError if a network is wrong.
    """
    names = () if wanted == "no" else tuple(podman_networks.read(networks))
    return PodmanWish(names, wanted == "yes") if names else None
