# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's inventory, converted to the plain hosts that the engine reads.

A variable of a group is one object in the variables of all its hosts. It is read once, unless Ansible evaluates it. A
list such as calico_workloads has entries for each host, so the cost of reading it for every host would grow
quadratically with the hosts.
"""

from __future__ import annotations

import collections
import json
import typing as t
from collections import abc

from ansible.errors import AnsibleTemplateError, AnsibleUndefinedVariable
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import (
    BeyondLimits,
    check_value,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, shown

from ..actions import controller_variables
from ..lines import shown_lines
from . import given_inventory
from .written.value_origin import value_origin

NODES_GROUP, REFLECTORS_GROUP = "calico_nodes", "calico_rr"
_PORTS = ("ansible_port", "ansible_ssh_port")
_UNDEFINED_REMEDY = (
    "Define what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for ansible_default_ipv4."
)
_TEMPLATE_REMEDY = (
    "Correct the template. The filters, tests and lookups of a collection have full names, such as "
    "ansible.utils.ipaddr, and the collection is installed on the controller."
)
_NOT_DECRYPTED = "is encrypted by ansible-vault, and no password that fits is known."
_VAULT_REMEDY = "Name the file that has it: --vault-password-file FILE."
_FACTS_REMEDY = (
    "Set variables in the inventory; if no module, local fact or set_fact of yours is behind it, look into who is root "
    "on this host."
)


def hosts(task_vars: t.Mapping[str, t.Any], refused: t.Optional[list[FleetError]] = None) -> list[Host]:
    """Return all hosts of calico_nodes and calico_rr, sorted by name, whatever --limit says.

    Blocks are planned for all hosts or for none. Raise FleetError if Ansible could not read a part of the inventory, as
    hosts may be missing then, or if a variable is a template that cannot be evaluated, is too large, or has a key that
    is neither text nor a number. If `refused` is a list, errors of variables are appended to it, once for a variable
    that hosts share, and the hosts lack these variables. Warn on the screen about facts with the name, but not the
    value, of a fleet variable.
    """
    given_inventory.check_parsed(task_vars)
    groups = _groups(task_vars)
    nodes, reflectors = groups.get(NODES_GROUP, set()), groups.get(REFLECTORS_GROUP, set())
    values = _Values(task_vars["hostvars"], refused)
    return [_host(name, values, groups, nodes, reflectors) for name in sorted(nodes | reflectors)]


def outside(task_vars: t.Mapping[str, t.Any], refused: t.Optional[list[FleetError]] = None) -> t.Iterator[Host]:
    """Yield the hosts of the inventory that are in neither group, but have variables of a node.

    Errors and warnings on the screen are those of `hosts`.
    """
    groups = _groups(task_vars)
    values = _Values(task_vars["hostvars"], refused)
    for name in sorted(groups.get("all", set()) - members(task_vars)):
        host = _host(name, values, groups, set(), set())
        if any(variables.BY_NAME[key].scope == variables.NODE for key in host.variables if key in variables.BY_NAME):
            yield host


def members(task_vars: t.Mapping[str, t.Any]) -> set[t.Any]:
    """Return the names of the hosts of calico_nodes and calico_rr, whatever --limit says."""
    groups = _groups(task_vars)
    return groups.get(NODES_GROUP, set()) | groups.get(REFLECTORS_GROUP, set())


def _groups(task_vars: t.Mapping[str, t.Any]) -> dict[str, set[t.Any]]:
    return {str(group): set(members) for group, members in task_vars.get("groups", {}).items()}


class _Value(t.NamedTuple):
    """A variable's plain value, and the known origins of it and values in it, by path (`calico_ip_pools[0].cidr`)."""

    plain: t.Any
    origins: dict[str, str]


class _Values:
    """The variables of hosts. An object that several hosts share is converted once, unless Ansible evaluates it."""

    def __init__(self, hostvars: t.Any, refused: t.Optional[list[FleetError]] = None) -> None:
        self._refused = refused
        self._refused_keys: set[tuple[str, int]] = set()
        self._hostvars = hostvars
        self._raw = controller_variables.raw(hostvars)
        self._known: dict[tuple[str, int], t.Optional[_Value]] = {}
        self._held: list[t.Any] = []  # keeps the objects alive, so that no other object gets their id

    def of(self, host: t.Any) -> dict[str, _Value]:
        """Return a host's variables that `is_of_fleet` accepts, and those of _PORTS, by name.

        Warn on the screen about facts with the name, but not the value, of a fleet variable.
        """
        raw = self._raw(host)
        ignored = controller_variables.facts_of_fleet(raw)
        if ignored:
            names = ", ".join(ignored[:5])
            shown_lines.warn(f"host {host}: {names} is a fact, no variable, and is left out. {_FACTS_REMEDY}")
        source = raw.get("inventory_file")
        names_of_fleet = [key for key in raw if key in _PORTS or controller_variables.is_of_fleet(str(key))]
        found = {str(key): self._value_or_refused(host, str(key), raw[key], source) for key in names_of_fleet}
        for key in names_of_fleet:
            value = found[str(key)]
            # None, True and False have no place of their own: that of their key is taken.
            if value is not None and (raw[key] is None or isinstance(raw[key], bool)):
                value.origins.setdefault(str(key), value_origin(key, source))
        return {name: value for name, value in found.items() if value is not None}

    def _value_or_refused(self, host: t.Any, name: str, raw: t.Any, source: t.Any) -> t.Optional[_Value]:
        """Return the value, or None if the list of refused variables has its error now."""
        try:
            return self._value(host, name, raw, source)
        except FleetError as error:
            if self._refused is None:
                raise
            if (name, id(raw)) not in self._refused_keys:
                self._held.append(raw)
                self._refused_keys.add((name, id(raw)))
                self._refused.append(error)
            return None

    def _value(self, host: t.Any, name: str, raw: t.Any, source: t.Any) -> _Value:
        key = name, id(raw)
        if key not in self._known:
            self._held.append(raw)
            _check_bounds(name, raw)
            self._known[key] = _value(host, name, raw, source) if is_constant(raw) else None
        try:
            return self._known[key] or _value(host, name, evaluated(self._hostvars[host], host, name), source)
        except FleetError as error:
            error.origin = error.origin or value_origin(raw, source)
            raise


def evaluated(own: t.Mapping[str, t.Any], host: t.Any, name: str) -> t.Any:
    """Return the value of a variable of `host` as Ansible evaluates it. `own` are the hostvars of that host.

    Raise FleetError if a template cannot be evaluated or decrypted or the value is too large, KeyError without one.
    """
    try:
        value = own[name]
    except AnsibleTemplateError as error:
        if "undecryptable" in str(error):
            raise FleetError(f"{name} of {host}", None, _NOT_DECRYPTED, _VAULT_REMEDY) from error
        raise FleetError(
            f"{name} of {host}",
            None,
            f"is a template that cannot be evaluated{_reason(name, error)}.",
            _UNDEFINED_REMEDY if isinstance(error, AnsibleUndefinedVariable) else _TEMPLATE_REMEDY,
        ) from error
    _check_bounds(name, value)
    return value


def _reason(name: str, error: AnsibleTemplateError) -> str:
    """Return a colon and why a template fails, "" for a secret: a filter's message may repeat what it was given."""
    variable = variables.BY_NAME.get(name)
    return "" if variable is not None and variable.secret else f": {error.message.rstrip('.')}"


def _value(host: t.Any, name: str, value: t.Any, source: t.Any) -> _Value:
    origins: dict[str, str] = {}
    _origins(name, value, source, origins)
    return _Value(plain_variable(value, host, name), origins)


def _check_bounds(name: str, value: t.Any) -> None:
    """Raise FleetError if the value is too large to be read."""
    try:
        check_value(value)
    except BeyondLimits as error:
        raise FleetError(name, None, error.rule, error.remedy) from error


def is_constant(value: t.Any) -> bool:
    """Return whether Ansible surely uses the value as it is written: only JSON's types, no template, not encrypted."""
    if isinstance(value, str):
        return "{" not in value or not any(begin in value for begin in ("{{", "{%", "{#"))
    if isinstance(value, abc.Mapping):
        return all(is_constant(key) and is_constant(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(is_constant, value))
    return value is None or isinstance(value, (bool, int, float))


def _host(
    name: t.Any,
    values: _Values,
    groups: t.Mapping[str, t.Collection[t.Any]],
    nodes: t.Collection[t.Any],
    reflectors: t.Collection[t.Any],
) -> Host:
    found = values.of(name)
    port = _port([found.pop(key).plain for key in _PORTS if key in found])
    return Host(
        str(name),
        {key: value.plain for key, value in found.items()},
        workload_node=name in nodes,
        reflector=name in reflectors,
        origins=collections.ChainMap(*(value.origins for value in found.values())),
        ssh_port=port,
        groups=tuple(sorted(group for group, members in groups.items() if name in members)),
    )


def _port(values: t.Iterable[t.Any]) -> t.Optional[int]:
    """Return the first of `values` that is a port, from 1 to 65535; None if none is."""
    texts = map(str, values)
    return next((int(text) for text in texts if text.isdecimal() and 1 <= int(text) <= 65535), None)


def plain(value: t.Any) -> t.Any:
    """Return a copy of the value in JSON's types, without Ansible's tags and lazy containers.

    Tuples become lists. Keys, and values of other types, such as dates, become texts. Raise TypeError for a key of
    another type than text, number, boolean or None, and ValueError for a value that contains itself.
    """
    return json.loads(json.dumps(value, default=str))


def plain_variable(value: t.Any, host: t.Any, name: str) -> t.Any:
    """Return `plain` of the value of a variable of `host`. Raise FleetError for a key that `plain` refuses."""
    try:
        return plain(value)
    except TypeError as error:
        found = _refused_key(name, value)
        if found is None:
            raise
        path, key = found
        raise FleetError(
            f"{path} of {host}",
            None,
            f"has the key {shown(str(key))}, which is neither text nor a number.",
            "Write the key in quotes.",
        ) from error


def _refused_key(path: str, value: t.Any) -> t.Optional[tuple[str, t.Any]]:
    """Return (path of its mapping, key) for a key in `value` that JSON does not know; None if there is none."""
    below: t.Iterable[tuple[str, t.Any]] = ()
    if isinstance(value, t.Mapping):
        for key in value:
            if not (key is None or isinstance(key, (str, int, float))):
                return path, key
        below = ((f"{path}.{key}", item) for key, item in value.items())
    elif isinstance(value, (list, tuple)):
        below = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    return next(filter(None, (_refused_key(*entry) for entry in below)), None)


def _origins(path: str, value: t.Any, source: t.Any, found: dict[str, str]) -> None:
    """Add the known origins of `value` and values in it to `found`, by path; `source` is for `value_origin`."""
    place = value_origin(value, source)
    if place:
        found[path] = place
    if isinstance(value, abc.Mapping):
        for key in value:
            _origins(f"{path}.{key}", value[key], source, found)
            if value[key] is None or isinstance(value[key], bool):  # these have no tags: their key has
                found.setdefault(f"{path}.{key}", value_origin(key, source))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _origins(f"{path}[{index}]", item, source, found)
