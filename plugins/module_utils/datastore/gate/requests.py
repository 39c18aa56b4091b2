# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that the gate passes: each is read, and written anew from the fields that agents use."""

from __future__ import annotations

import base64
import binascii
import contextlib
import typing as t

from ...base.typed_json import (
    NotJson,
    Unreadable,
    flag,
    items,
    one_of,
    parse,
    refuse,
    secret,
    table,
    text,
)
from .. import gateway, keys
from ..gateway import Json

#: The most keys of an answer. A member has them in memory several times, however slowly the answer is read: 64 values
#: of the largest kind cost it 45 MiB.
PAGE_KEYS = 64
_OPERATIONS = 128
_NAME = 512  # characters of a user's name, and of a password
_READ = "request_range"


class RequestNotPassed(Exception):
    """A request that is not passed. The text says why."""


def _base64(value: t.Any) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (TypeError, ValueError, binascii.Error):
        refuse(value, "base64")


def _end(value: t.Any) -> str:
    """Read the end of a range. One zero byte means all keys, which etcd does not check."""
    end = _base64(value)
    if end == _NO_END:
        raise Unreadable("", "no end, and a range without one is not passed")
    return end


def _number(value: t.Any) -> str:
    found = str(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else value
    if not isinstance(found, str) or not 0 < len(found) <= 20 or not found.isascii() or not found.isdigit():
        refuse(value, "a number of 64 bits")
    return found


_NO_END = base64.b64encode(b"\x00").decode()
_KEY = {"key": _base64}
_SPAN = {"range_end": _end, "revision": _number, "count_only": flag}
_RANGE = table(_KEY, {**_SPAN, "limit": _number, "keys_only": flag, "serializable": flag})
_READS = table(_KEY, _SPAN)


def _range(body: t.Any) -> Json:
    """Return a range outside of a transaction. It ends after PAGE_KEYS keys, and who asks goes on behind the last."""
    found = _RANGE(body)
    if found.get("range_end") and not found.get("count_only"):
        # Without a limit, etcd takes 0 for none.
        found["limit"] = str(min(int(found.get("limit", 0)) or PAGE_KEYS, PAGE_KEYS))
    return found


def _read(body: t.Any) -> Json:
    """Return a read within a transaction: of one key, or of the number of keys in a range."""
    found = _READS(body)
    if found.get("range_end") and not found.get("count_only"):
        raise Unreadable("", "a range that is not counted, and a transaction only counts ranges")
    return found


_ONE_OPERATION = table(
    {}, {_READ: _read, "request_put": table(_KEY, {"value": _base64}), "request_delete_range": table(_KEY)}
)


def _operation(body: t.Any) -> Json:
    found = _ONE_OPERATION(body)
    if len(found) != 1:
        raise Unreadable("", f"{len(found)} operations, not one")
    return found


_COMPARE = table(
    {},
    {
        "target": one_of("MOD", "VERSION"),
        "result": one_of("EQUAL"),
        "key": _base64,
        "mod_revision": _number,
        "version": _number,
    },
)
_TRANSACTION = table({}, {"compare": items(_COMPARE, _OPERATIONS), "success": items(_operation, _OPERATIONS)})


def _transaction(body: t.Any) -> Json:
    found = _TRANSACTION(body)
    success = found.get("success", [])
    reads = sum(_READ in operation for operation in success)
    if reads > PAGE_KEYS:
        raise Unreadable("success", f"{reads} reads, not at most {PAGE_KEYS}")
    if reads and reads != len(success):
        raise Unreadable("success", "reads and writes, not one of both")
    return found


_WATCH = table(
    {
        "create_request": table(
            _KEY, {"range_end": _end, "start_revision": _number, "progress_notify": flag, "fragment": flag}
        )
    }
)


def _watch(body: t.Any) -> Json:
    """Return a watch whose large messages come in parts: the member has each one in memory six times."""
    return {"create_request": {**_WATCH(body)["create_request"], "fragment": True}}


RANGE, TRANSACTION = "/v3/kv/range", "/v3/kv/txn"
WATCH, AUTHENTICATE = "/v3/watch", "/v3/auth/authenticate"
STATUS = "/v3/maintenance/status"
_READERS: t.Mapping[str, t.Callable[[t.Any], Json]] = {
    RANGE: _range,
    TRANSACTION: _transaction,
    AUTHENTICATE: table({}, {"name": text(_NAME), "password": secret(_NAME)}),
    STATUS: table({}),
    WATCH: _watch,
}


def passed(path: str, body: bytes) -> bytes:
    """Return a request as it is passed on. Raise RequestNotPassed for one that agents do not make."""
    read = _READERS.get(path)
    if read is None:
        raise RequestNotPassed("this call is not passed")
    try:
        return gateway.to_bytes(read(parse(body)))
    except NotJson:
        raise RequestNotPassed("the request is not JSON") from None
    except Unreadable as error:
        raise RequestNotPassed(str(error)) from None


def writes(request: bytes) -> list[Json]:
    """Return the puts and deletions of a transaction that `passed` returned."""
    operations = parse(request).get("success", ())
    return [one for operation in operations for name, one in operation.items() if name != _READ]


def starts_at(request: bytes) -> int:
    """Return the revision at which a watch that `passed` returned begins, 0 for the next one."""
    return int(parse(request)["create_request"].get("start_revision", 0))


def first_key(request: bytes) -> str:
    """Return the first key of a watch that `passed` returned, in base64."""
    return str(parse(request)["create_request"]["key"])


def check_writes(found: t.Iterable[Json], user: str) -> None:
    """Raise RequestNotPassed if one of the writes is not one that the agent of the node `user` makes.

    It writes the keys that keys.py knows below its own prefixes, each up to its size. It removes any key there.
    """
    own: tuple[keys.KeyRange, ...] = ()
    with contextlib.suppress(keys.InvalidKey):
        own = keys.of_node(user)
    for one in found:
        key = base64.b64decode(one["key"]).decode("utf-8", "surrogateescape")
        if not any(key in prefix for prefix in own):
            raise RequestNotPassed("a write beside the user's own keys is not passed")
        if "value" not in one:
            continue
        most, size = keys.most_bytes(key), len(base64.b64decode(one["value"]))
        if most is None:
            raise RequestNotPassed(f"no agent writes the key {ascii(key)[:80]}")
        if size > most:
            raise RequestNotPassed(f"the value of {ascii(key)[:80]} has {size} bytes, and at most {most} are passed")
