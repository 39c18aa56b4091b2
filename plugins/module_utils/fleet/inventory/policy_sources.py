# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Policy resources in an inventory's lists and in files, each with the place where it is written."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ...resources import api as resources
from ...state.errors import FleetError, did_you_mean, within
from .. import variables
from ..host import Host

KINDS = (
    "GlobalNetworkPolicy",
    "NetworkPolicy",
    "StagedGlobalNetworkPolicy",
    "StagedNetworkPolicy",
    "Profile",
    "Tier",
    "GlobalNetworkSet",
    "NetworkSet",
    "HostEndpoint",
)
#: A mapping from kinds that are not policy resources to where they belong.
_ELSEWHERE = {
    "IPPool": "calico_ip_pools",
    "BGPPeer": "calico_bgp_peers",
    "BGPFilter": "calico_bgp_filters",
    "WorkloadEndpoint": "calico_workloads",
    **dict.fromkeys(
        ("IPReservation", "Node", "BGPConfiguration", "FelixConfiguration", "IPAMConfiguration"),
        "a file of calico_resource_files",
    ),
}


@dataclasses.dataclass(frozen=True)
class Document:
    """One document of a file.

    `line` returns the line number of a path in it ("spec.tier", "" for its first line), None if it is unknown.
    """

    content: t.Any
    file: str
    line: t.Callable[[str], t.Optional[int]]

    @functools.cached_property
    def resource(self) -> resources.Resource:
        """The resource in it, which is read once. Raise ResourceError if it is not valid."""
        return resources.parse(self.content)


class Source(t.NamedTuple):
    """One policy resource as it is written, not yet validated.

    `label` is how errors name its variable, "" for a document of a file. `node` is the node in whose list it is, or for
    a HostEndpoint in a group's list one node of the group; "" for all others.
    """

    entry: t.Any
    label: str = ""
    node: str = ""
    document: t.Optional[Document] = None

    @property
    def is_flat(self) -> bool:
        """Whether it is a mapping in the flat form, without spec and metadata, in a variable."""
        if self.document is not None or not isinstance(self.entry, t.Mapping):
            return False
        return not ("spec" in self.entry or "metadata" in self.entry)

    def error(self, who: str, field: str, value: t.Any, rule: str, remedy: str) -> FleetError:
        """Return, not raise, an error about a field of this resource, with its variable, or its file and known line.

        `who` names the resource ("Tier a"). `field` is the path in a whole document (spec.tier), "" for all of it.
        """
        if self.document is not None:
            line = self.document.line(field)
            origin = f"{self.document.file}:{line}" if line else self.document.file
            variable = f"{who}: {field}" if field else who
            return FleetError(variable, value, rule, remedy, origin)
        path = field.partition(".")[2] if self.is_flat and field.startswith(("spec.", "metadata.")) else field
        return FleetError(within(self.label, path) if path else self.label, value, rule, remedy)

    def about(self, resource: resources.Resource, field: str, value: t.Any, rule: str, remedy: str) -> FleetError:
        """Return, not raise, an error about a field of `resource`, the parsed form of this source, as `error` does."""
        return self.error(who(resource), field, value, rule, remedy)

    def refused(self, error: resources.ResourceError) -> FleetError:
        """Return, not raise, the FleetError for an error in this resource."""
        who = " ".join(part for part in (error.kind, error.name) if part) or "document"
        return self.error(who, error.field, error.value, error.rule, error.remedy)

    def resource(self) -> resources.Resource:
        """Return the parsed resource, a HostEndpoint with its node. Raise FleetError if it is no policy resource."""
        self._check_kind()
        try:
            if self.document is not None:
                return self.document.resource
            entry = self._with_node() if self.node and self.entry["kind"] == "HostEndpoint" else self.entry
            return resources.parse_flat(entry["kind"], entry)
        except resources.ResourceError as error:
            raise self.refused(error) from error

    def _check_kind(self) -> None:
        if not isinstance(self.entry, t.Mapping):
            # A document without fields may be any text, such as a password: its content is not shown.
            value = self.entry if self.document is None else None
            raise self.error("document", "", value, "is not a dictionary.", "Write the fields of one resource there.")
        kind = self.entry.get("kind")
        if kind in KINDS:
            return
        who = str(kind or "document")
        if kind is None:
            raise self.error(who, "kind", None, "is missing.", f"Write one of {', '.join(KINDS)}.")
        if isinstance(kind, str) and kind in _ELSEWHERE:
            raise self.error(who, "kind", kind, "is no policy.", f"It belongs into {_ELSEWHERE[kind]}.")
        remedy = resources.settings_remedy(str(kind)) or did_you_mean(str(kind), KINDS, "Write")
        raise self.error(who, "kind", kind, "is not a kind of policy resource.", remedy)

    def _with_node(self) -> t.Mapping[str, t.Any]:
        """Return the entry of a HostEndpoint with its node, and with a name if it is flat and has no key `name`.

        The name is made of the node and the interfaceName. An entry without a spec is returned for the parser to
        refuse.
        """
        spec = self.entry if self.is_flat else self.entry.get("spec")
        if not isinstance(spec, t.Mapping):
            return self.entry  # type: ignore[no-any-return]
        if spec.get("node", self.node) != self.node:
            raise self.error(
                "HostEndpoint", "spec.node", spec["node"], f"is not {self.node}.",
                "The list of a node has only its own HostEndpoints: leave node out, or use calico_policies.",
            )  # fmt: skip
        spec = {**spec, "node": self.node}
        if not self.is_flat:
            return {**self.entry, "spec": spec}
        interface = spec.get("interfaceName")
        if "name" not in spec and isinstance(interface, str):
            spec["name"] = _host_endpoint_name(self.node, interface)
        return spec


def _host_endpoint_name(node: str, interface: str) -> str:
    """Return a lower-case name of a-z, 0-9, `.` and `-` for a HostEndpoint: `node1-eth0`, `node1-all` for "*"."""
    part = "all" if interface == "*" else interface
    return re.sub(r"[^a-z0-9.-]", "-", f"{node}-{part}".lower())


def sources(
    get: t.Callable[[str], t.Any], hosts: t.Sequence[Host], documents: t.Sequence[Document]
) -> t.Iterator[Source]:
    """Yield the policy resources in the lists of the fleet, of groups and of nodes, and then those in files.

    They are not validated. Raise FleetError if a variable is no list or its group unknown. A node's may be null.
    """
    hosts = sorted(hosts, key=lambda host: host.name)
    for index, entry in enumerate(get("calico_policies")):
        yield Source(entry, f"calico_policies[{index}]")
    yield from _of_groups(hosts)
    for host in hosts:
        for index, entry in enumerate(variables.of_host(host, "calico_node_policies") or ()):
            yield Source(entry, f"calico_node_policies[{index}] of {host.name}", host.name)
    for document in documents:
        yield Source(document.content, document=document)


def _of_groups(hosts: t.Sequence[Host]) -> t.Iterator[Source]:
    """Yield the resources in groups' lists: a HostEndpoint for each host, another once and where a host's differs."""
    first: dict[tuple[str, int], t.Any] = {}
    for host, variable, entries in variables.of_groups(hosts, variables.POLICIES_OF_GROUP, "policy resources"):
        for index, entry in enumerate(entries):
            label = f"{variable}[{index}]"
            if isinstance(entry, t.Mapping) and entry.get("kind") == "HostEndpoint":
                yield Source(entry, f"{label} of {host.name}", host.name)
            elif (variable, index) not in first:
                first[variable, index] = entry
                yield Source(entry, label)
            elif first[variable, index] != entry:
                yield Source(entry, f"{label} of {host.name}")


def who(resource: resources.Resource) -> str:
    """Return the kind and name of a resource as errors show them: "Tier a"."""
    return f"{resource.KIND} {resource.name}"
