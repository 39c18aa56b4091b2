# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A live document: a Calico v3 resource as JSON, in the value of the key that has its kind and name.

Every document is input. `calicoctl` writes only what is valid, but others may write into etcd by hand.
"""

from __future__ import annotations

import typing as t

from ...base import packed_json
from ...base.document_limits import BeyondLimits, DocumentLimits, read_json
from ...policy import model
from ...policy.documents import from_resources
from ...resources import api as resources
from ...state.live_policy import Value
from ...state.plain_data import SharedValues, reader, to_plain
from .. import keys
from ..documents import RefusedDocument, encoded
from ..keys import DocumentKey

#: A document of 256 KiB has at most 130,000 values; of a policy's usual rules it has 30,000.
LIMITS = DocumentLimits(keys.DOCUMENT_BYTES, 60_000, 32)

#: What a live document is for policy. A staged deletion is nothing.
LiveValue = t.Optional[Value]


def encode(document: t.Mapping[str, t.Any]) -> bytes:
    """Return the value of a live document, in the one form that equal documents have."""
    return encoded(document)


def decode(key: DocumentKey, value: bytes) -> resources.Resource:
    """Return the resource in the value of a live document. Raise RefusedDocument for anything that is not valid there.

    Its kind, namespace and name have to be those of the key.
    """
    if len(value) > keys.DOCUMENT_BYTES:
        raise RefusedDocument(f"it has more than {keys.DOCUMENT_BYTES} bytes.")
    try:
        content = read_json(value.decode("utf-8"), LIMITS)
    except UnicodeDecodeError:
        raise RefusedDocument("it is not UTF-8.") from None
    except BeyondLimits as error:
        raise RefusedDocument(f"it {error}") from None
    except ValueError:
        raise RefusedDocument("it is not JSON.") from None
    if not isinstance(content, dict):
        raise RefusedDocument("it is no JSON object.")
    try:
        resource = resources.parse(content)
        found = DocumentKey(resource.KIND, getattr(resource.metadata, "namespace", ""), resource.name)
        if found != key:
            raise RefusedDocument(f"it is {found}, and its key is that of {key}.")
        resources.check_supported(resource)
    except resources.ResourceError as error:
        raise RefusedDocument(f"it is not valid: {error}") from None
    return resource


def value_of(resource: resources.Resource) -> LiveValue:
    """Return what the resource of a live document is for policy. Raise RefusedDocument if policy cannot have it."""
    try:
        if isinstance(resource, resources.Tier):
            return model.PolicyTier(resource.name, resource.order, resource.defaultAction)
        if isinstance(resource, (resources.GlobalNetworkPolicy, resources.NetworkPolicy)):
            return None if from_resources.is_deletion(resource) else from_resources.policy(resource)
        if isinstance(resource, (resources.GlobalNetworkSet, resources.NetworkSet)):
            return from_resources.network_set(resource)
    except resources.ResourceError as error:
        raise RefusedDocument(f"it is not valid: {error}") from None
    raise RefusedDocument(f"a {resource.KIND} cannot be live. Write it into the inventory: calicoctl -i INVENTORY.")


def pack(value: LiveValue) -> str:
    """Return what a live document is for policy as one line of text, for the disk."""
    return packed_json.pack(None if value is None else to_plain(value))


def unpack(key: DocumentKey, line: str, known: SharedValues) -> LiveValue:
    """Return the value of a document from the result of `pack`, with the equal parts in `known`. Raise ValueError."""
    data = packed_json.unpack_shared(line)
    if data is None:
        return None
    kind = model.PolicyTier if key.kind == "Tier" else model.Policy
    found: Value = reader(model.PolicyNetworkSet if key.kind.endswith("Set") else kind)(data, known)
    return found
