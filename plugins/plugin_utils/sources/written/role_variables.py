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
from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import container_labels
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.flat_resource import values_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint.network import listed
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.limits import GENERATIONS
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, did_you_mean

from ...actions import controller_variables
from .. import fleet_documents, inventory_source
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
#: The least and the largest value of numbers, for which argument_specs.yml has no words; None is no limit.
_RANGES: dict[str, tuple[int, t.Optional[int]]] = {
    "calico_node_generations_kept": (1, GENERATIONS),
    "calico_node_confirm_timeout": (0, None),
    "calico_node_convergence_timeout": (0, None),
    "calico_node_soak_seconds": (0, None),
    "calico_node_probe_sample": (0, None),
    "calico_node_max_lost_probes": (0, None),
    "calico_node_max_session_resets": (-1, None),
    "calico_node_max_external_resets": (-1, None),
    "calico_node_max_hosts_changed": (-1, None),
    "calico_node_max_routes_withdrawn": (-1, None),
    "calico_node_agent_metrics_port": (0, 65535),
    "calico_node_agent_resync_interval": (0, None),
    "calico_node_agent_address_cooldown": (0, None),
    "calico_node_sticky_seconds": (0, 3600),
    "calico_etcd_quota_bytes": (64 << 20, 8 << 30),
    "calico_etcd_memory_bytes": (512 << 20, None),
    "calico_etcd_snapshot_count": (100, 1_000_000),
    "calico_etcd_compaction_minutes": (1, 10_080),
    "calico_etcd_node_workloads": (1, 16_384),
    "calico_etcd_ca_days": (30, 36_500),
    "calico_etcd_certificate_days": (1, 3650),
    "calico_etcd_timeout": (1, 3600),
}
#: The variable whose entries begin the keys of containers' labels. An agent would not start with a wrong one.
_PREFIXES = "calico_node_runtime_labels"
_LISTS = {"dict": "a list of dictionaries", "str": "a list of texts"}


@functools.cache
def options() -> dict[str, dict[str, t.Any]]:
    """Return the options of all roles by name, as argument_specs.yml has them. Raise OSError if one cannot be read."""
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
    """Return, not raise, the error of a variable's value, or None if the role can use it.

    `name` is in `options`. `host` has the variable, and is "" for one of the play; `origin` is its file and line or "".
    A null is accepted, because a play may set it for the default.
    """
    option = options()[name]
    checked = ArgumentSpecValidator({name: option}).validate({name: value}, validate_role_argument_spec=True)
    label, kind = f"{name} of {host}" if host else name, option.get("type", "str")
    if value is None:
        return None
    if not checked.error_messages:
        if name == _PREFIXES:
            return _bad_prefix(label, checked.validated_parameters[name], origin)
        return _out_of_range(name, label, checked.validated_parameters[name], origin)
    choices = [str(choice) for choice in option.get("choices") or () if choice != ""]
    if choices and isinstance(value, str):
        near = difflib.get_close_matches(value, choices, n=1, cutoff=0.75)
        remedy = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(choices)}."
        return FleetError(label, value, "is not known.", remedy, origin)
    expected = _LISTS.get(option.get("elements", ""), _WORDS["list"]) if kind == "list" else _WORDS[kind]
    return FleetError(label, value, f"is not {expected}.", _example(option, expected), origin)


def _out_of_range(name: str, label: str, value: t.Any, origin: str) -> t.Optional[FleetError]:
    """Return, not raise, the error of a number that is not in its range; None for any other value."""
    least, most = _RANGES.get(name, (None, None))
    if least is None or (value >= least and (most is None or value <= most)):
        return None
    remedy = f"Choose a number from {least} to {most}." if most is not None else f"Choose {least} or more."
    return FleetError(label, value, "is out of range.", remedy, origin)


def _bad_prefix(label: str, value: t.Sequence[str], origin: str) -> t.Optional[FleetError]:
    """Return, not raise, the error of the first entry that cannot begin a label's key; None if all can."""
    if len(value) > container_labels.PREFIXES_LIMIT:
        rule = f"has {len(value)} entries."
        return FleetError(label, None, rule, f"Use at most {container_labels.PREFIXES_LIMIT}.", origin)
    for entry in value:
        if not container_labels.is_prefix(entry):
            return FleetError(
                label,
                entry,
                "is not the beginning of a label that containers may set.",
                "Write for example example.org/ or com.example. Keys of projectcalico.org are not taken.",
                origin,
            )
    return None


def _example(option: t.Mapping[str, t.Any], expected: str) -> str:
    default = option.get("default")
    if default in (None, "", []):
        return f"Write {expected}, or remove it to get the default."
    shown = str(default).lower() if isinstance(default, bool) else default
    return f"Write for example {shown}, which is the default."


def of_hosts(task_vars: t.Mapping[str, t.Any]) -> list[FleetError]:
    """Return the errors in variables of roles on the hosts of the play; hosts with one value share an error.

    Values of the play and the role are left out. A template that cannot be evaluated is an error, too.
    """
    hostvars = task_vars["hostvars"]
    variables_of = controller_variables.raw(hostvars)
    found: dict[tuple[str, str, str], tuple[FleetError, list[str]]] = {}
    checked: dict[tuple[str, int], t.Any] = {}  # values of groups, which are one object for all their hosts
    for host in map(str, task_vars.get("ansible_play_hosts_all") or ()):
        raw = variables_of(host)
        for name in options():
            if name not in raw or checked.get((name, id(raw[name]))) is raw[name] is not None:
                continue
            wrong = of_value(name, host, hostvars[host], _place(raw, name))
            if wrong is not None:
                found.setdefault((name, str(wrong.value), wrong.rule), (wrong, []))[1].append(host)
            elif inventory_source.is_constant(raw[name]):
                checked[name, id(raw[name])] = raw[name]
    return [
        FleetError(
            f"{one.variable.partition(' of ')[0]} of {listed(names)}", one.value, one.rule, one.remedy, one.origin
        )
        for one, names in found.values()
    ]


def of_value(name: str, host: str, evaluated: t.Mapping[str, t.Any], origin: str) -> t.Optional[FleetError]:
    """Return, not raise, the error of a role's variable that may be a template; None if the role can use its value.

    `evaluated` are the variables of `host`, which evaluate templates; `origin` is the file and line, or "".
    """
    try:
        value = inventory_source.evaluated(evaluated, host, name)
        return error(name, host, inventory_source.plain_variable(value, host, name), origin)
    except FleetError as found:
        found.origin = found.origin or origin
        return found


def number_of(name: str, hosts: t.Iterable[str], task_vars: t.Mapping[str, t.Any]) -> str:
    """Return the values that `hosts` have for a numeric role variable, as text: "30", or "30 to 60, by node".

    A host without a value, or with one that is refused, counts with the default.
    """
    hostvars = task_vars["hostvars"]
    variables_of = controller_variables.raw(hostvars)
    found = set()
    for host in hosts:
        value = options()[name]["default"]
        if name in variables_of(host) and of_value(name, host, hostvars[host], "") is None:
            value = int(hostvars[host][name])
        found.add(value)
    return f"{min(found)} to {max(found)}, by node" if len(found) > 1 else "".join(map(str, found))


def of_play(task_vars: t.Mapping[str, t.Any], evaluate: t.Callable[[t.Any], t.Any]) -> list[FleetError]:
    """Return the errors in variables of roles that a play or a role sets, and that its first host does not have itself.

    `evaluate` returns the value of a template. A template that cannot be evaluated is left to Ansible.
    """
    host = str(task_vars.get("inventory_hostname", ""))
    hostvars = task_vars["hostvars"]
    own = controller_variables.raw(hostvars)(host) if host in hostvars else {}
    found = []
    for name in options():
        if name in task_vars and task_vars[name] is not own.get(name):
            try:
                wrong = error(
                    name, "", inventory_source.plain(evaluate(task_vars[name])), value_origin(task_vars[name])
                )
            except (AnsibleError, TypeError, ValueError):
                continue
            found += [wrong] if wrong is not None else []
    return found


def _place(raw: t.Mapping[str, t.Any], name: str) -> str:
    """Return the file and line of the variable's name, "" if they are not known."""
    return next((value_origin(key) for key in raw if key == name), "")


def pools(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the inventory's pools, which are not checked. Errors are those of fleet_documents.read."""
    found: dict[str, None] = {}
    for host in fleet_documents.read(task_vars).hosts:
        entries = host.variables.get("calico_ip_pools")
        for entry in entries if isinstance(entries, list) else ():
            found.update((name, None) for name in values_of(entry, "metadata", "name") if isinstance(name, str))
    return list(found)


def of_choice(option: str, value: str, known: t.Collection[str]) -> list[FleetError]:
    """Return the error of an option of the command line whose value is not in `known`; [] if it is, or none is."""
    if not value:
        names = f"one of {', '.join(known)}" if known else "one that the inventory has"
        return [FleetError(f"-e {option}=", None, "is missing.", f"Name the {option}: {names}.")]
    if value in known or not known:
        return []
    remedy = did_you_mean(value, known, "Choose")
    return [FleetError(f"-e {option}={value}", None, f"names no {option} that there is.", remedy)]
