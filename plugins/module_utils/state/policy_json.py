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

from ..base.ports import PortRange
from ..policy.model import NamedPort, Port

Data = dict[str, t.Any]

_RANGE = re.compile(r"(\d+):(\d+)", re.ASCII)
_PAIRS = tuple[tuple[str, str], ...]

T = t.TypeVar("T")


def to_plain(value: t.Any) -> t.Any:
    """Return a dataclass of the model, or a value of one of its fields, as plain data. Tuples become lists."""
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
    if not isinstance(data, t.Mapping):
        raise ValueError(f"{kind.__name__} is made of {type(data).__name__}")
    known = {name: hint for name, hint, _default in _fields(kind)}
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {unknown[0]!r}")
    try:
        return kind(**{name: _read(known[name], entry) for name, entry in data.items()})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{kind.__name__}: {error}") from error


def _read(kind: t.Any, data: t.Any) -> t.Any:
    if kind == Port:
        return _port(data)
    if kind == _PAIRS:
        return tuple(sorted(data.items()))
    origin = t.get_origin(kind)
    if origin is tuple:
        return tuple(_read(t.get_args(kind)[0], entry) for entry in data)
    if origin is t.Union:
        inner = [choice for choice in t.get_args(kind) if dataclasses.is_dataclass(choice)]
        return from_plain(t.cast(t.Any, inner[0]), data) if inner and data is not None else data
    return from_plain(t.cast(t.Any, kind), data) if dataclasses.is_dataclass(kind) else data


def _plain_port(port: Port) -> t.Union[int, str]:
    if isinstance(port, NamedPort):
        return port.name
    return port.first if port.first == port.last else f"{port.first}:{port.last}"


def _port(data: t.Union[int, str]) -> Port:
    if isinstance(data, int):
        return PortRange(data, data)
    found = _RANGE.fullmatch(data)
    return PortRange(int(found.group(1)), int(found.group(2))) if found else NamedPort(data)


_FIELDS: dict[t.Any, tuple[tuple[str, t.Any, t.Any], ...]] = {}


def _fields(kind: t.Any) -> tuple[tuple[str, t.Any, t.Any], ...]:
    """Return (name, type, default) of each field of a dataclass."""
    found = _FIELDS.get(kind)
    if found is None:
        hints = t.get_type_hints(kind)
        found = tuple((field.name, hints[field.name], field.default) for field in dataclasses.fields(kind))
        _FIELDS[kind] = found
    return found
