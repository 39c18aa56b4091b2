# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts of the group calico_etcd, which are to be the members of the etcd cluster."""

from __future__ import annotations

import collections
import contextlib
import functools
import ipaddress
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import ETCD_PEER_PORT
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys, settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import datastore_inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.datastore_inventory import Operator
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, shown
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import bare
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from ..sources import fleet_documents, inventory_source
from ..sources.given_inventory import CLUSTER_GROUP

#: The numbers of members that a cluster may have. An even number tolerates no more failures than one member less.
COUNTS = (1, 3, 5)
_NODE_ADDRESSES = ("calico_node_address", "calico_node_address_ipv6")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class EtcdHost(t.NamedTuple):
    """A host of the group, and the address at which its member listens."""

    name: str
    address: str

    @property
    def client_url(self) -> str:
        """The URL for clients."""
        return f"https://{bracketed(self.address)}:{settings.CLIENT_PORT}"

    @property
    def gate_url(self) -> str:
        """The URL for nodes: of the gate before the member."""
        return f"https://{bracketed(self.address)}:{settings.GATE_PORT}"

    @property
    def peer_url(self) -> str:
        """The URL for other members."""
        return f"https://{bracketed(self.address)}:{ETCD_PEER_PORT}"


def bracketed(address: str) -> str:
    """Return an address as it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def of(task_vars: t.Mapping[str, t.Any]) -> list[EtcdHost]:
    """Return the hosts of the group in the inventory's order.

    Raise FleetError for a number of hosts that COUNTS does not have, a host without an address, and two with the same.
    """
    names = [str(name) for name in task_vars.get("groups", {}).get(CLUSTER_GROUP, ())]
    if len(names) not in COUNTS:
        raise FleetError(
            f"group {CLUSTER_GROUP}",
            None,
            f"has {len(names)} hosts ({', '.join(names[:8])})." if names else "has no hosts.",
            "Put 1, 3 or 5 hosts into it: an even number tolerates no more failures than one host less.",
        )
    found: dict[str, EtcdHost] = {}
    variables_of = _variables(task_vars)
    for name in names:
        if not _NAME.fullmatch(name):
            raise FleetError(
                f"group {CLUSTER_GROUP}",
                name,
                "is no name for a member of etcd.",
                "Use letters, digits, dots, hyphens and underscores.",
            )
        host = EtcdHost(name, _address_of(name, variables_of(name)))
        if host.address in found:
            raise FleetError(
                f"calico_etcd_address of {name}",
                host.address,
                f"is the address of {found[host.address].name}, too.",
                "Give each member an address of its own.",
            )
        found[host.address] = host
    return list(found.values())


def host_addresses(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return all readable addresses that the inventory has for the hosts of the group, as members and as nodes."""
    found = []
    variables_of = _variables(task_vars)
    for name in task_vars.get("groups", {}).get(CLUSTER_GROUP, ()):
        own = variables_of(name)
        for variable in ("calico_etcd_address", *_NODE_ADDRESSES):
            with contextlib.suppress(FleetError):
                found.append(_parsed(_value(own, str(name), variable)))
    return [address for address in found if address]


def nodes_of(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the sorted names of the nodes whose agents use the datastore."""
    return sorted(name for name in map(str, task_vars.get("groups", {}).get("calico_nodes", ())) if keys.is_node(name))


def operators_of(task_vars: t.Mapping[str, t.Any], nodes: t.Collection[str]) -> tuple[Operator, ...]:
    """Return the operators of calico_etcd_operators, as the task's host and a node have it; `nodes` are all of them.

    Raise FleetError if it is invalid, or if the two have different ones.
    """
    name = datastore_inventory.OPERATORS
    own = str(task_vars["inventory_hostname"])
    values = [
        inventory_source.plain_variable(_value(task_vars["hostvars"][host], host, name), host, name) or []
        for host in (own, *sorted(nodes)[:1])
    ]
    if values[0] != values[-1]:
        raise FleetError(
            name,
            None,
            f"differs between hosts: {own} has {shown(values[0])}, {min(nodes)} has {shown(values[-1])}.",
            "It is one value for all hosts: set it once, in group_vars/all.",
        )
    return datastore_inventory.operators(values[0], nodes)


def node_addresses(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    """Return the sorted addresses of all nodes and reflectors. Raise FleetError for a template that fails."""
    groups = task_vars.get("groups", {})
    found = set()
    variables_of = _variables(task_vars)
    for name in {*groups.get("calico_nodes", ()), *groups.get("calico_rr", ())}:
        own = variables_of(name)
        for variable in _NODE_ADDRESSES:
            address = _parsed(_value(own, str(name), variable))
            if address:
                found.add(address)
    return sorted(found, key=lambda text: (":" in text, ipaddress.ip_address(text)))


def listed(task_vars: t.Mapping[str, t.Any]) -> list[EtcdHost]:
    """Return the hosts of the group with their addresses, whatever their number and names.

    Raise FleetError for a host without an address.
    """
    variables_of = _variables(task_vars)
    names = map(str, task_vars.get("groups", {}).get(CLUSTER_GROUP, ()))
    return [EtcdHost(name, _address_of(name, variables_of(name))) for name in names]


def _variables(task_vars: t.Mapping[str, t.Any]) -> t.Callable[[str], t.Mapping[str, t.Any]]:
    """Return a function that returns a host's variables, with the addresses that documents of files give to nodes."""
    addresses = functools.cache(lambda: fleet_documents.addresses_of_nodes(task_vars))
    return lambda name: collections.ChainMap(task_vars["hostvars"][name], addresses().get(str(name), {}))


def _address_of(name: str, own: t.Mapping[str, t.Any]) -> str:
    """Return the address of the member on host `name`. Raise FleetError if it is not set or is no address."""
    for variable in ("calico_etcd_address", "calico_node_address"):
        value = _value(own, name, variable)
        if not value:
            continue
        address = _parsed(value)
        if not address:
            raise FleetError(f"{variable} of {name}", value, "is not an address.", "Write it like 10.10.1.11.")
        return address
    raise FleetError(
        f"calico_etcd_address of {name}",
        None,
        "is not set, and the host has no calico_node_address.",
        "Set it to the address at which the member of etcd listens, such as 10.10.1.11.",
    )


def check_kept(task_vars: t.Mapping[str, t.Any], states: t.Mapping[str, t.Optional[NodeState]]) -> None:
    """Raise FleetError if a node that is a member gets another address, at which its member would have to listen.

    `states` has the stored states of nodes, whose addresses are those that they have had so far.
    """
    variables_of = _variables(task_vars)
    for name in map(str, task_vars.get("groups", {}).get(CLUSTER_GROUP, ())):
        state, own = states.get(name), variables_of(name)
        if state is None or _value(own, name, "calico_etcd_address"):
            continue
        earlier, new = bare(state.address), _parsed(_value(own, name, "calico_node_address"))
        if earlier and new and earlier != new:
            raise FleetError(
                f"calico_node_address of {name}",
                new,
                f"is another one than {earlier}, at which its member of etcd listens.",
                f"{steps_to_move(name, earlier, new)} Nothing was changed.",
            )


def steps_to_move(name: str, earlier: str, new: str) -> str:
    """Return the steps by which a host with a member gets another address, as text."""
    return (
        f"A member keeps its address, so take these steps: 1. Write {earlier} again, take {name} out of group "
        f"{CLUSTER_GROUP} with another host in its place, and run playbooks/etcd.yml, then playbooks/site.yml. 2. Stop "
        f"calico-etcd on {name}, and remove /var/lib/calico-etcd/member there. 3. Write {new}, and run "
        "playbooks/etcd.yml, so that the gates let the new address in, then playbooks/site.yml. 4. Put "
        f"{name} back into the group, and run both again."
    )


def _value(own: t.Mapping[str, t.Any], name: str, variable: str) -> t.Any:
    return inventory_source.evaluated(own, name, variable) if variable in own else None


def _parsed(value: t.Any) -> str:
    """Return the address in a text with or without a prefix length, "" if it is none."""
    try:
        return str(ipaddress.ip_interface(str(value)).ip)
    except ValueError:
        return ""


def shown_hosts(hosts: t.Iterable[EtcdHost]) -> str:
    """Return the hosts with their addresses, as text."""
    return ", ".join(f"{host.name} ({shown(host.address)})" for host in hosts)
