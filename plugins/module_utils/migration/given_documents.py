# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents in what Calico's tools print: lists, dumps of etcd, and the export of `calicoctl datastore migrate`.

An entry of etcd becomes the document that Calico's API server would show for it.
"""

from __future__ import annotations

import base64
import binascii
import re
import typing as t

from ..base.typed_json import NotJson, parse

#: Keys of an export of `calicoctl datastore migrate`.
_MIGRATED = ("block_affinities", "blocks", "handles", "config")
_BLOCK = re.compile(r"/?calico/ipam/v2/assignment/ipv[46]/block/([^/]+)")
_AFFINITY = re.compile(r"/?calico/ipam/v2/(host|virtual)/([^/]+)/ipv[46]/block/([^/]+)")
_HANDLE = re.compile(r"/?calico/ipam/v2/handle/([^/]+)")
_RESOURCE = re.compile(r"/?calico/resources/v3/.+")
#: The most characters of an entry of etcd: etcd itself takes 1.5 MiB.
_MOST = 4 << 20
_DEEPEST = 4


class GivenDocument(t.NamedTuple):
    """A document as it was given, and its file with the line."""

    document: t.Any
    place: str


def flattened(given: GivenDocument, depth: int = 0) -> t.Iterator[GivenDocument]:
    """Yield the documents in a document, in their order; itself if it is no list and no dump."""
    found, place = given
    if depth > _DEEPEST:
        yield given
    elif isinstance(found, list):
        for item in found:
            yield from flattened(GivenDocument(item, place), depth + 1)
    elif isinstance(found, dict) and "kind" not in found and isinstance(found.get("kvs"), list):
        for entry in found["kvs"]:
            yield GivenDocument(_of_etcd(entry), place)
    elif isinstance(found, dict) and "kind" not in found and any(key in found for key in _MIGRATED):
        for key in _MIGRATED:
            value = found.get(key)
            for entry in value if isinstance(value, list) else [value] if isinstance(value, dict) else []:
                yield GivenDocument(_of_pair(entry), place)
    elif isinstance(found, dict) and _is_list(found):
        kind = found["kind"][: -len("List")]
        for item in found["items"] or ():
            if isinstance(item, dict) and kind:
                item = {"apiVersion": found.get("apiVersion"), "kind": kind, **item}
            yield from flattened(GivenDocument(item, place), depth + 1)
    else:
        yield given


def _is_list(document: t.Mapping[str, t.Any]) -> bool:
    kind, items = document.get("kind"), document.get("items", ())
    return isinstance(kind, str) and kind.endswith("List") and (items is None or isinstance(items, list))


def _of_pair(entry: t.Any) -> t.Any:
    """Return the document of an entry of an export: {"Key": path, "Value": {...}}."""
    if not isinstance(entry, dict) or not isinstance(entry.get("Key"), str):
        return entry
    return _document(entry["Key"], entry.get("Value"))


def _of_etcd(entry: t.Any) -> t.Any:
    """Return the document of an entry of `etcdctl get --prefix /calico -w json`, whose key and value are in base64."""
    if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
        return entry
    value = entry.get("value", "")
    if not isinstance(value, str) or len(value) > _MOST:
        return {"kind": "etcd entry", "metadata": {"name": "with a value that is too large"}}
    try:
        key = base64.b64decode(entry["key"], validate=True).decode("utf-8")
        text = base64.b64decode(value, validate=True)
        return _document(key, parse(text) if text else {})
    except (binascii.Error, UnicodeDecodeError, NotJson):
        return {"kind": "etcd entry", "metadata": {"name": "that is not Calico's"}}


def _document(key: str, value: t.Any) -> t.Any:
    for pattern, make in _MAKERS:
        match = pattern.fullmatch(key)
        if match:
            return make(match, value)
    return {"kind": "etcd entry", "metadata": {"name": key}}


def _spec(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _affinity(match: t.Match[str], value: t.Any) -> dict[str, t.Any]:
    kind, node, cidr = match.groups()
    spec = {**_spec(value), "type": kind, "node": node, "cidr": cidr[::-1].replace("-", "/", 1)[::-1]}
    return {"kind": "BlockAffinity", "metadata": {"name": f"{node}-{cidr}"}, "spec": spec}


def _of_block(match: t.Match[str], value: t.Any) -> dict[str, t.Any]:
    return {"kind": "IPAMBlock", "metadata": {"name": match.group(1)}, "spec": _spec(value)}


def _of_handle(match: t.Match[str], value: t.Any) -> dict[str, t.Any]:
    return {"kind": "IPAMHandle", "metadata": {"name": match.group(1)}, "spec": _spec(value)}


_MAKERS: tuple[tuple[t.Pattern[str], t.Callable[[t.Match[str], t.Any], t.Any]], ...] = (
    (_AFFINITY, _affinity),
    (_BLOCK, _of_block),
    (_HANDLE, _of_handle),
    (_RESOURCE, lambda dummy, value: value),
)
