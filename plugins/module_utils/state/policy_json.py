# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Conversion of the values of policy/model.py to plain data for JSON. `plain_reader.reader` reads them back.

Fields at their default are left out, because most fields of a rule have it. Ports are written as in Calico (80,
"1000:2000", "http"), labels and annotations as mappings.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ..base.ports import PortRange
from ..policy.model import NamedPort, Port
from .plain_reader import PAIRS

Data = dict[str, t.Any]


def to_plain(value: t.Any) -> t.Any:
    """Return a dataclass of the model, or a value of one of its fields, as plain data."""
    if isinstance(value, (NamedPort, PortRange)):
        return _plain_port(value)
    if isinstance(value, tuple):
        return [to_plain(entry) for entry in value]
    if not dataclasses.is_dataclass(value):
        return value
    plain: Data = {}
    for name, has_pairs, default in _fields(type(value)):
        found = getattr(value, name)
        if found != default:
            plain[name] = dict(found) if has_pairs else to_plain(found)
    return plain


def _plain_port(port: Port) -> t.Union[int, str]:
    if isinstance(port, NamedPort):
        return port.name
    return port.first if port.first == port.last else f"{port.first}:{port.last}"


@functools.cache
def _fields(kind: t.Any) -> tuple[tuple[str, bool, t.Any], ...]:
    """Return (name, whether it has pairs, default) of each field of a dataclass; dataclasses.MISSING is no default."""
    hints = t.get_type_hints(kind)
    return tuple((field.name, hints[field.name] == PAIRS, field.default) for field in dataclasses.fields(kind))
