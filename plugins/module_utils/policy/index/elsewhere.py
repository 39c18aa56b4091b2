# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The endpoints of other nodes as one node's policy uses them, kept up to date by changes.

    workloads here        first: their addresses are nobody else's
    the inventory         second, but for the workloads of live nodes
    the datastore         third; of several nodes with one address, the name that sorts last
    reports of nodes      last; of several nodes with one address, the newest report

An address belongs to the first of these that has it and is removed from the endpoints of all that follow. So the result
depends on what is known, and not on the order in which it came.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ..model import WORKLOAD_ENDPOINT, Endpoint

#: The identity of an endpoint: (kind, node, interface) in the datastore, (kind, node, interface, name) in a report, and
#: (kind, name, node, interface, "planned") for a workload of the inventory. (kind, name) is left to local endpoints and
#: to HostEndpoints. All have different lengths, so that no name can make one look like another.
OtherKey = tuple[str, ...]

_LIVE = 3  # the length of the keys of the datastore

#: The origin of an endpoint: whether it is the datastore, and the node. An address belongs to one origin alone.
_Origin = tuple[bool, str]


def live_key(node: str, interface: str) -> OtherKey:
    return WORKLOAD_ENDPOINT, node, interface


def is_live(key: OtherKey) -> bool:
    return len(key) == _LIVE


def report_key(endpoint: Endpoint) -> OtherKey:
    return endpoint.kind, endpoint.node, endpoint.interface, endpoint.name


def _planned_key(endpoint: Endpoint) -> OtherKey:
    if endpoint.kind != WORKLOAD_ENDPOINT:
        return endpoint.kind, endpoint.name
    return endpoint.kind, endpoint.name, endpoint.node, endpoint.interface, "planned"


def _origin(key: OtherKey) -> _Origin:
    return is_live(key), key[1]


@dataclasses.dataclass(frozen=True)
class Precedence:
    """The order of those that say something of one address.

    `live` are the nodes whose workloads are all in the datastore: what the inventory and reports say of them does not
    count. `when` has the time of each node's report (ISO 8601, UTC).
    """

    live: frozenset[str] = frozenset()
    when: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    def rank(self, key: OtherKey) -> tuple[bool, str, str]:
        """Return the rank of the origin of an endpoint of the datastore or a report. The greatest has the address."""
        return self._rank(_origin(key))

    def _rank(self, origin: _Origin) -> tuple[bool, str, str]:
        live, node = origin
        return live, "" if live else self.when.get(node, ""), node

    def first(self, origins: t.Iterable[_Origin]) -> _Origin:
        return max(origins, key=self._rank)


class OtherChanges(t.NamedTuple):
    """Changes of the endpoints in the datastore and in reports up to `version`: None for one that is gone.

    With `whole`, these are all endpoints, and all others are gone.
    """

    version: int
    endpoints: t.Mapping[OtherKey, t.Optional[Endpoint]]
    whole: bool
    precedence: Precedence


class EndpointsElsewhere:
    """The endpoints that count on `node`, but for its own workloads. Not safe for several threads.

    The time of `update`, which returns those that change, grows with what changed.
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self._inventory: t.Sequence[Endpoint] = ()  # as it was given last
        self._planned: dict[OtherKey, Endpoint] = {}  # those of the inventory that count
        self._reserved: t.AbstractSet[str] = frozenset()  # the addresses of `_planned`
        self._here: t.AbstractSet[str] = frozenset()  # the addresses of the workloads on the node
        self._others: dict[OtherKey, Endpoint] = {}  # as they were given, of all other nodes
        #: The endpoints of `_others` that have an address: the key of the only one, or keys by origin. A dictionary of
        #: keys is a set that keeps its order.
        self._claims: dict[str, t.Union[OtherKey, dict[_Origin, dict[OtherKey, None]]]] = {}
        self._contested: dict[str, None] = {}  # addresses that several origins have
        self._precedence = Precedence()

    def update(
        self, inventory: t.Sequence[Endpoint], here: t.AbstractSet[str], changes: OtherChanges
    ) -> dict[OtherKey, t.Optional[Endpoint]]:
        """Return the endpoints that are new or changed by their keys, and None for those that are gone.

        `inventory` has the endpoints of all nodes; if it is another object than at the last call, all of it is gone
        through. Its endpoints count as changed if they are other objects. `here` has the addresses of the node's own
        workloads.
        """
        found: dict[OtherKey, t.Optional[Endpoint]] = {}
        affected: dict[OtherKey, None] = {}
        precedence, before = changes.precedence, self._precedence
        self._precedence = precedence
        if inventory is not self._inventory or precedence.live != before.live:
            self._plan(inventory, found, affected)
        for address in here ^ self._here:
            affected.update(self._claimants(address))
        self._here = here
        if precedence.when is not before.when and precedence.when != before.when:
            for address in self._contested:
                affected.update(self._claimants(address))
        if changes.whole:
            for key in self._others.keys() - changes.endpoints.keys():
                self._take(key, None, affected)
        for key, endpoint in changes.endpoints.items():
            if key[1] != self.node:
                self._take(key, endpoint, affected)
        for key in affected:
            one = self._others.get(key)
            if one is not None:
                # An endpoint counts only with its own addresses; without any, it does not count.
                own = tuple(address for address in one.addresses if self._has(key, address))
                one = one if own == one.addresses else dataclasses.replace(one, addresses=own)
            found[key] = one if one is not None and one.addresses else None
        return found

    def _plan(
        self,
        inventory: t.Sequence[Endpoint],
        found: dict[OtherKey, t.Optional[Endpoint]],
        affected: dict[OtherKey, None],
    ) -> None:
        """Take the endpoints of the inventory that count, and put what changes into `found` and `affected`."""
        live = self._precedence.live
        planned = {
            _planned_key(one): one
            for one in inventory
            if one.kind != WORKLOAD_ENDPOINT or (one.node != self.node and one.node not in live)
        }
        before, self._planned, self._inventory = self._planned, planned, inventory
        found.update((key, None) for key in before.keys() - planned.keys())
        for key, endpoint in planned.items():
            if before.get(key) is not endpoint:
                found[key] = endpoint
        reserved = {address for one in planned.values() for address in one.addresses}
        for address in reserved ^ self._reserved:
            affected.update(self._claimants(address))
        self._reserved = reserved

    def _take(self, key: OtherKey, endpoint: t.Optional[Endpoint], affected: dict[OtherKey, None]) -> None:
        """Take an endpoint of another node as it was given, and put what changes into `affected`."""
        known = self._others.get(key)
        if known is endpoint:
            return
        if endpoint is None:
            del self._others[key]
        else:
            self._others[key] = endpoint
            if known == endpoint:
                return
        # Each address once, whatever the endpoint says.
        before = dict.fromkeys(known.addresses if known is not None else ())
        after = dict.fromkeys(endpoint.addresses if endpoint is not None else ())
        for address in before:
            if address not in after:
                self._withdraw(address, key, affected)
        for address in after:
            if address not in before:
                self._claim(address, key, affected)
        affected[key] = None

    def _claimants(self, address: str) -> dict[OtherKey, None]:
        held = self._claims.get(address, {})
        if isinstance(held, tuple):
            return {held: None}
        return {key: None for keys in held.values() for key in keys}

    def _claim(self, address: str, key: OtherKey, affected: dict[OtherKey, None]) -> None:
        held = self._claims.get(address)
        if held is None:
            self._claims[address] = key
            return
        if isinstance(held, tuple):
            held = self._claims[address] = {_origin(held): {held: None}}
        before = self._precedence.first(held)
        held.setdefault(_origin(key), {})[key] = None
        if len(held) > 1:
            self._contested[address] = None
        self._pass_on(held, before, affected)

    def _withdraw(self, address: str, key: OtherKey, affected: dict[OtherKey, None]) -> None:
        held = self._claims[address]
        if isinstance(held, tuple):
            del self._claims[address]
            return
        before = self._precedence.first(held)
        keys = held[_origin(key)]
        del keys[key]
        if not keys:
            del held[_origin(key)]
        if not held:
            del self._claims[address]
            return
        if len(held) == 1:
            self._contested.pop(address, None)
        self._pass_on(held, before, affected)

    def _pass_on(
        self, held: t.Mapping[_Origin, t.Mapping[OtherKey, None]], before: _Origin, affected: dict[OtherKey, None]
    ) -> None:
        """Put the endpoints of the origin `before`, and of the one that has the address after it, into `affected`.

        Without another origin nothing is put there: a node that gives one address to all of its workloads costs no
        more.
        """
        after = self._precedence.first(held)
        if after != before:
            affected.update(held.get(before, {}))
            affected.update(held[after])

    def _has(self, key: OtherKey, address: str) -> bool:
        if address in self._here or address in self._reserved:
            return False
        held = self._claims[address]
        return isinstance(held, tuple) or self._precedence.first(held) == _origin(key)
