# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The conversion of a real Calico's documents into the parts of an inventory. No file is read or written."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from ..base.release import API_VERSION
from ..base.typed_json import Unreadable, plain
from ..ipam import lockfile
from ..resources import api as resources
from ..resources.api import IPPool, Node, ResourceError
from . import kept_blocks, manifest_pools, operator_installation
from .calico_blocks import CalicoBlocks
from .given_documents import GivenDocument, flattened
from .import_report import ImportReport, Remark
from .kept_workloads import HostLocalFile, KeptWorkloads

#: The apiVersion of what Calico stores in Kubernetes.
_STORED = "crd.projectcalico.org/v1"
_OPERATOR = "operator.tigera.io/v1"
#: The most documents of an import.
MOST_DOCUMENTS = 200_000
_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
#: Names that Ansible gives another meaning.
_NO_HOSTS = frozenset(("all", "ungrouped", "localhost"))
_OF_KUBERNETES = "is for Kubernetes, which is not here."
_STATE = "is what Calico's own programs write down."
_LEFT_OUT = {
    "ClusterInformation": _STATE,
    "CalicoNodeStatus": _STATE,
    "IPAMHandle": "says again which addresses a block has in use.",
    "IPAMConfig": "is Calico's own form of IPAMConfiguration. Export that by calicoctl.",
    "KubeControllersConfiguration": _OF_KUBERNETES,
    "ConfigMap": _OF_KUBERNETES,
    "ServiceAccount": _OF_KUBERNETES,
    "ClusterRole": _OF_KUBERNETES,
    "ClusterRoleBinding": _OF_KUBERNETES,
    "CustomResourceDefinition": _OF_KUBERNETES,
    "Deployment": _OF_KUBERNETES,
    "PodDisruptionBudget": _OF_KUBERNETES,
}
_DEFAULT_ALLOW = "projectcalico-default-allow"
#: Fields of a Node's spec that an inventory has. Tunnel addresses are in the lockfile; the rest is Calico's state.
_NODE_BGP = ("ipv4Address", "ipv6Address", "asNumber", "routeReflectorClusterID")
#: {field of a Node's bgp: annotation of a node of Kubernetes}
_ANNOTATIONS = {
    "ipv4Address": "projectcalico.org/IPv4Address",
    "ipv6Address": "projectcalico.org/IPv6Address",
    "asNumber": "projectcalico.org/ASNumber",
    "routeReflectorClusterID": "projectcalico.org/RouteReflectorClusterID",
}
_WITH_PASSWORDS, _PASSWORDS = ("BGPPeer", "BGPConfiguration"), ("password", "nodeMeshPassword")
_ENCRYPTION = ("wireguardEnabled", "wireguardEnabledV6")
_OF_SERVERS = ("kubectl.kubernetes.io/last-applied-configuration", "projectcalico.org/metadata")
_HOSTNAME = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True)
class ImportedInventory:
    """The parts of an inventory.

    `hosts` maps names to the variables of Ansible's connection. `documents` are resources that are valid here, without
    what servers write. `workloads` are entries of calico_workloads. `lockfile` is the text of the lockfile, "" if no
    block is known.
    """

    hosts: t.Mapping[str, t.Mapping[str, str]]
    documents: t.Sequence[dict[str, t.Any]]
    workloads: t.Sequence[dict[str, t.Any]]
    lockfile: str
    report: ImportReport


class TooManyDocuments(ValueError):
    """The error that an import was given more documents than it takes."""


def convert(given: t.Iterable[GivenDocument], host_local: t.Iterable[HostLocalFile] = ()) -> ImportedInventory:
    """Return the inventory that documents of a real Calico mean. Raise TooManyDocuments."""
    conversion = _Conversion()
    for document in given:
        for one in flattened(document):
            conversion.add(one)
    return conversion.finished(host_local)


class _Conversion:
    """The state of a conversion: what was found so far."""

    def __init__(self) -> None:
        self._report = ImportReport()
        self._blocks = CalicoBlocks(self._report)
        self._workloads = KeptWorkloads(self._report)
        self._documents: dict[tuple[str, str, str], dict[str, t.Any]] = {}
        self._places: dict[tuple[str, str, str], str] = {}
        self._endpoints: list[tuple[t.Mapping[str, t.Any], str]] = []
        self._manifests: list[tuple[t.Mapping[str, t.Any], str, str]] = []
        self._installations: list[tuple[dict[str, t.Any], str, str]] = []
        self._count = 0

    def add(self, given: GivenDocument) -> None:
        self._count += 1
        if self._count > MOST_DOCUMENTS:
            raise TooManyDocuments(f"there are more than {MOST_DOCUMENTS:,} documents")
        document, place = given
        kind, name = _identity(document)
        what = f"{kind} {name}".strip()
        if not isinstance(document, dict) or not kind:
            self._report.for_a_person.append(Remark("document", "has no kind.", place))
        elif kind == "BlockAffinity":
            self._blocks.add_affinity(document.get("spec"), what, place)
        elif kind == "IPAMBlock":
            self._blocks.add_block(document.get("spec"), what, place)
        elif kind == "Installation" and _HOST.fullmatch(name):
            self._installations.append((document, what, place))
        elif kind == "DaemonSet":
            self._manifests.append((document, what, place))
        elif kind in _LEFT_OUT:
            self._report.left_out.append(Remark(what, _LEFT_OUT[kind], place))
        elif kind not in resources.KINDS:
            self._report.for_a_person.append(Remark(what, "is of a kind that is not known here.", place))
        else:
            self._add_resource(document, kind, what, place)

    def _add_resource(self, document: dict[str, t.Any], kind: str, what: str, place: str) -> None:
        document = self._of_api(document, what, place)
        try:
            resource = resources.parse(document)
            resources.check_supported(resource)
        except ResourceError as error:
            self._report.for_a_person.append(Remark(f"{error}", "It is left out.", place))
            return
        if self._is_automatic(kind, resource.name, what, place):
            return
        kept = _without_servers(document, resource)
        if kind == "WorkloadEndpoint":
            self._endpoints.append((kept, place))
            return
        if kind == "Node":
            kept = self._node(kept, what, place)
        elif kind == "FelixConfiguration":
            kept = self._felix(kept, what, place)
        key = (kind, kept["metadata"].get("namespace", ""), kept["metadata"]["name"])
        if self._documents.setdefault(key, kept) != kept:
            text = f"stands a second time, with other content: {self._places[key]} is taken."
            self._report.for_a_person.append(Remark(what, text, place))
        self._places.setdefault(key, place)

    def _of_api(self, document: dict[str, t.Any], what: str, place: str) -> dict[str, t.Any]:
        """Return a document of Kubernetes' storage, or a node of Kubernetes, as Calico's API shows it."""
        if document["kind"] == "Node" and document.get("apiVersion") == "v1":
            self._report.changed.append(Remark(what, "was a node of Kubernetes, with Calico's annotations.", place))
            return _calico_node(document)
        if document.get("apiVersion") != _STORED:
            return document
        document = {**document, "apiVersion": API_VERSION}
        given, spec = document.get("metadata"), document.get("spec")
        metadata: dict[str, t.Any] = given if isinstance(given, dict) else {}
        name = metadata.get("name")
        tier = spec.get("tier", "default") if isinstance(spec, dict) else "default"
        if document["kind"].endswith("NetworkPolicy") and isinstance(name, str) and tier == "default":
            if name.startswith("default."):
                document["metadata"] = {**metadata, "name": name.removeprefix("default.")}
        self._report.changed.append(Remark(what, f"was {_STORED}, and is {API_VERSION} now.", place))
        return document

    def _is_automatic(self, kind: str, name: str, what: str, place: str) -> bool:
        """Return whether Calico made the resource itself, which is reported."""
        if kind == "Profile" and name == _DEFAULT_ALLOW:
            self._report.left_out.append(Remark(what, "exists here already.", place))
        elif kind == "HostEndpoint" and name.endswith("-auto-hep"):
            self._report.left_out.append(Remark(what, "was made by Calico for each node.", place))
        elif kind == "NetworkPolicy" and name.startswith("knp.default."):
            text = "is a NetworkPolicy of Kubernetes. Write one that selects workloads by labels that they have here."
            self._report.for_a_person.append(Remark(what, text, place))
        else:
            return False
        return True

    def _node(self, document: dict[str, t.Any], what: str, place: str) -> dict[str, t.Any]:
        """Return a Node with what an inventory says of it."""
        metadata, spec = dict(document["metadata"]), document.get("spec") or {}
        labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != _HOSTNAME}
        metadata.pop("labels", None)
        metadata.pop("annotations", None)
        if labels:
            metadata["labels"] = labels
        bgp = {key: value for key, value in (spec.get("bgp") or {}).items() if key in _NODE_BGP and value}
        if spec.get("wireguard") or any(key.startswith("wireguard") for key in document.get("status") or {}):
            self._report.for_a_person.append(Remark(what, "uses WireGuard. Nothing here encrypts.", place))
        head = {key: document[key] for key in ("apiVersion", "kind")}
        return {**head, "metadata": metadata, "spec": {"bgp": bgp} if bgp else {}}

    def _felix(self, document: dict[str, t.Any], what: str, place: str) -> dict[str, t.Any]:
        """Return a FelixConfiguration without encryption, which is reported."""
        spec = document.get("spec") or {}
        if not any(spec.get(field) for field in _ENCRYPTION):
            return document
        text = "encrypts what nodes send each other. Nothing here does: decide whether the network may see it."
        self._report.for_a_person.append(Remark(what, text, place))
        return {**document, "spec": {key: value for key, value in spec.items() if key not in _ENCRYPTION}}

    def finished(self, host_local: t.Iterable[HostLocalFile]) -> ImportedInventory:
        self._pools_of_manifests()
        documents = list(self._documents.values())
        nodes = [document for document in documents if document["kind"] == "Node"]
        hosts = {}
        for node in nodes:
            name = node["metadata"]["name"]
            if self._host(node):
                hosts[name] = self._host(node)
        documents = [one for one in documents if one["kind"] != "Node" or one["metadata"]["name"] in hosts]
        pools = [t.cast(IPPool, resources.parse(one)) for one in documents if one["kind"] == "IPPool"]
        for endpoint, place in self._endpoints:
            self._workloads.add_endpoint(endpoint, place)
        self._workloads.add_host_local(host_local, pools)
        plan = kept_blocks.plan(
            pools, hosts.keys(), self._blocks.by_cidr.values(), self._workloads.addresses, self._report
        )
        self._workloads.keep_within(plan, hosts.keys())
        self._add_installations(documents)
        for document in documents:
            self._report.taken[document["kind"]] += 1
            spec = document.get("spec") or {}
            if document["kind"] in _WITH_PASSWORDS and any(spec.get(field) for field in _PASSWORDS):
                what = f"{document['kind']} {document['metadata']['name']}"
                text = "has a password: write it to calico_bgp_secrets, encrypted by ansible-vault."
                self._report.for_a_person.append(Remark(what, text))
        text = lockfile.dump(plan) if plan.nodes or plan.quarantine else ""
        return ImportedInventory(hosts, documents, self._workloads.entries, text, self._report)

    def _host(self, node: t.Mapping[str, t.Any]) -> dict[str, str]:
        """Return the variables of a node's host; {}, which is reported, if it can be none."""
        name, bgp = node["metadata"]["name"], (node.get("spec") or {}).get("bgp") or {}
        address = bgp.get("ipv4Address") or bgp.get("ipv6Address") or ""
        if not _HOST.fullmatch(name) or name in _NO_HOSTS:
            self._report.for_a_person.append(Remark(f"Node {name}", "has a name that no host of Ansible can have."))
        elif not address:
            text = "has no address. Add it to the inventory with calico_node_address."
            self._report.for_a_person.append(Remark(f"Node {name}", text))
        else:
            return {"ansible_host": address.partition("/")[0]}
        return {}

    def _add_installations(self, documents: list[dict[str, t.Any]]) -> None:
        """Add what the operator's Installations say beside `documents`: with pools there, each pool is one of both."""
        pools = [t.cast(IPPool, resources.parse(one)) for one in documents if one["kind"] == "IPPool"]
        for document, what, place in self._installations:
            try:
                spec = plain(document.get("spec") or {})
            except Unreadable as error:
                self._report.for_a_person.append(Remark(what, f"has a spec that cannot be read: {error}.", place))
                continue
            if not isinstance(spec, dict):
                self._report.for_a_person.append(Remark(what, "has a spec that is no mapping.", place))
                continue
            if pools:
                spec = self._beside(pools, spec, documents, what, place)
            if spec or not pools:
                name = {"name": document["metadata"]["name"]}
                documents.append({"apiVersion": _OPERATOR, "kind": "Installation", "metadata": name, "spec": spec})

    def _beside(
        self,
        pools: t.Sequence[IPPool],
        spec: dict[str, t.Any],
        documents: list[dict[str, t.Any]],
        what: str,
        place: str,
    ) -> dict[str, t.Any]:
        """Return the spec to keep of an Installation; its MTU goes into the FelixConfiguration among `documents`."""
        felix = next((one for one in documents if _is_felix_default(one)), operator_installation.felix_document({}))
        there = felix.get("spec") or {}
        kept = operator_installation.beside_pools(
            spec, pools, there, functools.partial(_remark, what, place), self._report
        )
        if kept.felix:
            changed = {**felix, "spec": {**there, **kept.felix}}
            documents[:] = [*(one for one in documents if one is not felix), changed]
        return kept.spec

    def _pools_of_manifests(self) -> None:
        """Add the pools of calico-node's manifests, unless there are pools: then Calico has made them already."""
        there = any(kind == "IPPool" for kind, dummy, dummy2 in self._documents)
        for manifest, what, place in self._manifests:
            try:
                found = manifest_pools.pools(manifest)
            except manifest_pools.UnreadableManifest as error:
                self._report.for_a_person.append(Remark(what, str(error), place))
                continue
            if not found or there:
                why = "asks for pools that Calico made at its first start." if found else _OF_KUBERNETES
                self._report.left_out.append(Remark(what, why, place))
                continue
            for pool in found:
                name = pool["metadata"]["name"]
                self._report.changed.append(Remark(what, f"asks for the pool {name}.", place))
                self._add_resource({"apiVersion": API_VERSION, **pool}, "IPPool", f"IPPool {name}", place)


def _remark(what: str, place: str, text: str) -> Remark:
    return Remark(what, text, place)


def _is_felix_default(document: t.Mapping[str, t.Any]) -> bool:
    return bool(document["kind"] == "FelixConfiguration" and document["metadata"]["name"] == "default")


def _calico_node(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a node of Kubernetes as Calico's Node: Calico keeps its part of the node in annotations."""
    given = document.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    annotations = metadata.get("annotations")
    found = annotations if isinstance(annotations, dict) else {}
    bgp = {field: found[key] for field, key in _ANNOTATIONS.items() if key in found}
    if isinstance(bgp.get("asNumber"), str) and bgp["asNumber"].isascii() and bgp["asNumber"].isdecimal():
        bgp["asNumber"] = int(bgp["asNumber"][:10])
    plain = {key: metadata[key] for key in ("name", "labels") if key in metadata}
    return {"apiVersion": API_VERSION, "kind": "Node", "metadata": plain, "spec": {"bgp": bgp} if bgp else {}}


def _identity(document: t.Any) -> tuple[str, str]:
    """Return the kind and the name of a document, "" for what it does not have, each cut to 253 characters."""
    if not isinstance(document, dict):
        return "", ""
    kind, metadata = document.get("kind"), document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    return (kind[:253] if isinstance(kind, str) else ""), (name[:253] if isinstance(name, str) else "")


def _without_servers(document: t.Mapping[str, t.Any], resource: resources.Resource) -> dict[str, t.Any]:
    """Return a valid document without what servers write, its spec as it was given."""
    given = document.get("metadata") or {}
    metadata: dict[str, t.Any] = {"name": given["name"]}
    if given.get("namespace") and resource.to_document()["metadata"].get("namespace"):
        metadata["namespace"] = given["namespace"]
    if given.get("labels"):
        metadata["labels"] = dict(given["labels"])
    annotations = {key: value for key, value in (given.get("annotations") or {}).items() if key not in _OF_SERVERS}
    if annotations and not isinstance(resource, Node):
        metadata["annotations"] = annotations
    found = {"apiVersion": API_VERSION, "kind": document["kind"], "metadata": metadata}
    for part in ("spec", "status"):
        if document.get(part):
            found[part] = document[part]
    return found
