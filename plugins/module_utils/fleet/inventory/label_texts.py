# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels as an inventory has them, as the texts that they are."""

from __future__ import annotations

import functools
import typing as t

from ... import resources
from ...state.errors import FleetError


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
