# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What all kinds of resources share."""

from __future__ import annotations

import dataclasses
import typing as t

from .fields import Document, Fields, Type, write_fields
from .metadata import Metadata, NamespacedMetadata

API_VERSION = "projectcalico.org/v3"

R = t.TypeVar("R", bound="Resource")


@dataclasses.dataclass(frozen=True)
class Resource:
    """A validated resource with its defaults; the fields of spec are attributes, by their names in Calico's documents.

    Only `parse` and `parse_flat` validate: what is built by hand is taken as it is.
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
        """`spec` without what is known and no field. Raises Refused where that says more than "not a field"."""
        return spec

    def checked(self: R) -> R:
        """The same with what depends on several fields of spec checked and defaulted. Raises Refused."""
        return self

    def checked_metadata(self: R) -> R:
        """The same, `checked` already, with what this kind wants of its metadata checked. Raises Refused."""
        return self

    def to_document(self) -> Document:
        """The v3 document with all defaults, which `parse` reads as this resource again."""
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
    """A resource whose name is unique in its namespace only."""

    METADATA: t.ClassVar[Fields[t.Any]] = Fields(NamespacedMetadata)

    metadata: NamespacedMetadata

    @property
    def namespace(self) -> str:
        return self.metadata.namespace
