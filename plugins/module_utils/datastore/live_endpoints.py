# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way from the mirror of the datastore to policy: which workloads of other nodes this node accepts.

A node is live, so that its keys count in place of what the inventory says of it, while it has published all of its
workloads and nothing newer is known: the feed is in sync, or this node's state is still the one of when it was.
"""

from __future__ import annotations

import typing as t

from ..policy.model import Endpoint
from ..state.node_state import NodeState
from ..state.remote_endpoints import ReaderCheck
from .keys import EndpointKey
from .mirror import Mirror

#: A node, and the host end of a workload's interface there.
Place = tuple[str, str]


class Others(t.Protocol):
    """What takes the workloads of other nodes for policy; see OtherEndpoints."""

    def apply(
        self, changes: t.Mapping[Place, t.Optional[Endpoint]], live: t.Optional[t.AbstractSet[str]] = None
    ) -> object:
        """Take changes, and the nodes that are live from now on, None for those before."""

    def replace_all(self, endpoints: t.Mapping[Place, Endpoint], live: t.AbstractSet[str]) -> object:
        """Take everything that the datastore has, and the nodes that are live."""


class LiveEndpoints:
    """The workloads of other nodes that the datastore has, for `others`, which policy reads.

    `state` returns Ansible's state, None while it is not known. `refused` are the keys that this node does not accept,
    each with the reason. `basis` is the plan of this node's state when the feed was in sync last, "" for never.
    """

    def __init__(
        self,
        others: Others,
        state: t.Callable[[], t.Optional[NodeState]],
    ) -> None:
        self.refused: dict[EndpointKey, str] = {}
        self._others = others
        self._state = state
        self._checked_for: t.Optional[NodeState] = None
        self._check = ReaderCheck(None)
        self._synced = False
        self.basis = ""

    def restored(self, mirror: Mirror, basis: str) -> None:
        """Take a mirror that was read from the disk, and what was its `basis` when it was written."""
        self.basis = basis
        self._take_all(mirror)

    def synced(self, mirror: Mirror, synced: bool) -> None:
        """Note that the feed has come into sync or lost it."""
        self._synced = synced
        self._others.apply({}, self._live(mirror))

    def checked_anew(self, mirror: Mirror) -> t.AbstractSet[EndpointKey]:
        """Return the workloads that `changed` has to take again, because Ansible's state may be another one."""
        if self._state() is self._checked_for:
            return frozenset()
        self._others.apply({}, self._live(mirror))
        return mirror.endpoints.keys() | self.refused.keys()

    def changed(self, mirror: Mirror, keys: t.AbstractSet[EndpointKey], live: bool) -> None:
        """Take workloads of the mirror that changed; `live`: nodes have published all of theirs, or no longer do."""
        self._renew_check()
        changes: dict[Place, t.Optional[Endpoint]] = {
            key: self._accepted(mirror, key) for key in keys if key.node != self._check.node
        }
        self._others.apply(changes, self._live(mirror) if live else None)

    def _take_all(self, mirror: Mirror) -> None:
        self._renew_check()
        self.refused.clear()
        found: dict[Place, Endpoint] = {}
        for key in mirror.endpoints:
            if key.node != self._check.node:
                endpoint = self._accepted(mirror, key)
                if endpoint is not None:
                    found[key] = endpoint
        self._others.replace_all(found, self._live(mirror))

    def _renew_check(self) -> None:
        state = self._state()
        if state is not self._checked_for:
            self._checked_for, self._check = state, ReaderCheck(state)

    def _accepted(self, mirror: Mirror, key: EndpointKey) -> t.Optional[Endpoint]:
        """Return a workload of the mirror if this node accepts it, and keep the reason in `refused` if it does not."""
        self.refused.pop(key, None)
        endpoint = mirror.endpoint(key)
        if endpoint is None:
            return None
        reason = self._check.refusal(key.node, endpoint, checked=True)
        if reason:
            self.refused[key] = reason
            return None
        return endpoint

    def _live(self, mirror: Mirror) -> frozenset[str]:
        state = self._state()
        plan = state.plan if state is not None else ""
        if self._synced:
            self.basis = plan
        if not plan or plan != self.basis:
            return frozenset()
        return mirror.complete - {self._check.node}
