# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of all live documents: only those whose text has changed are read again.

A document that cannot be understood is set aside and named, and the last good value of its key stays.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t
import zlib

from ...policy.model import Policy, PolicyRule
from .. import keys
from ..documents import RefusedDocument
from ..keys import DocumentKey
from . import live_documents
from .live_documents import LiveValue


class ReadDocument(t.NamedTuple):
    """The last good value of a document, and `packed`, the same as `live_documents.pack` writes it."""

    value: LiveValue
    packed: str


class LiveReading(t.NamedTuple):
    """The last good values of all documents. `refused` maps keys to the reasons why newer ones do not count."""

    documents: t.Mapping[DocumentKey, ReadDocument]
    refused: t.Mapping[str, str]


class LiveReader:
    """The reader. `good` are values known to be good, such as those on the disk. One thread at a time calls it."""

    def __init__(self, good: t.Mapping[DocumentKey, ReadDocument]) -> None:
        self._good = dict(good)
        self._texts: dict[DocumentKey, bytes] = {}  # what was read, compressed
        self._refused: dict[DocumentKey, str] = {}

    def copy(self) -> LiveReader:
        """Return a reader that knows the same, for other texts."""
        copied = LiveReader(self._good)
        copied._texts, copied._refused = dict(self._texts), dict(self._refused)
        return copied

    def read(self, texts: t.Mapping[DocumentKey, bytes]) -> LiveReading:
        """Return what documents say; `texts` has all of them, compressed by zlib. It takes time by what has changed."""
        for gone in (self._good.keys() | self._texts.keys()) - texts.keys():
            self._good.pop(gone, None)
            self._texts.pop(gone, None)
            self._refused.pop(gone, None)
        for key, text in texts.items():
            if self._texts.get(key) != text:
                self._read(key, text)
        return LiveReading(dict(self._good), {keys.document_key(key): reason for key, reason in self._refused.items()})

    def _read(self, key: DocumentKey, text: bytes) -> None:
        self._texts[key] = text
        self._refused.pop(key, None)
        try:
            value = _sharing(live_documents.value_of(live_documents.decode(key, zlib.decompress(text))))
        except RefusedDocument as refusal:
            self._refused[key] = str(refusal)
            return
        known = self._good.get(key)
        if known is None or known.value != value:
            self._good[key] = ReadDocument(value, live_documents.pack(value))


def _sharing(value: LiveValue) -> LiveValue:
    """Return a value with the equal parts of earlier rules: many have the same."""
    if not isinstance(value, Policy):
        return value
    return dataclasses.replace(
        value, ingress=tuple(map(_with_known_parts, value.ingress)), egress=tuple(map(_with_known_parts, value.egress))
    )


def _with_known_parts(rule: PolicyRule) -> PolicyRule:
    return dataclasses.replace(
        rule,
        action=_first_equal(rule.action),
        protocol=_first_equal(rule.protocol),
        source=_first_equal(rule.source),
        destination=_first_equal(rule.destination),
    )


_Part = t.TypeVar("_Part", bound=t.Hashable)


def _first_equal(part: _Part) -> _Part:
    return t.cast(_Part, _remembered(part))


@functools.lru_cache(maxsize=2048, typed=True)
def _remembered(part: t.Hashable) -> t.Hashable:
    return part
