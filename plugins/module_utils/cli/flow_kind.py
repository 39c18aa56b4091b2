# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`--port 5432/tcp`: what kind of a flow a person asks about. Pure."""

from __future__ import annotations

import typing as t

from ..policy.model import PROTOCOL_NUMBERS, PROTOCOLS_WITH_PORTS
from .errors import UsageError

#: A ping: echo request (RFC 792, RFC 4443).
_ECHO_REQUEST = {"icmp": 8, "icmpv6": 128}


class FlowKind(t.NamedTuple):
    """`protocol` is a name. It has a port, or an ICMP type and code."""

    protocol: str
    port: t.Optional[int] = None
    icmp_type: t.Optional[int] = None
    icmp_code: t.Optional[int] = None

    @property
    def number(self) -> int:
        """IANA's number of the protocol."""
        return PROTOCOL_NUMBERS[self.protocol]


def flow_kind(text: str) -> FlowKind:
    """Reads `5432/tcp`, `icmp` (a ping) and `3/icmp` (type 3, code 0). Raises UsageError."""
    first, slash, protocol = text.strip().lower().partition("/")
    if not slash:
        first, protocol = "", first
    if protocol in _ECHO_REQUEST:
        kind = _number(text, "ICMP type", first, 0, 254) if slash else _ECHO_REQUEST[protocol]
        return FlowKind(protocol, icmp_type=kind, icmp_code=0)
    if not slash and protocol.isdecimal():
        raise UsageError(f"--port {text} says no protocol. Write {text}/tcp or {text}/udp.")
    if protocol not in PROTOCOLS_WITH_PORTS:
        known = ", ".join(sorted({*PROTOCOLS_WITH_PORTS, *_ECHO_REQUEST}))
        raise UsageError(f"--port {text}: {protocol!r} is none of the protocols {known}. Write it as 5432/tcp.")
    if not slash:
        raise UsageError(f"--port {text} says no port. Write it as 5432/{protocol}.")
    return FlowKind(protocol, _number(text, "port", first, 1, 65535))


def _number(text: str, what: str, digits: str, first: int, last: int) -> int:
    if not (digits.isascii() and digits.isdecimal() and first <= int(digits) <= last):
        raise UsageError(f"--port {text}: {digits!r} is no {what}, a number from {first} to {last}.")
    return int(digits)
