# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks of podman that the role writes: calico_node_podman_networks as files below /etc/containers/networks.

podman deletes unused networks by `podman network prune`. calico-files.service restores them.
"""

from __future__ import annotations

import hashlib
import json
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark import fields, network, options
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark.fields import NetavarkError
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.options import LABEL, MTU_OPTION
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError, did_you_mean, shown

VARIABLE = "calico_node_podman_networks"
FOLDER = "/etc/containers/networks"
DRIVER = "calico"
_LIMIT = 64  # the most networks of a node
#: The network that podman has from the start, and words that `podman run --network` takes for something else.
_RESERVED = frozenset(
    {"podman", "bridge", "container", "default", "host", "none", "ns", "pasta", "private", "slirp4netns"}
)
_KEYS = ("name", "pool", "labels", "mtu", "dns", "dns_search", "ipv6")

Document = dict[str, t.Any]


def read(value: t.Any) -> dict[str, Document]:
    """Return {name: the network as podman stores it}. Raise FleetError if the agent would refuse an entry."""
    if not isinstance(value, list):
        raise FleetError(VARIABLE, value, "is not a list.", "Write each network as - name: calico.")
    if len(value) > _LIMIT:
        raise FleetError(VARIABLE, None, f"has {len(value)} networks.", f"Use at most {_LIMIT}.")
    found: dict[str, Document] = {}
    for index, entry in enumerate(value):
        where = f"{VARIABLE}[{index}]"
        document = _document(where, entry)
        if document["name"] in found:
            raise FleetError(f"{where}.name", document["name"], "is the name of one before it.", "Choose another name.")
        found[document["name"]] = document
    return found


def files(networks: t.Mapping[str, Document]) -> list[dict[str, t.Any]]:
    """Return the files of networks for the module node, to be written last: they tell podman that it can use them."""
    return [
        {
            "path": f"{FOLDER}/{name}.json",
            "content": json.dumps(document, indent=4) + "\n",
            "mode": "0644",
            "last": True,
        }
        for name, document in networks.items()
    ]


def _document(where: str, entry: t.Any) -> Document:
    if not isinstance(entry, dict):
        raise FleetError(where, entry, "is not a network.", "Write it as - name: calico.")
    for key in entry:
        if key not in _KEYS:
            hint = did_you_mean(str(key), _KEYS, "A network has")
            raise FleetError(where, None, f"has no key {shown(key)}.", hint)
    given: dict[str, str] = {}
    for key, option in _LISTS.items():
        words = entry.get(key) or []
        words = [words] if isinstance(words, str) else words
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            rule = "is neither a text nor a list of texts."
            raise FleetError(f"{where}.{key}", words, rule, f"Write it as {key}: [{_EXAMPLES[key]}].")
        if words:
            given[option] = ",".join(words)
    if entry.get("mtu"):
        given[MTU_OPTION] = str(entry["mtu"])
    labels = entry.get("labels") or {}
    if not isinstance(labels, dict):
        raise FleetError(f"{where}.labels", labels, "is not a mapping.", "Write it as labels: {app: web}.")
    given.update({f"{LABEL}{key}": str(text) for key, text in labels.items()})
    name = entry.get("name")
    if isinstance(name, str) and name in _RESERVED:
        rule = "means something else to podman."
        raise FleetError(f"{where}.name", name, rule, "Choose another name, such as calico.")
    document: Document = {
        "name": name,
        "id": hashlib.sha256(str(name).encode()).hexdigest(),
        "driver": DRIVER,
        "ipv6_enabled": entry.get("ipv6") or False,
        "internal": False,
        "dns_enabled": False,
        "options": dict(sorted(given.items())),
        "ipam_options": {"driver": "none"},
    }
    try:
        network.checked(fields.read(network.NETWORK, document), "")
    except NetavarkError as error:
        raise FleetError(where, None, f"cannot be: {error.what}.", error.remedy) from error
    return document


_LISTS = {"pool": options.POOL, "dns": options.DNS, "dns_search": options.DNS_SEARCH}
_EXAMPLES = {"pool": "default-ipv4-ippool", "dns": "10.0.0.53", "dns_search": "example.org"}
