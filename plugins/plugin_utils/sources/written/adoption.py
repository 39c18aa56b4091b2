# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources that move out of variables into files: the files of variables without them, and the proof that it is safe.

A resource is moved only if every node has the same state afterwards, before the change that was asked for is made.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.errors import CommandError
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.change_plan import (
    PlannedChange,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.changed_texts import (
    changed_texts,
    new_file,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.variable_texts import (
    WHOLE,
    CannotRemove,
    VariableEntry,
    paths_of,
    without_entries,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler, variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import Merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from ...actions import controller_variables
from ...etcd import cluster_members
from ...lines.shown_path import shown_path
from .. import fleet_documents, lockfile_store
from . import written_source, yaml_file
from .value_origin import value_origin

_LIMIT = 10 << 20  # bytes of a file of variables
#: The fields of a probe endpoint that say which addresses it has, and which are the first of an IP version.
_OF_PROBES = ("address", "address6", "further", "pool", "pool6")
_BY_HAND = "Write it into a file of calico_resource_files by hand, and remove it there."


class _NotOurs(Exception):
    """The error for a file that is not edited; the message says why."""


class Adoption(t.NamedTuple):
    """The hosts without the entries that move, and the files of variables before and after."""

    hosts: t.Sequence[Host]
    contents: dict[str, bytes]
    before: dict[str, str]
    after: dict[str, str]


def adoption(changes: t.Iterable[PlannedChange], hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]) -> Adoption:
    """Return what becomes of the files of variables. Raise CommandError for an entry that cannot be moved.

    `hosts` are those of the inventory without documents.
    """
    moving: dict[str, list[tuple[PlannedChange, VariableEntry]]] = {}
    for change in changes:
        for entry in change.entries:
            moving.setdefault(entry.file, []).append((change, entry))
    found = Adoption(hosts, {}, {}, {})
    for path, pairs in moving.items():
        change, entry = pairs[0]
        try:
            _check_file(path, str(task_vars["inventory_dir"]))
            found.contents[path] = bounded.read(path, _LIMIT)
            found.before[path] = found.contents[path].decode()
            found.after[path] = without_entries(
                found.before[path], [one for dummy, one in pairs], path.endswith(".json")
            )
        except CannotRemove as error:
            change = next(change for change, one in pairs if one == error.entry)
            raise _refusal(change, error.entry, str(error)) from error
        except (_NotOurs, bounded.TooLarge) as error:
            raise _refusal(change, entry, str(error)) from error
        except UnicodeDecodeError as error:
            raise _refusal(change, entry, f"the file is not UTF-8 at byte {error.start}") from error
    if moving:
        _check_not_used({entry.variable for pairs in moving.values() for dummy, entry in pairs}, task_vars)
        entries = [entry for pairs in moving.values() for dummy, entry in pairs]
        for change, entry in (pair for pairs in moving.values() for pair in pairs):
            hidden = _hidden(entry, found.after, hosts, task_vars) if entry.position == WHOLE else ""
            if hidden:
                raise _refusal(change, entry, f"{shown_path(hidden)} has it, too, and would count then")
        return found._replace(hosts=_without(hosts, entries))
    return found


def check_same_network(
    changes: t.Iterable[PlannedChange],
    folder: str,
    moved: Adoption,
    hosts: t.Sequence[Host],
    task_vars: t.Mapping[str, t.Any],
) -> None:
    """Raise CommandError unless each node has the same state with the resources in files, as they are in force.

    `hosts` are those of the inventory before anything moves. New files go to `folder`.
    """
    adopted = [one._replace(document=one.as_is) for one in changes if one.entries and one.is_written]
    if not adopted:
        return
    texts = {path: _text(path) for path in (one.file or new_file(folder, one.key) for one in adopted)}
    merged = fleet_documents.readable(moved.hosts, task_vars, changed_texts(adopted, texts, folder))
    names = ", ".join(str(one.key) for one in adopted)
    try:
        if merged.errors:
            raise merged.errors[0]
        differing = _differing(fleet_documents.of_hosts(hosts, task_vars), merged, task_vars)
    except FleetError as error:
        raise CommandError(f"{names} cannot be moved into files: {error}") from error
    if differing:
        raise CommandError(
            f"{names} cannot be moved into files: {', '.join(differing[:3])} would change by the move alone. {_BY_HAND}"
        )


def _differing(before: Merged, after: Merged, task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the nodes whose states differ in two networks.

    The order of pools and peers is no difference: documents come after the entries of variables. It must be the only
    one. So the states are the same if both networks have one order, and without one they have the same parts.
    """
    one, other = (_planned(merged, task_vars, False) for merged in (before, after))
    differing = [name for name in one.nodes if not _same(one, other, name, lambda state: state.digest)]
    if not differing:
        return []
    ordered = [_planned(merged, task_vars, True) for merged in (before, after)]
    return [
        name
        for name in differing
        if not (_same(one, other, name, _parts) and _same(ordered[0], ordered[1], name, lambda state: state.digest))
    ]


def _planned(merged: Merged, task_vars: t.Mapping[str, t.Any], ordered: bool) -> Fleet:
    """Return the fleet of hosts and documents, on request with pools and peers in the order of their names."""
    path = lockfile_store.path_for(variables.of_fleet(merged.hosts, "calico_lockfile"), task_vars)
    found = inventory.read(merged.hosts, merged.policies, cluster_members.host_addresses(task_vars))
    if ordered:
        peers = tuple(sorted(found.bgp.peers, key=lambda given: given.peer.name))
        pools = tuple(sorted(found.pools, key=lambda pool: pool.name))
        found = dataclasses.replace(found, pools=pools, bgp=dataclasses.replace(found.bgp, peers=peers))
    return Fleet.build(found, lockfile_store.read(path))


def _same(one: Fleet, other: Fleet, name: str, aspect: t.Callable[[NodeState], str]) -> bool:
    return aspect(compiler.node_state(one, name)) == aspect(compiler.node_state(other, name))


def _parts(state: NodeState) -> str:
    """Return a text that is the same for states that differ in the order of lists alone.

    Which of its addresses a probe endpoint has first is such an order.
    """
    plain = dataclasses.replace(state, plan="", nodes=(), bird_routes=()).to_dict()
    plain["ipam"] = {**plain["ipam"], "generation": 0}
    if state.probe_endpoint is not None:
        rest = {key: value for key, value in plain["probe_endpoint"].items() if key not in _OF_PROBES}
        plain["probe_endpoint"] = [rest, state.probe_endpoint.addresses]
    return _unordered(plain)


def _unordered(value: t.Any) -> str:
    if isinstance(value, t.Mapping):
        return "{" + ",".join(sorted(f"{json.dumps(key)}:{_unordered(inner)}" for key, inner in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(sorted(map(_unordered, value))) + "]"
    return json.dumps(value)


def _text(path: str) -> t.Optional[str]:
    try:
        return bounded.read(path, _LIMIT).decode()
    except FileNotFoundError:
        return None


def _refusal(change: PlannedChange, entry: VariableEntry, why: str) -> CommandError:
    where = f"{shown_path(entry.file)}:{entry.line}" if entry.line else shown_path(entry.file)
    name = entry.variable if entry.position == WHOLE else f"{entry.variable}[{entry.position}]"
    return CommandError(f"{where}: {change.key} is not moved out of {name}: {why}. {_BY_HAND}")


def _check_file(path: str, folder: str) -> None:
    """Raise _NotOurs if a file is not the inventory's own, or is encrypted."""
    inside = os.path.realpath(folder)
    if os.path.commonpath([inside, os.path.realpath(path)]) != inside:
        raise _NotOurs(f"the file lies outside of the inventory's folder {shown_path(folder)}")
    if yaml_file.is_encrypted(path):
        raise _NotOurs("the file is encrypted by ansible-vault")


def _hidden(
    entry: VariableEntry, after: t.Mapping[str, str], hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]
) -> str:
    """Return another file that has a variable for one of the hosts that have it from here, "" if there is none."""
    having = [host for host in hosts if _is_from(entry, host.origins.get(entry.variable, ""))]
    owners = {"all", *(name for host in having for name in (host.name, *host.groups))}
    for owner, path in written_source.owned_files(task_vars):
        text = after.get(path)
        if text is None:
            try:
                text = bounded.read(path, _LIMIT).decode()
            except (OSError, ValueError, bounded.TooLarge):
                continue  # Ansible has read what it can: the check of the next run refuses two places.
        for found in paths_of(text, entry.variable, path.endswith(".json")):
            if owner in owners and len(found) == 1:
                return path
            if not owner and len(found) > 2 and found[-3 if found[-2] == "vars" else -2] in owners:
                return path
    return ""


def _check_not_used(names: t.Collection[str], task_vars: t.Mapping[str, t.Any]) -> None:
    """Raise CommandError if a template in a variable of a host uses one of the variables."""
    pattern = re.compile(rf"\b({'|'.join(sorted(map(re.escape, names)))})\b")
    variables_of = controller_variables.raw(task_vars["hostvars"])
    seen: dict[int, t.Any] = {}
    for host in sorted(task_vars.get("groups", {}).get("all", ())):
        own = variables_of(host)
        for key in own:
            value = own[key]
            if seen.get(id(value)) is value:
                continue
            seen[id(value)] = value
            if key == "ansible_facts":
                continue
            found = next(filter(None, map(pattern.search, _templates(value))), None)
            if found is not None:
                where = value_origin(value) or value_origin(key)
                place = f"{key} ({shown_path(where)})" if where else str(key)
                raise CommandError(
                    f"{found.group()} is not changed: the template of {place} uses it. Change that first, so that it "
                    "does not depend on the list."
                )


def _templates(value: t.Any) -> t.Iterator[str]:
    """Yield the texts in a value that may be templates."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, (t.Mapping, list, tuple)):
            if id(one) in seen:
                continue
            seen.add(id(one))
        if isinstance(one, str):
            if "{{" in one or "{%" in one:
                yield one
        elif isinstance(one, t.Mapping):
            waiting.extend([*one.keys(), *one.values()])
        elif isinstance(one, (list, tuple)):
            waiting.extend(one)


def _without(hosts: t.Sequence[Host], entries: t.Sequence[VariableEntry]) -> list[Host]:
    """Return the hosts without entries of lists and without variables. A list that hosts share is shared again."""
    by_variable: dict[str, dict[int, VariableEntry]] = {}
    for entry in entries:
        by_variable.setdefault(entry.variable, {})[entry.position] = entry
    made: dict[tuple[str, int], tuple[list[t.Any], dict[str, str]]] = {}
    found = []
    for host in hosts:
        own, origins = dict(host.variables), []
        for variable, going in by_variable.items():
            before = host.variables.get(variable)
            if WHOLE in going:
                if variable in own and _is_from(going[WHOLE], host.origins.get(variable, "")):
                    del own[variable]
                continue
            if not isinstance(before, (list, tuple)):
                continue
            key = variable, id(before)
            if key not in made:
                made[key] = _shortened(variable, host, before, going)
            own[variable] = made[key][0]
            origins.append(made[key][1])
        found.append(
            dataclasses.replace(host, variables=own, origins=collections.ChainMap(*origins, dict(host.origins)))
        )
    return found


def _shortened(
    variable: str, host: Host, before: t.Sequence[t.Any], going: t.Mapping[int, VariableEntry]
) -> tuple[list[t.Any], dict[str, str]]:
    """Return a host's list without the entries in `going` that it has from there, and the places of what is left."""
    stays = [
        index
        for index, value in enumerate(before)
        if index not in going or not _is_from(going[index], host.origins.get(f"{variable}[{index}]", ""))
    ]
    origins: dict[str, str] = {}
    for new, old in enumerate(stays):
        if new != old:
            prefix = f"{variable}[{old}]"
            for path, place in host.origins.items():
                if path.startswith(prefix):
                    origins[f"{variable}[{new}]{path[len(prefix) :]}"] = place
    return [before[index] for index in stays], origins


def _is_from(entry: VariableEntry, place: str) -> bool:
    return place in (entry.file, f"{entry.file}:{entry.line}")
