# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a change: what `calicoctl create`, `apply`, `replace`, `delete`, `patch` and `label` do to resources.

Semantics and words are Calico's, but for one thing: a change is made as a whole or not at all.
"""

from __future__ import annotations

import copy
import typing as t

from ...base.document_limits import BeyondLimits
from ...policy.documents import from_resources, to_resources
from ...resources import api as resources
from ...resources.setting_fields import set_value
from ..patches import labels
from ..patches.errors import PatchError
from ..patches.merge_patches import merge
from ..patches.patch import patched
from .resource_key import ResourceKey, asked_revision, asked_version, key_in, key_of, own_content, version_of
from .variable_texts import VariableEntry

Document = dict[str, t.Any]

#: The kinds whose resources are settings: variables have fields of them, and a document has others.
SETTINGS = ("BGPConfiguration", "FelixConfiguration", "IPAMConfiguration", "Node")
_PAST = {"create": "created", "apply": "applied", "replace": "replaced", "delete": "deleted"}


class VariableField(t.NamedTuple):
    """A field of settings that a variable has: its path and value in a document, and the variable.

    `place` is where the variable is written, as errors show that. `pinned` is why it cannot be moved into a file, "" if
    it can.
    """

    path: str
    value: t.Any
    entry: VariableEntry
    place: str
    pinned: str = ""


class PresentResource(t.NamedTuple):
    """A resource that is in force.

    `document` has all defaults. `written` is its document as `file` has it, None and "" for one that no file of
    resources has. `variable` is where a variable has it, as errors show that, "" for one that no variable has. `listed`
    is its document as the variable has it. `entries` are what lists of variables have of it, and `pinned` is why they
    cannot be moved into a file, "" if they can. `fields` are those that variables have of settings. `revision` is its
    resourceVersion in the datastore, "" for one of the inventory, whose resourceVersion is a digest.
    """

    document: t.Mapping[str, t.Any]
    file: str = ""
    written: t.Optional[t.Mapping[str, t.Any]] = None
    variable: str = ""
    listed: t.Optional[t.Mapping[str, t.Any]] = None
    entries: tuple[VariableEntry, ...] = ()
    pinned: str = ""
    fields: tuple[VariableField, ...] = ()
    revision: str = ""


class AskedDocument(t.NamedTuple):
    """A document that a change was asked with, and where it was read, as errors show that."""

    content: t.Any
    place: str


class PlannedChange(t.NamedTuple):
    """What happens to one resource.

    `document` is what is written into `file`, None to delete its document there. `file` is "" for a new document. Both
    are empty for a resource that is `unchanged`. `entries` go from variables; without a document then, nothing else of
    the resource is written. `as_is` is the document with which this would change nothing of the network.
    """

    key: ResourceKey
    document: t.Optional[Document] = None
    file: str = ""
    unchanged: bool = False
    entries: tuple[VariableEntry, ...] = ()
    as_is: t.Optional[Document] = None

    @property
    def is_written(self) -> bool:
        """Whether a file of resources changes."""
        return not self.unchanged and (self.document is not None or bool(self.file))


class ResourcePlan(t.NamedTuple):
    """All changes, and the sentence that says that they are made."""

    changes: tuple[PlannedChange, ...]
    said: str


class ChangeRefused(Exception):
    """The error for a change that is not made, no part of it."""


class _Refused(Exception):
    """The reason why one resource is not changed."""


Present = t.Mapping[ResourceKey, PresentResource]


def plan_documents(
    verb: str,
    present: Present,
    asked: t.Sequence[AskedDocument],
    namespace: str = "",
    skip: bool = False,
    adopt: bool = False,
) -> ResourcePlan:
    """Return what creating, applying, replacing or deleting the resources of documents changes.

    `namespace` is that of documents that name none. `skip` passes over what exists for `create`, and what does not for
    `delete`. `adopt` moves resources out of variables. Raise ChangeRefused if a document is invalid or one of the
    changes is refused.
    """
    found: dict[ResourceKey, AskedDocument] = {}
    for document in asked:
        document = document._replace(content=_in_namespace(document, namespace))
        key = _key(document) if verb == "delete" else key_of(_read(document))
        if key in found:
            raise ChangeRefused(f"{key} stands in {found[key].place} and in {document.place}. Keep one of the two.")
        found[key] = document
    return _planned(verb, found, lambda key: _change(verb, key, present.get(key), found[key].content, skip, adopt))


def plan_delete(
    present: Present, keys: t.Sequence[ResourceKey], skip: bool = False, adopt: bool = False
) -> ResourcePlan:
    """Return what deleting resources by their names changes. Raise ChangeRefused as `plan_documents` does."""
    unique = list(dict.fromkeys(keys))
    return _planned("delete", unique, lambda key: _change("delete", key, present.get(key), None, skip, adopt))


def plan_patch(present: Present, key: ResourceKey, patch: t.Any, form: str, adopt: bool = False) -> ResourcePlan:
    """Return what a patch of a resource changes. Raise ChangeRefused if the patch does not fit."""
    try:
        found = _existing(key, present.get(key))
        document = patched(_base(key, found), patch, form)
        if (document.get("kind"), _name(document)) != (key.kind, _name(found.document)):
            raise _Refused(f"the patch changes the kind or the name of {key}. Create another resource instead")
        _check_version(key, found, document)
        change = _replaced(key, found, _read(AskedDocument(document, "the patch")), document, adopt)
    except (_Refused, PatchError, BeyondLimits) as error:
        raise ChangeRefused(f"Failed to patch '{key.kind}' resource: {error}") from error
    return ResourcePlan((change,), f"Successfully patched 1 '{key.kind}' resource")


def plan_label(
    present: Present, key: ResourceKey, change: labels.LabelChange, shown: str, adopt: bool = False
) -> ResourcePlan:
    """Return what setting or removing a label changes. `shown` names the resource, such as "nodes node1"."""
    found = present.get(key)
    if found is None:
        raise ChangeRefused(f"{shown} not found")
    try:
        document, said = labels.labelled(_base(key, found), change, shown)
        planned = _replaced(key, found, _read(AskedDocument(document, "the label")), document, adopt)
    except (_Refused, labels.LabelRefused) as error:
        raise ChangeRefused(str(error)) from error
    return ResourcePlan((planned,), said)


def _base(key: ResourceKey, found: PresentResource) -> Document:
    """Return the document that a patch or a label changes: as it is written, or for settings as they are in force."""
    return own_content(found.document if key.kind in SETTINGS or found.written is None else found.written)


def _planned(
    verb: str, keys: t.Collection[ResourceKey], change: t.Callable[[ResourceKey], PlannedChange]
) -> ResourcePlan:
    """Return the plan of changes to several resources. Raise ChangeRefused, with Calico's words, if one is refused."""
    changes, errors = [], []
    for key in keys:
        try:
            changes.append(change(key))
        except _Refused as error:
            errors.append(str(error))
    kinds = {key.kind for key in keys}
    kind = f"'{kinds.pop()}' " if len(kinds) == 1 else ""
    if not errors:
        return ResourcePlan(tuple(changes), f"Successfully {_PAST[verb]} {len(changes)} {kind}resource(s)")
    if verb == "delete":
        raise ChangeRefused("\n".join(f"Failed to delete {kind}resource: {error}" for error in errors))
    which = f"{kind}resource" if len(keys) == 1 else f"any {kind}resources"
    raise ChangeRefused(f"failed to {verb} {which}: [{'; '.join(errors)}]")


def _change(
    verb: str, key: ResourceKey, found: t.Optional[PresentResource], content: t.Any, skip: bool, adopt: bool
) -> PlannedChange:
    """Return the change of one resource. Raise _Refused."""
    if verb == "delete":
        if found is None and skip:
            return PlannedChange(key, unchanged=True)
        found = _existing(key, found)
        _check_version(key, found, content)
        return _deleted(key, found, adopt)
    if found is None and verb != "replace":
        if key.kind == "Node":
            raise _Refused(f"{key} is no host of the inventory. Add it there to calico_nodes or calico_rr")
        return PlannedChange(key, own_content(content))
    if verb == "create" and found is not None and not (key.kind in SETTINGS and found.written is None):
        if skip:
            return PlannedChange(key, unchanged=True)
        raise _Refused(f"resource already exists: {key}")
    found = _existing(key, found)
    _check_version(key, found, content)
    return _replaced(key, found, resources.parse(content), content, adopt)


def _check_version(key: ResourceKey, found: PresentResource, content: t.Any) -> None:
    """Raise _Refused if a document, None for none, was made from another version of the resource than that in force."""
    version = asked_revision(content) if found.revision else asked_version(content)
    if not version:
        return
    before = _parsed(found.document)
    latest = found.revision or version_of(found.document if before is None else _canonical(before).to_document())
    if version not in (latest, found.revision or version_of(found.document)):
        raise _Refused(
            f"update conflict: {key} with error: resource version '{version}' is out of date (latest: {latest}). "
            "Update the resource YAML/JSON in order to make changes"
        )


def _existing(key: ResourceKey, found: t.Optional[PresentResource]) -> PresentResource:
    if found is None:
        raise _Refused(f"resource does not exist: {key}")
    return found


def _deleted(key: ResourceKey, found: PresentResource, adopt: bool) -> PlannedChange:
    if found.written is not None:
        return PlannedChange(key, None, found.file)
    if key.kind == "Node":
        raise _Refused(f"{key} is a host of the inventory. playbooks/remove_node.yml says how to remove it")
    if found.variable and adopt:
        return PlannedChange(key, entries=_movable(key, found))
    if found.variable:
        remedy = ", or add --adopt" if found.entries and not found.pinned else ""
        raise _Refused(f"{key} stands in {found.variable}. Delete it there{remedy}")
    raise _Refused(f"{key} stands in no file: it is there by default")


def _movable(key: ResourceKey, found: PresentResource) -> tuple[VariableEntry, ...]:
    """Return the entries of variables that have a resource. Raise _Refused if it cannot be moved out of them."""
    if found.pinned:
        raise _Refused(f"{key} stands in {found.variable}, and --adopt does not move it: {found.pinned}")
    return found.entries


def _moved_fields(key: ResourceKey, found: PresentResource, differences: Document) -> list[VariableField]:
    """Return the fields of variables that a change of settings changes. Raise _Refused if one cannot be moved."""
    missing = object()
    moved = [field for field in found.fields if _at(differences, field.path, missing) is not missing]
    for field in moved:
        if field.pinned:
            where = f"{field.path} of {key} stands in {field.place}"
            raise _Refused(f"{where}, and --adopt does not move it: {field.pinned}")
    return moved


def _at(document: t.Any, path: str, missing: t.Any) -> t.Any:
    for name in path.split("."):
        if not isinstance(document, t.Mapping) or name not in document:
            return missing
        document = document[name]
    return document


def _replaced(
    key: ResourceKey,
    found: PresentResource,
    resource: resources.Resource,
    content: t.Mapping[str, t.Any],
    adopt: bool,
) -> PlannedChange:
    """Return the change of a resource that is there to the document `content`, which was read as `resource`."""
    if adopt and found.variable and found.written is None and key.kind not in SETTINGS:
        return PlannedChange(key, own_content(content), entries=_movable(key, found), as_is=own_content(found.document))
    before = _parsed(found.document)
    forms = filter(None, (before, _parsed(found.written), _parsed(found.listed)))
    if any(resource in (form, _canonical(form)) for form in forms):
        return PlannedChange(key, unchanged=True)
    if key.kind in SETTINGS and before is not None:
        differences = difference(_settings(before.to_document()), _settings(resource.to_document()))
        base = found.written or {"kind": key.kind, "metadata": {"name": key.name}, "spec": {}}
        moved = _moved_fields(key, found, differences) if adopt else []
        if moved:
            as_is = copy.deepcopy(dict(base))
            for field in moved:
                set_value(as_is, field.path, field.value)
            entries = tuple({field.entry.variable: field.entry for field in moved}.values())
            document = own_content(merge(as_is, differences))
            return PlannedChange(key, document, found.file, entries=entries, as_is=own_content(as_is))
        document = own_content(merge(base, differences))
        if found.written is not None and document == own_content(found.written):
            return PlannedChange(key, unchanged=True)
        return PlannedChange(key, document, found.file)
    if found.variable and found.written is None:
        remedy = ", or add --adopt to move it into a file" if found.entries and not found.pinned else ""
        raise _Refused(f"{key} stands in {found.variable}. Change it there{remedy}")
    return PlannedChange(key, own_content(content), found.file)


def _canonical(resource: resources.Resource) -> resources.Resource:
    """Return a resource of policy as `get` shows it, with selectors and networks in one form; any other as it is."""
    if isinstance(resource, (resources.GlobalNetworkPolicy, resources.NetworkPolicy)):
        return to_resources.policy(from_resources.policy(resource))
    if isinstance(resource, (resources.GlobalNetworkSet, resources.NetworkSet)):
        return to_resources.network_set(from_resources.network_set(resource))
    if isinstance(resource, resources.Profile):
        return to_resources.profile(from_resources.profile(resource))
    return resource


def _parsed(document: t.Optional[t.Mapping[str, t.Any]]) -> t.Optional[resources.Resource]:
    """Return the resource of a document that is in force, None if there is none or it cannot be read alone."""
    try:
        return None if document is None else resources.parse(document)
    except resources.ResourceError:
        return None


def _settings(document: t.Mapping[str, t.Any]) -> Document:
    metadata = {key: value for key, value in document.get("metadata", {}).items() if key in ("labels", "annotations")}
    return {"metadata": metadata, "spec": document.get("spec", {})}


def difference(before: t.Mapping[str, t.Any], after: t.Mapping[str, t.Any]) -> Document:
    """Return the merge patch (RFC 7386) that makes `after` of `before`; a null in `after` counts as an absent key."""
    found: Document = {}
    for key in [*before, *(key for key in after if key not in before)]:
        old, new = before.get(key), after.get(key)
        if isinstance(old, t.Mapping) and isinstance(new, t.Mapping):
            inner = difference(old, new)
            if inner:
                found[key] = inner
        elif old != new:
            found[key] = new
    return found


def _name(document: t.Mapping[str, t.Any]) -> t.Any:
    metadata = document.get("metadata")
    return metadata.get("name") if isinstance(metadata, t.Mapping) else None


def _in_namespace(document: AskedDocument, namespace: str) -> t.Any:
    """Return the content of a document, with the namespace if it has none. Raise ChangeRefused if it has no name."""
    content = document.content
    metadata = content.get("metadata") if isinstance(content, t.Mapping) else None
    if not isinstance(metadata, t.Mapping) or metadata.get("name") in (None, ""):
        raise ChangeRefused(f"{document.place}: a document has no metadata.name. Write kind, metadata and spec.")
    if not namespace:
        return content
    cls = resources.KINDS.get(str(content.get("kind")))
    if cls is not None and not issubclass(cls, resources.NamespacedResource):
        raise ChangeRefused(f"{document.place}: {cls.KIND} is not namespaced")
    own = metadata.get("namespace") or namespace
    if own != namespace:
        raise ChangeRefused(
            f"{document.place}: resource namespace does not match client namespace. {own} != {namespace}"
        )
    return {**content, "metadata": {**metadata, "namespace": namespace}}


def _key(document: AskedDocument) -> ResourceKey:
    """Return what identifies the resource of a document, which may be invalid otherwise. Raise ChangeRefused."""
    key = key_in(document.content)
    if key is None or key.kind not in resources.KINDS:
        _read(document)  # says what is wrong with its kind
        raise ChangeRefused(f"{document.place}: a document has no kind or name that is a text. Write both.")
    return key


def _read(document: AskedDocument) -> resources.Resource:
    """Return the resource of a document. Raise ChangeRefused if it is invalid."""
    try:
        resource = resources.parse(document.content)
        resources.check_supported(resource)
    except resources.ResourceError as error:
        raise ChangeRefused(f"{document.place}: {error}") from error
    return resource
