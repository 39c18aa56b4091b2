# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables of the roles, checked against meta/argument_specs.yml, as Ansible itself checks a role's arguments."""

from __future__ import annotations

import difflib
import functools
import pathlib
import typing as t

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.flat_resource import values_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import listed
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, did_you_mean

from .. import inventory_source
from .value_origin import value_origin

_ROLES = pathlib.Path(__file__).resolve().parents[4] / "roles"
#: The least similarity of a name to a known one that is probably meant, as in `variables.misspelt`.
_SIMILAR = 0.9
_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "bool": "true or false",
    "list": "a list",
    "dict": "a dictionary",
}
_LISTS = {"dict": "a list of dictionaries", "str": "a list of texts"}


@functools.cache
def options() -> dict[str, dict[str, t.Any]]:
    """Return the options of all roles and their entry points by name, as argument_specs.yml has them.

    Raise OSError if a file cannot be read.
    """
    found: dict[str, dict[str, t.Any]] = {}
    for path in sorted(_ROLES.glob("*/meta/argument_specs.yml")):
        for entry in yaml.safe_load(path.read_text("utf-8"))["argument_specs"].values():
            found.update(entry.get("options") or {})
    return found


def meant(name: str) -> str:
    """Return the variable of a role or of the fleet with nearly this name, "" if there is none."""
    near = difflib.get_close_matches(name, [*options(), *variables.BY_NAME], n=1, cutoff=_SIMILAR)
    return near[0] if near else ""


def error(name: str, host: str, value: t.Any, origin: str = "") -> t.Optional[FleetError]:
    """Return, not raise, the error of a variable's value, or None if Ansible accepts it as the role's argument.

    `name` is in `options`; `host` has the variable, `origin` is its file and line or "". A null is accepted, because
    a play may set it for the default.
    """
    option = options()[name]
    checked = ArgumentSpecValidator({name: option}).validate({name: value}, validate_role_argument_spec=True)
    if value is None or not checked.error_messages:
        return None
    label, kind = f"{name} of {host}", option.get("type", "str")
    choices = [str(choice) for choice in option.get("choices") or () if choice != ""]
    if choices and isinstance(value, str):
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.75)
        remedy = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(choices)}."
        return FleetError(label, value, "is not known.", remedy, origin)
    expected = _LISTS.get(option.get("elements", ""), _WORDS["list"]) if kind == "list" else _WORDS[kind]
    return FleetError(label, value, f"is not {expected}.", _example(option, expected), origin)


def _example(option: t.Mapping[str, t.Any], expected: str) -> str:
    default = option.get("default")
    if default in (None, "", []):
        return f"Write {expected}, or remove it to get the default."
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"Write for example {shown}, which is the default."


def of_hosts(task_vars: t.Mapping[str, t.Any]) -> list[FleetError]:
    """Return the errors in variables of roles on the hosts of the play; hosts with one value share an error.

    Values of the play and the role, which Ansible does not have in hostvars, are left out. Raise FleetError if a
    template cannot be evaluated.
    """
    hostvars = task_vars["hostvars"]
    raw_get = getattr(hostvars, "raw_get", hostvars.__getitem__)
    found: dict[tuple[str, str], tuple[FleetError, list[str]]] = {}
    checked: dict[tuple[str, int], t.Any] = {}  # values of groups, which are one object for all their hosts
    for host in map(str, task_vars.get("ansible_play_hosts_all") or ()):
        raw = raw_get(host)
        for name in options():
            if name not in raw or checked.get((name, id(raw[name]))) is raw[name] is not None:
                continue
            value = inventory_source.evaluated(hostvars[host], host, name)
            wrong = error(name, host, inventory_source.plain_variable(value, host, name))
            if wrong is not None:
                wrong.origin = _place(raw, name)
                found.setdefault((name, str(wrong.value)), (wrong, []))[1].append(host)
            elif inventory_source.is_constant(raw[name]):
                checked[name, id(raw[name])] = raw[name]
    return [
        FleetError(
            f"{one.variable.partition(' of ')[0]} of {listed(names)}", one.value, one.rule, one.remedy, one.origin
        )
        for one, names in found.values()
    ]


def _place(raw: t.Mapping[str, t.Any], name: str) -> str:
    """Return the file and line of the variable's name, "" if they are not known."""
    return next((value_origin(key) for key in raw if key == name), "")


def pools(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the inventory's pools, which are not checked. Errors are those of inventory_source.hosts."""
    found: dict[str, None] = {}
    for host in inventory_source.hosts(task_vars):
        entries = host.variables.get("calico_ip_pools")
        for entry in entries if isinstance(entries, list) else ():
            found.update((name, None) for name in values_of(entry, "metadata", "name") if isinstance(name, str))
    return list(found)


def of_choice(option: str, value: str, known: t.Collection[str]) -> list[FleetError]:
    """Return the error of an option of the command line whose value is not in `known`; [] if it is, or none is known.

    An inventory without pools is refused by the run itself. "" is the value of an option that is missing.
    """
    if not value:
        names = f"one of {', '.join(known)}" if known else "one that the inventory has"
        return [FleetError(f"-e {option}=", None, "is missing.", f"Name the {option}: {names}.")]
    if value in known or not known:
        return []
    remedy = did_you_mean(value, known, "Choose")
    return [FleetError(f"-e {option}={value}", None, f"names no {option} that there is.", remedy)]
