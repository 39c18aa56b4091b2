# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A collection, with versions, of other nodes' workloads beside those of a NodeState. Pure.

There are two sources: the datastore, key by key, and reports of nodes, all of a node at once. A node is live while the
datastore has all of its workloads. What a report or the inventory says of a live node does not count.
`policy/index/elsewhere.py` says which source has an address that several have.

In the agent, the event loop changes the collection, and the drivers' thread reads it while it compiles. The lock that
both take is held for one batch of changes or one copy (`changes_since`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ..policy.index.elsewhere import OtherChanges, OtherKey, Precedence, live_key, report_key
from ..policy.model import Endpoint

#: The most changed keys that are remembered. A reader that has missed more of them gets everything.
_LOG_LIMIT = 8192


class NodeReport(t.Protocol):
    """The report of one node; see remote_endpoints.Collected."""

    @property
    def when(self) -> str: ...

    @property
    def endpoints(self) -> tuple[Endpoint, ...]: ...


@dataclasses.dataclass(frozen=True)
class _Lone:
    """A report without a time."""

    endpoints: tuple[Endpoint, ...]
    when: str = ""


class OtherEndpoints:
    """The workloads of other nodes from the datastore and from reports.

    `version` counts changes. `reports` are those given last. One thread calls `apply` and `replace_reports`. Other
    threads may read if there is a `lock`.
    """

    def __init__(
        self,
        reports: t.Optional[t.Mapping[str, NodeReport]] = None,
        lock: t.Optional[t.ContextManager[t.Any]] = None,
    ) -> None:
        self._lock = lock or contextlib.nullcontext()
        self._endpoints: dict[OtherKey, Endpoint] = {}
        self.reports: t.Mapping[str, NodeReport] = {}
        self._precedence = Precedence()
        self.version = 0
        #: The version of each key's last change, the newest last; complete since version `_floor`.
        self._log: dict[OtherKey, int] = {}
        self._floor = 0
        if reports:
            self.replace_reports(reports)

    @classmethod
    def from_endpoints(cls, endpoints: t.Iterable[Endpoint]) -> OtherEndpoints:
        """Return a collection of these endpoints, as if each node had reported its own at the same time."""
        by_node: dict[str, list[Endpoint]] = {}
        for one in endpoints:
            by_node.setdefault(one.node, []).append(one)
        return cls({node: _Lone(tuple(found)) for node, found in by_node.items()})

    # --- changes

    def apply(
        self,
        changes: t.Mapping[tuple[str, str], t.Optional[Endpoint]],
        live: t.Optional[t.AbstractSet[str]] = None,
    ) -> bool:
        """Take changes of the datastore by (node, interface), None for a workload that is gone.

        `live` are all live nodes, None if that has not changed. Return whether anything changed.
        """
        found = {live_key(*key): endpoint for key, endpoint in changes.items()}
        return self._change(found, self._precedence if live is None else self._with_live(live, found))

    def replace_reports(self, reports: t.Mapping[str, NodeReport]) -> bool:
        """Take the reports of all nodes, by node. Return whether anything changed."""
        found: dict[OtherKey, t.Optional[Endpoint]] = {}
        for node in self.reports.keys() | reports.keys():
            before, after = self.reports.get(node), reports.get(node)
            if before is not after and node not in self._precedence.live:
                found.update(_reported(before, after))
        when = {node: report.when for node, report in reports.items()}
        self.reports = reports
        same = when == self._precedence.when
        return self._change(found, self._precedence if same else Precedence(self._precedence.live, when))

    def _with_live(self, live: t.AbstractSet[str], found: dict[OtherKey, t.Optional[Endpoint]]) -> Precedence:
        """Return the precedence with these live nodes, and put the reports that count or cease to into `found`."""
        if live == self._precedence.live:
            return self._precedence
        for node in live ^ self._precedence.live:
            report = self.reports.get(node)
            found.update(_reported(report, None) if node in live else _reported(None, report))
        return Precedence(frozenset(live), self._precedence.when)

    def _change(self, changes: t.Mapping[OtherKey, t.Optional[Endpoint]], precedence: Precedence) -> bool:
        with self._lock:
            version = self.version + 1
            changed = precedence is not self._precedence
            for key, endpoint in changes.items():
                known = self._endpoints.get(key)
                if known is endpoint or known == endpoint:
                    continue
                changed = True
                if endpoint is None:
                    del self._endpoints[key]
                else:
                    self._endpoints[key] = endpoint
                self._log.pop(key, None)
                self._log[key] = version
            if changed:
                self._precedence, self.version = precedence, version
                self._shorten()
            return changed

    def _shorten(self) -> None:
        if len(self._log) <= _LOG_LIMIT:
            return
        entries = list(self._log.items())
        kept = entries[-_LOG_LIMIT // 2 :]
        # A version is remembered with all of its changes or not at all.
        self._floor = entries[-len(kept) - 1][1]
        self._log = {key: version for key, version in kept if version > self._floor}

    # --- questions

    @property
    def lock(self) -> t.ContextManager[t.Any]:
        """The lock under which the collection changes: a process that is forked while it is held has it whole."""
        return self._lock

    @property
    def live(self) -> frozenset[str]:
        return self._precedence.live

    def changes_since(self, version: int) -> OtherChanges:
        """Return what has changed since a version, or everything if it is too old or -1."""
        with self._lock:
            if version < self._floor or version < 0:
                return OtherChanges(self.version, dict(self._endpoints), True, self._precedence)
            found: dict[OtherKey, t.Optional[Endpoint]] = {}
            for key, changed in reversed(self._log.items()):
                if changed <= version:
                    break
                found[key] = self._endpoints.get(key)
            return OtherChanges(self.version, found, False, self._precedence)

    def endpoints(self, node: str = "") -> tuple[Endpoint, ...]:
        """Return the endpoints of all nodes but `node`, sorted by node and interface. It takes time by their number.

        An address that several have belongs to the first of them by precedence. An endpoint without an address is left
        out.
        """
        with self._lock:
            everything, precedence = list(self._endpoints.items()), self._precedence
        known = sorted((key, one) for key, one in everything if key[1] != node)
        owners: dict[str, tuple[bool, str, str]] = {}
        for key, one in known:
            rank = precedence.rank(key)
            for address in one.addresses:
                owners[address] = max(rank, owners.get(address, rank))
        found = []
        for key, one in known:
            rank = precedence.rank(key)
            own = tuple(address for address in one.addresses if owners[address] == rank)
            if own:
                found.append(one if own == one.addresses else dataclasses.replace(one, addresses=own))
        return tuple(found)


def _reported(
    before: t.Optional[NodeReport], after: t.Optional[NodeReport]
) -> t.Iterator[tuple[OtherKey, t.Optional[Endpoint]]]:
    """Yield the endpoints that a report has in place of the one before, None for those that it lacks."""
    for one in before.endpoints if before is not None else ():
        yield report_key(one), None
    for one in after.endpoints if after is not None else ():
        yield report_key(one), one
