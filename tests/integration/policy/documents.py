# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico v3 documents, as short as they can be written: a dict each, as a YAML file would give it.

A rule that allows packets from `role == "web"`:  {"action": "Allow", "source": {"selector": 'role == "web"'}}
"""

from __future__ import annotations

import typing as t

from tests.integration.policy.node_in_namespace import workload_interface
from tests.unit.policy.random_policies import NODE

Document = dict[str, t.Any]

ALLOW: Document = {"action": "Allow"}
DENY: Document = {"action": "Deny"}
#: The name of the profile that allows everything. `workload` gives it to workloads by default.
OPEN = "open"


def document(kind: str, name: str, spec: Document, **metadata: t.Any) -> Document:
    return {"apiVersion": "projectcalico.org/v3", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def global_policy(name: str, selector: str = "all()", **spec: t.Any) -> Document:
    return document("GlobalNetworkPolicy", name, {"selector": selector, **spec})


def network_policy(name: str, selector: str = "all()", namespace: str = "default", **spec: t.Any) -> Document:
    return document("NetworkPolicy", name, {"selector": selector, **spec}, namespace=namespace)


def profile(name: str, **spec: t.Any) -> Document:
    return document("Profile", name, spec)


def tier(name: str, order: float, **spec: t.Any) -> Document:
    return document("Tier", name, {"order": order, **spec})


def network_set(name: str, *nets: str, **labels: str) -> Document:
    return document("GlobalNetworkSet", name, {"nets": list(nets)}, labels=labels)


def host_endpoint(interface: str, *profiles: str, **spec: t.Any) -> Document:
    """Return a HostEndpoint of the node, labelled `host: <interface>`, or `host: all` if `interface` is "*".

    `spec` adds fields, or replaces them.
    """
    label = "all" if interface == "*" else interface
    fields = {"node": NODE, "interfaceName": interface, "profiles": list(profiles), **spec}
    return document("HostEndpoint", f"host-{label}", fields, labels={"host": label})


def workload(
    index: int,
    *,
    profiles: t.Sequence[str] = (OPEN,),
    node: str = NODE,
    ports: t.Sequence[Document] = (),
    **labels: str,
) -> Document:
    """Return the WorkloadEndpoint `w<index>`, labelled `name: w<index>` and with `labels`.

    Its addresses of both IP versions and its interface follow from `index`.
    """
    spec = {
        "node": node,
        "workload": f"w{index}",
        "interfaceName": workload_interface(index),
        "ipNetworks": [f"10.65.0.{index + 1}/32", f"fd65::{index + 1:x}/128"],
        "profiles": list(profiles),
        "ports": list(ports),
    }
    return document("WorkloadEndpoint", f"w{index}", spec, namespace="default", labels={"name": f"w{index}", **labels})


def allow_all_profile() -> Document:
    return profile(OPEN, ingress=[ALLOW], egress=[ALLOW])


#: Two workloads of the node. Their profile allows everything.
WORKLOADS = (workload(0), workload(1))
