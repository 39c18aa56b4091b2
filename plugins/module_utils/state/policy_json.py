# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of the values of policy/model.py to plain data for JSON, and back without loss.

Fields at their default are left out, because most fields of a rule have it. Ports are written as in Calico (80,
"1000:2000", "http"), labels and annotations as mappings.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t
from math import isfinite

from ..base.ports import PortRange
from ..policy.model import NamedPort, Port
from .errors import shown

Data = dict[str, t.Any]

_RANGE = re.compile(r"(\d+):(\d+)", re.ASCII)
_PAIRS = tuple[tuple[str, str], ...]

T = t.TypeVar("T")


def to_plain(value: t.Any) -> t.Any:
    """Return a dataclass of the model, or a value of one of its fields, as plain data."""
    if isinstance(value, (NamedPort, PortRange)):
        return _plain_port(value)
    if isinstance(value, tuple):
        return [to_plain(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain: Data = {}
    for name, kind, default in _fields(type(value)):
        found = getattr(value, name)
        if found != default:
            plain[name] = dict(found) if kind == _PAIRS else to_plain(found)
    return plain


def from_plain(kind: type[T], data: t.Any) -> T:
    """Return the dataclass `kind` from the `data` that `to_plain` made. Raise ValueError for any other data."""
    if not isinstance(data, (dict, t.Mapping)):
        raise ValueError(f"{kind.__name__} is made of {type(data).__name__}")
    known = {name: hint for name, hint, _default in _fields(kind)}
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
    try:
        return kind(**{name: _read(known[name], entry) for name, entry in data.items()})
    except TypeError as error:  # a field is missing
        raise ValueError(f"{kind.__name__}: {error}") from error


def _read(kind: t.Any, data: t.Any) -> t.Any:
    """Return the value of a field with the type hint `kind`."""
    if kind is str:  # most fields are
        return _scalar((str,), data)
    if kind == Port:
        return _port(data)
    if kind == _PAIRS:
        if not isinstance(data, (dict, t.Mapping)) or not all(isinstance(text, str) for text in data.values()):
            raise ValueError(f"{shown(data)} is no object of texts")
        return tuple(sorted(data.items()))
    origin = t.get_origin(kind)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise ValueError(f"{shown(data)} is no list")
        inner = t.get_args(kind)[0]
        return tuple([_read(inner, entry) for entry in data])
    if origin is t.Union:
        if data is None and type(None) in t.get_args(kind):
            return None
        choices = [choice for choice in t.get_args(kind) if choice is not type(None)]
        if dataclasses.is_dataclass(choices[0]):
            return from_plain(t.cast(t.Any, choices[0]), data)
        return _scalar(tuple(choices), data)
    return from_plain(t.cast(t.Any, kind), data) if dataclasses.is_dataclass(kind) else _scalar((kind,), data)


def _scalar(kinds: tuple[t.Any, ...], data: t.Any) -> t.Any:
    """Return `data` if it is of one of `kinds`. NaN and infinity are refused, because JSON has neither."""
    fits = isinstance(data, kinds) or (float in kinds and isinstance(data, int))
    if not fits or (isinstance(data, bool) and bool not in kinds) or (isinstance(data, float) and not isfinite(data)):
        raise ValueError(f"{shown(data)} is no {' or '.join(kind.__name__ for kind in kinds)}")
    return data


def _plain_port(port: Port) -> t.Union[int, str]:
    if isinstance(port, NamedPort):
        return port.name
    return port.first if port.first == port.last else f"{port.first}:{port.last}"


def _port(data: t.Any) -> Port:
    _scalar((int, str), data)
    if isinstance(data, int):
        return PortRange(data, data)
    found = _RANGE.fullmatch(data)
    return PortRange(int(found.group(1)), int(found.group(2))) if found else NamedPort(data)


_FIELDS: dict[t.Any, tuple[tuple[str, t.Any, t.Any], ...]] = {}


def _fields(kind: t.Any) -> tuple[tuple[str, t.Any, t.Any], ...]:
    """Return (name, type, default) of each field of a dataclass; the default is dataclasses.MISSING if it has none."""
    found = _FIELDS.get(kind)
    if found is None:
        hints = t.get_type_hints(kind)
        found = tuple((field.name, hints[field.name], field.default) for field in dataclasses.fields(kind))
        _FIELDS[kind] = found
    return found
