# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The targets of a run, kept during it in a private folder on the controller.

Action plugins fork per host and share no memory. So the fleet is planned once, and the process of every host reads it
here and compiles its own state.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import tempfile
import typing as t

from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import (
    InventoryPolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.stored_policy import (
    RestoredPolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.policy_parts import PolicyWire
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets

from ..datastore.access import FleetDatastore

_FILE, _POLICY, _DATASTORE, _SECRET = "targets", "policy", "datastore", "secret"
_POLICIES = "policies"  # those of stored states
_LIVE = "live"  # what a fleet with live policy publishes
_RESTORED = "restored"  # what stored states mean for that
_SECRET_BYTES = 16
_WORKLOAD_NODES = "calico_nodes"  # the group of hosts that may have workloads


class RestoredSource(t.NamedTuple):
    """The policy of stored states, and the datastore to which it is published; nodes keep their files of that."""

    datastore: FleetDatastore
    policy: RestoredPolicy


def save(
    targets: Targets,
    datastore: t.Optional[FleetDatastore] = None,
    policies: t.Optional[t.Mapping[str, str]] = None,
    live: t.Optional[InventoryPolicy] = None,
    restored: t.Optional[RestoredSource] = None,
) -> str:
    """Store the targets, and the fleet's datastore if it has one, in a new folder on the controller. Return its path.

    It has mode 0700 and is removed when ansible-playbook ends. A fleet's policy is large and stored separately: the
    states of `load` have only its settings. `policies` are those of stored states, packed, by node. `live` is what a
    fleet with live policy publishes, and `restored` what stored states mean for that. Raise OSError if it cannot be
    written.
    """
    folder = tempfile.mkdtemp(prefix="host_routing-", dir=constants.DEFAULT_LOCAL_TMP)
    if policies:
        with open(os.path.join(folder, _POLICIES), "wb") as stream:
            pickle.dump(dict(policies), stream)
    if datastore is not None:
        with open(os.path.join(folder, _DATASTORE), "wb") as stream:
            pickle.dump(datastore, stream)
    if live is not None:
        with open(os.path.join(folder, _LIVE), "wb") as stream:
            pickle.dump(live, stream)
    if restored is not None:
        with open(os.path.join(folder, _RESTORED), "wb") as stream:
            pickle.dump(restored, stream)
    if targets.fleet is not None:
        fleet = targets.fleet.named()
        if fleet.policy is not None:
            with open(os.path.join(folder, _POLICY), "wb") as stream:
                pickle.dump(fleet.policy.wire(), stream)
            fleet = dataclasses.replace(fleet, policy=fleet.policy.bare())
        targets = dataclasses.replace(targets, fleet=fleet)
    with open(os.path.join(folder, _SECRET), "wb") as stream:
        stream.write(os.urandom(_SECRET_BYTES))
    with open(os.path.join(folder, _FILE), "wb") as stream:
        pickle.dump(targets, stream)
    return folder


def probe_secret(folder: t.Optional[str]) -> bytes:
    """Return the 16 bytes by which the nodes of a run know its probes; others, which no other node has, for None.

    Raise OSError if they cannot be read.
    """
    if folder is None:
        return os.urandom(_SECRET_BYTES)
    with open(os.path.join(folder, _SECRET), "rb") as stream:
        return stream.read()


def probe_turn(secret: bytes) -> int:
    """Return the number by which all tasks of a run choose the same sample of paths, and each run another one."""
    return int.from_bytes(secret[:4], "big")


def load(folder: str) -> Targets:
    """Return the targets that `save` stored in the folder. Raise OSError if they cannot be read."""
    with open(os.path.join(folder, _FILE), "rb") as stream:
        return t.cast(Targets, pickle.load(stream))


def load_datastore(folder: str) -> t.Optional[FleetDatastore]:
    """Return the datastore that `save` stored in the folder, None without one. Raise OSError if it cannot be read."""
    try:
        with open(os.path.join(folder, _DATASTORE), "rb") as stream:
            return t.cast(FleetDatastore, pickle.load(stream))
    except FileNotFoundError:
        return None


def load_live(folder: str) -> t.Optional[InventoryPolicy]:
    """Return what a fleet with live policy publishes, None without live policy. Raise OSError if it cannot be read."""
    try:
        with open(os.path.join(folder, _LIVE), "rb") as stream:
            return t.cast(InventoryPolicy, pickle.load(stream))
    except FileNotFoundError:
        return None


def load_restored(folder: str) -> t.Optional[RestoredSource]:
    """Return what stored states mean for what is published, None for no datastore. Raise OSError if unreadable."""
    try:
        with open(os.path.join(folder, _RESTORED), "rb") as stream:
            return t.cast(RestoredSource, pickle.load(stream))
    except FileNotFoundError:
        return None


def members(folder: str, task_vars: t.Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return the names of the fleet's nodes that may have workloads, by the targets in the folder; () without targets.

    Stored states may be those of a part of the fleet: then the nodes are those of the inventory's group calico_nodes.
    """
    try:
        found = load(folder)
    except OSError:
        return ()
    if found.fleet is not None:
        return tuple(node.name for node in found.fleet.nodes.values() if node.workload_node)
    return tuple(map(str, task_vars.get("groups", {}).get(_WORKLOAD_NODES, ())))


def names(folder: str) -> dict[str, str]:
    """Return the name of each node by its addresses, by the targets in the folder; an empty dict without targets."""
    try:
        return load(folder).names()
    except OSError:
        return {}


def load_policy(folder: str, node: str) -> t.Union[dict[str, t.Any], str, None]:
    """Return the policy of the node's state as PolicyWire sends it, the packed one of a stored state, None without one.

    Raise OSError if it cannot be read.
    """
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, _POLICY), "rb") as stream:
        return t.cast(PolicyWire, pickle.load(stream)).of(node)
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, _POLICIES), "rb") as stream:
        return t.cast("dict[str, str]", pickle.load(stream)).get(node)
    return None
