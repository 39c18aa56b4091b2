# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of the variables of the datastore, calico_etcd_*. Errors never contain a password or secret."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...state.errors import FleetError
from .policy_settings import LIVE_POLICY

ENDPOINTS, CA, CERT, KEY = "calico_etcd_endpoints", "calico_etcd_ca", "calico_etcd_cert", "calico_etcd_key"
USERNAME, PASSWORD = "calico_etcd_username", "calico_etcd_password"
NODE_SECRET, PROGRESS = "calico_etcd_node_secret", "calico_etcd_progress_interval"

#: The most members of a cluster that are named.
MOST_ENDPOINTS = 16
_URL = re.compile(r"https://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(:([0-9]{1,5}))?/?")
_SECRET = re.compile(r"([0-9A-Fa-f]{2}){16,128}")
#: The most characters of the name or the password of a user.
TEXT_LIMIT = 256
_SECRET_REMEDY = "Make one with `openssl rand -hex 32`, and encrypt it with ansible-vault."


@dataclasses.dataclass(frozen=True)
class DatastoreVariables:
    """What the inventory says of the datastore; None for what it does not set.

    `password` and `node_secret` are not in the repr. `progress` is in seconds, 0 if it is not known.
    """

    endpoints: t.Optional[tuple[str, ...]] = None
    ca: t.Optional[str] = None
    cert: t.Optional[str] = None
    key: t.Optional[str] = None
    username: t.Optional[str] = None
    password: t.Optional[str] = dataclasses.field(default=None, repr=False)
    node_secret: t.Optional[str] = dataclasses.field(default=None, repr=False)
    progress: t.Optional[int] = None


def read(get: t.Callable[[str], t.Any]) -> DatastoreVariables:
    """Return the datastore's variables, read by `get`. Raise FleetError for one that is invalid or needs another."""
    endpoints = get(ENDPOINTS)
    found = DatastoreVariables(
        endpoints=None if endpoints is None else _endpoints(endpoints),
        ca=_path(CA, get),
        cert=_path(CERT, get),
        key=_path(KEY, get),
        username=check_text(USERNAME, get(USERNAME)),
        password=check_text(PASSWORD, get(PASSWORD), secret=True),
        node_secret=check_secret(NODE_SECRET, get(NODE_SECRET)),
        progress=get(PROGRESS),
    )
    for name, value, other, needed in (
        (CERT, found.cert, KEY, found.key),
        (KEY, found.key, CERT, found.cert),
        (USERNAME, found.username, PASSWORD, found.password),
    ):
        if value is not None and needed is None:
            raise FleetError(name, None, f"is set without {other}.", f"Set {other}, too, or remove {name}.")
    return found


def check_live_policy(get: t.Callable[[str], t.Any], has_members: bool) -> None:
    """Raise FleetError if policy is to be live without a datastore; `has_members`: group calico_etcd has hosts."""
    endpoints = get(ENDPOINTS)
    if get(LIVE_POLICY) and not (has_members if endpoints is None else endpoints):
        raise FleetError(
            LIVE_POLICY,
            True,
            "needs a datastore, and the fleet has none.",
            f"Put hosts into group calico_etcd and run playbooks/etcd.yml, name members in {ENDPOINTS}, or set "
            f"{LIVE_POLICY} to false.",
        )


def _endpoints(values: t.Sequence[str]) -> tuple[str, ...]:
    if len(values) > MOST_ENDPOINTS:
        raise FleetError(
            ENDPOINTS, None, f"has {len(values)} entries.", f"Name at most {MOST_ENDPOINTS} members; 3 or 5 are usual."
        )
    found: list[str] = []
    for index, value in enumerate(values):
        label = f"{ENDPOINTS}[{index}]"
        if "@" in value:
            raise FleetError(
                label, None, "has a user in it.", f"Users stand in {USERNAME} and {PASSWORD}; write https://HOST:PORT."
            )
        match = _URL.fullmatch(value)
        if match is None or not 0 < int(match.group(4) or 1) < 65536:
            raise FleetError(
                label,
                value,
                "is not a URL of the form https://HOST:PORT.",
                "Write for example https://10.10.1.11:2379.",
            )
        if value.rstrip("/") in found:
            raise FleetError(label, value, "stands there twice.", "Name each member once.")
        found.append(value.rstrip("/"))
    return tuple(found)


def _path(name: str, get: t.Callable[[str], t.Any]) -> t.Optional[str]:
    value = get(name)
    if value is not None and (not value or "\0" in value):
        raise FleetError(name, value, "is not the path of a file.", "Write one, or remove it to get the default.")
    return t.cast("t.Optional[str]", value)


def check_text(name: str, value: t.Any, secret: bool = False) -> t.Optional[str]:
    """Return a user's name or password, None for None. Raise FleetError if it is invalid, never showing a `secret`."""
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_LIMIT:
        shown = None if secret else value
        raise FleetError(name, shown, f"is not a text of 1 to {TEXT_LIMIT} characters.", "Correct it.")
    return str.__str__(value)


def check_secret(name: str, value: t.Any) -> t.Optional[str]:
    """Return the secret of the nodes' passwords, None for None. Raise FleetError for others; it does not show them."""
    if value is None:
        return None
    if not isinstance(value, str) or not _SECRET.fullmatch(value):
        raise FleetError(name, None, "is not a text of 32 to 256 hex digits, two for each byte.", _SECRET_REMEDY)
    return str.__str__(value)
