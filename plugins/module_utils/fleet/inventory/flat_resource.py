# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources and labels as an inventory writes them: flat or as whole documents, and not always as texts."""

from __future__ import annotations

import functools
import typing as t

from ... import resources
from ...state.errors import FleetError, within

_Kind = t.TypeVar("_Kind", bound=resources.Resource)


def mapping(kind: type[resources.Resource], entry: t.Any, label: str) -> t.Mapping[str, t.Any]:
    """The entry, which `label` names in errors. Raises FleetError where it is no mapping."""
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", f"Write the fields of one {kind.KIND} there.")
    return entry


def read(kind: type[_Kind], entry: t.Any, label: str) -> _Kind:
    """Raises FleetError, which names the field within `label`."""
    try:
        return t.cast(_Kind, resources.parse_flat(kind.KIND, mapping(kind, entry, label)))
    except resources.ResourceError as error:
        raise refused(error, label) from error


def refused(error: resources.ResourceError, label: str) -> FleetError:
    """The error of a resource that stands at `label`."""
    where = within(label, error.field) if error.field else label
    return FleetError(where, error.value, error.rule, error.remedy)


def label_texts(labels: t.Mapping[t.Any, t.Any], label: str) -> dict[str, str]:
    """Keys and values as texts (YAML makes true and 1 of unquoted ones), checked. Raises FleetError."""
    texts = {str(key): str(entry).lower() if isinstance(entry, bool) else str(entry) for key, entry in labels.items()}
    if texts:
        try:
            _check_labels(tuple(texts.items()))
        except resources.ResourceError as error:
            raise FleetError(label, error.value, error.rule, error.remedy) from error
    return texts


@functools.lru_cache(maxsize=1024)
def _check_labels(items: tuple[tuple[str, str], ...]) -> None:
    """Raises ResourceError. Many hosts and workloads have the same labels."""
    resources.parse({"kind": "Node", "metadata": {"name": "node", "labels": dict(items)}, "spec": {}})
