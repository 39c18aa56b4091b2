# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of etcd's JSON gateway (etcd 3.4 and 3.5): requests as bytes, answers as typed values.

The gateway translates gRPC to JSON. Keys and values are base64, numbers of 64 bits are texts, and a field that has its
zero value is missing. Errors of 3.4 and 3.5 have different fields; both have `code`, of gRPC, and `message`.

Whatever a member answers is input: InvalidAnswer is raised for a field of another type or an overlong text.
"""

from __future__ import annotations

import base64
import binascii
import json
import typing as t

from ..base.typed_json import (
    NotJson,
    Unreadable,
    flag,
    items,
    maybe,
    one_of,
    parse,
    refuse,
    secret,
    sparse_table,
    text,
)
from .keys import KeyRange

Json = dict[str, t.Any]

#: The most seconds after which a gate asks to be asked again.
LATEST_SECONDS = 30

# The codes of gRPC that are told apart (https://grpc.io/docs/guides/status-codes/).
_INVALID_ARGUMENT, _PERMISSION_DENIED, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION = 3, 7, 8, 9
_OUT_OF_RANGE, _UNAVAILABLE, _UNAUTHENTICATED = 11, 14, 16

# Texts of etcd that its codes do not tell apart (api/v3rpc/rpctypes/error.go).
_COMPACTED = "required revision has been compacted"
_FUTURE = "required revision is a future revision"
_NO_USER = "user name is empty"
_WRONG_PASSWORD = "authentication failed"
_NO_SPACE = "database space exceeded"
_AUTH_OFF = "authentication is not enabled"
_OLD_REVISION = "revision of auth store is old"
_TOO_MANY = "too many operations"


#: The call that deletes a range of keys. It needs no space; etcd 3.4 refuses a transaction in a full database.
DELETE_RANGE = "/v3/kv/deleterange"
#: The calls that make a lease, and that end one with all keys that have it.
LEASE_GRANT, LEASE_REVOKE = "/v3/lease/grant", "/v3/lease/revoke"


class EtcdError(Exception):
    """A refusal of etcd, or an answer that cannot be used. `message` is for people, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidAnswer(EtcdError):
    """An answer that is not one of etcd's."""


class Unauthenticated(EtcdError):
    """The token is unknown to this member, has expired, or is missing."""


class WrongPassword(EtcdError):
    """The user is unknown or has another password."""


class AuthenticationOff(EtcdError):
    """The cluster asks nobody for a password."""


class PermissionDenied(EtcdError):
    """The user has no right to this."""


class Compacted(EtcdError):
    """The store no longer keeps the revision that was asked for. `revision` is its oldest one, 0 if unknown."""

    def __init__(self, message: str, revision: int = 0) -> None:
        super().__init__(message)
        self.revision = revision


class FutureRevision(EtcdError):
    """The revision that was asked for does not exist yet: the store went back, or is another one."""


class NoSpace(EtcdError):
    """The database has reached its quota, or a request asks for too much."""


class TooManyOperations(EtcdError):
    """A transaction has more operations than the member takes."""


class TooFast(EtcdError):
    """A gate passes no more of this user for the moment. It wants to be asked again in `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Unavailable(EtcdError):
    """The member cannot answer at the moment, such as one without a leader."""


class AskLater(Unavailable):
    """A gate that is too busy for the call. It wants to be asked again in `seconds`."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class PreconditionFailed(EtcdError):
    """What was asked for does not fit what is there: a user that exists, a role that does not."""


class Header(t.NamedTuple):
    """What each answer begins with. `revision` is 0 where etcd leaves it out."""

    cluster: int
    member: int
    revision: int
    term: int


class KeyValue(t.NamedTuple):
    """A key with its value. The value is b"" in answers without values."""

    key: str
    value: bytes
    mod_revision: int


class Page(t.NamedTuple):
    """A part of a listing. `total` is the number of keys in the range that was asked for; `more` follow this page.

    `left_out` is the number of keys before this page that were not read, because those below `share` were too many.
    """

    header: Header
    entries: tuple[KeyValue, ...]
    more: bool
    total: int
    left_out: int = 0
    share: str = ""


class History(t.NamedTuple):
    """The answer to `history_request`: the number of keys, and those of the known ones that existed."""

    header: Header
    total: int
    entries: tuple[KeyValue, ...]


class KeyChange(t.NamedTuple):
    """A change of a key: its new value, or None if it was removed. `created`: it did not exist before."""

    key: str
    value: t.Optional[bytes]
    mod_revision: int
    created: bool = False


class WatchAnswer(t.NamedTuple):
    """One message of a watch: the beginning, progress (no changes), changes, or the end, with its reason."""

    header: Header
    created: bool
    canceled: bool
    compacted: int
    reason: str
    changes: tuple[KeyChange, ...]
    fragment: bool


class MemberStatus(t.NamedTuple):
    """What a member says of itself. `leader` is 0 without one; sizes are in bytes."""

    header: Header
    version: str
    leader: int
    size: int
    size_in_use: int


class Put(t.NamedTuple):
    """A key that a transaction writes. It ends with `lease`, 0 for a key that stays."""

    key: str
    value: bytes
    lease: int = 0


class Delete(t.NamedTuple):
    """A key that a transaction removes; one that is not there is no error."""

    key: str


class Unchanged(t.NamedTuple):
    """A condition of a transaction: the key has this `mod_revision`, 0 meaning that it does not exist."""

    key: str
    mod_revision: int


class NotChangedSince(t.NamedTuple):
    """A condition of a transaction: no key that is in the range was written after `revision`."""

    keys: KeyRange
    revision: int


Operation = t.Union[Put, Delete]
Condition = t.Union[Unchanged, NotChangedSince]


# --- requests ---


def range_request(
    keys: KeyRange,
    *,
    limit: int = 0,
    revision: int = 0,
    keys_only: bool = False,
    local: bool = False,
) -> bytes:
    """Return the request for the keys of a range. 0 means no limit, and the newest revision.

    `local` lets the member answer without asking the others. A member reads as many values as `limit` says, with
    `keys_only` too. It reads all values of the range if the answer has to be sorted, so none is asked for.
    """
    body: Json = {"key": encoded(keys.start), "range_end": encoded(keys.end)}
    if limit:
        body["limit"] = str(limit)
    if revision:
        body["revision"] = str(revision)
    if keys_only:
        body["keys_only"] = True
    if local:
        body["serializable"] = True
    return to_bytes(body)


def get_request(key: str) -> bytes:
    return to_bytes({"key": encoded(key)})


def history_request(keys: KeyRange, known: t.Iterable[str], revision: int) -> bytes:
    """Return the request for the number of keys in a range, and for the keys `known`, all at a revision."""
    asked = [_count(keys), *({"key": encoded(key)} for key in known)]
    return _ranges([{**one, "revision": str(revision)} for one in asked])


def counts_request(ranges: t.Iterable[KeyRange]) -> bytes:
    """Return the request for the number of keys in each range. The member reads no value for it."""
    return _ranges(map(_count, ranges))


def values_request(keys: t.Iterable[str]) -> bytes:
    """Return the request for keys by their names, in one transaction."""
    return _ranges({"key": encoded(key)} for key in keys)


def _count(keys: KeyRange) -> Json:
    return {"key": encoded(keys.start), "range_end": encoded(keys.end), "count_only": True}


def _ranges(asked: t.Iterable[Json]) -> bytes:
    return to_bytes({"success": [{"request_range": one} for one in asked]})


def transaction_request(operations: t.Iterable[Operation], conditions: t.Iterable[Condition] = ()) -> bytes:
    """Return the request for all `operations` at once, which etcd does if all `conditions` hold."""
    compare = [_comparison(one) for one in conditions]
    return to_bytes({"compare": compare, "success": [_operation(one) for one in operations]})


def _comparison(one: Condition) -> Json:
    if isinstance(one, Unchanged):
        return {"target": "MOD", "result": "EQUAL", "key": encoded(one.key), "mod_revision": str(one.mod_revision)}
    return {
        "target": "MOD",
        "result": "LESS",
        "key": encoded(one.keys.start),
        "range_end": encoded(one.keys.end),
        "mod_revision": str(one.revision + 1),
    }


def _operation(one: Operation) -> Json:
    if isinstance(one, Put):
        body = {"key": encoded(one.key), "value": base64.b64encode(one.value).decode()}
        return {"request_put": {**body, "lease": str(one.lease)} if one.lease else body}
    return {"request_delete_range": {"key": encoded(one.key)}}


def delete_request(keys: KeyRange) -> bytes:
    """Return the request of DELETE_RANGE to delete a range of keys, whose values are not read."""
    return to_bytes({"key": encoded(keys.start), "range_end": encoded(keys.end)})


def lease_request(seconds: int) -> bytes:
    """Return the request of LEASE_GRANT for a lease of so many seconds."""
    return to_bytes({"TTL": str(seconds)})


def revoke_request(lease: int) -> bytes:
    return to_bytes({"ID": str(lease)})


def watch_request(keys: KeyRange, revision: int) -> bytes:
    """Return the request to watch a range from `revision` on, with progress messages and large messages in parts."""
    create = {
        "key": encoded(keys.start),
        "range_end": encoded(keys.end),
        "start_revision": str(revision),
        "progress_notify": True,
        "fragment": True,
    }
    return to_bytes({"create_request": create})


def to_bytes(body: Json) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode("ascii")


def encoded(key: str) -> str:
    """Return a key in base64."""
    return base64.b64encode(key.encode("utf-8", "surrogateescape")).decode()


# --- answers ---

_Read = t.TypeVar("_Read")


def number(value: t.Any) -> int:
    """Return a number of 64 bits, which `value` may hold as text; 0 for None. Raise Unreadable for anything else."""
    if value is None:
        return 0
    if isinstance(value, str) and len(value) <= 20 and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    return refuse(value, "a number of 64 bits")


def data(value: t.Any) -> bytes:
    """Decode the base64 text `value` to bytes; return b"" for None. Raise Unreadable for anything else."""
    try:
        return b"" if value is None else binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        refuse(value, "base64")


def key(value: t.Any) -> str:
    """Decode the base64 text `value` to a key; return "" for None. Raise Unreadable for anything else.

    A key need not be UTF-8. It is kept without loss, so that the next page of a listing begins behind it.
    """
    return data(value).decode("utf-8", "surrogateescape")


def several(reader: t.Callable[[t.Any], _Read], most: int = 131_072) -> t.Callable[[t.Any], tuple[_Read, ...]]:
    """Return a reader that returns a tuple of at most `most` entries that `reader` reads, () for None."""
    read_list = items(reader, most)
    return lambda value: () if value is None else tuple(read_list(value))


#: Readers of texts of at most 2,000 characters, such as the reason of an error, and of truth values.
TEXT, FLAG = maybe(text(2_000), ""), maybe(flag, False)

_HEADER = sparse_table({"cluster_id": number, "member_id": number, "revision": number, "raft_term": number})
_KEY_VALUE = sparse_table({"key": key, "value": data, "mod_revision": number})
_CHANGE = sparse_table(
    {
        "type": maybe(one_of("PUT", "DELETE"), "PUT"),
        "kv": sparse_table({"key": key, "value": data, "mod_revision": number, "version": number}),
    }
)


def _header(value: t.Any) -> Header:
    found = _HEADER(value)
    return Header(found["cluster_id"], found["member_id"], found["revision"], found["raft_term"])


def _key_value(value: t.Any) -> KeyValue:
    return KeyValue(**_KEY_VALUE(value))


def _change(value: t.Any) -> KeyChange:
    change = _CHANGE(value)
    put, found = change["type"] == "PUT", change["kv"]
    return KeyChange(
        found["key"], found["value"] if put else None, found["mod_revision"], put and found["version"] == 1
    )


_HEADED = sparse_table({"header": _header})
_KEYS = {"kvs": several(_key_value)}
_PAGE = sparse_table({"header": _header, **_KEYS, "more": FLAG, "count": number})
_RANGES = sparse_table(
    {"responses": several(sparse_table({"response_range": sparse_table({**_KEYS, "count": number})}))}
)
_DELETED = sparse_table({"deleted": number})
_SUCCEEDED = sparse_table({"header": _header, "succeeded": FLAG})
_STATUS = sparse_table({"header": _header, "version": TEXT, "leader": number, "dbSize": number, "dbSizeInUse": number})
_RELEASE = sparse_table({"etcdserver": TEXT})
_LEASE = sparse_table({"ID": number, "error": TEXT})
_TOKEN = sparse_table({"token": maybe(secret(2_000), "")})
_WATCH = sparse_table(
    {
        "result": sparse_table(
            {
                "header": _header,
                "created": FLAG,
                "canceled": FLAG,
                "compact_revision": number,
                "cancel_reason": TEXT,
                "events": several(_change),
                "fragment": FLAG,
            }
        )
    }
)
_ERROR = sparse_table({"message": TEXT, "error": TEXT, "grpc_code": number, "code": number, "retry_seconds": number})


def read(reader: t.Callable[[t.Any], _Read], body: t.Any) -> _Read:
    """Return what `reader` reads in an answer. Raise InvalidAnswer if it refuses it."""
    try:
        return reader(body)
    except Unreadable as error:
        raise InvalidAnswer(f"the answer cannot be read: {error}") from None


def decode(data: bytes) -> Json:
    try:
        found = parse(data, once=False)
    except NotJson:
        raise InvalidAnswer(f"the answer is not JSON: {data[:60]!r}") from None
    if not isinstance(found, dict):
        raise InvalidAnswer(f"the answer is no object: {data[:60]!r}")
    return found


def error_of(status: int, data: bytes) -> EtcdError:
    """Return the error that an answer with an HTTP status other than 200 means."""
    try:
        body = decode(data)
        # The field `error` is an object if the call streams its answer, otherwise a text.
        found = read(_ERROR, body["error"] if isinstance(body.get("error"), dict) else body)
    except InvalidAnswer:
        return InvalidAnswer(f"HTTP status {status}: {data[:60]!r}")
    message, code, later = found["message"] or found["error"], _code(found), found["retry_seconds"]
    if later:
        return (TooFast if code == _RESOURCE_EXHAUSTED else AskLater)(message, min(later, LATEST_SECONDS))
    return _error(code, message or f"HTTP status {status}")


def stream_error_of(body: Json, otherwise: str) -> EtcdError:
    """Return the error in the field `error` of a line of a stream. An error without a message gets `otherwise`."""
    found = read(_ERROR, body["error"])
    return _error(_code(found), found["message"] or otherwise)


def _code(found: Json) -> int:
    return int(found["grpc_code"] or found["code"])


_BY_CODE: t.Mapping[int, t.Type[EtcdError]] = {
    _PERMISSION_DENIED: PermissionDenied,
    _RESOURCE_EXHAUSTED: NoSpace,
    _FAILED_PRECONDITION: PreconditionFailed,
    _UNAVAILABLE: Unavailable,
    _UNAUTHENTICATED: Unauthenticated,
}
_BY_TEXT: t.Sequence[tuple[str, t.Type[EtcdError]]] = (
    (_COMPACTED, Compacted),
    (_FUTURE, FutureRevision),
    (_NO_USER, Unauthenticated),
    (_OLD_REVISION, Unauthenticated),
    (_WRONG_PASSWORD, WrongPassword),
    (_AUTH_OFF, AuthenticationOff),
    (_NO_SPACE, NoSpace),
    (_TOO_MANY, TooManyOperations),
)


def _error(code: int, message: str) -> EtcdError:
    for words, kind in _BY_TEXT:
        if words in message:
            return kind(message)
    return _BY_CODE.get(code, EtcdError)(message)


def page_of(body: Json) -> Page:
    """Return the answer to a request for a range or a key."""
    found = read(_PAGE, body)
    return Page(found["header"], found["kvs"], found["more"], found["count"])


def counts_of(body: Json, ranges: int) -> list[int]:
    """Return the answer to `counts_request` for so many ranges."""
    return [part["count"] for part in _parts(body, ranges)]


def values_of(body: Json, keys: t.Sequence[str]) -> list[KeyValue]:
    """Return those of `keys` that exist, from the answer to `values_request`."""
    found = [entry for part in _parts(body, len(keys)) for entry in part["kvs"]]
    if not {entry.key for entry in found} <= set(keys):
        raise InvalidAnswer("the answer has a key that was not asked for")
    return found


def _responses(body: Json) -> list[Json]:
    return [entry["response_range"] for entry in read(_RANGES, body)["responses"]]


def _parts(body: Json, wanted: int) -> list[Json]:
    parts = _responses(body)
    if len(parts) != wanted:
        raise InvalidAnswer(f"the answer has {len(parts)} responses instead of {wanted}")
    return parts


def history_of(body: Json) -> History:
    parts = _responses(body)
    if not parts:
        raise InvalidAnswer("the answer has no responses")
    return History(header_of(body), parts[0]["count"], tuple(entry for part in parts[1:] for entry in part["kvs"]))


def deleted_of(body: Json) -> int:
    """Return the number of keys in the answer to DELETE_RANGE."""
    return int(read(_DELETED, body)["deleted"])


def succeeded(body: Json) -> bool:
    """Return whether the conditions of a transaction held, so that it was done."""
    return bool(read(_SUCCEEDED, body)["succeeded"])


def lease_of(body: Json) -> int:
    """Return the id of the lease in the answer to LEASE_GRANT."""
    found = read(_LEASE, body)
    if not found["ID"]:
        raise InvalidAnswer(found["error"] or "the answer has no lease")
    return int(found["ID"])


def status_of(body: Json) -> MemberStatus:
    found = read(_STATUS, body)
    return MemberStatus(found["header"], found["version"], found["leader"], found["dbSize"], found["dbSizeInUse"])


def release_of(body: Json) -> str:
    """Return the release of etcd in the answer to a GET of /version, "" if it has none."""
    return str(read(_RELEASE, body)["etcdserver"])


def token_of(body: Json) -> str:
    """Return the token in the answer to an authentication."""
    token = str(read(_TOKEN, body)["token"])
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidAnswer("the answer to the authentication has no token")
    return token


def header_of(body: Json) -> Header:
    return t.cast(Header, read(_HEADED, body)["header"])


def watch_answer_of(data: bytes) -> WatchAnswer:
    """Return one line of a watch. Raise the error that the line tells of."""
    body = decode(data)
    if "error" in body:
        raise stream_error_of(body, "the member ended the watch without a reason")
    found = read(_WATCH, body)["result"]
    return WatchAnswer(
        found["header"],
        found["created"],
        found["canceled"],
        compacted=found["compact_revision"],
        reason=found["cancel_reason"],
        changes=found["events"],
        fragment=found["fragment"],
    )


def cancellation_of(answer: WatchAnswer) -> EtcdError:
    """Return the error that a watch's last message means."""
    if answer.compacted:
        return Compacted(f"revision {answer.compacted} is the oldest that is kept", answer.compacted)
    for name, kind in (
        ("Unauthenticated", Unauthenticated),
        ("PermissionDenied", PermissionDenied),
        ("Unavailable", Unavailable),
    ):
        if f"code = {name}" in answer.reason:
            return kind(answer.reason)
    return _error(0, answer.reason or "the member ended the watch without a reason")
