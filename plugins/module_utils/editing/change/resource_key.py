# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind, namespace and name that identify a resource, and the version of its content."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ...resources import api as resources
from ...resources.metadata import FROM_SERVERS

_VERSION = re.compile("r[0-9a-f]{16}")
#: {kind: the paths in its spec of what a run assigns}
_ASSIGNED = {
    "Node": (
        ("bgp", "ipv4IPIPTunnelAddr"),
        ("ipv4VXLANTunnelAddr",),
        ("ipv6VXLANTunnelAddr",),
        ("vxlanTunnelMACAddr",),
        ("vxlanTunnelMACAddrV6",),
    ),
}


class ResourceKey(t.NamedTuple):
    """What identifies a resource; `namespace` is "" for a kind without namespaces."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}({self.namespace}/{self.name})" if self.namespace else f"{self.kind}({self.name})"


def key_of(resource: resources.Resource) -> ResourceKey:
    """Return what identifies a resource that is read."""
    return ResourceKey(resource.KIND, getattr(resource.metadata, "namespace", ""), resource.name)


def key_in(content: t.Any) -> t.Optional[ResourceKey]:
    """Return the key of the resource in a document that may be invalid; None if it has no kind or no name."""
    if not isinstance(content, t.Mapping):
        return None
    try:
        return key_of(resources.parse(content))
    except resources.ResourceError:
        pass
    kind, metadata = content.get("kind"), content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, t.Mapping) else None
    if not isinstance(kind, str) or not isinstance(name, str):
        return None
    namespace = metadata.get("namespace") if isinstance(metadata, t.Mapping) else None
    return ResourceKey(kind, namespace if isinstance(namespace, str) else "", name)


def own_content(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a document with apiVersion and without what a server writes: what belongs into a file."""
    metadata = document.get("metadata")
    if isinstance(metadata, t.Mapping):
        dropped = set(FROM_SERVERS) - {"namespace"}
        metadata = {key: value for key, value in metadata.items() if key not in dropped}
    return {"apiVersion": resources.API_VERSION, **document, "metadata": metadata}


def version_of(document: t.Mapping[str, t.Any]) -> str:
    """Return the resourceVersion of a document: a digest of its content without what a server or a run writes."""
    content = own_content(document)
    content.pop("status", None)
    for path in _ASSIGNED.get(str(content.get("kind")), ()):
        content["spec"] = _without(content.get("spec"), path)
    text = json.dumps(content, sort_keys=True, default=str)
    return "r" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def with_version(document: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a document with its resourceVersion, by which a change sees whether the resource changed meanwhile."""
    metadata = {**document["metadata"], "resourceVersion": version_of(document)}
    return {**document, "metadata": metadata}


def _without(value: t.Any, path: t.Sequence[str]) -> t.Any:
    """Return a copy of a value without the field at a path, if it has that."""
    if not isinstance(value, t.Mapping) or path[0] not in value:
        return value
    rest = {key: inner for key, inner in value.items() if key != path[0]}
    return rest if len(path) == 1 else {**rest, path[0]: _without(value[path[0]], path[1:])}


def asked_version(document: t.Any) -> str:
    """Return the resourceVersion that a document was made from, "" if it has none or that of a server's datastore."""
    found = _asked(document)
    return found if _VERSION.fullmatch(found) else ""


def asked_revision(document: t.Any) -> str:
    """Return the revision of the datastore that a document was made from, "" if it has none or that of an inventory."""
    found = _asked(document)
    return "" if _VERSION.fullmatch(found) else found


def _asked(document: t.Any) -> str:
    metadata = document.get("metadata") if isinstance(document, t.Mapping) else None
    found = metadata.get("resourceVersion") if isinstance(metadata, t.Mapping) else None
    return found if isinstance(found, str) else ""
