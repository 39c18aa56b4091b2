# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a change of live documents, from what is asked and what the datastore has of it.

Semantics and words are those of a change of an inventory (editing/change/). What a node would not understand is refused
before it is written.
"""

from __future__ import annotations

import json
import typing as t

from ...base.document_limits import BeyondLimits
from ...base.typed_json import NotJson, parse
from ...datastore import keys
from ...datastore.documents import RefusedDocument
from ...datastore.keys import DocumentKey, InvalidKey, KeyRange, document_key
from ...datastore.live import live_documents
from ...resources import api as resources
from ..change import change_request
from ..change.change_plan import ChangeRefused, PresentResource
from ..change.resource_key import ResourceKey, key_in, own_content
from ..patches.labels import LabelRefused

Data = dict[str, t.Any]

#: The annotation of the documents of a folder that is put in force as a whole: the name of its owner.
OWNER = "baremetal.host-routing/owner"
#: The kinds of live documents that are policies, each in a tier.
POLICY_KINDS = ("GlobalNetworkPolicy", "NetworkPolicy", "StagedGlobalNetworkPolicy", "StagedNetworkPolicy")
_NAMED = 5
#: A document that cannot be read alone, in the place of one that somebody wrote by hand.
_UNREADABLE: Data = {"apiVersion": "unreadable"}


class StoredDocument(t.NamedTuple):
    """The value of a key, and its mod revision."""

    value: bytes
    revision: int


class LiveView(t.NamedTuple):
    """What the datastore has: those of the documents that a change is about, and how many and large all are.

    `inventory` are those of the keys that documents of the inventory have. `total` is the number
    of all live documents, and `size` the bytes of their values, or 0 if they are so few that they cannot be too many.
    `owned` are the documents with the annotation of an owner.
    """

    documents: t.Mapping[ResourceKey, StoredDocument]
    inventory: t.Collection[ResourceKey] = frozenset()
    total: int = 0
    size: int = 0
    owned: t.Collection[ResourceKey] = ()


class DocumentChange(t.NamedTuple):
    """What happens to one live document: `value` is written, None to delete it."""

    key: ResourceKey
    before: t.Optional[StoredDocument]
    value: t.Optional[bytes]


class LivePlan(t.NamedTuple):
    """All changes, the sentence that says that they are made, what is unchanged, and warnings."""

    changes: tuple[DocumentChange, ...]
    said: str
    unchanged: tuple[ResourceKey, ...] = ()
    warnings: tuple[str, ...] = ()

    def documents(self) -> dict[str, list[str]]:
        """Return the resources that are created, changed, deleted and unchanged, as text."""
        found: dict[str, list[str]] = {"created": [], "changed": [], "deleted": []}
        for one in self.changes:
            what = "deleted" if one.value is None else "created" if one.before is None else "changed"
            found[what].append(str(one.key))
        return {**found, "unchanged": list(map(str, self.unchanged))}


def wanted_keys(request: Data) -> list[ResourceKey]:
    """Return the keys of the documents that a request is about. Raise ChangeRefused for a kind that is not live."""
    if "documents" not in request:
        _check_kind(str(request["kind"]), "")
        return change_request.named_keys(request)
    if len(request["documents"]) > keys.MOST_DOCUMENTS:
        raise ChangeRefused(
            f"these are {len(request['documents']):,} documents, and at most {keys.MOST_DOCUMENTS:,} can be live. "
            "Write some of them into the inventory: calicoctl -i INVENTORY"
        )
    found = []
    for one in request["documents"]:
        content = _in_namespace(one["content"], request["namespace"])
        if isinstance(content, dict):
            _check_kind(str(content.get("kind")), one["place"])
        key = key_in(content)
        if key is not None and key.kind in keys.LIVE_KINDS:
            found.append(key)
    return found


def without(request: Data, done: t.Collection[ResourceKey]) -> Data:
    """Return a request without what is about the resources `done`."""
    if "documents" not in request:
        names = [key.name for key in change_request.named_keys(request) if key not in done]
        return {**request, "names": names}
    namespace = request["namespace"]
    left = [one for one in request["documents"] if key_in(_in_namespace(one["content"], namespace)) not in done]
    return {**request, "documents": left}


def planned(request: Data, view: LiveView) -> LivePlan:
    """Return the plan of what is asked. Raise ChangeRefused."""
    try:
        plan = change_request.plan_request(_present(request, view), _owned(request))
    except LabelRefused as error:
        raise ChangeRefused(str(error)) from error
    changes, unchanged = [], []
    for one in plan.changes:
        if one.unchanged:
            unchanged.append(one.key)
            continue
        value = None if one.document is None else _value(one.key, one.document)
        changes.append(DocumentChange(one.key, view.documents.get(one.key), value))
    named = {one.key for one in plan.changes}
    pruned = [key for key in sorted(view.owned) if key not in named] if request.get("prune") else []
    changes += [DocumentChange(key, view.documents[key], None) for key in pruned]
    said = plan.said + (f", and deleted {len(pruned)} that the files do not have" if pruned else "")
    found = LivePlan(tuple(changes), said, tuple(unchanged), tuple(_hidden(changes, view)))
    check_size(found.changes, view)
    return found


def check_size(changes: t.Iterable[DocumentChange], view: LiveView) -> None:
    """Raise ChangeRefused if there would be more live documents, or larger ones, than there may be."""
    count, size, more = view.total, view.size, 0
    for one in changes:
        count += (one.before is None) - (one.value is None)
        grown = len(one.value or b"") - len(one.before.value if one.before else b"")
        size, more = size + grown, more + grown
    if count > keys.MOST_DOCUMENTS and count > view.total:
        raise ChangeRefused(
            f"there would be {count:,} live documents, and at most {keys.MOST_DOCUMENTS:,} can be. Delete some"
        )
    if size > keys.DOCUMENTS_BYTES and more > 0:
        raise ChangeRefused(f"the live documents would have more than {keys.DOCUMENTS_BYTES >> 20} MiB. Delete some")


def tier_of(value: t.Optional[bytes]) -> str:
    """Return the tier of the policy in a value of a live document, "" for anything else."""
    try:
        content = None if value is None else parse(value)
    except NotJson:
        return ""
    if not isinstance(content, dict) or content.get("kind") not in POLICY_KINDS:
        return ""
    spec = content.get("spec")
    tier = spec.get("tier") if isinstance(spec, dict) else None
    return tier if isinstance(tier, str) and tier else resources.DEFAULT_TIER


def documents_of(kind: str) -> KeyRange:
    """Return the range of the keys of all live documents of a kind."""
    return keys.under(f"{keys.DOCUMENTS}{keys.LIVE_KINDS[kind]}/")


def present_document(key: ResourceKey, stored: StoredDocument) -> PresentResource:
    """Return a live document as a resource in force. One that cannot be read can only be replaced or deleted."""
    revision = str(stored.revision)
    try:
        resource = live_documents.decode(DocumentKey(*key), stored.value)
        written = parse(stored.value)
    except RefusedDocument:
        metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        document = {**_UNREADABLE, "kind": key.kind, "metadata": metadata}
        return PresentResource(document, document_key(DocumentKey(*key)), document, revision=revision)
    return PresentResource(resource.to_document(), document_key(DocumentKey(*key)), written, revision=revision)


def _present(request: Data, view: LiveView) -> dict[ResourceKey, PresentResource]:
    """Return the live documents. Those of the inventory alone are among them for other verbs than create and apply."""
    found = {key: present_document(key, stored) for key, stored in view.documents.items()}
    if request["verb"] in ("create", "apply"):
        return found
    for key in view.inventory:
        metadata = {"name": key.name, **({"namespace": key.namespace} if key.namespace else {})}
        found.setdefault(key, PresentResource({"kind": key.kind, "metadata": metadata}, variable="the inventory"))
    return found


def _hidden(changes: t.Iterable[DocumentChange], view: LiveView) -> t.Iterator[str]:
    hidden = [str(one.key) for one in changes if one.key in view.inventory and one.value is not None]
    if hidden:
        more = f" and {len(hidden) - _NAMED} more" if len(hidden) > _NAMED else ""
        yield (
            f"the inventory has {', '.join(hidden[:_NAMED])}{more}, too. The live one has no effect until the "
            "inventory's goes."
        )


def _check_kind(kind: str, place: str) -> None:
    """Raise ChangeRefused for a kind of Calico's that cannot be live. Others are refused when they are read."""
    if kind in resources.KINDS and kind not in keys.LIVE_KINDS:
        where = f"{place}: " if place else ""
        raise ChangeRefused(f"{where}{kind} is not live: write it into the inventory: calicoctl -i INVENTORY")


def _in_namespace(content: t.Any, namespace: str) -> t.Any:
    metadata = content.get("metadata") if isinstance(content, dict) else None
    if not namespace or not isinstance(metadata, dict) or metadata.get("namespace"):
        return content
    return {**content, "metadata": {**metadata, "namespace": namespace}}


def _owned(request: Data) -> Data:
    """Return a request whose documents have the annotation of their owner, if it names one."""
    owner = request.get("owner", "")
    if "documents" not in request or not owner:
        return request
    documents = [{**one, "content": _with_owner(one["content"], owner)} for one in request["documents"]]
    return {**request, "documents": documents}


def _with_owner(content: t.Any, owner: str) -> t.Any:
    metadata = content.get("metadata") if isinstance(content, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not isinstance(annotations or {}, dict):
        return content  # the reader says what is wrong with it
    return {**content, "metadata": {**metadata, "annotations": {**(annotations or {}), OWNER: owner}}}


def _value(key: ResourceKey, document: Data) -> bytes:
    """Return the value of a document. Raise ChangeRefused for one that nodes would not understand."""
    try:
        plain = parse(json.dumps(own_content(document), default=str))
        name = DocumentKey(*key)
        document_key(name)
        value = live_documents.encode(plain)
        live_documents.value_of(live_documents.decode(name, value))
    except RefusedDocument as error:
        raise ChangeRefused(f"{key} cannot be live: {str(error).rstrip('.')}") from error
    except (InvalidKey, BeyondLimits, NotJson) as error:
        raise ChangeRefused(f"{key} cannot be live: {error}") from error
    return value
