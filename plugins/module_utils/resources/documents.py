# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The reader of documents: the envelope of apiVersion, kind, metadata, spec and status."""

from __future__ import annotations

import typing as t

from ..base.release import API_VERSION
from .errors import Refused, ResourceError
from .fields import Document, read_fields, types_of, unknown
from .kinds import ip_pool
from .kinds.bgp import BGPConfiguration, BGPPeer
from .kinds.bgp_filter import BGPFilter
from .kinds.endpoints import HostEndpoint, WorkloadEndpoint
from .kinds.felix_configuration import FelixConfiguration
from .kinds.ip_pool import IPPool
from .kinds.ipam import IPAMConfiguration, IPReservation
from .kinds.network_sets import GlobalNetworkSet, NetworkSet
from .kinds.node import Node
from .kinds.policies import GlobalNetworkPolicy, NetworkPolicy
from .kinds.profile import Profile
from .kinds.staged_policies import StagedGlobalNetworkPolicy, StagedNetworkPolicy
from .kinds.tier import Tier
from .metadata import FROM_SERVERS, Metadata
from .resource import Resource

KINDS: dict[str, type[Resource]] = {
    cls.KIND: cls
    for cls in (
        IPPool,
        BGPConfiguration,
        BGPPeer,
        BGPFilter,
        Node,
        Tier,
        GlobalNetworkPolicy,
        NetworkPolicy,
        StagedGlobalNetworkPolicy,
        StagedNetworkPolicy,
        Profile,
        GlobalNetworkSet,
        NetworkSet,
        HostEndpoint,
        WorkloadEndpoint,
        IPReservation,
        IPAMConfiguration,
        FelixConfiguration,
    )
}


#: {kind of Calico's that makes sense with Kubernetes only: the remedy that the error for it names}.
_OF_KUBERNETES = {
    "StagedKubernetesNetworkPolicy": "Write a StagedNetworkPolicy, with Calico's selectors and rules.",
}
#: Calico's kinds of settings, which are variables here.
_SETTINGS = frozenset(
    (
        "CalicoNodeStatus",
        "ClusterInformation",
        "IPAMConfig",
        "KubeControllersConfiguration",
    )
)
#: The kinds whose status Calico's servers write, and nobody reads here.
WITH_STATUS = (IPPool, Tier)


def parse(document: t.Mapping[str, t.Any]) -> Resource:
    """Return the resource that one v3 document describes, with defaults filled in. Raises ResourceError.

    `apiVersion` may be left out; fields that a server adds to metadata are accepted and dropped, but for the namespace
    of a kind that has one.
    """
    if not isinstance(document, t.Mapping):
        raise ResourceError("", "", "", document, "is not a mapping.", "Write apiVersion, kind, metadata and spec.")
    kind = document.get("kind")
    try:
        cls = _class_of(kind)
        return _read(cls, document)
    except Refused as refused:
        raise _error(kind, _name_of(document.get("metadata")), refused) from None


def parse_flat(kind: str, mapping: t.Mapping[str, t.Any]) -> Resource:
    """Return the resource of `kind` that a flat mapping describes, with defaults filled in. Raises ResourceError.

    name, labels, annotations and, for kinds that have one, namespace are metadata; all other keys are spec. Errors name
    fields without "spec." and "metadata.". An IPPool may also have the operator's `encapsulation`, and `natOutgoing` of
    Enabled or Disabled. A mapping that has spec or metadata is read by `parse`, and its errors name whole paths.
    apiVersion and kind may be given.
    """
    if isinstance(mapping, t.Mapping):
        whole = "spec" in mapping or "metadata" in mapping
        found = mapping.get("kind")
        if found is not None and found != kind:
            name = _name_of(mapping.get("metadata") if whole else mapping)
            raise ResourceError(kind, name, "kind", found, "is another kind of resource.", f"Write {kind}.")
        if whole:
            return parse({**mapping, "kind": kind})
    try:
        cls = _class_of(kind)
        if not isinstance(mapping, t.Mapping):
            raise Refused(mapping, "is not a mapping.", "Write its fields one a line, each with a colon.")
        return _read(cls, _document_of(cls, mapping))
    except Refused as refused:
        for prefix in ("spec.", "metadata."):
            if refused.field.startswith(prefix):
                refused.field = refused.field[len(prefix) :]
        raise _error(kind, _name_of(mapping), refused) from None


def settings_remedy(kind: str) -> str:
    """Return where the settings of `kind` are, "" if it is no kind of settings."""
    where = "Variables have its settings, as far as they apply here: see docs/how-to/migrate-from-calico.md."
    return where if kind in _SETTINGS else ""


def _class_of(kind: t.Any) -> type[Resource]:
    cls = KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        if kind is None:
            raise Refused(None, "is missing.", f"Write one of {', '.join(KINDS)}.", "kind")
        if isinstance(kind, str) and kind in _OF_KUBERNETES:
            raise Refused(kind, "is for policies of Kubernetes, which is not here.", _OF_KUBERNETES[kind], "kind")
        if isinstance(kind, str) and kind in _SETTINGS:
            raise Refused(kind, "is not a kind of resource here.", settings_remedy(kind), "kind")
        refused = unknown(kind, KINDS, "is not a kind of resource that is known here.")
        raise Refused(kind, refused.rule, refused.remedy.replace("The fields here are", "Known are"), "kind")
    return cls


def _read(cls: type[Resource], document: t.Mapping[str, t.Any]) -> Resource:
    status_type = cls.STATUS
    known = ("apiVersion", "kind", "metadata", "spec") + (("status",) if status_type or cls in WITH_STATUS else ())
    for key in document:
        if key not in known:
            if key in types_of(cls):
                raise Refused(
                    None, "is in the wrong place.", f"Move it into spec: {key} is a field of its own there.", key
                )
            raise unknown(key, known)
    version = document.get("apiVersion")
    if version not in (None, API_VERSION):
        raise Refused(version, "is not an API that is known here.", f"Write {API_VERSION}.", "apiVersion")
    others: dict[str, t.Any] = {"metadata": _metadata(cls, document.get("metadata"))}
    status = document.get("status")
    if status_type and status is not None:
        try:
            others["status"] = status_type.read(status)
        except Refused as refused:
            raise refused.inside("status")
    spec = document.get("spec")
    try:
        readable = cls.readable(spec) if isinstance(spec, t.Mapping) else spec
        made = read_fields(cls, {} if readable is None else readable, **others).checked()
    except Refused as refused:
        raise refused.inside("spec")
    try:
        return made.checked_metadata()
    except Refused as refused:
        raise refused.inside("metadata")


def _metadata(cls: type[Resource], value: t.Any) -> Metadata:
    if isinstance(value, t.Mapping):
        dropped = set(FROM_SERVERS) - set(_metadata_fields(cls))
        value = {key: entry for key, entry in value.items() if key not in dropped}
    try:
        return t.cast(Metadata, cls.METADATA.read({} if value is None else value))
    except Refused as refused:
        raise refused.inside("metadata")


def _metadata_fields(cls: type[Resource]) -> t.Collection[str]:
    return types_of(cls.METADATA.of)


def _document_of(cls: type[Resource], flat: t.Mapping[str, t.Any]) -> Document:
    """Return the v3 document of a flat mapping, whose keys have to be fields of `cls`."""
    known = (*_metadata_fields(cls), *types_of(cls), *(ip_pool.FLAT_FIELDS if cls is IPPool else ()))
    envelope = {key: value for key, value in flat.items() if key in ("apiVersion", "kind")}
    rest = dict(cls.readable({key: value for key, value in flat.items() if key not in envelope}))
    for key in rest:
        if key not in known:
            if key == "namespace":
                raise Refused(None, f"is not a field here: no {cls.KIND} is in a namespace.", "Leave it out.", key)
            raise unknown(key, known)
    if cls is IPPool:
        rest = ip_pool.from_operator(rest)
    metadata = {key: rest.pop(key) for key in _metadata_fields(cls) if key in rest}
    return {**envelope, "metadata": metadata, "spec": rest}


def _name_of(metadata: t.Any) -> str:
    name = metadata.get("name") if isinstance(metadata, t.Mapping) else None
    return name if isinstance(name, str) else ""


def _error(kind: t.Any, name: str, refused: Refused) -> ResourceError:
    known = kind if isinstance(kind, str) and kind in KINDS else ""
    return ResourceError(known, name, refused.field, refused.value, refused.rule, refused.remedy)
