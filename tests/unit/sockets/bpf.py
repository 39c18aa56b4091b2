# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An interpreter of those classic BPF programs that the product makes."""

from __future__ import annotations

import struct

#: The bytes that each operation loads: from an offset, and from an offset behind the index register.
_SIZES = {0x20: 4, 0x28: 2, 0x30: 1, 0x40: 4, 0x48: 2, 0x50: 1}


def interpret(code: bytes, packet: bytes) -> int:
    """Return the number of bytes of `packet` that the kernel would keep if it ran the filter `code` (bpf(4)).

    0 drops the packet, as does a load beyond its end. A number above its length keeps it whole. Raise AssertionError
    for an unknown operation.
    """
    accumulator, index, position = 0, 0, 0
    while True:
        operation, true, false, k = struct.unpack_from("=HBBI", code, 8 * position)
        position += 1
        if operation in _SIZES:
            begin, size = k + (index if operation & 0x40 else 0), _SIZES[operation]
            if begin + size > len(packet):
                return 0
            accumulator = int.from_bytes(packet[begin : begin + size], "big")
        elif operation == 0xB1:
            if k >= len(packet):
                return 0
            index = 4 * (packet[k] & 0xF)
        elif operation == 0x15:
            position += true if accumulator == k else false
        else:
            assert operation == 0x06
            return k
