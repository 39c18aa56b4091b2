# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole inventory as the rules of `validate` see it. No host is contacted: only cached facts are used."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host, origin
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals, rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import ERROR, LintFinding
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import LintedFleet, UnderlayLink
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written.written_inventory import (
    WrittenInventory,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..lines.shown_path import shown_path
from . import inventory_source, lockfile_store, policy_files, written_source
from .fleet_source import fleet_variable


@dataclasses.dataclass(frozen=True)
class Looked:
    """The findings, errors first, and the numbers of nodes and rules that were checked.

    Both numbers are 0 if an error kept the rules from being checked.
    """

    findings: tuple[LintFinding, ...]
    nodes: int = 0
    rules: int = 0

    @property
    def errors(self) -> int:
        """The number of findings that are errors."""
        return sum(one.severity == ERROR for one in self.findings)

    @property
    def warnings(self) -> int:
        """The number of findings that are not errors."""
        return len(self.findings) - self.errors

    def document(self, strict: bool) -> dict[str, t.Any]:
        """Return the findings as a dict for programs.

        The keys are good, errors and warnings_found (numbers), and findings (a list of dicts with the fields of
        LintFinding). `good` is False if there is an error, and with `strict` also if there is a warning.
        """
        return {
            "good": not (self.findings if strict else self.errors),
            "errors": self.errors,
            "warnings_found": self.warnings,
            "findings": [dataclasses.asdict(one) for one in self.findings],
        }


def look(task_vars: t.Mapping[str, t.Any]) -> Looked:
    """Return the errors of an invalid inventory, or else what the rules find, without those of calico_lint_ignore.

    Of an invalid inventory there are at most 20 errors, none after one about a file or the plan, and none that may
    follow from an earlier one; and the findings of the rules in WRITTEN, unless the variables of the hosts or a file
    of policy cannot be read. A FleetError becomes a finding; none is raised. Warnings on the screen are those of
    `inventory_source.hosts`.
    """
    hosts: t.Sequence[Host] = ()
    try:
        hosts = inventory_source.hosts(task_vars)
        with uncollected():
            documents = policy_files.documents(fleet_variable(hosts, policy_files.VARIABLE), task_vars)
            inventory, refused = refusals.read(hosts, documents)
            written = written_source.read(task_vars, hosts)
            if inventory is None:
                found = [*map(refusals.finding, refused), *rules.written_findings(written, _ignored(hosts))]
                return Looked(tuple(map(_shortened, sorted(found, key=lambda one: one.severity != ERROR))))
            ignored = rules.named(fleet_variable(hosts, rules.IGNORE))
            path = lockfile_store.path_for(fleet_variable(hosts, "calico_lockfile"), task_vars)
            network = _network(task_vars, hosts, Fleet.build(inventory, lockfile_store.read(path)), written)
            found = rules.findings(network, ignored)
            return Looked(tuple(map(_shortened, found)), len(network.fleet.nodes), len(rules.RULES) - len(ignored))
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        return Looked((_shortened(refusals.finding(error)),))


def _ignored(hosts: t.Sequence[Host]) -> frozenset[str]:
    """Return the rules in calico_lint_ignore; none if it is not valid."""
    try:
        return rules.named(fleet_variable(hosts, rules.IGNORE))
    except FleetError:
        return frozenset()


def _shortened(finding: LintFinding) -> LintFinding:
    """Return the finding with its file relative to the current folder, if it lies below that."""
    return dataclasses.replace(finding, origin=shown_path(finding.origin)) if finding.origin else finding


def _network(
    task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[Host], fleet: Fleet, written: WrittenInventory
) -> LintedFleet:
    """Return what the rules examine. Raise FleetError if an ansible_host or a variable of `outside` cannot be read."""
    ways: dict[str, str] = {}
    links: dict[str, t.Optional[UnderlayLink]] = {}
    links6: dict[str, t.Optional[UnderlayLink]] = {}
    for name, node in fleet.nodes.items():
        known = task_vars["hostvars"][name]
        way = inventory_source.evaluated(known, name, "ansible_host") if "ansible_host" in known else None
        if way:
            ways[name] = str(way)
        facts = known.get("ansible_facts") or {}
        # Facts come from the node. If they do not have the form that the module setup returns, they are ignored.
        with contextlib.suppress(AttributeError, LookupError, OverflowError, TypeError, ValueError):
            if facts.get("interfaces"):
                if node.address:
                    links[name] = _link(facts, node.address)
                if node.address6:
                    links6[name] = _link6(facts, node.address6)
    return LintedFleet(fleet, hosts, tuple(inventory_source.outside(task_vars)), ways, links, links6, written)


def _link(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[UnderlayLink]:
    """Return the device with that IPv4 address by the facts of the module setup, or None.

    Malformed facts raise any error.
    """
    for name, device in _devices(facts):
        more = device.get("ipv4_secondaries") or ()
        for held in (device.get("ipv4") or {}, *more):
            if held.get("address") == address:
                alone = held in more and held.get("netmask") == "255.255.255.255"
                return UnderlayLink(name, _mtu(device), alone)
    return None


def _link6(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[UnderlayLink]:
    """Return the device with that IPv6 address by the facts of the module setup, or None.

    Malformed facts raise any error. Facts list all IPv6 addresses of a device alike. A prefix length of 128 is not
    examined, because DHCP assigns it often.
    """
    for name, device in _devices(facts):
        if any(held.get("address") == address for held in device.get("ipv6") or ()):
            return UnderlayLink(name, _mtu(device))
    return None


def _devices(facts: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    for name in map(str, facts["interfaces"]):
        yield name, facts.get(name.replace("-", "_")) or {}


def _mtu(device: t.Mapping[str, t.Any]) -> int:
    """Return the device's MTU in bytes, or 65535 if it is not known, which no rule warns about.

    Malformed facts raise any error.
    """
    return int(device.get("mtu") or 0) or 65535
