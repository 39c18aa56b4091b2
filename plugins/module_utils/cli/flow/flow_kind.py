# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kind of flow that `--port 5432/tcp` asks about. No I/O."""

from __future__ import annotations

import typing as t

from ...policy.model import PROTOCOL_NUMBERS, PROTOCOLS_WITH_PORTS
from ..errors import UsageError

#: {protocol: type of a ping, the echo request (RFC 792, RFC 4443)}.
_ECHO_REQUEST = {"icmp": 8, "icmpv6": 128}
_ICMP = {4: "icmp", 6: "icmpv6"}


class FlowKind(t.NamedTuple):
    """A protocol, by name in lower case, with a port or with an ICMP type and code. What does not apply is None."""

    protocol: str
    port: t.Optional[int] = None
    icmp_type: t.Optional[int] = None
    icmp_code: t.Optional[int] = None

    @property
    def number(self) -> int:
        return PROTOCOL_NUMBERS[self.protocol]

    def for_version(self, version: int, option: str) -> FlowKind:
        """Return the kind between addresses of IP version `version`: a ping becomes that version's.

        Raise UsageError, naming `option`, for any other ICMP message of the other IP version.
        """
        if self.protocol not in _ECHO_REQUEST or self.protocol == _ICMP[version]:
            return self
        if self.icmp_type == _ECHO_REQUEST[self.protocol]:
            return FlowKind(_ICMP[version], icmp_type=_ECHO_REQUEST[_ICMP[version]], icmp_code=0)
        raise UsageError(
            f"{option} {self.icmp_type}/{self.protocol}: the addresses are IPv{version}'s, which has messages of its "
            f"own. Write TYPE/{_ICMP[version]}."
        )


def flow_kind(text: str, option: str = "--port") -> FlowKind:
    """Return the kind of flow that `5432/tcp`, `icmp` (a ping) or `3/icmp` (type 3, code 0) means.

    Raise UsageError, naming `option`, for anything else. Ports are from 1 to 65535, types from 0 to 254.
    """
    asked = f"{option} {text}"
    first, slash, protocol = text.strip().lower().partition("/")
    if not slash:
        first, protocol = "", first
    if protocol in _ECHO_REQUEST:
        kind = _number(asked, "ICMP type", first, 0, 254) if slash else _ECHO_REQUEST[protocol]
        return FlowKind(protocol, icmp_type=kind, icmp_code=0)
    if not slash and protocol.isdecimal():
        raise UsageError(f"{asked} says no protocol. Write {text}/tcp or {text}/udp.")
    if protocol not in PROTOCOLS_WITH_PORTS:
        known = ", ".join(sorted({*PROTOCOLS_WITH_PORTS, *_ECHO_REQUEST}))
        raise UsageError(f"{asked}: {protocol!r} is none of the protocols {known}. Write it as 5432/tcp.")
    if not slash:
        raise UsageError(f"{asked} says no port. Write it as 5432/{protocol}.")
    return FlowKind(protocol, _number(asked, "port", first, 1, 65535))


def _number(asked: str, what: str, digits: str, first: int, last: int) -> int:
    if not (digits.isascii() and digits.isdecimal() and first <= int(digits) <= last):
        raise UsageError(f"{asked}: {digits!r} is no {what}, a number from {first} to {last}.")
    return int(digits)
