# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of resources and labels in an inventory. A resource is flat or a whole document; a label may be no text."""

from __future__ import annotations

import functools
import json
import typing as t

from ...resources import api as resources
from ...resources.errors import Refused
from ...state.errors import FleetError, within

_Kind = t.TypeVar("_Kind", bound=resources.Resource)


def mapping(kind: type[resources.Resource], entry: t.Any, label: str) -> t.Mapping[str, t.Any]:
    """Return `entry` if it is a mapping. Otherwise raise FleetError, which names the entry by `label`."""
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", f"Write the fields of one {kind.KIND} there.")
    return entry


def read(kind: type[_Kind], entry: t.Any, label: str) -> _Kind:
    """Return the resource of this kind in `entry`, a flat mapping or a whole document.

    Raise FleetError, which names the field within `label`, if the entry is invalid. A field that Calico knows and this
    collection does not support is accepted here.
    """
    try:
        return t.cast(_Kind, resources.parse_flat(kind.KIND, mapping(kind, entry, label)))
    except resources.ResourceError as error:
        raise refused(error, label) from error


def refused(error: t.Union[resources.ResourceError, Refused], label: str) -> FleetError:
    """Return, not raise, the FleetError for an error in a resource that is written at `label`."""
    where = within(label, error.field) if error.field else label
    return FleetError(where, error.value, error.rule, error.remedy)


def values_of(entry: t.Any, part: str, field: str) -> t.Iterator[t.Any]:
    """Yield `field` of an unchecked resource itself and of its `part` ("metadata" or "spec"), None if missing."""
    for place in (entry, entry.get(part) if isinstance(entry, dict) else None):
        if isinstance(place, dict):
            yield place.get(field)


def text_of(content: t.Any) -> str:
    """Return a text by which equal unchecked contents are found. Raise TypeError for a key that JSON cannot have."""
    return json.dumps(json.loads(json.dumps(content, default=str)), sort_keys=True)


def label_texts(labels: t.Mapping[t.Any, t.Any], label: str) -> dict[str, str]:
    """Return the labels with keys and values as texts: YAML reads unquoted ones as numbers and booleans.

    A boolean value becomes true or false, any other value and each key its text in Python. Raise FleetError for labels
    that Calico refuses, which names `label`, and for a label whose value is null, which names it within `label`.
    """
    empty = next((str(key) for key, entry in labels.items() if entry is None), None)
    if empty is not None:
        raise FleetError(within(label, empty), "null", "is not a text.", "Write '' for a label without a value.")
    texts = {str(key): str(entry).lower() if isinstance(entry, bool) else str(entry) for key, entry in labels.items()}
    if texts:
        try:
            _check_labels(tuple(texts.items()))
        except resources.ResourceError as error:
            raise FleetError(label, error.value, error.rule, error.remedy) from error
    return texts


@functools.lru_cache(maxsize=1024)
def _check_labels(items: tuple[tuple[str, str], ...]) -> None:
    """Raise ResourceError for labels that Calico refuses; valid ones are cached, because many hosts share labels."""
    resources.parse({"kind": "Node", "metadata": {"name": "node", "labels": dict(items)}, "spec": {}})
