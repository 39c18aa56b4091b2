# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests that the gate passes: each is read, and written anew from the fields that agents use."""

from __future__ import annotations

import base64
import binascii
import json
import typing as t

from .. import gateway, keys
from ..gateway import Json

#: The most keys of an answer. A member has them in memory several times, however slowly the answer is read: 64 values
#: of the largest kind cost it 45 MiB.
PAGE_KEYS = 64
_OPERATIONS = 128
_READ = "request_range"


class RequestNotPassed(Exception):
    """A request that is not passed. The text says why."""


class _Fields:
    """The fields of an object of a request; each is taken once, and what is left over is refused."""

    def __init__(self, body: t.Any) -> None:
        if not isinstance(body, dict):
            raise RequestNotPassed("a part of the request is no object")
        self._body = dict(body)
        self.taken: Json = {}

    def key(self, name: str) -> None:
        """Take a key or a value in base64."""
        self._take(name, _base64)

    def number(self, name: str) -> None:
        """Take a number of 64 bits."""
        self._take(name, _number)

    def flag(self, name: str) -> None:
        """Take true or false."""
        self._take(name, _flag)

    def one_of(self, name: str, *values: str) -> None:
        """Take one of some words."""

        def check(value: t.Any) -> str:
            if value not in values:
                raise RequestNotPassed(f"{name} is none of {', '.join(values)}")
            return str(value)

        self._take(name, check)

    def listed(self, name: str, read: t.Callable[[t.Any], Json]) -> None:
        """Take a list of at most 128 objects."""

        def check(value: t.Any) -> list[Json]:
            if not isinstance(value, list) or len(value) > _OPERATIONS:
                raise RequestNotPassed(f"{name} is no list of at most {_OPERATIONS}")
            return [read(one) for one in value]

        self._take(name, check)

    def part(self, name: str, read: t.Callable[[t.Any], Json]) -> None:
        """Take an object."""
        self._take(name, read)

    def text(self, name: str) -> None:
        """Take a short text."""
        self._take(name, _text)

    def _take(self, name: str, check: t.Callable[[t.Any], t.Any]) -> None:
        if name in self._body:
            self.taken[name] = check(self._body.pop(name))

    def end(self) -> Json:
        """Return what was taken. Raise RequestNotPassed if anything is left."""
        if self._body:
            raise RequestNotPassed(f"{ascii(min(self._body))[:40]} is not passed")
        return self.taken


def _base64(value: t.Any) -> str:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (TypeError, ValueError, binascii.Error):
        raise RequestNotPassed("a key or a value is not base64") from None


def _number(value: t.Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= 20 and value.isascii() and value.isdigit():
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return str(value)
    raise RequestNotPassed("a number is none")


def _flag(value: t.Any) -> bool:
    if not isinstance(value, bool):
        raise RequestNotPassed("a field is neither true nor false")
    return value


def _text(value: t.Any) -> str:
    if not isinstance(value, str) or len(value) > 512:
        raise RequestNotPassed("a field is no short text")
    return value


def _range(body: t.Any) -> Json:
    """Return a range outside of a transaction. It ends after PAGE_KEYS keys, and who asks goes on behind the last."""
    fields = _Fields(body)
    is_range = _keys(fields)
    for name in ("limit", "revision"):
        fields.number(name)
    for name in ("keys_only", "count_only", "serializable"):
        fields.flag(name)
    taken = fields.end()
    if is_range and not taken.get("count_only"):
        # Without a limit, etcd takes 0 for none.
        taken["limit"] = str(min(int(taken.get("limit", 0)) or PAGE_KEYS, PAGE_KEYS))
    return taken


def _keys(fields: _Fields) -> bool:
    """Take a key and the end of a range, and return whether there is an end.

    An end of one zero byte means all keys, which etcd does not check.
    """
    _key(fields)
    fields.key("range_end")
    if fields.taken.get("range_end") == base64.b64encode(b"\x00").decode():
        raise RequestNotPassed("a range without an end is not passed")
    return bool(fields.taken.get("range_end"))


def _key(fields: _Fields) -> None:
    fields.key("key")
    if "key" not in fields.taken:
        raise RequestNotPassed("the request has no key")


def _read(body: t.Any) -> Json:
    """Return a read within a transaction: of one key, or of the number of keys in a range."""
    fields = _Fields(body)
    is_range = _keys(fields)
    fields.number("revision")
    fields.flag("count_only")
    if is_range and not fields.taken.get("count_only"):
        raise RequestNotPassed("in a transaction a range is only counted")
    return fields.end()


def _put(body: t.Any) -> Json:
    fields = _Fields(body)
    _key(fields)
    fields.key("value")
    return fields.end()


def _deletion(body: t.Any) -> Json:
    fields = _Fields(body)
    _key(fields)
    return fields.end()


def _compare(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.one_of("target", "MOD", "VERSION")
    fields.one_of("result", "EQUAL")
    fields.key("key")
    for name in ("mod_revision", "version"):
        fields.number(name)
    return fields.end()


def _operation(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.part(_READ, _read)
    fields.part("request_put", _put)
    fields.part("request_delete_range", _deletion)
    if len(fields.taken) != 1:
        raise RequestNotPassed("an operation is not one of those that are passed")
    return fields.end()


def _transaction(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.listed("compare", _compare)
    fields.listed("success", _operation)
    reads = sum(_READ in operation for operation in fields.taken.get("success", ()))
    if reads > PAGE_KEYS:
        raise RequestNotPassed(f"a transaction reads at most {PAGE_KEYS} times")
    if reads and reads != len(fields.taken["success"]):
        raise RequestNotPassed("a transaction reads or writes")
    return fields.end()


def _authenticate(body: t.Any) -> Json:
    fields = _Fields(body)
    fields.text("name")
    fields.text("password")
    return fields.end()


def _watch(body: t.Any) -> Json:
    """Return a watch whose large messages come in parts: the member has each one in memory six times."""

    def create(inner: t.Any) -> Json:
        values = _Fields(inner)
        _keys(values)
        values.number("start_revision")
        values.flag("progress_notify")
        values.flag("fragment")
        return {**values.end(), "fragment": True}

    fields = _Fields(body)
    fields.part("create_request", create)
    if not fields.taken:
        raise RequestNotPassed("a watch begins with create_request")
    return fields.end()


RANGE, TRANSACTION = "/v3/kv/range", "/v3/kv/txn"
WATCH, AUTHENTICATE = "/v3/watch", "/v3/auth/authenticate"
STATUS = "/v3/maintenance/status"
_READERS: t.Mapping[str, t.Callable[[t.Any], Json]] = {
    RANGE: _range,
    TRANSACTION: _transaction,
    AUTHENTICATE: _authenticate,
    STATUS: lambda body: _Fields(body).end(),
    WATCH: _watch,
}


def passed(path: str, body: bytes) -> bytes:
    """Return a request as it is passed on. Raise RequestNotPassed for one that agents do not make."""
    read = _READERS.get(path)
    if read is None:
        raise RequestNotPassed("this call is not passed")
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestNotPassed("the request is not JSON") from None
    return gateway.to_bytes(read(parsed))


def writes(request: bytes) -> list[Json]:
    """Return the puts and deletions of a transaction that `passed` returned."""
    operations = json.loads(request).get("success", ())
    return [one for operation in operations for name, one in operation.items() if name != _READ]


def starts_at(request: bytes) -> int:
    """Return the revision at which a watch that `passed` returned begins, 0 for the next one."""
    return int(json.loads(request)["create_request"].get("start_revision", 0))


def check_writes(found: t.Iterable[Json], user: str) -> None:
    """Raise RequestNotPassed if one of the writes is not one that the agent of the node `user` makes.

    It writes the keys that keys.py knows below its own two prefixes, each up to its size. It removes any key there.
    """
    try:
        own = [keys.under(prefix) for prefix in (keys.endpoints_of(user), keys.heartbeats_of(user))]
    except keys.InvalidKey:
        own = []
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
