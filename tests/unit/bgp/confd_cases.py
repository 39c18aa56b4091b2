# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico's own BIRD configurations (confd's golden files), their resources, and the same fleet here.

`cases()` returns Calico's part. `state(case)`, `bird(case)` and `config(case)` return what the fleet here is compiled
to. The documents pass through the inventory as a user writes them.
What has no document there (a step that the original test makes by editing, a secret that it creates) stands below, in
words of that test (daemon_test.go).
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import json
import pathlib
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import compiler
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.fleet import Fleet
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

FILE = pathlib.Path(__file__).parents[1] / "cases" / "confd_bird_cases.json"
Document = dict[str, t.Any]

#: {field of the default BGPConfiguration: the variable of the inventory that takes its value}.
FLEET_VARIABLES = {
    "asNumber": "calico_bgp_as_number",
    "nodeToNodeMeshEnabled": "calico_bgp_node_to_node_mesh",
    "listenPort": "calico_bgp_listen_port",
    "logSeverityScreen": "calico_bgp_log_severity",
    "nodeMeshPassword": "calico_bgp_mesh_password",
    "ignoredInterfaces": "calico_bgp_ignored_interfaces",
    "communities": "calico_bgp_communities",
    "prefixAdvertisements": "calico_bgp_prefix_advertisements",
    "bindMode": "calico_bgp_bind_mode",
}
NODE_VARIABLES = {
    "listenPort": "calico_node_bgp_listen_port",
    "prefixAdvertisements": "calico_node_bgp_prefix_advertisements",
}
#: Fields without a variable here: Kubernetes' services, and who writes routes of pools without VXLAN (here BIRD).
WITHOUT_A_PLACE = {"serviceClusterIPs", "serviceLoadBalancerIPs", "programClusterRoutes"}

#: {case: the secrets that exist in that step, name:key -> password}. Other secrets are missing.
SECRETS = {
    "mesh/password/step2": {"my-secrets-1:a": "password-a"},
    "mesh/password/step3": {"my-secrets-1:a": "new-password-a"},
    "password/step2": {"my-secrets-1:b": "password-b"},
    "password/step3": {"my-secrets-1:a": "password-a", "my-secrets-1:b": "password-b", "my-secrets-2:c": "password-c"},
    "password/step4": {"my-secrets-1:a": "password-a", "my-secrets-1:b": "password-b"},
    "password/step5": {"my-secrets-1:a": "new-password-a", "my-secrets-1:b": "new-password-b"},
    "password/step6": {"my-secrets-1:b": "new-password-b"},
}
#: {case: {name of a BGPPeer: the fields that the step writes into its spec}}
EDITS = {
    "sourceaddr_gracefulrestart/step2": {"bgppeer-1": {"sourceAddress": "None"}},
    "sourceaddr_gracefulrestart/step3": {"bgppeer-1": {"sourceAddress": "None", "maxRestartTime": "10s"}},
}
#: The cases with two sessions of one address, and the BGPPeer that has a listenPort here. BIRD would else take the
#: connections of one session for those of the other, which is refused.
SECOND_SESSION = {
    "explicit_peering/global": "bgppeer-2",
    "explicit_peering/global-external": "bgppeer-2",
    "explicit_peering/local-as-global": "bgppeer-2",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A case of confd's tests.

    `node` is the node whose configuration is expected, `environment` its variables. `exact` is False if Calico's test
    reaches this step by edits after it has read its input. `resources` are all that apply, including those of earlier
    steps; `expected` is {"ipv4" or "ipv6": facts}.
    """

    name: str
    node: str
    exact: bool
    environment: t.Mapping[str, str]
    resources: tuple[Document, ...]
    expected: t.Mapping[str, t.Any]

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def secrets(self) -> t.Mapping[str, str]:
        return SECRETS.get(self.name, {})

    def of_kind(self, kind: str) -> list[Document]:
        return [document for document in self.resources if document["kind"] == kind]

    def __str__(self) -> str:
        return self.name


@functools.lru_cache(maxsize=1)
def cases() -> tuple[Case, ...]:
    """Return all 88 cases, including those without resources."""
    found: dict[str, Case] = {}
    # Some cases use fe0a::/16. It is reserved, so no node may have it here. fd0a::/16 tests the same.
    for entry in json.loads(FILE.read_text("utf-8").replace("fe0a", "fd0a"))["cases"]:
        name = entry["name"]
        resources = entry["resources"] or []
        if name.endswith("/step2") and resources and not any(one["kind"] == "Node" for one in resources):
            base = name[: -len("/step2")]
            resources = _updated(found[base].resources, resources)
        nodes = [one["metadata"]["name"] for one in resources if one["kind"] == "Node"]
        found[name] = Case(
            name,
            entry["node"] if entry["node"] in nodes else "node1",
            entry["input_is_exact"],
            entry.get("env") or {},
            tuple(_edited(copy.deepcopy(document), EDITS.get(name, {})) for document in resources),
            entry["expected"],
        )
    return tuple(found.values())


def _updated(before: t.Iterable[Document], changes: t.Iterable[Document]) -> list[Document]:
    """Return the documents of a datastore after `apply` of `changes`: each is added or replaces its namesake."""
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in [*before, *changes]}
    return list(by_name.values())


def _edited(document: Document, edits: t.Mapping[str, Document]) -> Document:
    if document["kind"] == "BGPPeer" and document["metadata"]["name"] in edits:
        document["spec"].update(edits[document["metadata"]["name"]])
    return document


# --- the inventory --------------------------------------------------------------------------------------------------


def hosts(case: Case) -> list[Host]:
    """Return the hosts of an inventory with the case's resources.

    Raise AssertionError for a field of the default BGPConfiguration that is unknown here. Fields of a node's own
    BGPConfiguration that are not in NODE_VARIABLES are left out.
    """
    fleet = _fleet_variables(case)
    own = {
        configuration["metadata"]["name"][len("node.") :]: configuration.get("spec") or {}
        for configuration in case.of_kind("BGPConfiguration")
        if configuration["metadata"]["name"].startswith("node.")
    }
    found = []
    for node in case.of_kind("Node"):
        name = node["metadata"]["name"]
        variables = {**fleet, **_node_variables(case, node)}
        configuration = _with_communities(own.get(name, {}), by_value=True)
        for field, variable in NODE_VARIABLES.items():
            if field in configuration:
                variables[variable] = configuration[field]
        found.append(Host(name, variables))
    return found


def _fleet_variables(case: Case) -> Document:
    default = next(
        (one.get("spec") or {} for one in case.of_kind("BGPConfiguration") if one["metadata"]["name"] == "default"), {}
    )
    default = _with_communities(default)
    variables = {variable: default[field] for field, variable in FLEET_VARIABLES.items() if field in default}
    # In Calico the mesh is on unless the case turns it off, also if there are reflectors.
    variables.setdefault("calico_bgp_node_to_node_mesh", True)
    if "nodeMeshMaxRestartTime" in default:
        variables["calico_bgp_mesh_max_restart_time"] = int(default["nodeMeshMaxRestartTime"].rstrip("s"))
    unknown = set(default) - set(FLEET_VARIABLES) - WITHOUT_A_PLACE - {"nodeMeshMaxRestartTime"}
    assert not unknown, f"{case.name}: {unknown} would be left out"
    if "calico_bgp_mesh_password" in variables:
        variables["calico_bgp_mesh_password"] = _readable(case, variables["calico_bgp_mesh_password"])
    # A fleet without any session is refused, unless it has BGPPeers: a case without one gets one that selects no node.
    peers = case.of_kind("BGPPeer") or [{"peerIP": "198.51.100.1", "asNumber": 65000, "nodeSelector": "!all()"}]
    variables["calico_bgp_peers"] = [_peer(case, one) for one in peers]
    variables["calico_bgp_filters"] = case.of_kind("BGPFilter")
    variables["calico_ip_pools"] = _pools(case)
    secrets: dict[str, dict[str, str]] = {}
    for name, password in case.secrets.items():
        secret, dummy, key = name.partition(":")
        secrets.setdefault(secret, {})[key] = password
    variables["calico_bgp_secrets"] = secrets
    return variables


def _with_communities(configuration: Document, by_value: bool = False) -> Document:
    """Return the configuration with the communities of its prefixAdvertisements as text.

    YAML 1.1 parsers read 5663:12 as a number of base 60.

    `by_value`: names of communities are replaced by their values, since a single node here has no names of its own.
    """
    values = {one["name"]: one["value"] for one in configuration.get("communities", ())} if by_value else {}
    advertisements = [
        {
            **one,
            "communities": [
                f"{entry // 60}:{entry % 60}" if isinstance(entry, int) else values.get(entry, entry)
                for entry in one["communities"]
            ],
        }
        for one in configuration.get("prefixAdvertisements", ())
    ]
    return {**configuration, **({"prefixAdvertisements": advertisements} if advertisements else {})}


def _pools(case: Case) -> list[Document]:
    """Return the case's pools; those of IPv6 only if a node has an IPv6 address.

    If none is left, return one that affects nothing, because a fleet here needs a pool.
    """
    six = any(((node.get("spec") or {}).get("bgp") or {}).get("ipv6Address") for node in case.of_kind("Node"))
    pools = [pool for pool in case.of_kind("IPPool") if six or ":" not in pool["spec"]["cidr"]]
    return pools or [{"name": "unused", "cidr": "198.18.0.0/16"}]


def _peer(case: Case, document: Document) -> Document:
    spec = dict(document.get("spec") or {})
    if spec.get("password"):
        spec["password"] = _readable(case, spec["password"])
    if SECOND_SESSION.get(case.name) == document.get("metadata", {}).get("name", ""):
        spec["listenPort"] = 1166
    return {**document, "spec": spec} if spec else document


def _readable(case: Case, password: Document) -> Document:
    """Return the password's reference, marked optional if the case lacks its secret.

    Calico leaves out a password whose secret is missing. Here the reference has to permit this.
    """
    reference = password["secretKeyRef"]
    missing = f"{reference['name']}:{reference['key']}" not in case.secrets
    return {"secretKeyRef": {**reference, **({"optional": True} if missing else {})}}


def _node_variables(case: Case, node: Document) -> Document:
    bgp = (node.get("spec") or {}).get("bgp") or {}
    of_fields = {
        "ipv4Address": "calico_node_address",
        "ipv6Address": "calico_node_address_ipv6",
        "asNumber": "calico_node_bgp_as_number",
        "routeReflectorClusterID": "calico_node_route_reflector_cluster_id",
    }
    variables = {variable: bgp[field] for field, variable in of_fields.items() if bgp.get(field)}
    if node["metadata"].get("labels"):
        variables["calico_node_labels"] = node["metadata"]["labels"]
    if "CALICO_ROUTER_ID" in case.environment and node["metadata"]["name"] == case.node:
        variables["calico_node_router_id"] = case.environment["CALICO_ROUTER_ID"]
    return variables


# --- the compiled state of a case's node ----------------------------------------------------------------------------


@functools.cache
def state(case: Case) -> NodeState:
    """Return the compiled state of the case's node; raise FleetError for refused settings."""
    return compiler.node_state(Fleet.build(inventory.read(hosts(case)), None), case.node)


def bird(case: Case) -> Bird:
    found = state(case).bird
    assert found is not None
    return found


@functools.cache
def config(case: Case) -> str:
    """Return the text of bird.cfg on the case's node; raise FleetError for refused settings."""
    return bird_config.render(state(case).to_dict()["bird"])
