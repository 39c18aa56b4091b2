# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The details of a published workload: what lists show to people, and policy does not need.

They are a node's word about its own workload. A wrong one is left out, and the workload counts without it.
"""

from __future__ import annotations

import re
import typing as t

#: The field of a document that has details. Agents of earlier releases refuse a document with it.
FIELD = "details"
#: The document of @complete of a node whose agent reads documents with details. It is read as a whole.
COMPLETE = b'{"reads":["details"]}'
_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,%d}[A-Za-z0-9])?"


class EndpointDetails(t.NamedTuple):
    """The details of a workload; "" for what is not known.

    `pool` is the IP pool of its first address. `by` is the runtime that attached it, or "api". `endpoint` is its
    interface inside, `container` the id of its container, `mac` the MAC address that was asked for, and `name` the name
    that people gave its container.
    """

    pool: str = ""
    by: str = ""
    endpoint: str = ""
    container: str = ""
    mac: str = ""
    name: str = ""


_FORMS = EndpointDetails(
    pool=_NAME % 251,
    by=r"[a-z]([a-z0-9_.-]{0,30}[a-z0-9])?",
    endpoint=r"[A-Za-z0-9_.-]{1,15}",
    container=_NAME % 126,
    mac=r"([0-9a-f]{2}:){5}[0-9a-f]{2}",
    name=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}",
)
_PATTERNS = {name: re.compile(form, re.ASCII) for name, form in _FORMS._asdict().items()}
NONE = EndpointDetails()


def read(data: t.Any) -> EndpointDetails:
    """Return the details in the field of a document. Whatever is not valid, or unknown, is left out."""
    if not isinstance(data, dict):
        return NONE
    found = {name: data[name] for name, pattern in _PATTERNS.items() if _is_valid(data.get(name), pattern)}
    return EndpointDetails(**found) if found else NONE


def _is_valid(value: t.Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(value, str) and len(value) <= 253 and pattern.fullmatch(value) is not None


def to_plain(details: EndpointDetails) -> dict[str, str]:
    """Return the details that are known and that `read` accepts, for a document."""
    return {name: text for name, text in read(details._asdict())._asdict().items() if text}
