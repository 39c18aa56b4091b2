# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files up to a limit: what is larger, endless or no file is refused, and is never waited for."""

from __future__ import annotations

import os
import socket
import tracemalloc
from pathlib import Path

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for size in (0, 1, 65_536, 200_000):
        path.write_bytes(b"x" * size)
        path.chmod(0o640)
        assert bounded.read_with_mode(str(path), 200_000) == (b"x" * size, 0o640)
    path.write_bytes(b"x" * 200_001)
    with pytest.raises(bounded.TooLarge) as caught:
        bounded.read(str(path), 200_000)
    assert str(caught.value) == "it is larger than 200000 bytes"


def test_a_huge_file_fills_no_memory_and_a_small_one_takes_little(tmp_path: Path) -> None:
    huge, small = tmp_path / "huge", tmp_path / "small"
    huge.touch()
    os.truncate(huge, 1 << 40)
    small.write_text("1")
    tracemalloc.start()
    try:
        with pytest.raises(bounded.TooLarge):
            bounded.read(str(huge), 1 << 20)
        assert bounded.read(str(small), bounded.OWN_LIMIT) == b"1"
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_a_file_of_the_kernel_that_says_no_size_is_read() -> None:
    assert bounded.read("/proc/self/status", 1 << 20).startswith(b"Name:")


def test_a_path_that_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero", "/dev/tty", "/dev/null"):
        with pytest.raises(OSError) as caught:
            bounded.read(path, 100)
        assert path == "/dev/tty" or str(caught.value) == f"[Errno 22] it is not a regular file: {path!r}"
    for path, message in (
        (str(tmp_path), f"[Errno 21] Is a directory: {str(tmp_path)!r}"),
        (str(tmp_path / "none"), f"[Errno 2] No such file or directory: {str(tmp_path / 'none')!r}"),
    ):
        with pytest.raises(OSError) as caught:
            bounded.read(path, 100)
        assert str(caught.value) == message
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError):
            bounded.read(str(tmp_path / "socket"), 100)


def test_json_is_text_in_utf8_and_not_nested_without_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes('{"é": [1]}'.encode())
    assert bounded.read_json(str(path)) == {"é": [1]}
    for content in (b"", b"\xff", '{"é": 1}'.encode("utf-16"), b"\xef\xbb\xbf{}"):
        path.write_bytes(content)
        with pytest.raises(ValueError):
            bounded.read_json(str(path))
    path.write_bytes(b"[" * 200_000)
    with pytest.raises(ValueError, match="it is nested too deeply"):
        bounded.read_json(str(path))
    with pytest.raises(bounded.TooLarge):
        bounded.read_json(str(path), 199_999)
