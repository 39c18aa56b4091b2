# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The users and roles of the datastore: what each may read and write there, and what has to change for that.

    user node1 ── role node1 ── endpoints/node1/    read and write
                             ── heartbeats/node1/   read and write
                             ── blocks/, endpoints/ read     (keys.WATCHED)
                             ── heartbeats/         read
      with live policy       ── answers/node1/      read and write
                             ── inventory/          read
                             ── settings/           read
    user ada   ── role ada   ── all keys            read     (an operator)
                             ── changes/            read and write
                             ── documents/          read and write
                             ── history/ada/        read and write

A node's password is HMAC-SHA256 of its name under one secret of the fleet, so a run needs to keep no list of passwords,
and the password of one node says nothing about that of another. An operator's is that of a text that no node's name can
be. etcd does not tell passwords; the controller notes the fingerprint of the one that it set last in the node's key
below nodes/, and tries those of operators.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import types
import typing as t

from ...dataplane.change import Action, Change
from .. import keys
from ..keys import KeyRange
from . import auth
from .auth import READ, READWRITE, Permission

#: The user of etcd that may do everything. No node may have this name.
ROOT_USER = "root"
_FINGERPRINT = 16  # hex digits
_PURPOSE = b"baremetal.host_routing fingerprint"


class ForeignUser(Exception):
    """A user or role with the name of a node or operator that belongs to something else. The text has the remedy."""


class Access(t.NamedTuple):
    """What etcd has: the roles of each user, and the permissions of each role."""

    users: t.Mapping[str, tuple[str, ...]]
    roles: t.Mapping[str, frozenset[Permission]]


class AccessStep(t.NamedTuple):
    """A call on users and roles.

    If it sets a password, it names the user and the origin of its password in place of its body.
    """

    path: str
    body: bytes = b""
    password_of: str = ""
    origin: str = ""


def permissions(node: str, live: bool = False) -> frozenset[Permission]:
    """Return what a node may read and write, with `live` policy or without.

    Raise InvalidKey for a name that is no node's.
    """
    found = {
        Permission(keys.under(keys.endpoints_of(node)), READWRITE),
        Permission(keys.under(keys.heartbeats_of(node)), READWRITE),
        Permission(keys.WATCHED, READ),
        Permission(keys.under(keys.HEARTBEATS), READ),
    }
    if live:
        found |= {
            Permission(keys.under(keys.answers_of(node)), READWRITE),
            Permission(keys.under(keys.INVENTORY), READ),
            Permission(keys.under(keys.SETTINGS), READ),
        }
    return frozenset(found)


def operator_permissions(name: str) -> frozenset[Permission]:
    """Return what an operator may read and write. Raise InvalidKey for a name that is no operator's."""
    return frozenset(
        {
            Permission(keys.EVERYTHING, READ),
            Permission(keys.under(keys.CHANGES), READWRITE),
            Permission(keys.under(keys.DOCUMENTS), READWRITE),
            Permission(keys.under(keys.history_of(name)), READWRITE),
        }
    )


def origin_of_operator(name: str, rotation: int) -> str:
    """Return the text from which an operator's password is derived; no node's name has a slash."""
    return f"operator/{name}/{rotation}"


def password(secret: bytes, origin: str) -> str:
    """Return the password that is derived from `origin`, a node's name or an operator's text, as 64 hex digits."""
    return hmac.new(secret, origin.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()


def fingerprint(secret: bytes, node: str) -> str:
    """Return 16 hex digits that change with the node's password and do not tell it."""
    digest = hmac.new(password(secret, node).encode(), _PURPOSE, hashlib.sha256).hexdigest()
    return digest[:_FINGERPRINT]


def plan(
    nodes: t.Collection[str],
    access: Access,
    operator: str,
    renewed: t.Collection[str] = (),
    live: bool = False,
    operators: t.Mapping[str, str] = types.MappingProxyType({}),
) -> tuple[Change, ...]:
    """Return the changes that give each node and operator its user and role, and remove those of all that went.

    `operator` is the user of the run; `operators` are the others by name, each with the origin of its password. Nodes
    and operators in `renewed` get their password anew. With `live` nodes have the rights for live policy. The field
    `new` of a change is a tuple of steps, in their order. No change has a password. Raise ForeignUser if a node or an
    operator has the name of a user or role of something else, and InvalidKey for a name that none can have.
    """
    users = [
        *(_User(node, "node", permissions(node, live)) for node in sorted(nodes)),
        *(_User(name, "operator", operator_permissions(name), operators[name]) for name in sorted(operators)),
    ]
    both = sorted(set(nodes) & operators.keys())
    if both:
        raise ForeignUser(f"A node and an operator are called {both[0]}. Rename the operator in calico_etcd_operators.")
    found = [change for user in users for change in _of_user(user, access, operator, user.name in renewed)]
    return (*_removals({user.name for user in users}, access, operator), *found)


def was_operator(name: str, access: Access) -> bool:
    """Return whether a run made the role `name` for an operator."""
    with contextlib.suppress(keys.InvalidKey):
        return Permission(keys.under(keys.history_of(name)), READWRITE) in access.roles.get(name, ())
    return False


def superusers(access: Access, operator: str) -> list[str]:
    """Return the sorted names of users that may do everything, besides root and the user of the run."""
    return sorted(
        name for name, roles in access.users.items() if ROOT_USER in roles and name not in (ROOT_USER, operator)
    )


class _User(t.NamedTuple):
    """A user that the cluster shall have. `kind` is node or operator, `origin` that of an operator's password."""

    name: str
    kind: str
    wanted: frozenset[Permission]
    origin: str = ""


def _of_user(user: _User, access: Access, operator: str, renewed: bool) -> t.Iterator[Change]:
    name, wanted = user.name, user.wanted
    have = access.roles.get(name)
    roles = access.users.get(name)
    if name in (ROOT_USER, operator):
        raise ForeignUser(
            f"{'A node' if user.kind == 'node' else 'An operator'} is called {name}, like the user of the datastore "
            "that may do everything. Rename it."
        )
    if _is_foreign(name, access):
        raise ForeignUser(
            f"The datastore has a user or role {name} with rights that no {user.kind} has: it belongs to something "
            f"else. Rename the {user.kind}, or remove them (etcdctl user delete {name}; etcdctl role delete {name})."
        )
    granted = tuple(
        AccessStep(auth.ROLE_GRANT, auth.grant(name, one)) for one in sorted(wanted - (have or frozenset()))
    )
    if have is None:
        made = AccessStep(auth.ROLE_ADD, auth.new_role(name))
        yield _change("role", "+", name, None, _shown(wanted), (made, *granted))
    elif have != wanted:
        ranges = {one.keys for one in wanted}
        gone = [one.keys for one in sorted(have - wanted) if one.keys not in ranges]
        revoked = tuple(AccessStep(auth.ROLE_REVOKE, auth.revoke(name, one)) for one in gone)
        yield _change("role", "~", name, _shown(have), _shown(wanted), (*revoked, *granted))
    gets_role = AccessStep(auth.USER_GRANT, auth.grant_role(name, name))
    if roles is None:
        made = AccessStep(auth.USER_ADD, password_of=name, origin=user.origin)
        yield _change("user", "+", name, None, f"role {name}", (made, gets_role))
        return
    if roles != (name,):
        revoked = tuple(AccessStep(auth.USER_REVOKE, auth.revoke_role(name, role)) for role in roles if role != name)
        given = () if name in roles else (gets_role,)
        yield _change("user", "~", name, _roles(roles), f"role {name}", (*revoked, *given))
    if renewed:
        anew = AccessStep(auth.USER_PASSWORD, password_of=name, origin=user.origin)
        yield _change("user", "~", name, None, None, (anew,), "its password is set anew")


def _removals(kept: t.Collection[str], access: Access, operator: str) -> t.Iterator[Change]:
    """Yield the removals of users and roles that a run made for names that are not `kept`."""
    for name in sorted(access.users.keys() | access.roles.keys()):
        if name in kept or name in (ROOT_USER, operator) or not _is_ours(name, access):
            continue
        if name in access.users:
            deleted = AccessStep(auth.USER_DELETE, auth.named_user(name))
            yield _change("user", "-", name, _roles(access.users[name]), None, (deleted,))
        deleted = AccessStep(auth.ROLE_DELETE, auth.named_role(name))
        yield _change("role", "-", name, _shown(access.roles[name]), None, (deleted,))


def _is_ours(name: str, access: Access) -> bool:
    """Return whether a run made the role `name`: it has a right that only a node or operator of this name has."""
    try:
        own = permissions(name, live=True) - _OF_ALL
    except keys.InvalidKey:
        return False
    return bool(own & access.roles.get(name, frozenset())) or was_operator(name, access)


#: The permissions that all nodes have.
_OF_ALL = permissions("n", live=True) & permissions("m", live=True)


def _is_foreign(name: str, access: Access) -> bool:
    """Return whether a role or user of this name belongs to something else.

    A role does that no run made, and that has rights outside of the fleet's keys; so does a user with other roles only.
    """
    if _is_ours(name, access):
        return False
    if any(not _lies_in(one.keys, keys.EVERYTHING) for one in access.roles.get(name, frozenset())):
        return True
    roles = access.users.get(name, ())
    return bool(roles) and name not in roles


def _lies_in(inner: KeyRange, outer: KeyRange) -> bool:
    if not inner.end:
        return inner.start in outer
    return inner.start in outer and outer.start.encode() <= inner.end.encode("utf-8", "surrogateescape") <= (
        outer.end.encode()
    )


def _change(
    kind: str,
    action: Action,
    name: str,
    before: t.Optional[str],
    after: t.Optional[str],
    steps: tuple[AccessStep, ...],
    note: str = "",
) -> Change:
    return Change(kind, action, name, before, after, note, None, steps)


def _roles(roles: t.Sequence[str]) -> str:
    return f"role{'' if len(roles) == 1 else 's'} {', '.join(roles)}" if roles else "no role"


def _shown(found: t.Iterable[Permission]) -> str:
    """Return permissions in words: `reads blocks/..endpoints/ heartbeats/, writes endpoints/n1/ heartbeats/n1/`."""
    words = {READ: "reads", READWRITE: "writes"}
    ranges: dict[str, list[str]] = {}
    for one in sorted(found):
        ranges.setdefault(words.get(one.kind, "only writes"), []).append(_range(one.keys))
    return ", ".join(f"{word} {' '.join(ranges[word])}" for word in sorted(ranges)) or "no rights"


def _range(found: KeyRange) -> str:
    """Return a range of keys as people read it, without the root that all keys have."""
    start = _below_root(found.start)
    if not found.end:
        return f"{start} alone"
    if found.start.endswith("/") and keys.under(found.start) == found:
        return start
    end = f"{found.end[:-1]}/" if found.end.endswith("0") else found.end
    return f"{start}..{_below_root(end)}"


def _below_root(key: str) -> str:
    return key[len(keys.ROOT) :] if key.startswith(keys.ROOT) and key != keys.ROOT else key
