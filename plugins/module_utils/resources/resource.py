# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The base classes of all resource kinds."""

from __future__ import annotations

import dataclasses
import typing as t

from ..base.release import API_VERSION
from .fields import Document, Fields, Type, write_fields
from .metadata import Metadata, NamespacedMetadata

R = t.TypeVar("R", bound="Resource")


@dataclasses.dataclass(frozen=True)
class Resource:
    """A resource with all defaults. The fields of spec are attributes, named as in Calico's documents.

    `parse` and `parse_flat` validate; a resource that is built by calling its class may be invalid.
    """

    KIND: t.ClassVar[str]
    STATUS: t.ClassVar[t.Optional[Type]] = None
    METADATA: t.ClassVar[Fields[t.Any]] = Fields(Metadata)

    metadata: Metadata

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def labels(self) -> t.Mapping[str, str]:
        return self.metadata.labels

    @classmethod
    def readable(cls, spec: t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
        """Return `spec` without obsolete fields that are not set.

        Raises Refused for one that is set, and for a field that only a similar kind has, to name the remedy.
        """
        return spec

    def checked(self: R) -> R:
        """Return this resource with spec adjusted by this kind's rules, such as defaults that depend on other fields.

        Raises Refused if spec breaks these rules.
        """
        return self

    def checked_metadata(self: R) -> R:
        """Return this resource, which is `checked` already, adjusted by this kind's rules for metadata.

        Raises Refused if the metadata breaks these rules.
        """
        return self

    def to_document(self) -> Document:
        """Return the v3 document that `parse` reads as this resource again, if valid; empty fields may be left out."""
        document = {
            "apiVersion": API_VERSION,
            "kind": self.KIND,
            "metadata": {key: value for key, value in write_fields(self.metadata).items() if value},
            "spec": write_fields(self),
        }
        status = write_fields(self.status) if self.STATUS and hasattr(self, "status") else {}
        if status:
            document["status"] = status
        return document


@dataclasses.dataclass(frozen=True)
class NamespacedResource(Resource):
    """A resource whose name is unique within its namespace only."""

    METADATA: t.ClassVar[Fields[t.Any]] = Fields(NamespacedMetadata)

    metadata: NamespacedMetadata

    @property
    def namespace(self) -> str:
        return self.metadata.namespace
