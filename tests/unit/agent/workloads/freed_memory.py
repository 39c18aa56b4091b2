# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program for test_growth.py: the memory that glibc keeps after it was freed, and where threads allocate theirs.

It allocates and frees chunks of all sizes that a thread's cache holds (tcache in malloc/malloc.c). It prints JSON:
`kept`, the bytes in use more than before, and `elsewhere`, the number of chunks of threads above the break.
"""

from __future__ import annotations

import ctypes
import json
import threading

PIECES = 7  # the number of free chunks of one size that glibc keeps in a thread's cache
SIZES = range(24, 1033, 16)  # bytes
THREADS = 3

libc = ctypes.CDLL(None)


class Mallinfo2(ctypes.Structure):
    """The struct mallinfo2 of mallinfo(3): sizes in bytes, and numbers of blocks."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


libc.mallinfo2.restype = Mallinfo2
libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def make_and_free() -> None:
    for size in SIZES:
        pieces = [libc.malloc(size) for dummy in range(PIECES)]
        for piece in pieces:
            libc.free(piece)


def elsewhere() -> int:
    """Let each of THREADS threads allocate a chunk and never free it; return how many are above the program break."""
    pieces: list[int] = []
    threads = [threading.Thread(target=lambda: pieces.append(libc.malloc(SIZES[-1]))) for dummy in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    top = libc.sbrk(0)
    return sum(piece > top for piece in pieces)


before = libc.mallinfo2().uordblks
make_and_free()
kept = libc.mallinfo2().uordblks - before
print(json.dumps({"kept": kept, "elsewhere": elsewhere()}))
