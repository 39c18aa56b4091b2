# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reader of YAML documents that builds their values and checks their limits in one pass over the text."""

from __future__ import annotations

import functools
import typing as t

from ...base.document_limits import checked_events, repeated

_TAG = "tag:yaml.org,2002:"
_INT, _FLOAT = f"{_TAG}int", f"{_TAG}float"
_MERGE = f"{_TAG}merge"  # the tag of the key << (YAML's merge key, yaml.org/type/merge.html)
_VALUE, _TEXT = f"{_TAG}value", f"{_TAG}str"  # the tag of =, which is a text here
_SIGNS = ("<<", "=")
#: {type of a collection: the tags that it may have}
_OWN: dict[type, tuple[t.Optional[str], ...]] = {dict: (None, "!", f"{_TAG}map"), list: (None, "!", f"{_TAG}seq")}
#: In place of a key: there is none yet, and it is <<.
_NOTHING, _MERGED = object(), object()


def documents(text: str, kind: t.Any) -> t.Iterator[tuple[t.Any, int]]:
    """Yield the value of each document in `text`, with the line, from 1, on which it begins.

    `kind` is PyYAML's SafeLoader or CSafeLoader, whose values and errors these are, with two exceptions: a number with
    a colon is a text, because Calico reads 20:30 as a range of ports and YAML 1.1 counts in sixties there; and lists
    and mappings have no tags of other types, such as !!set. Raise BeyondLimits beyond the limits of
    document_limits.RESOURCES and if two keys of a mapping are equal, yaml.YAMLError if the text is not YAML, and what
    PyYAML's constructors raise.
    """
    loader = _loader(kind)
    return _Builder(loader).documents(checked_events(text, loader))


@functools.cache
def _loader(kind: t.Any) -> t.Any:
    """Return a loader class like `kind` that reads a number with a colon as text."""

    class Loader(kind):  # type: ignore[misc]
        def construct_number(self, node: t.Any) -> t.Any:
            """Return the number of a scalar, or its text if it has a colon."""
            if ":" in node.value:
                return self.construct_scalar(node)
            return self.construct_yaml_int(node) if node.tag == _INT else self.construct_yaml_float(node)

    for tag in (_INT, _FLOAT):
        Loader.add_constructor(tag, Loader.construct_number)
    return Loader


@functools.lru_cache(maxsize=4096)
def _plain(kind: t.Any, text: str) -> t.Any:
    """Return the value of a scalar without quotes, tag and anchor. Files repeat the same few, and none can change."""
    import yaml

    loader = kind("")
    return loader.construct_object(yaml.ScalarNode(loader.resolve(yaml.ScalarNode, text, (True, False)), text))


class _Open:
    """A list or mapping that is not complete. `key` is that of the next value, `merged` are values of the key <<."""

    __slots__ = ("is_mapping", "key", "merged", "value")

    def __init__(self, value: t.Any) -> None:
        self.value = value
        self.is_mapping = isinstance(value, dict)
        self.key: t.Any = _NOTHING
        self.merged: list[t.Mapping[t.Any, t.Any]] = []

    @property
    def awaits_key(self) -> bool:
        """Whether the next value is a key."""
        return self.is_mapping and self.key is _NOTHING


class _Builder:
    """The values that events of PyYAML's parser mean. The loader class `kind` gives scalars their types."""

    def __init__(self, kind: t.Any) -> None:
        self._kind = kind
        self._loader = kind("")
        self._open: list[_Open] = []
        self._anchors: dict[str, t.Any] = {}

    def documents(self, events: t.Iterable[t.Any]) -> t.Iterator[tuple[t.Any, int]]:
        """Yield the value of each document, with its line."""
        from yaml import events as of_yaml

        scalar, mapping, sequence = of_yaml.ScalarEvent, of_yaml.MappingStartEvent, of_yaml.SequenceStartEvent
        ends = (of_yaml.MappingEndEvent, of_yaml.SequenceEndEvent)
        root, line = None, 1
        for event in events:
            kind = type(event)
            if kind is scalar:
                value = self._scalar(event)
            elif kind in ends:
                value = _complete(self._open.pop())
            elif kind is mapping or kind is sequence:
                if not self._open:
                    line = event.start_mark.line + 1
                self._begin({} if kind is mapping else [], event)
                continue
            elif kind is of_yaml.AliasEvent:
                value = self._behind(event)
            else:
                if kind is of_yaml.DocumentStartEvent:
                    self._anchors.clear()
                elif kind is of_yaml.DocumentEndEvent:
                    yield root, line
                continue
            if self._open:
                self._add(value, event)
            else:
                root = value
                if kind is scalar:
                    line = event.start_mark.line + 1

    def _scalar(self, event: t.Any) -> t.Any:
        """Return the value of a scalar, _MERGED for the key <<. Raise yaml.YAMLError for an unknown tag."""
        import yaml

        text, tag = event.value, event.tag
        if tag is None and event.anchor is None:
            if not event.implicit[0]:
                return text  # it has quotes
            if text not in _SIGNS:
                return _plain(self._kind, text)
        if tag in (None, "!"):
            tag = self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == _MERGE and event.anchor is None and self._open and self._open[-1].awaits_key:
            return _MERGED
        node = yaml.ScalarNode(_TEXT if tag == _VALUE else tag, text, event.start_mark, event.end_mark)
        return self._named(self._loader.construct_object(node, deep=True), event)

    def _named(self, value: t.Any, event: t.Any) -> t.Any:
        """Return the value, and note it by its anchor. Raise yaml.YAMLError if the document has that already."""
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise _error(f"found duplicate anchor {event.anchor!r}", event)
            self._anchors[event.anchor] = value
        return value

    def _behind(self, event: t.Any) -> t.Any:
        if event.anchor not in self._anchors:
            raise _error(f"found undefined alias {event.anchor!r}", event)
        return self._anchors[event.anchor]

    def _begin(self, value: t.Any, event: t.Any) -> None:
        """Open a list or mapping. Raise yaml.YAMLError if it has the tag of another type."""
        if event.tag not in _OWN[type(value)]:
            raise _error(f"could not determine a constructor for the tag {event.tag!r}", event)
        self._open.append(_Open(self._named(value, event)))

    def _add(self, value: t.Any, event: t.Any) -> None:
        """Add a value or a key to the innermost open list or mapping."""
        opened = self._open[-1]
        if not opened.is_mapping:
            opened.value.append(value)
        elif opened.key is not _NOTHING:
            if opened.key is _MERGED:
                opened.merged += _mappings(value, event)
            else:
                opened.value[opened.key] = value
            opened.key = _NOTHING
        else:
            if value is not _MERGED:
                if isinstance(value, (dict, list)):
                    raise _error("found unhashable key", event)
                if value in opened.value:
                    raise repeated(getattr(event, "value", str(value)), event.start_mark.line + 1)
            opened.key = value


def _mappings(value: t.Any, event: t.Any) -> list[t.Mapping[t.Any, t.Any]]:
    """Return the mappings that the key << merges, with those last that win. Raise yaml.YAMLError for other values."""
    found = value[::-1] if isinstance(value, list) else [value]
    if not all(isinstance(one, dict) for one in found):
        raise _error("expected a mapping or list of mappings for merging", event)
    return found


def _complete(opened: _Open) -> t.Any:
    """Return the value of a list or mapping at its end, with what is merged into it."""
    if opened.merged:
        own = dict(opened.value)
        opened.value.clear()
        for one in (*opened.merged, own):
            opened.value.update(one)
    return opened.value


def _error(problem: str, event: t.Any) -> Exception:
    """Return, not raise, PyYAML's error about an event."""
    import yaml

    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
