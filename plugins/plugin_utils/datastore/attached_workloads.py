# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads that agents attached between runs, from the datastore, for a question to an inventory.

The datastore is asked only about ends of a flow that the inventory does not know, so that other questions need no
network.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.addresses import parse_address
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import NoVerdict
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import published_fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_ends import FlowEnds, is_owned
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.flow_question import Asked
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.flow.known_network import KnownNetwork
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..sources import inventory_network, inventory_source
from . import access, cluster_calls
from .cluster_calls import DatastoreAway, DatastoreRefused

_FAILURES = (DatastoreAway, DatastoreRefused, FleetError, *published_fleet.FAILURES)


def of_question(known: KnownNetwork, asked: Asked, task_vars: t.Mapping[str, t.Any]) -> tuple[KnownNetwork, list[str]]:
    """Return the network with attached workloads, if the question needs them, and notices for its answer.

    A datastore that cannot be read is a notice, and part of the error for an unknown end.
    """
    unknown = _unknown(known, asked)
    if not unknown:
        return known, []
    node = unknown.pop() if len(unknown) == 1 else ""
    try:
        datastore = access.of(inventory_source.hosts(task_vars), task_vars)
        if datastore is None:
            return known, []
        found = cluster_calls.ask(
            datastore, access.operator(task_vars), lambda client: published_fleet.listed(client, node)
        )
    except _FAILURES as error:
        why = f"the datastore, which has the workloads that agents attached, is not read: {str(error).rstrip('.')}"
        return dataclasses.replace(known, attached=f"{why[:1].upper()}{why[1:]}."), [why]
    return inventory_network.with_attached(known, found.workloads), [one.rstrip(".") for one in found.complaints]


def _unknown(known: KnownNetwork, asked: Asked) -> set[str]:
    """Return the nodes of the ends that the inventory does not know, "" for one that may be on any node."""
    ends, found = FlowEnds(known), set[str]()
    for option, text in zip(asked.options, (asked.source, asked.destination)):
        try:
            end = ends.find(option, text)
        except NoVerdict:
            if parse_address(text) is None:
                found.add("")
        else:
            if not is_owned(end):
                found.add(end.node)
    return found
