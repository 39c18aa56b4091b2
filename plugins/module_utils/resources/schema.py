# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""JSON Schema (2020-12) of the resources, for editors.

The schema covers names, types and choices; only the resources themselves check rules between fields.
"""

from __future__ import annotations

from ..base.release import API_VERSION
from .documents import KINDS, WITH_STATUS
from .fields import Document, schema_of
from .kinds.ip_pool import ENCAPSULATIONS, IPPool
from .metadata import FROM_SERVERS

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(kind: str, flat: bool = False) -> Document:
    """Return the schema of a kind of KINDS or, with `flat`, of its flat form without apiVersion and kind."""
    cls = KINDS[kind]
    spec, metadata = schema_of(cls), schema_of(cls.METADATA.of)
    if flat:
        properties = {**metadata["properties"], **spec["properties"]}
        if cls is IPPool:
            properties["encapsulation"] = {"type": "string", "enum": list(ENCAPSULATIONS)}
            properties["natOutgoing"] = {"anyOf": [{"type": "boolean"}, {"enum": ["Enabled", "Disabled"]}]}
        required = ["name", "cidr"] if cls is IPPool else ["name"]
        return {"$schema": _DIALECT, "title": kind, **spec, "properties": properties, "required": required}
    metadata["properties"] = {**{name: {} for name in FROM_SERVERS}, **metadata["properties"]}
    metadata["required"] = ["name"]
    properties = {
        "apiVersion": {"const": API_VERSION},
        "kind": {"const": kind},
        "metadata": metadata,
        "spec": {**spec, "required": ["cidr"]} if cls is IPPool else spec,
    }
    if cls.STATUS:
        properties["status"] = cls.STATUS.schema()
    elif cls in WITH_STATUS:
        properties["status"] = {}
    return {
        "$schema": _DIALECT,
        "title": kind,
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": ["kind", "metadata", "spec"] if cls is IPPool else ["kind", "metadata"],
    }
