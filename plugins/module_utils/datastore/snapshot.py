# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of the mirror on the disk: what a node knew of others, for its boot and for as long as etcd is away.

    /var/lib/calico/datastore.jsonl
    {"format": "calico-datastore", "version": 1, "cluster": "…", "revision": …, "changed": …, "keys": …, "written": …,
     "plan": "…"}
    ["/host-routing/v1/endpoints/node2/cali0123", 812, 3499128713, "{…}"]         a line for each key

It is written as a stream into a new file, which then replaces the old one, and read line by line. A file that is not
whole, or of another form, is not used: the feed lists the datastore anew.
"""

from __future__ import annotations

import json
import re
import typing as t

from ..base.typed_json import NotJson, Unreadable, matching, number, open_table, parse, text, whole
from ..files import replacement
from .mirror import KnownKey, Mirror, Position

FILE = "datastore.jsonl"
_FORMAT, _VERSION = "calico-datastore", 1
#: The most characters of a line: a document of the largest kind, its quotes doubled, and its key.
_LINE_LIMIT = 4 << 20
#: The most keys that are read.
_KEYS_LIMIT = 2_000_000
_TEXT, _NUMBER, _CHECKSUM = text(_LINE_LIMIT), whole(0, (1 << 63) - 1), whole(0, 0xFFFFFFFF)
_HEADER = open_table(
    {
        "cluster": matching(re.compile("[0-9]{1,20}"), "the identity of a cluster"),
        "revision": _NUMBER,
        "changed": _NUMBER,
        "keys": whole(0, _KEYS_LIMIT),
        "written": number(),
        "plan": text(128),  # a digest
    }
)
#: Keys that are written, or read, between two pauses for the event loop.
PART = 200


class SnapshotUnusable(Exception):
    """A copy that cannot be read, with the reason."""


class SnapshotHeader(t.NamedTuple):
    """The first line of a copy. `written` is in seconds since 1970, `plan` the state's when last in sync, or ""."""

    position: Position
    keys: int
    written: float
    plan: str = ""


def parts(mirror: Mirror, written: float, plan: str = "") -> t.Iterator[bytes]:
    """Yield the copy of a mirror in parts of PART keys. The mirror must not change meanwhile.

    `written` and `plan` are as in SnapshotHeader. Raise SnapshotUnusable for a mirror without a position.
    """
    if mirror.position is None:
        raise SnapshotUnusable("nothing was read yet")
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "cluster": str(mirror.position.cluster),
        "revision": mirror.position.revision,
        "changed": mirror.position.changed,
        "keys": mirror.kept,
        "written": written,
        "plan": plan,
    }
    waiting = [_line(header)]
    for known, document in mirror.entries():
        waiting.append(_line([*known, document.decode("utf-8")]))
        if len(waiting) >= PART:
            yield b"".join(waiting)
            waiting = []
    yield b"".join(waiting)


def write(path: str, content: t.Iterable[bytes]) -> None:
    """Replace the file at `path` by `content`, and return after it is on the disk. Raise what `replace` raises."""
    with replacement.beside(path, 0o600) as new:
        for part in content:
            new.write(part)
        new.put()


def read(path: str, mirror: Mirror) -> t.Iterator[t.Optional[SnapshotHeader]]:
    """Read a copy into an empty mirror. Yield None after each PART of it, and at its end the header.

    The mirror has the content only after the end. It stays empty if SnapshotUnusable is raised.
    """
    try:
        with open(path, encoding="ascii") as file:
            header = _header(_value(file.readline(_LINE_LIMIT)))
            entries: list[tuple[KnownKey, bytes]] = []
            read_keys, first = 0, True
            for line in iter(lambda: file.readline(_LINE_LIMIT), ""):
                entries.append(_entry(_value(line)))
                read_keys += 1
                if len(entries) >= PART:
                    mirror.restore_part(entries, first)
                    entries, first = [], False
                    yield None
            if read_keys != header.keys:
                raise SnapshotUnusable(f"it has {read_keys} keys instead of {header.keys}")
    except FileNotFoundError:
        raise SnapshotUnusable("there is none") from None
    except OSError as error:
        raise SnapshotUnusable(error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise SnapshotUnusable("it is not text") from None
    except Unreadable as error:
        raise SnapshotUnusable(f"a line of it cannot be read: {error}") from None
    mirror.restore_part(entries, first)
    for dummy in mirror.list_end(header.position):
        yield None
    yield header


def _line(value: t.Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def _value(line: str) -> t.Any:
    if not line.endswith("\n"):
        raise SnapshotUnusable("its last line is not whole")
    try:
        return parse(line, once=False)
    except NotJson:
        raise SnapshotUnusable("a line of it is not JSON") from None


def _header(value: t.Any) -> SnapshotHeader:
    if not isinstance(value, dict) or value.get("format") != _FORMAT or value.get("version") != _VERSION:
        raise SnapshotUnusable("it has the form of another release")
    found = _HEADER(value)
    position = Position(int(found["cluster"]), found["revision"], found["changed"])
    return SnapshotHeader(position, found["keys"], found["written"], found["plan"])


def _entry(value: t.Any) -> tuple[KnownKey, bytes]:
    if not isinstance(value, list) or len(value) != 4:
        raise SnapshotUnusable("a line of it is no key")
    key, revision, checksum, document = value
    return KnownKey(_TEXT(key), _NUMBER(revision), _CHECKSUM(checksum)), _TEXT(document).encode("utf-8", "replace")
