# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change is asked with, as plain data, and the plan of it.

    {"verb": "apply", "namespace": "", "skip": false, "documents": [{"content": {...}, "place": "web.yml:3"}]}
    {"verb": "delete", "namespace": "", "skip": false, "kind": "Tier", "word": "tiers", "names": ["web"]}

The verb patch has patch and type as well, and the verb label has label, remove and overwrite. "adopt" is true to move
resources of an inventory out of variables.
"""

from __future__ import annotations

import typing as t

from ...base.live_source import without_source
from ...resources import api as resources
from ..patches import labels
from .change_plan import (
    AskedDocument,
    ChangeRefused,
    Present,
    ResourcePlan,
    plan_delete,
    plan_documents,
    plan_label,
    plan_patch,
)
from .resource_key import ResourceKey

Data = dict[str, t.Any]


def plan_request(present: Present, request: Data) -> ResourcePlan:
    """Return the plan of what is asked. Raise ChangeRefused or LabelRefused."""
    verb, namespace, skip = request["verb"], request["namespace"], request["skip"]
    adopt = request.get("adopt", False)
    if "documents" in request:
        asked = [AskedDocument(without_source(one["content"]), one["place"]) for one in request["documents"]]
        return plan_documents(verb, present, asked, namespace, skip, adopt)
    keys = named_keys(request)
    if verb == "delete":
        return plan_delete(present, keys, skip, adopt)
    if verb == "patch":
        return plan_patch(present, keys[0], request["patch"], request["type"], adopt)
    label = labels.read(request["label"], request["remove"], request["overwrite"])
    return plan_label(present, keys[0], label, f"{request['word']} {keys[0].name}", adopt)


def named_keys(request: Data) -> list[ResourceKey]:
    """Return the keys of the resources that a request names by kind and name. Raise ChangeRefused for a namespace."""
    kind, namespace = request["kind"], request["namespace"]
    namespaced = issubclass(resources.KINDS[kind], resources.NamespacedResource)
    if namespace and not namespaced:
        raise ChangeRefused(f"{kind} is not namespaced")
    space = (namespace or resources.DEFAULT_NAMESPACE) if namespaced else ""
    return [ResourceKey(kind, space, name) for name in request["names"]]
