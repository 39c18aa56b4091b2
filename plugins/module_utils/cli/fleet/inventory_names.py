# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names that a completion on the controller offers: those of the last command that read the inventory.

Reading an inventory takes seconds, and runs its plugins and scripts: not what a Tab may do. So each command that has
read one notes the names, and nothing else, in a file of the user's cache.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import typing as t

from ...base.typed_json import Unreadable, by_name, items, text
from ...files import bounded, folders, replacement
from ..errors import CommandError
from ..render import kinds
from ..render.kind import Document, name_of, namespace_of

#: The most names of a kind that are noted, and the most bytes of a file that are read.
_MOST, _BYTES = 10_000, 16 << 20
_NAMES = by_name(items(items(text(512), 2, 2), _MOST), 64)
_DEFAULT = "default"
_ENDPOINT, _NODE = "WorkloadEndpoint", "Node"

Names = t.Mapping[str, t.Sequence[t.Sequence[str]]]


def note(inventories: t.Sequence[str], resources: t.Mapping[str, t.Sequence[Document]]) -> None:
    """Note the names of an inventory's `resources`, by kind. A file that cannot be written is none."""
    path = _path(inventories)
    if not path:
        return
    found = {
        kind: [(namespace_of(one) or "", _shown_name(one)) for one in documents[:_MOST]]
        for kind, documents in resources.items()
        if documents
    }
    with contextlib.suppress(OSError):
        folders.make(os.path.dirname(path), 0o700, 0o700)
        replacement.replace(path, json.dumps(found).encode(), 0o600, sync=False)


def _shown_name(document: Document) -> str:
    """Return the name by which `get` finds a document: a workload's own name for its endpoint."""
    return str(document["spec"].get("workload") or name_of(document)) if "spec" in document else name_of(document)


def _path(inventories: t.Sequence[str]) -> str:
    """Return the file with the names of these inventories, "" without a home."""
    home = os.environ.get("HOME", "")
    cache = os.environ.get("XDG_CACHE_HOME", "") or (os.path.join(home, ".cache") if home else "")
    if not os.path.isabs(cache):
        return ""
    places = [one if "," in one else os.path.abspath(one) for one in inventories]
    digest = hashlib.sha256(json.dumps(places).encode("utf-8", "surrogateescape")).hexdigest()
    return os.path.join(cache, "calicoctl", f"names-{digest[:32]}.json")


class InventoryNames:
    """The names that were noted of `inventories`, none if nothing was, or if the file is not the user's own."""

    def __init__(self, inventories: t.Sequence[str]) -> None:
        self._names: Names = {}
        path = _path(inventories)
        with contextlib.suppress(OSError, ValueError, Unreadable, bounded.TooLarge):
            status = os.lstat(path)
            if status.st_uid == os.geteuid() and not status.st_mode & 0o022:
                self._names = _NAMES(bounded.read_json(path, _BYTES))

    def resources(self, kind: str, namespace: t.Optional[str]) -> t.Iterable[str]:
        try:
            found = kinds.find(kind)
        except CommandError:
            return
        for where, name in self._names.get(found.name, ()):
            if not found.namespaced or where == (namespace or _DEFAULT):
                yield name

    def workloads(self) -> t.Iterable[str]:
        for namespace, name in self._names.get(_ENDPOINT, ()):
            yield name if namespace == _DEFAULT else f"{namespace}/{name}"

    def nodes(self) -> t.Iterable[str]:
        return [name for dummy, name in self._names.get(_NODE, ())]

    def namespaces(self) -> t.Iterable[str]:
        return {namespace for names in self._names.values() for namespace, dummy in names if namespace}
