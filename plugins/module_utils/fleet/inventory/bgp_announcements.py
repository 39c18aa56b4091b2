# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of BGPFilters, communities, ignored interfaces and the folder of the operator's own BIRD configuration."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import Cidr, parse_cidr_or_address
from ...bgp import filters as bgp_filters
from ...bgp.bird_state import BirdPeer, Communities
from ...bgp.filter_rules import FilterFunction
from ...resources import api as resources
from ...state.errors import FleetError, did_you_mean, within
from .. import variables
from ..host import Host
from . import flat_resource
from .pool_inventory import Get

FILTERS = "calico_bgp_filters"
COMMUNITIES = "calico_bgp_communities"
ADVERTISEMENTS = "calico_bgp_prefix_advertisements"
NODE_ADVERTISEMENTS = "calico_node_bgp_prefix_advertisements"
IGNORED = "calico_bgp_ignored_interfaces"
INCLUDE_DIR = "calico_node_bird_include_dir"

#: A mapping from the fields of a BGPConfiguration that `_configuration` sets to the fleet's variables for them.
_VARIABLES = {"communities": COMMUNITIES, "prefixAdvertisements": ADVERTISEMENTS, "ignoredInterfaces": IGNORED}
#: An absolute path without characters that have a meaning in BIRD's strings or file patterns.
_FOLDER = re.compile(r"(/[A-Za-z0-9._-]+)+/?", re.ASCII)


@dataclasses.dataclass(frozen=True)
class NodeAnnouncements:
    """The communities that one node adds to its routes, and its folder of BIRD configuration ("" for none)."""

    communities: tuple[Communities, ...] = ()
    include_dir: str = ""


_NOTHING = NodeAnnouncements()


@dataclasses.dataclass(frozen=True)
class Announcements:
    """The settings of a fleet for advertised and accepted routes.

    `filters` are by name, in the order of the inventory. `nodes` are by node name. `communities` are those of nodes
    without a list of their own.
    """

    filters: t.Mapping[str, resources.BGPFilter] = dataclasses.field(default_factory=dict)
    nodes: t.Mapping[str, NodeAnnouncements] = dataclasses.field(default_factory=dict)
    ignored_interfaces: tuple[str, ...] = ()
    communities: tuple[Communities, ...] = ()

    def of(self, node: str) -> NodeAnnouncements:
        """Return the settings of one node; an empty NodeAnnouncements if none are known for it."""
        return self.nodes.get(node, _NOTHING)

    def functions(self, peers: t.Iterable[BirdPeer]) -> tuple[FilterFunction, ...]:
        """Return the sorted BIRD functions of the filters named by `peers`, one node's sessions, for their families."""
        used = {(name, peer.family) for peer in peers for name in peer.filters}
        names = sorted({name for name, dummy in used})
        return tuple(
            function
            for name in names
            for function in bgp_filters.functions(self.filters[name])
            if (name, function.family) in used
        )

    def check_names(self, names: t.Iterable[str], label: str) -> None:
        """Raise FleetError if one of `names`, written in the field `label`, is not a BGPFilter of the inventory.

        Calico silently ignores such a name, and so advertises routes that the filter was to reject.
        """
        for index, name in enumerate(names):
            if name not in self.filters:
                remedy = f"Write the BGPFilter {name} there, or remove the name."
                if self.filters:
                    remedy = did_you_mean(name, self.filters, f"{remedy} There are")
                raise FleetError(within(label, index), name, f"is not in {FILTERS}.", remedy)

    def content(self) -> dict[str, t.Any]:
        """Return {filters, nodes, ignored_interfaces} as data for the plan's hash, without nodes that set nothing."""
        return {
            "filters": [one.to_document() for one in self.filters.values()],
            "nodes": {name: dataclasses.asdict(one) for name, one in self.nodes.items() if one != _NOTHING},
            "ignored_interfaces": list(self.ignored_interfaces),
        }


NO_ANNOUNCEMENTS = Announcements()


def read(get: Get, hosts: t.Sequence[Host]) -> Announcements:
    """Return the settings for advertised and accepted routes in the variables of `hosts`.

    A node's own list of prefix advertisements replaces the fleet's, also if it is empty.
    """
    names = get(COMMUNITIES)
    for_all = _configuration(names, get(ADVERTISEMENTS), get(IGNORED), ADVERTISEMENTS, "")
    _refuse_all(for_all.ignoredInterfaces)
    added = _communities(for_all)
    nodes = {}
    for host in hosts:
        own = variables.of_host(host, NODE_ADVERTISEMENTS)
        of_node = added
        if own is not None:
            of_node = _communities(_configuration(names, own, (), NODE_ADVERTISEMENTS, host.name))
        nodes[host.name] = NodeAnnouncements(of_node, _include_dir(host))
    return Announcements(_filters(get(FILTERS)), nodes, for_all.ignoredInterfaces, added)


def _filters(entries: t.Sequence[t.Any]) -> dict[str, resources.BGPFilter]:
    found: dict[str, resources.BGPFilter] = {}
    labels: dict[str, str] = {}
    for index, entry in enumerate(entries):
        label = f"{FILTERS}[{index}]"
        made = flat_resource.read(resources.BGPFilter, entry, label)
        try:
            resources.check_supported(made, flat="spec" not in entry)
        except resources.ResourceError as error:
            raise flat_resource.refused(error, label) from error
        if made.name in found:
            field = "metadata.name" if "metadata" in entry else "name"
            raise FleetError(f"{label}.{field}", made.name, f"is also the name of {labels[made.name]}.", "Rename one.")
        found[made.name], labels[made.name] = made, label
    return found


def _configuration(
    communities: t.Any, advertisements: t.Any, ignored: t.Any, variable: str, owner: str
) -> resources.BGPConfiguration:
    """Return a BGPConfiguration; `variable` of host `owner` ("" for all) is where the advertisements are written."""
    fields = {"communities": communities, "prefixAdvertisements": advertisements, "ignoredInterfaces": ignored}
    if not advertisements:
        # As Calico does, `parse_flat` refuses names of communities without any advertisement. Here a single node may
        # be their only user.
        fields["prefixAdvertisements"] = [{"cidr": "0.0.0.0/0", "communities": []}]
    try:
        return t.cast(
            resources.BGPConfiguration, resources.parse_flat("BGPConfiguration", {"name": "default", **fields})
        )
    except resources.ResourceError as error:
        found = re.match(r"(\w+)(.*)", error.field)
        first, rest = found.groups() if found else ("", "")
        name = variable if first == "prefixAdvertisements" else _VARIABLES.get(first, variable)
        label = f"{name}{rest} of {owner}" if owner and name == variable else f"{name}{rest}"
        rule = error.rule.replace("given in communities", f"given in {COMMUNITIES}")
        raise FleetError(label, error.value, rule, error.remedy) from error


def _refuse_all(patterns: t.Iterable[str]) -> None:
    for index, pattern in enumerate(patterns):
        if not pattern.strip("*"):
            raise FleetError(
                f"{IGNORED}[{index}]",
                pattern,
                "ignores every interface, and so all next hops.",
                "Name those to be ignored, for example docker*.",
            )


def _communities(configuration: resources.BGPConfiguration) -> tuple[Communities, ...]:
    """Return the communities to add, for each prefix advertisement that has any."""
    values = {community.name: community.value for community in configuration.communities}
    found = []
    for advertisement in configuration.prefixAdvertisements:
        cidr = t.cast(Cidr, parse_cidr_or_address(advertisement.cidr))
        numbers = [bgp_filters.community(values.get(one, one)) for one in advertisement.communities or ()]
        if not numbers:
            continue
        found.append(
            Communities(
                str(cidr),
                tuple(one for one in numbers if len(one) == 2),
                tuple(one for one in numbers if len(one) == 3),
            )
        )
    return tuple(found)


def _include_dir(host: Host) -> str:
    value = variables.of_host(host, INCLUDE_DIR)
    if value is None:
        return str(variables.BY_NAME[INCLUDE_DIR].default)
    if value and (not _FOLDER.fullmatch(value) or ".." in value.split("/")):
        raise FleetError(
            f"{INCLUDE_DIR} of {host.name}",
            value,
            "is not the absolute path of a folder, in letters, digits, '.', '_' and '-'.",
            "Write for example /etc/calico/bird.d, or '' for none.",
        )
    return str(value)
