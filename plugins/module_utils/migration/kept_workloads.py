# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Workloads with the addresses that they have: of Calico's WorkloadEndpoints, and of files of the plugin host-local."""

from __future__ import annotations

import re
import typing as t

from ..base.addresses import contains, parse_address
from ..ipam.allocation_plan import AllocationPlan, NodeAllocations
from ..resources.api import IPPool
from .import_report import ImportReport, Remark

#: Names that the inventory takes for workloads and namespaces.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", re.ASCII)
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_SHOWN_ID = 12
_OWN_LABELS = ("projectcalico.org/", "pcns.", "pcsa.")
#: What Calico calls its workloads without an orchestrator that is Kubernetes.
_KUBERNETES = "k8s"


class HostLocalFile(t.NamedTuple):
    """A file of host-local: /var/lib/cni/networks/<network>/<address>, with the container that has the address."""

    node: str
    network: str
    address: str
    content: str


class KeptWorkloads:
    """The workloads that the inventory gets, as entries of calico_workloads, each with its addresses."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self._names: set[tuple[str, str]] = set()
        self._addresses: dict[str, str] = {}
        self.entries: list[dict[str, t.Any]] = []

    @property
    def addresses(self) -> t.Mapping[str, str]:
        """The node of each address."""
        return self._addresses

    def add_endpoint(self, document: t.Mapping[str, t.Any], place: str) -> None:
        """Add the workload of a WorkloadEndpoint that was found valid."""
        spec, metadata = document.get("spec") or {}, document["metadata"]
        what = f"WorkloadEndpoint {metadata.get('name')}"
        if spec.get("orchestrator") == _KUBERNETES:
            self._report.left_out.append(Remark("WorkloadEndpoint", "is a pod of Kubernetes.", place))
            return
        addresses = [network.partition("/")[0] for network in spec.get("ipNetworks") or ()]
        labels = {
            key: value for key, value in (metadata.get("labels") or {}).items() if not key.startswith(_OWN_LABELS)
        }
        name = spec.get("workload") or spec.get("pod") or ""
        entry = {"name": name, "node": spec.get("node"), "namespace": metadata.get("namespace") or "default"}
        if labels:
            entry["labels"] = labels
        if spec.get("profiles"):
            entry["profiles"] = list(spec["profiles"])
        if self._add(entry, addresses, what, place) and spec.get("ipNATs"):
            self._report.for_a_person.append(Remark(what, "has ipNATs: publish ports of its host instead.", place))

    def add_host_local(self, files: t.Iterable[HostLocalFile], pools: t.Sequence[IPPool]) -> None:
        """Add the containers of host-local's files whose addresses lie in a pool."""
        found: dict[tuple[str, str, str], list[HostLocalFile]] = {}
        for file in files:
            what = f"{file.network} {file.address}"
            address = parse_address(file.address)
            words = file.content.replace("\r", "\n").split("\n")
            identifier = words[0].strip()
            if address is None or str(file.address) != file.address or not _IDENTIFIER.fullmatch(identifier):
                self._report.left_out.append(Remark(what, f"of {file.node} is no file of host-local."))
            elif not any(contains(pool.cidr, file.address) for pool in pools if _same_family(pool, file.address)):
                self._report.left_out.append(Remark(what, f"of {file.node} lies in no pool."))
            else:
                found.setdefault((file.node, file.network, identifier), []).append(file)
        for (node, network, identifier), several in found.items():
            name = f"{network}-{identifier[:_SHOWN_ID]}".lower().replace("_", "-")
            what = f"{network} {several[0].address}"
            entry = {"name": name, "node": node, "namespace": "default"}
            if self._add(entry, [file.address for file in several], what, ""):
                text = f"is the container {identifier[:_SHOWN_ID]} of {node}. Give the workload {name} its real name."
                self._report.for_a_person.append(Remark(what, text))

    def keep_within(self, plan: AllocationPlan, nodes: t.Collection[str]) -> None:
        """Leave out workloads of other nodes, and addresses that are in no block of their node. Both are reported."""
        kept = []
        for entry in self.entries:
            node, what = entry["node"], f"workload {entry['namespace']}/{entry['name']}"
            if node not in nodes:
                self._report.for_a_person.append(Remark(what, f"is on {node}, which is not among the nodes."))
                self._report.taken["workloads"] -= 1
                continue
            blocks = [grant.cidr for grant in plan.nodes.get(node, NodeAllocations()).blocks]
            for key in ("address", "address_ipv6"):
                if key in entry and not any(contains(cidr, entry[key]) for cidr in blocks):
                    text = f"had {entry.pop(key)}, which is in no block of {node}. It gets another address."
                    self._report.for_a_person.append(Remark(what, text))
            kept.append(entry)
        self.entries = kept

    def _add(self, entry: dict[str, t.Any], addresses: t.Sequence[str], what: str, place: str) -> bool:
        """Add an entry unless something is wrong with it, which is reported; return whether it was added."""
        problem = self._problem(entry, addresses)
        if problem:
            self._report.for_a_person.append(Remark(what, problem, place))
            return False
        for address in addresses:
            entry["address_ipv6" if ":" in address else "address"] = address
            self._addresses[address] = entry["node"]
        self._names.add((entry["namespace"], entry["name"]))
        self.entries.append(entry)
        self._report.taken["workloads"] += 1
        return True

    def _problem(self, entry: t.Mapping[str, t.Any], addresses: t.Sequence[str]) -> str:
        if not _NAME.fullmatch(entry["name"]) or not _NAMESPACE.fullmatch(entry["namespace"]):
            return "has a name or a namespace that a workload cannot have here."
        if (entry["namespace"], entry["name"]) in self._names:
            return f"is a second endpoint of {entry['namespace']}/{entry['name']}. A workload has one here."
        taken = [address for address in addresses if address in self._addresses]
        if taken:
            return f"has {taken[0]}, which another workload has, too."
        if not addresses or len({":" in address for address in addresses}) < len(addresses):
            return "does not have one address of an IP version."
        return ""


def _same_family(pool: IPPool, address: str) -> bool:
    return (":" in pool.cidr) is (":" in address)
