# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of etcd's JSON gateway about users, roles and their permissions (etcd 3.4 and 3.5).

A password stands in the body of a request alone: no path, value of this module or error has one. Readers of answers
raise InvalidAnswer.
"""

from __future__ import annotations

import typing as t

from ...base.typed_json import maybe, one_of, sparse_table, text
from .. import gateway
from ..gateway import Json, encoded, to_bytes
from ..keys import KeyRange

USER_LIST, USER_GET, USER_ADD = "/v3/auth/user/list", "/v3/auth/user/get", "/v3/auth/user/add"
USER_PASSWORD, USER_DELETE = "/v3/auth/user/changepw", "/v3/auth/user/delete"
USER_GRANT, USER_REVOKE = "/v3/auth/user/grant", "/v3/auth/user/revoke"
ROLE_LIST, ROLE_GET, ROLE_ADD = "/v3/auth/role/list", "/v3/auth/role/get", "/v3/auth/role/add"
ROLE_DELETE, ROLE_GRANT, ROLE_REVOKE = "/v3/auth/role/delete", "/v3/auth/role/grant", "/v3/auth/role/revoke"

READ, WRITE, READWRITE = "READ", "WRITE", "READWRITE"
#: The most names of users or roles, and of permissions of a role, in one answer.
_MOST = 100_000
#: The most characters of a name. etcd has no limit of its own; a node's name has at most 253.
_NAME_LIMIT = 1_000


class Permission(t.NamedTuple):
    """A right of a role to a range of keys. `kind` is READ, WRITE or READWRITE.

    A single key has the end "", and all keys from the start on have the end of one zero byte, as in etcd.
    """

    keys: KeyRange
    kind: str


# --- requests ---


def named_user(user: str) -> bytes:
    """Return the request of USER_GET and USER_DELETE."""
    return to_bytes({"name": user})


def user_with_password(user: str, password: str) -> bytes:
    """Return the request of USER_ADD and USER_PASSWORD."""
    return to_bytes({"name": user, "password": password})


def grant_role(user: str, role: str) -> bytes:
    """Return the request of USER_GRANT, which gives a user a role."""
    return to_bytes({"user": user, "role": role})


def revoke_role(user: str, role: str) -> bytes:
    """Return the request of USER_REVOKE, which takes a role from a user."""
    return to_bytes({"name": user, "role": role})


def new_role(role: str) -> bytes:
    return to_bytes({"name": role})


def named_role(role: str) -> bytes:
    """Return the request of ROLE_GET and ROLE_DELETE."""
    return to_bytes({"role": role})


def grant(role: str, permission: Permission) -> bytes:
    """Return the request of ROLE_GRANT, which gives a role a permission, or changes its kind."""
    keys = permission.keys
    body = {"permType": permission.kind, "key": encoded(keys.start), "range_end": encoded(keys.end)}
    return to_bytes({"name": role, "perm": body})


def revoke(role: str, keys: KeyRange) -> bytes:
    """Return the request of ROLE_REVOKE, which takes the permission for exactly these keys from a role."""
    return to_bytes({"role": role, "key": encoded(keys.start), "range_end": encoded(keys.end)})


# --- answers ---

_NAMES = gateway.several(text(_NAME_LIMIT), _MOST)
_PERMISSION = sparse_table(
    {
        "permType": maybe(one_of(READ, WRITE, READWRITE), READ),  # READ is the zero value, which the gateway leaves out
        "key": gateway.key,
        "range_end": gateway.key,
    }
)
_PERMISSIONS = sparse_table({"perm": gateway.several(_PERMISSION, _MOST)})


def names_of(body: Json, field: str) -> tuple[str, ...]:
    """Return the sorted names in a list of an answer: `users`, or `roles`."""
    return tuple(sorted(gateway.read(sparse_table({field: _NAMES}), body)[field]))


def permissions_of(body: Json) -> frozenset[Permission]:
    """Return the permissions in the answer to ROLE_GET."""
    found = gateway.read(_PERMISSIONS, body)["perm"]
    return frozenset(Permission(KeyRange(one["key"], one["range_end"]), one["permType"]) for one in found)
