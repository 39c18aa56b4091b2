# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/record_switch.py: what it keeps of a recording, and that the README shows the recording that is kept."""

from __future__ import annotations

import html
import importlib.util
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("record_switch", ROOT / "docs" / "record_switch.py")
assert SPEC is not None and SPEC.loader is not None
record_switch = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(record_switch)

WHOLE = [
    (1.0, "o", "── Start the lab ──\r\n"),
    (9.0, "o", "── Switch the pool from vxlan to direct ──\r\n$ ansible"),
    (9.5, "o", "-playbook\r\n\r\nTASK [Flip] ***\r\n\x1b[32mok: [node1]\x1b[0m\r\n"),
    (60.0, "o", "flip      4/4  routes replaced\r\nnode1$ ip route\r\n  10.0.0.0/8 dev eth0\r\n"),
    (60.5, "i", "keys"),
    (61.0, "o", "node2$ ip route\r\n  10.0.0.0/8 dev eth1\r\n── And back to vxlan ──\r\nflip again\r\n"),
    (90.0, "o", "100 packets sent in 2 streams, 0 lost\r\n\r\nHow long it took\r\n  in all 90 s"),
]


def test_the_switch_and_the_count_are_kept_without_ansibles_own_lines_and_long_pauses() -> None:
    kept = record_switch.cut(WHOLE)
    assert [(at, data.rstrip()) for at, _kind, data in kept] == [
        (0.0, "── Switch the pool from vxlan to direct ──"),
        (0.5, "$ ansible-playbook"),
        (2.0, "flip      4/4  routes replaced"),
        (2.0, "node1$ ip route"),
        (2.0, "  10.0.0.0/8 dev eth0"),
        (2.0, "100 packets sent in 2 streams, 0 lost"),
    ]


def test_a_demonstration_that_failed_is_no_recording() -> None:
    with pytest.raises(
        ValueError, match=r"^The demonstration did not print 'packets sent in' and, after it, 'How long"
    ):
        record_switch.cut(WHOLE[:-1])


def test_the_picture_shows_the_recording_that_is_kept() -> None:
    header, *events = record_switch.CAST.read_text("utf-8").splitlines()
    assert json.loads(header) == {"version": 2, "width": record_switch.COLUMNS, "height": record_switch.ROWS}
    said = "".join(data for _at, _kind, data in map(json.loads, events))
    assert "converged  4/4 nodes" in said and re.search(r"packets sent in \d+ streams .*, 0 lost, ", said)
    assert str(ROOT) not in said and "/work/" not in said
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", record_switch.PICTURE.read_text("utf-8"))
    picture = "".join("".join(html.unescape(text) for text in texts).split())
    for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", said).splitlines():
        words = "".join(line.split())[: record_switch.COLUMNS // 2]
        assert words.replace("\xa0", "") in picture.replace("\xa0", ""), line
