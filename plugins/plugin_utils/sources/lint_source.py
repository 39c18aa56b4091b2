# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole inventory as the rules of `validate` see it. No host is contacted: only cached facts are used."""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.live_source import without_live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.garbage import uncollected
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import (
    Host,
    locate,
    origin,
    with_resources,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import Merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.inventory import Inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_settings import LIVE_POLICY
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals, rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.finding import (
    ERROR,
    LintFinding,
    bounded,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import LintedFleet, UnderlayLink
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.written_inventory import (
    WrittenInventory,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..datastore import access
from ..lines.shown_path import shown_path
from . import fleet_documents, inventory_source, lockfile_store
from .resource_files import NOTHING, Instead
from .written import written_source


@dataclasses.dataclass(frozen=True)
class Looked:
    """The findings, errors first, and the numbers of nodes and rules that were checked.

    Both numbers are 0 if errors kept the rules from being checked. `waiting` is the number of rules that are checked
    only when nothing is refused. `complete` is False if the search for errors ended before its end. `notes` say what
    was not looked at.
    """

    findings: tuple[LintFinding, ...]
    nodes: int = 0
    rules: int = 0
    waiting: int = 0
    complete: bool = True
    notes: tuple[str, ...] = ()

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

        The keys are good, errors and warnings_found (numbers), findings (a list of dicts with the fields of
        LintFinding, at most MOST_OF_A_KIND of a kind), left_out (a list of dicts with the fields of FindingKind and a
        count) and notes (a list of texts). `good` is False if there is an error, and with `strict` also if there is a
        warning.
        """
        shown, more = bounded(self.findings)
        return {
            "good": not (self.findings if strict else self.errors),
            "errors": self.errors,
            "warnings_found": self.warnings,
            "findings": [dataclasses.asdict(one) for one in shown],
            "left_out": [{**kind._asdict(), "count": count} for kind, count in more.items()],
            "notes": list(self.notes),
        }


def lint(
    task_vars: t.Mapping[str, t.Any], instead: Instead = NOTHING, valid: t.Optional[t.Sequence[Host]] = None
) -> Looked:
    """Return the errors of an invalid inventory, and what the rules find in the rest, without calico_lint_ignore's.

    Errors and findings that may follow from an earlier error are left out, and so are the rules OF_THE_WHOLE then. The
    rules in WRITTEN are applied in any case, unless the variables of the hosts cannot be read. A FleetError becomes a
    finding; none is raised. Warnings on the screen are those of `inventory_source.hosts`.

    `instead` are texts that are read in the place of files of resources. `valid` are the hosts, without documents, if
    the caller has read them without an error.
    """
    try:
        hosts, refused = _hosts(task_vars) if valid is None else (valid, [])
    except FleetError as error:
        return Looked((_shortened(refusals.finding(error)),))
    documents = fleet_documents.readable(hosts, task_vars, instead)
    written = dataclasses.replace(written_source.read(task_vars, hosts), without_effect=documents.without_effect)
    looked = _judged(task_vars, documents.hosts, _read(documents, refused, task_vars), written)
    return dataclasses.replace(looked, notes=tuple(_notes(documents.hosts)))


def _notes(hosts: t.Sequence[Host]) -> t.Iterator[str]:
    """Yield a note in a fleet with live policy: the inventory does not have all of its policy."""
    with contextlib.suppress(FleetError):
        if variables.of_fleet(hosts, LIVE_POLICY):
            yield without_live_documents("validate reads the inventory alone")


def refused(task_vars: t.Mapping[str, t.Any]) -> list[LintFinding]:
    """Return the errors for which a run refuses the inventory, as `look` finds them without reading the lockfile."""
    try:
        hosts, found = _hosts(task_vars)
    except FleetError as error:
        return [_shortened(refusals.finding(error))]
    with uncollected():
        documents = fleet_documents.readable(hosts, task_vars)
        read = _read(documents, found, task_vars)
    return [_finding(error, documents.hosts) for error in read.errors]


def _hosts(task_vars: t.Mapping[str, t.Any]) -> tuple[t.Sequence[Host], list[FleetError]]:
    """Return the hosts, and the errors in their variables. Raise FleetError if these cannot be read at all."""
    errors: list[FleetError] = []
    return inventory_source.hosts(task_vars, errors), errors


def _read(
    documents: Merged, refused: t.Sequence[FleetError], task_vars: t.Mapping[str, t.Any]
) -> refusals.RefusalSearch:
    """Return what can be read of the hosts with their documents. `refused` are the errors in hosts' variables."""
    known = (*refused, *documents.errors, *_of_live_policy(documents.hosts, task_vars))
    return refusals.read(documents.hosts, documents.policies, known)


def _of_live_policy(hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]) -> t.Iterator[FleetError]:
    """Yield the error of live policy that only the inventory's groups show; others are left to `refusals.read`."""
    try:
        access.check_live_policy(hosts, task_vars)
    except FleetError as error:
        if error.variable == LIVE_POLICY:
            error.origin = error.origin or origin(error.variable, hosts)
            yield error


def _finding(error: FleetError, hosts: t.Sequence[Host]) -> LintFinding:
    """Return the error as a finding that names the resources of documents."""
    locate(error, hosts)
    return _shortened(refusals.finding(error))


def _with_resources(found: LintFinding, hosts: t.Sequence[Host]) -> LintFinding:
    """Return the finding with the names of resources for the variables whose values are those of documents."""
    subject, rest = FleetError(found.variable, None, "", "", found.origin), found.what
    if rest.startswith(found.variable):
        locate(subject, hosts)
        rest = rest[len(found.variable) :]
        what = f"{subject.variable}{with_resources(rest, hosts)}"
    else:
        what = with_resources(rest, hosts)
    return _shortened(dataclasses.replace(found, what=what, remedy=with_resources(found.remedy, hosts)))


def _variable(hosts: t.Sequence[Host], name: str, refused: list[FleetError]) -> t.Any:
    """Return the value of a fleet variable, or None and append the error to `refused` if it is invalid."""
    try:
        return variables.of_fleet(hosts, name)
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        refused.append(error)
        return None


def _judged(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[Host],
    read: refusals.RefusalSearch,
    written: WrittenInventory,
) -> Looked:
    """Return the errors of `read`, those of the lockfile, and what the rules find in what is left of the inventory."""
    errors = list(read.errors)
    ignored: frozenset[str] = frozenset()
    try:
        ignored = rules.named(_variable(hosts, rules.IGNORE, errors))
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        errors.append(error)
    network = None if read.inventory is None else _planned(task_vars, hosts, read, read.inventory, written, errors)
    told = [_finding(error, hosts) for error in errors]
    if network is None:
        everything = sorted([*told, *rules.written_findings(written, ignored)], key=lambda one: one.severity != ERROR)
        return Looked(tuple(_with_resources(one, hosts) for one in everything), complete=read.complete)
    waiting = rules.OF_THE_WHOLE - ignored if read.errors else frozenset()
    asked_now = rules.findings(network, ignored | waiting)
    found = list(filter(None, (one if one.rule in rules.OF_TEXT else read.as_written(one) for one in asked_now)))
    asked = len(rules.RULES) - len(ignored) - len(waiting)
    everything = sorted([*told, *found], key=lambda one: one.severity != ERROR)
    shown = tuple(_with_resources(one, hosts) for one in everything)
    return Looked(shown, len(network.fleet.nodes), asked, len(waiting))


def _planned(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[Host],
    read: refusals.RefusalSearch,
    inventory: Inventory,
    written: WrittenInventory,
    errors: list[FleetError],
) -> t.Optional[LintedFleet]:
    """Return what the rules examine, or None if it cannot be planned; append errors to `errors`.

    A plan that fails after other errors may fail because of them: its error is left out. If it fails with the lockfile,
    the rules examine the plan of a new fleet.
    """
    previous = None
    try:
        path = lockfile_store.path_for(variables.of_fleet(hosts, "calico_lockfile"), task_vars)
        previous = lockfile_store.read(path)
    except FleetError as error:
        error.origin = error.origin or origin(error.variable, hosts)
        if error.variable not in {one.variable for one in errors}:
            errors.append(error)
    for plan in (previous, None):
        try:
            return _network(task_vars, read.hosts, Fleet.build(inventory, plan), written, errors)
        except FleetError as error:
            error.origin = error.origin or origin(error.variable, hosts)
            if not read.errors and error.variable not in {one.variable for one in errors}:
                errors.append(error)
    return None


def of_role(error: FleetError) -> LintFinding:
    """Return the error of a role's variable as a finding of the rule that `validate` has for it."""
    return _shortened(dataclasses.replace(refusals.finding(error), rule="role-variable"))


def _shortened(finding: LintFinding) -> LintFinding:
    """Return the finding with its file relative to the current folder, if it lies below that."""
    return dataclasses.replace(finding, origin=shown_path(finding.origin)) if finding.origin else finding


def _network(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[Host],
    fleet: Fleet,
    written: WrittenInventory,
    errors: list[FleetError],
) -> LintedFleet:
    """Return what the rules examine; append an error for each ansible_host or variable of `outside` that is refused."""
    ways: dict[str, str] = {}
    links: dict[str, t.Optional[UnderlayLink]] = {}
    links6: dict[str, t.Optional[UnderlayLink]] = {}
    for name, node in fleet.nodes.items():
        known = task_vars["hostvars"][name]
        try:
            way = inventory_source.evaluated(known, name, "ansible_host") if "ansible_host" in known else None
            if way:
                ways[name] = str(way)
        except FleetError as error:
            errors.append(error)
        facts = known.get("ansible_facts") or {}
        # Facts come from the node. If they do not have the form that the module setup returns, they are ignored.
        with contextlib.suppress(AttributeError, LookupError, OverflowError, TypeError, ValueError):
            if facts.get("interfaces"):
                if node.address:
                    links[name] = _link(facts, node.address)
                if node.address6:
                    links6[name] = _link6(facts, node.address6)
    outside = tuple(inventory_source.outside(task_vars, errors))
    return LintedFleet(fleet, hosts, outside, ways, links, links6, written)


def _link(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[UnderlayLink]:
    """Return the device with that IPv4 address by the facts of setup, or None. Malformed facts raise any error."""
    for name, device in _devices(facts):
        more = device.get("ipv4_secondaries") or ()
        for held in (device.get("ipv4") or {}, *more):
            if held.get("address") == address:
                alone = held in more and held.get("netmask") == "255.255.255.255"
                return UnderlayLink(name, _mtu(device), alone)
    return None


def _link6(facts: t.Mapping[str, t.Any], address: str) -> t.Optional[UnderlayLink]:
    """Return the device with that IPv6 address by the facts of the module setup, or None.

    Malformed facts raise any error. A prefix length of 128 is not examined, because DHCP assigns it often.
    """
    for name, device in _devices(facts):
        if any(held.get("address") == address for held in device.get("ipv6") or ()):
            return UnderlayLink(name, _mtu(device))
    return None


def _devices(facts: t.Mapping[str, t.Any]) -> t.Iterator[tuple[str, t.Mapping[str, t.Any]]]:
    for name in map(str, facts["interfaces"]):
        yield name, facts.get(name.replace("-", "_")) or {}


def _mtu(device: t.Mapping[str, t.Any]) -> int:
    """Return the device's MTU in bytes, or 65535 if it is not known, which no rule warns about."""
    return int(device.get("mtu") or 0) or 65535
