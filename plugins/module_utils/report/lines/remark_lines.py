# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remarks about hosts, each said once for all hosts about which it is true."""

from __future__ import annotations

import re
import typing as t

from ...base import terminal_text
from ...ipam.errors import names

#: The most remarks about one host, and the most characters of one: a host may say what it likes.
MOST, LONGEST = 50, 1000
_SSH = re.compile(r"(?<=ssh from )\S+ to \S+(?= port )")


def bounded(remarks: t.Sequence[str]) -> list[str]:
    """Return at most MOST remarks, each a line of at most LONGEST characters. The last one counts those left out."""
    found = [terminal_text.cut(terminal_text.line(remark), LONGEST) for remark in remarks[:MOST]]
    if len(remarks) > MOST:
        found[-1] = f"{len(remarks) - MOST + 1} more warnings are left out."
    return found


def grouped(remarks: t.Mapping[str, t.Sequence[str]]) -> list[str]:
    """Return a line for each remark, such as `node1, node2 and 3 more: ...`, in the hosts' order.

    Remarks that differ only in their host's own name, or in the ends of an SSH connection, are one. Its words are then
    those about the first host.
    """
    hosts: dict[str, list[str]] = {}
    words: dict[str, dict[str, None]] = {}
    for host, texts in remarks.items():
        for text in texts:
            key = re.sub(rf"(?<![\w.]){re.escape(host)}(?![\w.])", "\0", _SSH.sub("", text))
            if host not in hosts.setdefault(key, []):
                hosts[key].append(host)
            words.setdefault(key, {})[text] = None
    return [f"{names(hosts[key])}: {next(iter(texts))}{_example(hosts[key][0], texts)}" for key, texts in words.items()]


def _example(host: str, texts: t.Collection[str]) -> str:
    return f" (This is {host}'s.)" if len(texts) > 1 else ""
