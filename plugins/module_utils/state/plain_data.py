# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of dataclasses to plain data for JSON and back, by the type hints of their fields.

`reader` reads the classes of a NodeState and those of policy/model.py. `to_plain` writes the latter. It leaves out
fields at their default, because most fields of a rule have it. Ports are written as in Calico (80, "1000:2000",
"http"), labels and annotations as mappings.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re
import typing as t

from ..base.ports import PortRange
from ..policy.model import DefinedPort, Entity, Icmp, NamedPort, PolicyRule, Port
from .errors import shown

#: The metadata of a field that is neither written nor read.
NOT_STORED: t.Mapping[str, bool] = {"stored": False}
#: The type of labels and annotations in policy/model.py. In plain data they are a mapping.
_PAIRS = tuple[tuple[str, str], ...]
#: The classes whose equal values become one object when they are read.
_SHARED = (DefinedPort, Entity, Icmp, PolicyRule)

_RANGE = re.compile(r"(\d+):(\d+)", re.ASCII)
_Reader = t.Callable[[t.Any, "SharedValues"], t.Any]

Data = dict[str, t.Any]


def to_plain(value: t.Any) -> t.Any:
    """Return a dataclass of the model, or a value of one of its fields, as plain data."""
    if isinstance(value, (NamedPort, PortRange)):
        return value.plain
    if isinstance(value, tuple):
        return [to_plain(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain: Data = {}
    for name, has_pairs, default in _fields(t.cast(t.Any, type(value))):
        found = getattr(value, name)
        if found != default:
            plain[name] = dict(found) if has_pairs else to_plain(found)
    return plain


@functools.cache
def _fields(kind: t.Any) -> tuple[tuple[str, bool, t.Any], ...]:
    """Return (name, whether it has pairs, default) of each field of a dataclass; dataclasses.MISSING is no default."""
    hints = t.get_type_hints(kind)
    return tuple((field.name, hints[field.name] == _PAIRS, field.default) for field in dataclasses.fields(kind))


@functools.cache
def stored_fields(kind: t.Any) -> tuple[str, ...]:
    """Return the names of a dataclass's fields, without those with NOT_STORED."""
    return tuple(field.name for field in dataclasses.fields(kind) if field.metadata != NOT_STORED)


class SharedValues(dict[t.Any, t.Any]):
    """The values that were read, by themselves: a value that is equal to a known one is replaced by it.

    Thousands of rules and endpoints have few different parts. `1 == True` and `1 == 1.0`, so no numbers are put here.
    """

    def __missing__(self, value: t.Any) -> t.Any:
        self[value] = value
        return value


def reader(kind: t.Any) -> t.Callable[..., t.Any]:
    """Return the function that makes a value of `kind` from plain data. It raises ValueError for other data.

    Equal parts of the value become one object. A second argument, SharedValues, lets several calls share theirs.
    """
    read = _reader(kind)
    return lambda value, known=None: read(value, SharedValues() if known is None else known)


@functools.cache
def _reader(kind: t.Any) -> _Reader:
    """Return the function of `reader` with both arguments.

    It is cached, so each annotation is evaluated once: the states of a fleet have few kinds of values in great numbers.
    """
    origin, arguments = t.get_origin(kind), t.get_args(kind)
    if kind == Port:
        return _port
    if kind == _PAIRS:
        return _pairs
    if origin is t.Union:
        choices = tuple(choice for choice in arguments if choice is not type(None))
        wrapped = _reader(choices[0]) if len(choices) == 1 else _scalar_reader(*choices)
        if len(choices) == len(arguments):
            return wrapped
        return lambda value, known: None if value is None else wrapped(value, known)
    if origin is tuple:
        item = _reader(arguments[0])
        if arguments[0] is str:
            return lambda value, known: known[tuple([item(entry, known) for entry in list_of(value)])]
        return lambda value, known: tuple([item(entry, known) for entry in list_of(value)])
    if origin is not None:  # Mapping[str, X]
        item = _reader(arguments[1])
        return lambda value, known: {key: item(entry, known) for key, entry in mapping_of(value).items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass_reader(t.cast(type, kind))
    if kind in (str, int, bool, float):
        return _scalar_reader(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return lambda value, _known: kind(value)
    raise TypeError(f"there is no reader for {kind!r}")


def _dataclass_reader(kind: type) -> _Reader:
    hints = t.get_type_hints(kind)
    readers = {name: _reader(hints[name]) for name in stored_fields(kind)}

    def read(value: t.Any, known: SharedValues) -> t.Any:
        unknown = set(mapping_of(value)).difference(readers)
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {min(unknown)!r}")
        try:
            return kind(**{name: readers[name](entry, known) for name, entry in value.items()})
        except TypeError as error:  # a field is missing
            raise ValueError(f"{kind.__name__}: {error}") from error

    return (lambda value, known: known[read(value, known)]) if kind in _SHARED else read


def _scalar_reader(*kinds: type) -> _Reader:
    accepted = (*kinds, int) if float in kinds else kinds
    wanted = " or ".join(kind.__name__ for kind in kinds)
    no_bool = bool not in kinds

    def read(value: t.Any, known: SharedValues) -> t.Any:
        if not isinstance(value, accepted) or (no_bool and isinstance(value, bool)):
            raise ValueError(f"{shown(value)} is not of the type {wanted}")
        if isinstance(value, str):
            return known[value]
        # Python's JSON reader accepts NaN and Infinity, which JSON does not have.
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{shown(value)} is not a finite number")
        return value

    return read


_port_value = _scalar_reader(int, str)


def _port(value: t.Any, known: SharedValues) -> Port:
    """Return the port that is written as in Calico: 80, "1000:2000" or "http"."""
    if isinstance(_port_value(value, known), int):
        return t.cast(Port, known[PortRange(value, value)])
    found = _RANGE.fullmatch(value)
    return PortRange(int(found.group(1)), int(found.group(2))) if found else NamedPort(value)


def _pairs(value: t.Any, known: SharedValues) -> tuple[tuple[str, str], ...]:
    if not all(isinstance(text, str) for text in mapping_of(value).values()):
        raise ValueError(f"{shown(value)} is not an object of texts")
    return t.cast("tuple[tuple[str, str], ...]", known[tuple(sorted(value.items()))])


def list_of(value: t.Any) -> t.Sequence[t.Any]:
    """Return `value` if it is a list or a tuple. Otherwise raise ValueError."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{shown(value)} is not a list")
    return value


def mapping_of(value: t.Any) -> t.Mapping[str, t.Any]:
    """Return `value` if it is a mapping. Otherwise raise ValueError."""
    if not isinstance(value, (dict, t.Mapping)):
        raise ValueError(f"{shown(value)} is not an object")
    return value
