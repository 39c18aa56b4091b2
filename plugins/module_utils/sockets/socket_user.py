# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user whose process is at the other end of a TCP connection inside this host, by the kernel's sock_diag(7)."""

from __future__ import annotations

import socket
import struct
import typing as t

# linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NO_COOKIE = b"\xff" * 8
_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_REQUEST = struct.Struct("=BBBBI")  # inet_diag_req_v2 before its sockid: family, protocol, ext, pad, states
_PORTS = struct.Struct("!HH16s16s")  # inet_diag_sockid: source and destination port, source and destination address
_UID = _HEADER.size + 4 + 48 + 12  # in inet_diag_msg: after its states, sockid, timer and queues
_MAPPED = "::ffff:"


def of_peer(connection: socket.socket) -> t.Optional[int]:
    """Return the user id at the other end of a TCP connection inside this network namespace; None if it is unknown."""
    try:
        peer, own = connection.getpeername(), connection.getsockname()
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.sendto(_request(peer, own), (0, 0))
            answer = kernel.recv(4096)
    except OSError:
        return None
    if len(answer) < _UID + 4 or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    return int(struct.unpack_from("=I", answer, _UID)[0])


def _request(peer: tuple[t.Any, ...], own: tuple[t.Any, ...]) -> bytes:
    """Return the question for the one socket whose own end is `peer` and whose other end is `own`."""
    texts = [str(end[0]).partition("%")[0] for end in (peer, own)]
    if all(text.startswith(_MAPPED) for text in texts):
        texts = [text[len(_MAPPED) :] for text in texts]
    family = socket.AF_INET6 if ":" in texts[0] else socket.AF_INET
    source, destination = (socket.inet_pton(family, text).ljust(16, b"\0") for text in texts)
    ident = _PORTS.pack(peer[1], own[1], source, destination) + struct.pack("=I", 0) + _NO_COOKIE
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + ident
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body
