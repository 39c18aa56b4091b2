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
import typing as t

from ..base.typed_json import NotJson, parse
from ..files import replacement
from .mirror import KnownKey, Mirror, Position

FILE = "datastore.jsonl"
_FORMAT, _VERSION = "calico-datastore", 1
#: The most characters of a line: a document of the largest kind, its quotes doubled, and its key.
_LINE_LIMIT = 4 << 20
#: The most keys that are read.
_KEYS_LIMIT = 2_000_000
#: The most characters of a plan, which is a digest.
_PLAN_LIMIT = 128
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
        waiting.append(_line([*known, document.decode("ascii")]))
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
    cluster, count, written = (value.get(name) for name in ("cluster", "keys", "written"))
    revision, changed = _number(value.get("revision")), _number(value.get("changed"))
    if not (isinstance(cluster, str) and cluster.isascii() and cluster.isdigit() and len(cluster) <= 20):
        raise SnapshotUnusable("it names no cluster")
    if _number(count) > _KEYS_LIMIT:
        raise SnapshotUnusable(f"it has more than {_KEYS_LIMIT} keys")
    if not isinstance(written, (int, float)) or isinstance(written, bool) or not 0 <= written < 1e12:
        raise SnapshotUnusable("it has no time")
    plan = value.get("plan")
    if not isinstance(plan, str) or len(plan) > _PLAN_LIMIT:
        raise SnapshotUnusable("it has no plan")
    return SnapshotHeader(Position(int(cluster), revision, changed), _number(count), float(written), plan)


def _entry(value: t.Any) -> tuple[KnownKey, bytes]:
    if not (isinstance(value, list) and len(value) == 4):
        raise SnapshotUnusable("a line of it is no key")
    key, revision, checksum, document = value
    if not isinstance(key, str) or not isinstance(document, str):
        raise SnapshotUnusable("a line of it is no key")
    if _number(checksum) > 0xFFFFFFFF:
        raise SnapshotUnusable("a checksum of it is none")
    return KnownKey(key, _number(revision), checksum), document.encode("utf-8", "replace")


def _number(value: t.Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    raise SnapshotUnusable("a number of it is none")
