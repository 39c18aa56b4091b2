# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole inventory as the rules look at it. No host is touched: of facts only those that are cached are known."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals, rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import ERROR, Finding
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import Link, Network
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..lines.shown_path import shown_path
from . import inventory_source, lockfile_store, policy_files
from .fleet_source import fleet_variable


@dataclasses.dataclass(frozen=True)
class Looked:
    """What was found, errors first, in how many nodes by how many rules; both 0 where no fleet can be made of it."""

    findings: tuple[Finding, ...]
    nodes: int = 0
    rules: int = 0

    @property
    def errors(self) -> int:
        return sum(one.severity == ERROR for one in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors

    def document(self, strict: bool) -> dict[str, t.Any]:
        """For programs. `strict`: a warning is not good, too."""
        return {
            "good": not (self.findings if strict else self.errors),
            "errors": self.errors,
            "warnings_found": self.warnings,
            "findings": [dataclasses.asdict(one) for one in self.findings],
        }


def look(task_vars: t.Mapping[str, t.Any]) -> Looked:
    """All that is refused; or, where nothing is, all that the rules find but those of calico_lint_ignore."""
    hosts: t.Sequence[Host] = ()
    try:
        hosts = inventory_source.hosts(task_vars)
        with uncollected():
            documents = policy_files.documents(fleet_variable(hosts, policy_files.VARIABLE), task_vars)
            inventory, refused = refusals.read(hosts, documents)
            if inventory is None:
                return Looked(tuple(_shortened(refusals.finding(error)) for error in refused))
            ignored = rules.named(fleet_variable(hosts, rules.IGNORE))
            path = lockfile_store.path_for(fleet_variable(hosts, "calico_lockfile"), task_vars)
            network = _network(task_vars, hosts, Fleet.build(inventory, lockfile_store.read(path)))
            found = rules.findings(network, ignored)
            return Looked(tuple(map(_shortened, found)), len(network.fleet.nodes), len(rules.RULES) - len(ignored))
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        return Looked((_shortened(refusals.finding(error)),))


def _shortened(finding: Finding) -> Finding:
    """With its file as seen from here, where it lies below."""
    return dataclasses.replace(finding, origin=shown_path(finding.origin)) if finding.origin else finding


def _network(task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[Host], fleet: Fleet) -> Network:
    ways: dict[str, str] = {}
    links: dict[str, t.Optional[Link]] = {}
    links6: dict[str, t.Optional[Link]] = {}
    for name, node in fleet.nodes.items():
        known = task_vars["hostvars"][name]
        if known.get("ansible_host"):
            ways[name] = str(known["ansible_host"])
        facts = known.get("ansible_facts") or {}
        # What the node says of itself: anything else than the module setup returns says nothing of its links.
        with contextlib.suppress(AttributeError, LookupError, OverflowError, TypeError, ValueError):
            if facts.get("interfaces"):
                if node.address:
                    links[name] = _link(facts, node.address)
                if node.address6:
                    links6[name] = _link6(facts, node.address6)
    return Network(fleet, hosts, tuple(inventory_source.outside(task_vars)), ways, links, links6)


def _link(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[Link]:
    """The device with that address, of the facts that the module setup gathers."""
    for name, device in _devices(facts):
        more = device.get("ipv4_secondaries") or ()
        for held in (device.get("ipv4") or {}, *more):
            if held.get("address") == address:
                alone = held in more and held.get("netmask") == "255.255.255.255"
                return Link(name, _mtu(device), alone)
    return None


def _link6(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[Link]:
    """In IPv6, where a device has a list of addresses. As many have /128 by DHCP, that of one says nothing."""
    for name, device in _devices(facts):
        if any(held.get("address") == address for held in device.get("ipv6") or ()):
            return Link(name, _mtu(device))
    return None


def _devices(facts: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    for name in map(str, facts["interfaces"]):
        yield name, facts.get(name.replace("-", "_")) or {}


def _mtu(device: t.Mapping[str, t.Any]) -> int:
    """In bytes; that of a device that does not say is none to warn of."""
    return int(device.get("mtu") or 0) or 65535
