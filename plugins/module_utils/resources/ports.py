# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Protocols and ports in rules and endpoints.

A protocol is a name ("TCP") or a number (6). Some checks of rules treat a name and its number differently, as
in Calico. A port is a number, a range ("1000:2000") or a name ("http").
"""

from __future__ import annotations

import re
import typing as t

from ..base.ports import PortRange
from .errors import Refused
from .fields import Document, Filled, nearest

PROTOCOLS = ("TCP", "UDP", "ICMP", "ICMPv6", "SCTP", "UDPLite")
#: The protocols whose ports rules and endpoints may name, by name and by number. As in Calico, UDPLite is not one.
PROTOCOLS_WITH_PORTS = frozenset({"TCP", "UDP", "SCTP", 6, 17, 132})

MAX_PORT = 65535

_DIGITS = re.compile(r"\d+", re.ASCII)
_RANGE = re.compile(r"(\d+):(\d+)", re.ASCII)
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)
_PORT_NAME_LIMIT = 15


#: A range of ports, or a port's name, which endpoints define.
Port = t.Union[PortRange, str]


def _number(digits: str) -> int:
    """Return the number that `digits` spell; only the first six after leading zeros count, as valid ones have five."""
    return int(digits.lstrip("0")[:6] or "0")


class Protocol:
    """A protocol, read as a name of PROTOCOLS or as a number from 1 to 255. Numbers may be text."""

    def read(self, value: t.Any) -> t.Union[str, int]:
        if isinstance(value, str):
            if value in PROTOCOLS:
                return str.__str__(value)
            number = _number(value) if _DIGITS.fullmatch(value) else None
        else:
            number = int.__int__(value) if isinstance(value, int) and not isinstance(value, bool) else None
        if number is None or not 1 <= number <= 255:
            near = nearest(value, PROTOCOLS) if isinstance(value, str) else []
            remedy = f"Did you mean {near[0]}?" if near else f"Write {', '.join(PROTOCOLS)} or a number from 1 to 255."
            raise Refused(value, "is not a protocol.", remedy)
        return number

    def write(self, value: t.Any) -> t.Any:
        return value

    def schema(self) -> Document:
        return {
            "anyOf": [
                {"type": "string", "enum": list(PROTOCOLS)},
                {"type": "string", "pattern": r"^\d+$"},
                {"type": "integer", "minimum": 1, "maximum": 255},
            ]
        }


class RulePort:
    """A port of a rule, read as a PortRange or a name. Ports are from 1 to 65535."""

    def read(self, value: t.Any) -> Port:
        if isinstance(value, str):
            found = _RANGE.fullmatch(value)
            if found:
                return self._range(value, _number(found.group(1)), _number(found.group(2)))
            if _DIGITS.fullmatch(value):
                return self._range(value, _number(value), _number(value))
            return PORT_NAME.read(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(value, PORT_NAME.rule, PORT_NAME.remedy)
        return self._range(value, int.__int__(value), int.__int__(value))

    @staticmethod
    def _range(value: t.Any, first: int, last: int) -> PortRange:
        if not (1 <= first <= MAX_PORT and 1 <= last <= MAX_PORT):
            raise Refused(value, "has a port that does not exist.", f"Ports go from 1 to {MAX_PORT}.")
        if first > last:
            raise Refused(value, "ends before it begins.", "Write the lower port first.")
        return PortRange(first, last)

    def write(self, value: Port) -> t.Any:
        return value if isinstance(value, str) else value.plain

    def schema(self) -> Document:
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": MAX_PORT}, {"type": "string"}]}


def _is_port_name(text: str) -> bool:
    """Return whether `text` is a port name in Kubernetes.

    That is 1 to 15 lower case letters, digits and single dashes between them, with at least one letter.
    """
    return bool(_PORT_NAME.fullmatch(text)) and len(text) <= _PORT_NAME_LIMIT


PROTOCOL = Protocol()
RULE_PORT = RulePort()
PORT_NAME = Filled(
    _is_port_name,
    "is neither a port nor a range of ports nor the name of a port.",
    f"Write 80, 1000:2000, or a name of at most {_PORT_NAME_LIMIT} lower case letters, digits and single '-'.",
)
