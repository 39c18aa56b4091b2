# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The field metadata: the name, labels and annotations of a resource, under the rules of Kubernetes."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .errors import Refused
from .fields import NAME_LIMIT, NAME_REMEDY, NAME_RULE, SUBDOMAIN, TEXT, Document, Text, field, is_label

NAMESPACE_LIMIT = 63
DEFAULT_NAMESPACE = "default"
_LABEL_LIMIT = 63
_ANNOTATIONS_LIMIT = 256 * 1024  # bytes

_WORD = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_NAME = re.compile(_WORD, re.ASCII)
_LABEL_VALUE = re.compile(f"({_WORD})?", re.ASCII)

_LABEL_REMEDY = (
    f"Use at most {_LABEL_LIMIT} letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
)


def _check_key(key: str) -> None:
    """Raise Refused unless `key` is a qualified name: an optional DNS prefix with a slash, then a name.

    The prefix has at most 253 characters, the name at most 63.
    """
    prefix, slash, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or len(name) > _LABEL_LIMIT:
        raise Refused(key, "is not a label's name.", f"{_LABEL_REMEDY}, behind an optional example.org/.")
    if slash and (not SUBDOMAIN.fullmatch(prefix) or len(prefix) > NAME_LIMIT):
        raise Refused(
            key,
            "has a prefix that is not a DNS name in lower case.",
            "Write the part before the '/' as example.org, or leave it out.",
        )


class _TextMap:
    """A mapping of texts to texts; a null value is an empty text."""

    def read(self, value: t.Any) -> dict[str, str]:
        if not isinstance(value, t.Mapping):
            raise Refused(value, "is not a mapping.", "Write one name: value a line.")
        texts = {}
        for key, text in value.items():
            if not isinstance(key, str):
                raise Refused(key, "is not a text.", "Write the name in quotes.")
            if text is None:
                text = ""
            if not isinstance(text, str):
                raise Refused(text, f"is not a text, as the value of {key}.", "Write it in quotes.")
            texts[str.__str__(key)] = str.__str__(text)
        return texts

    def write(self, value: t.Any) -> t.Any:
        return dict(value)

    def schema(self) -> Document:
        return {"type": "object", "additionalProperties": {"type": "string"}}


class _Labels(_TextMap):
    def read(self, value: t.Any) -> dict[str, str]:
        labels = super().read(value)
        for key, text in labels.items():
            _check_key(key)
            if not _LABEL_VALUE.fullmatch(text) or len(text) > _LABEL_LIMIT:
                raise Refused(text, f"is not a label's value, as that of {key}.", f"{_LABEL_REMEDY}; or nothing.")
        return labels


#: The type of labels, for fields outside of metadata, too.
LABELS = _Labels()


class _Annotations(_TextMap):
    def read(self, value: t.Any) -> dict[str, str]:
        annotations = super().read(value)
        size = 0
        for key, text in annotations.items():
            # Unlike a label's prefix, an annotation's may be in upper case.
            _check_key(key.lower())
            size += len(key.encode("utf-8", "surrogatepass")) + len(text.encode("utf-8", "surrogatepass"))
        if size > _ANNOTATIONS_LIMIT:
            raise Refused(
                None,
                f"have {size} bytes in all, which is {size - _ANNOTATIONS_LIMIT} too many.",
                f"Keep them within {_ANNOTATIONS_LIMIT} bytes.",
            )
        return annotations


ANNOTATIONS = _Annotations()


#: Fields of metadata that a server adds to the resources that it hands out. They are accepted and dropped; `namespace`
#: is kept for kinds that have one.
FROM_SERVERS = (
    "namespace",
    "generateName",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)


@dataclasses.dataclass(frozen=True)
class Metadata:
    """Name, labels and annotations. The name is an RFC 1123 subdomain of at most 253 characters, or is refused."""

    name: str = field(TEXT, "")
    labels: t.Mapping[str, str] = field(LABELS, dict)
    annotations: t.Mapping[str, str] = field(ANNOTATIONS, dict)

    def checked(self) -> Metadata:
        if not self.name:
            raise Refused(None, "is missing.", "Give the resource a name, as default-ipv4-ippool.", "name")
        if len(self.name) > NAME_LIMIT:
            raise Refused(
                self.name, f"has {len(self.name)} characters.", f"A name has at most {NAME_LIMIT}: shorten it.", "name"
            )
        if not SUBDOMAIN.fullmatch(self.name):
            raise Refused(self.name, NAME_RULE, NAME_REMEDY, "name")
        return self


def _is_namespace(text: str) -> bool:
    return is_label(text) and len(text) <= NAMESPACE_LIMIT


_NAMESPACE = Text(
    _is_namespace,
    "is not a name that a namespace can have.",
    f"Use at most {NAMESPACE_LIMIT} lower case letters, digits and '-', beginning and ending with a letter or digit.",
)


@dataclasses.dataclass(frozen=True)
class NamespacedMetadata(Metadata):
    """The metadata of a resource whose name is unique within its namespace, `default` by default.

    A namespace is an RFC 1123 label of at most 63 characters, or is refused.
    """

    namespace: str = field(_NAMESPACE, DEFAULT_NAMESPACE)

    def checked(self) -> NamespacedMetadata:
        super().checked()
        return dataclasses.replace(self, namespace=self.namespace or DEFAULT_NAMESPACE)
