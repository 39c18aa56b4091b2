# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words by which answers say where policy is from: an annotation of listings, and what lacks live documents.

The annotation is never written.
"""

from __future__ import annotations

import typing as t

SOURCE = "baremetal.host-routing/source"


def without_live_documents(why: str) -> str:
    """Return the clause, without a full stop, by which an answer says that it lacks live documents, and `why`."""
    return f"without live documents: {why}, ask `calicoctl policy explain` on a node"


def with_source(document: t.Mapping[str, t.Any], source: str, revision: int = 0) -> dict[str, t.Any]:
    """Return a document with the annotation of its source, and with its resourceVersion unless that is 0."""
    metadata = dict(document["metadata"])
    metadata["annotations"] = {**(metadata.get("annotations") or {}), SOURCE: source}
    if revision:
        metadata["resourceVersion"] = str(revision)
    return {**document, "metadata": metadata}


def without_source(content: t.Any) -> t.Any:
    """Return a document, which may be invalid, without the annotation of its source."""
    metadata = content.get("metadata") if isinstance(content, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations, dict) or SOURCE not in annotations:
        return content
    kept = {name: text for name, text in annotations.items() if name != SOURCE}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**content, "metadata": {**rest, "annotations": kept} if kept else rest}
