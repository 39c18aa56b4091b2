# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of etcd's JSON gateway (etcd 3.4 and 3.5): requests as bytes, answers as typed values.

The gateway translates gRPC to JSON. Keys and values are base64, numbers of 64 bits are texts, and a field that has its
zero value is missing. Errors of 3.4 and 3.5 have different fields; both have `code`, of gRPC, and `message`.

Whatever a member answers is input: readers raise InvalidAnswer for a field of another type or an overlong text.
"""

from __future__ import annotations

import base64
import binascii
import json
import typing as t

from ..base.typed_json import NotJson, parse
from .keys import KeyRange

Json = dict[str, t.Any]

#: The most characters of a text in an answer, such as the reason of an error.
_TEXT_LIMIT = 2_000
#: The most seconds after which a gate asks to be asked again.
LATEST_SECONDS = 30
#: The most digits of a number of 64 bits.
_DIGITS = 20

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

    `left_out` is the number of keys before this page that were not read, because those of `owner` were too many.
    """

    header: Header
    entries: tuple[KeyValue, ...]
    more: bool
    total: int
    left_out: int = 0
    owner: str = ""


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
    """A key that a transaction writes."""

    key: str
    value: bytes


class Delete(t.NamedTuple):
    """A key that a transaction removes; one that is not there is no error."""

    key: str


class Unchanged(t.NamedTuple):
    """A condition of a transaction: the key has this `mod_revision`, 0 meaning that it does not exist."""

    key: str
    mod_revision: int


Operation = t.Union[Put, Delete]


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


def transaction_request(operations: t.Iterable[Operation], conditions: t.Iterable[Unchanged] = ()) -> bytes:
    """Return the request for all `operations` at once, which etcd does if all `conditions` hold."""
    compare = [
        {"target": "MOD", "result": "EQUAL", "key": encoded(one.key), "mod_revision": str(one.mod_revision)}
        for one in conditions
    ]
    return to_bytes({"compare": compare, "success": [_operation(one) for one in operations]})


def _operation(one: Operation) -> Json:
    if isinstance(one, Put):
        return {"request_put": {"key": encoded(one.key), "value": base64.b64encode(one.value).decode()}}
    return {"request_delete_range": {"key": encoded(one.key)}}


def delete_request(keys: KeyRange) -> bytes:
    """Return the request of DELETE_RANGE to delete a range of keys, whose values are not read."""
    return to_bytes({"key": encoded(keys.start), "range_end": encoded(keys.end)})


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
        if isinstance(body.get("error"), dict):  # of a call whose answer is a stream
            body = body["error"]
        message = text_of(body, "message") or text_of(body, "error")
        code = _integer(body.get("grpc_code", body.get("code", 0)))
        later = number_of(body, "retry_seconds")
    except InvalidAnswer:
        return InvalidAnswer(f"HTTP status {status}: {data[:60]!r}")
    if later:
        return (TooFast if code == _RESOURCE_EXHAUSTED else AskLater)(message, min(later, LATEST_SECONDS))
    return _error(code, message or f"HTTP status {status}")


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
    for text, kind in _BY_TEXT:
        if text in message:
            return kind(message)
    return _BY_CODE.get(code, EtcdError)(message)


def page_of(body: Json) -> Page:
    """Return the answer to a request for a range or a key."""
    entries = tuple(_key_value(entry) for entry in _list(body, "kvs"))
    return Page(header_of(body), entries, body.get("more") is True, number_of(body, "count"))


def counts_of(body: Json, ranges: int) -> list[int]:
    """Return the answer to `counts_request` for so many ranges."""
    return [number_of(part, "count") for part in _parts(body, ranges)]


def values_of(body: Json, keys: t.Sequence[str]) -> list[KeyValue]:
    """Return those of `keys` that exist, from the answer to `values_request`."""
    found = [_key_value(entry) for part in _parts(body, len(keys)) for entry in _list(part, "kvs")]
    if not {entry.key for entry in found} <= set(keys):
        raise InvalidAnswer("the answer has a key that was not asked for")
    return found


def _parts(body: Json, wanted: int) -> list[Json]:
    parts = [_object(entry, "response_range") for entry in _list(body, "responses")]
    if len(parts) != wanted:
        raise InvalidAnswer(f"the answer has {len(parts)} responses instead of {wanted}")
    return parts


def history_of(body: Json) -> History:
    parts = [_object(entry, "response_range") for entry in _list(body, "responses")]
    if not parts:
        raise InvalidAnswer("the answer has no responses")
    entries = tuple(_key_value(entry) for part in parts[1:] for entry in _list(part, "kvs"))
    return History(header_of(body), number_of(parts[0], "count"), entries)


def deleted_of(body: Json) -> int:
    """Return the number of keys in the answer to DELETE_RANGE."""
    return number_of(body, "deleted")


def succeeded(body: Json) -> bool:
    """Return whether the conditions of a transaction held, so that it was done."""
    header_of(body)
    return body.get("succeeded") is True


def status_of(body: Json) -> MemberStatus:
    return MemberStatus(
        header_of(body),
        text_of(body, "version"),
        number_of(body, "leader"),
        number_of(body, "dbSize"),
        number_of(body, "dbSizeInUse"),
    )


def token_of(body: Json) -> str:
    """Return the token in the answer to an authentication."""
    token = text_of(body, "token")
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidAnswer("the answer to the authentication has no token")
    return token


def watch_answer_of(data: bytes) -> WatchAnswer:
    """Return one line of a watch. Raise the error that the line tells of."""
    body = decode(data)
    if "error" in body:
        found = _object(body, "error")
        raise _error(
            _integer(found.get("grpc_code", found.get("code", 0))),
            text_of(found, "message") or "the member ended the watch without a reason",
        )
    result = _object(body, "result")
    return WatchAnswer(
        header_of(result),
        result.get("created") is True,
        result.get("canceled") is True,
        number_of(result, "compact_revision"),
        text_of(result, "cancel_reason"),
        tuple(_change(entry) for entry in _list(result, "events")),
        result.get("fragment") is True,
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


def header_of(body: Json) -> Header:
    header = _object(body, "header")
    return Header(*(number_of(header, field) for field in ("cluster_id", "member_id", "revision", "raft_term")))


def number_of(body: Json, field: str) -> int:
    """Return a number of 64 bits, 0 if it is missing."""
    return _integer(body.get(field, 0))


def text_of(body: Json, field: str) -> str:
    """Return a text, "" if it is missing."""
    value = body.get(field, "")
    if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
        raise InvalidAnswer(f"the field {field} of an answer is no short text")
    return value


def _integer(value: t.Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64:
        return value
    if isinstance(value, str) and len(value) <= _DIGITS and value.isascii() and value.isdigit():
        return int(value)
    raise InvalidAnswer(f"a number of an answer is {str(value)[:40]!r}")


def _object(body: Json, field: str) -> Json:
    value = body.get(field)
    if not isinstance(value, dict):
        raise InvalidAnswer(f"the answer has no {field}")
    return value


def _list(body: Json, field: str) -> list[Json]:
    value = body.get(field, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InvalidAnswer(f"the field {field} of an answer is no list of objects")
    return value


def _key_value(entry: Json) -> KeyValue:
    return KeyValue(_key(entry), _decoded(entry, "value"), number_of(entry, "mod_revision"))


def _change(entry: Json) -> KeyChange:
    found, kind = _object(entry, "kv"), entry.get("type", "PUT")
    if kind not in ("PUT", "DELETE"):
        raise InvalidAnswer(f"a change is of the kind {str(kind)[:40]!r}")
    value = _decoded(found, "value") if kind == "PUT" else None
    created = kind == "PUT" and number_of(found, "version") == 1
    return KeyChange(_key(found), value, number_of(found, "mod_revision"), created)


def _key(entry: Json) -> str:
    # A key need not be UTF-8. It is kept without loss, so that the next page of a listing begins behind it.
    return _decoded(entry, "key").decode("utf-8", "surrogateescape")


def _decoded(entry: Json, field: str) -> bytes:
    value = entry.get(field, "")
    if not isinstance(value, str):
        raise InvalidAnswer(f"the field {field} of a key is no text")
    try:
        return binascii.a2b_base64(value.encode("ascii"))
    except (ValueError, binascii.Error):
        raise InvalidAnswer(f"the field {field} of a key is not base64") from None
