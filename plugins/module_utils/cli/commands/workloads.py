# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl workload add|del|label|get|check|list`: workloads that come and go between runs, through the agent."""

from __future__ import annotations

import argparse
import re
import sys
import typing as t

from ...base import published_port, terminal_text
from ...base.published_port import InvalidPort, PublishedPort
from ...state.attachment import AttachedWorkload
from ..errors import DONE, PROBLEMS, CommandError, UsageError
from ..fleet import fleet_view
from ..fleet.fleet_view import FleetView
from ..flow import container_names
from ..render import structured, tables
from ..sources import Data, Sources
from . import add_params

#: The most seconds that a command waits for an agent.
_LONGEST_WAIT = 3600
#: Random ids, and the first digits of them that lists of containers show: Docker's and podman's, and UUIDs.
_RANDOM = re.compile(
    r"(?<![0-9a-f])(?:([0-9a-f]{12})[0-9a-f]{52}|([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    r"(?![0-9a-f])"
)
_DIGITS = re.compile(r"[0-9a-f]{12}|[0-9a-f]{64}")
_HEADING = ("NAMESPACE", "NAME", "ADDRESS", "POOL", "INTERFACE", "NETNS", "BY")
_OF_FLEET = ("NAMESPACE", "NAME", "NODE", "ADDRESS", "INTERFACE", "BY")
_OF_FLEET_WIDE = (*_OF_FLEET, "POOL", "LABELS")
_WIDE = ("NAMESPACE", "NAME", "ADDRESS", "INTERFACE", "NETNS", "BY", "PORTS")


def add(arguments: argparse.Namespace, sources: Sources) -> int:
    answer = sources.agent.ask_for(_wait(arguments), "workload.add", **_wanted(arguments))
    workload = answer["workload"]
    if not structured.written(arguments.output, workload):
        verb = "Attached" if answer["created"] else "Already attached:"
        sys.stdout.write(
            f"{verb} {workload['namespace']}/{workload['name']}: {', '.join(workload['addresses'])} "
            f"on {workload['interface']}, {workload['peer_interface']} in {workload['netns']}\n"
        )
        sys.stdout.write("".join(f"{line}\n" for line in _published(workload)))
    return DONE


def _wait(arguments: argparse.Namespace) -> int:
    if not 0 <= arguments.wait <= _LONGEST_WAIT:
        raise UsageError(f"--wait: {_LONGEST_WAIT} seconds are the most, and 0 the least.")
    return int(arguments.wait)


def _wanted(arguments: argparse.Namespace) -> Data:
    if arguments.pid is not None and arguments.netns:
        raise UsageError("--pid and --netns name the same thing. Give one of them.")
    return add_params.add_params(
        arguments.name,
        arguments.namespace,
        netns=arguments.netns,
        pid=arguments.pid,
        peer_interface=arguments.interface,
        address=arguments.address,
        address6=arguments.address6,
        families=arguments.family,
        pools=arguments.pool,
        labels=dict(_label(text) for text in arguments.label),
        mac=arguments.mac,
        mtu=arguments.mtu,
        ports=_ports(arguments.publish),
    )


def _ports(texts: t.Iterable[str]) -> list[PublishedPort]:
    try:
        return [port for text in texts for port in published_port.parse(text)]
    except InvalidPort as error:
        raise UsageError(f"--publish: {error}") from error


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UsageError(f"invalid label {text}. Write it as key=value.")
    return key, value


def delete(arguments: argparse.Namespace, sources: Sources) -> int:
    """Delete workloads and print the outcome of each, errors to stderr; return exit status 1 if one failed, else 0.

    The others are deleted all the same. An absent one is no failure.
    """
    wait, status = _wait(arguments), DONE
    for name in arguments.names:
        id = identity(arguments.namespace, name)
        try:
            gone = sources.agent.ask_for(wait, "workload.delete", id=id)["deleted"]
        except CommandError as error:
            sys.stderr.write(f"{id}: {error}\n")
            status = PROBLEMS
            continue
        sys.stdout.write(f"Deleted {id}\n" if gone else f"{id} is not there: nothing to delete\n")
    return status


def label(arguments: argparse.Namespace, sources: Sources) -> int:
    id = _known(arguments, sources)
    labels = dict(_label_or_none(text) for text in arguments.labels)
    workload = sources.agent.ask("workload.label", id=id, labels=labels)["workload"]
    if not structured.written(arguments.output, workload):
        name = add_params.identity(workload["namespace"], workload["name"])
        sys.stdout.write(terminal_text.lines([f"{name}: {_shown(workload['labels']) or 'no labels'}"]))
    return DONE


def _label_or_none(text: str) -> tuple[str, t.Optional[str]]:
    """Return (key, value) of `key=value`, or (key, None) of `key-`, which removes a label as in kubectl."""
    if "=" not in text and len(text) > 1 and text.endswith("-"):
        return text[:-1], None
    return _label(text)


def identity(namespace: str, name: str) -> str:
    """Return the id of the workload `name`: "<namespace>/<name>", or `name` itself if it is an id already.

    It is one if it contains "/" or, as a container's id, more than one dot.
    """
    return name if "/" in name or name.count(".") > 1 else add_params.identity(namespace, name)


def _known(arguments: argparse.Namespace, sources: Sources) -> str:
    """Return the id of the workload `arguments.name`, which may also be a name that `list` shows.

    A shortened name, as `list -o wide` shows it, stands for the only workload that has it. A container's name stands
    for its workload if no workload has that name itself; raise CommandError if several containers have it.
    """
    name, id = arguments.name, identity(arguments.namespace, arguments.name)
    if "/" in name:
        return id
    workloads = sources.workloads()
    if any(one.id == id for one in workloads):
        return id
    known = [one for one in workloads if one.namespace == arguments.namespace]
    named = [one.id for one in known if one.name == name]
    shortened = [one.id for one in known if ("." in name or _DIGITS.fullmatch(name)) and _short(one.name) == name]
    found = named[:1] or (shortened if len(shortened) == 1 else [])
    # The user who starts a container chooses its name: it stands for no workload that has the name otherwise.
    owners = workloads if arguments.namespace == "default" else known
    return found[0] if found else container_names.workload_of(owners, name) or id


def _container(entry: Data) -> str:
    return str(entry.get("container_name") or "-")


def get(arguments: argparse.Namespace, sources: Sources) -> int:
    workload = sources.agent.ask("workload.get", id=_known(arguments, sources))["workload"]
    if not structured.written(arguments.output, workload):
        for name, value in workload.items():
            if name == "ports":
                value = [str(port) for port in _ports_of(workload)]
            if value not in (None, "", {}, []):
                sys.stdout.write(terminal_text.lines([f"{name:<15} {_shown(value)}"]))
    return DONE


def check(arguments: argparse.Namespace, sources: Sources) -> int:
    id = _known(arguments, sources)
    problems = sources.agent.ask("workload.check", id=id)["problems"]
    if not structured.written(arguments.output, {"problems": problems}):
        sys.stdout.write("".join(f"! {problem}\n" for problem in problems) or f"{id} is in sync\n")
    return PROBLEMS if problems else DONE


def list_workloads(arguments: argparse.Namespace, sources: Sources) -> int:
    """Print the workloads of all nodes or, without a datastore or with this node's name, all that this node knows."""
    chosen = _chosen_by(arguments.selector)
    view = fleet_view.ask(sources, arguments.node, says_so=structured.is_for_people(arguments.output))
    found = [entry for entry in listed(sources) if chosen(entry)] if view.has_own else []
    if view.published is not None:
        return _list_of_fleet(arguments.output, view, found, chosen)
    if structured.written(arguments.output, {"workloads": found}):
        return DONE
    rows = [
        (
            entry["namespace"],
            entry["name"],
            ",".join(entry["addresses"]),
            entry["pool"],
            entry["interface"],
            entry["netns"],
            entry["by"],
        )
        for entry in found
    ]
    # Hosts without containers are shown without the column.
    containers = [_container(entry) for entry in found]
    more = ("CONTAINER",) if any(name != "-" for name in containers) else ()
    if arguments.output == "wide":
        published = [", ".join(published_port.texts(_ports_of(entry))) or "-" for entry in found]
        wide = [
            (namespace, _short(name), addresses, interface, _short(netns.rpartition("/")[2]), by, ports)
            for (namespace, name, addresses, dummy, interface, netns, by), ports in zip(rows, published)
        ]
        sys.stdout.write(tables.fitted((*_WIDE, *more), _with(wide, containers, more)))
    else:
        sys.stdout.write(tables.columns((*_HEADING, *more), _with(rows, containers, more)))
    return DONE


def _with(rows: t.Iterable[tuple[str, ...]], cells: t.Iterable[str], more: t.Sized) -> list[tuple[str, ...]]:
    """Return the rows with one cell each at their ends, or without it if there is no more column."""
    return [(*row, cell) for row, cell in zip(rows, cells)] if more else list(rows)


def _list_of_fleet(output: str, view: FleetView, own: list[Data], chosen: t.Callable[[Data], bool]) -> int:
    from ..fleet import fleet_workloads

    found = [{**entry, "node": view.own} for entry in own]
    found += [entry for entry in fleet_workloads.entries(view) if chosen(entry)]
    found.sort(key=lambda entry: (entry["namespace"], entry["name"], entry["node"], entry["id"]))
    if structured.written(output, {"workloads": found}):
        return DONE
    rows = [
        (entry["namespace"], entry["name"], entry["node"], ",".join(entry["addresses"]), entry["interface"],
         entry["by"], entry.get("pool") or "-", _shown(entry["labels"]) or "-")
        for entry in found
    ]  # fmt: skip
    containers = [_container(entry) for entry in found]
    more = ("CONTAINER",) if any(name != "-" for name in containers) else ()
    if output == "wide":
        wide = [(namespace, _short(name), *rest) for namespace, name, *rest in rows]
        sys.stdout.write(tables.fitted((*_OF_FLEET_WIDE, *more), _with(wide, containers, more)))
    else:
        short = [row[: len(_OF_FLEET)] for row in rows]
        sys.stdout.write(tables.columns((*_OF_FLEET, *more), _with(short, containers, more)))
    return DONE


def _chosen_by(text: t.Optional[str]) -> t.Callable[[Data], bool]:
    """Return the test of a selector on a workload's labels, as policy has them. Raise UsageError for an invalid one."""
    if text is None:
        return lambda dummy: True
    from ...base import selectors
    from ...policy.index.labels import namespaced_labels

    try:
        selector = selectors.parse(text)
    except selectors.SelectorError as error:
        raise UsageError(f"--selector: {error}") from error
    return lambda entry: selector.matches(dict(namespaced_labels(entry["labels"], entry["namespace"])))


def _short(text: str) -> str:
    """Return a text with the random ids in it cut to their first 12 digits, UUIDs to 8."""
    return _RANDOM.sub(lambda found: found[1] or found[2], text)


def listed(sources: Sources) -> list[Data]:
    """Return all workloads sorted by namespace, name and id: the fields of each, and `by`. Raises what Sources does.

    `by` is "inventory", "podman" (by netavark), "cni", "docker" or "api". If no agent runs, those that it attached are
    read from the disk, with a warning.
    """
    found: list[Data] = [
        {
            **AttachedWorkload(
                id=f"{endpoint.namespace}/{endpoint.name}",
                name=endpoint.name,
                namespace=endpoint.namespace,
                interface=endpoint.interface,
                netns=endpoint.netns,
                netns_owned=endpoint.netns_owned,
                peer_interface=endpoint.peer_interface,
                addresses=endpoint.addresses,
                pool=endpoint.pool or endpoint.pool6,
                labels=endpoint.labels,
                mac=endpoint.mac,
                mtu=endpoint.mtu,
            ).to_dict(),
            "by": "inventory",
        }
        for endpoint in sources.state().workloads
    ]
    found += [{**workload.to_dict(), "by": workload.attached_by or "api"} for workload in sources.workloads()]
    return sorted(found, key=lambda entry: (entry["namespace"], entry["name"], entry["id"]))


def _ports_of(workload: Data) -> list[PublishedPort]:
    """Return the published ports of a workload as the agent's API returns it, [] for those that are none."""
    try:
        return [PublishedPort.read(port) for port in workload.get("ports", ())]
    except InvalidPort:
        return []


def _published(workload: Data) -> list[str]:
    return [f"  port {port}" for port in _ports_of(workload)]


def _shown(value: t.Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={text}" for key, text in sorted(value.items()))
    if isinstance(value, list):
        return ", ".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
