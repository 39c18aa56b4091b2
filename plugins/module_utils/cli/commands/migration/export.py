# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl export -i INVENTORY`: all resources of an inventory as documents, in the order in which Calico exports."""

from __future__ import annotations

import argparse
import sys
import typing as t

from ...errors import DONE, UsageError
from ...render import kinds, yaml_text
from ...render.kind import exported, name_of
from .. import inventory_resources

#: Calico's order: what others refer to comes first.
_ORDER = (
    "IPPool", "BGPPeer", "Tier", "GlobalNetworkPolicy", "StagedGlobalNetworkPolicy", "GlobalNetworkSet",
    "HostEndpoint", "NetworkPolicy", "StagedNetworkPolicy", "NetworkSet", "Node", "BGPConfiguration",
    "FelixConfiguration", "IPReservation", "BGPFilter",
)  # fmt: skip
#: Workloads come and go, and are no part of Calico's exports either.
_NOT_EXPORTED = "WorkloadEndpoint"
_OWN = ("Profile", "projectcalico-default-allow")


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    if not arguments.inventory:
        raise UsageError("say what to export: -i INVENTORY.")
    source = inventory_resources.of_command(arguments)
    known = [kind for kind in kinds.KINDS if kind.name != _NOT_EXPORTED]
    known.sort(key=lambda kind: _ORDER.index(kind.name) if kind.name in _ORDER else len(_ORDER))
    texts = [
        yaml_text.dump(exported(document))
        for kind in known
        for document in source.documents(kind)
        if (kind.name, name_of(document)) != _OWN
    ]
    sys.stdout.write("---\n".join(texts))
    return DONE
