# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Classic BPF programs that drop packets before they reach a socket.

Layouts and codes: linux/filter.h, Documentation/networking/filter.rst.
"""

from __future__ import annotations

import ctypes
import socket
import struct

_SO_ATTACH_FILTER = 26
_INSTRUCTION = struct.Struct("=HBBI")  # struct sock_filter: code, offset of the jump if true, if false, operand k
#: Codes that load 4, 2 or 1 bytes in network order: from an offset, or from an offset behind the index register.
WORD, HALF, BYTE = 0x20, 0x28, 0x30
WORD_BEHIND, HALF_BEHIND, BYTE_BEHIND = 0x40, 0x48, 0x50
_INDEX_OF_IP_HEADER = 0xB1  # the index register becomes the length of the IPv4 header at an offset
_JUMP_IF_EQUAL, _RETURN = 0x15, 0x06
#: Results of a program: the packet reaches the socket whole, or not at all.
ALL, NOTHING = 0xFFFFFFFF, 0


class Program:
    """A program under construction: instructions, and jumps to labels further on. The index register begins as 0."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str]] = []
        self._labels: dict[str, int] = {}

    def load(self, code: int, offset: int) -> None:
        self._code.append((code, offset, ""))

    def skip_ip_header(self) -> None:
        """Set the index register to the bytes of the IPv4 header with which the packet begins."""
        self._code.append((_INDEX_OF_IP_HEADER, 0, ""))

    def jump_if(self, value: int, label: str) -> None:
        """Add a jump to `label` if what was loaded last is `value`."""
        self._code.append((_JUMP_IF_EQUAL, value, label))

    def end(self, result: int, label: str = "") -> None:
        if label:
            self._labels[label] = len(self._code)
        self._code.append((_RETURN, result, ""))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def assembled(self) -> bytes:
        return b"".join(
            _INSTRUCTION.pack(code, self._labels[label] - here - 1 if label else 0, 0, value)
            for here, (code, value, label) in enumerate(self._code)
        )


def attach(netlink: socket.socket, code: bytes) -> None:
    """Attach the filter `code` to a socket, in place of the one it has. Raise OSError if the kernel refuses."""
    buffer = ctypes.create_string_buffer(code, len(code))
    # The option's value is a struct sock_fprog: the number of instructions, and a pointer to them.
    netlink.setsockopt(
        socket.SOL_SOCKET,
        _SO_ATTACH_FILTER,
        struct.pack("@HP", len(code) // _INSTRUCTION.size, ctypes.addressof(buffer)),
    )
