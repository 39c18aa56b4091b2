# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of the variables of the datastore, calico_etcd_*. Errors never contain a password or secret."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ...base.addresses import parse_cidr_or_address
from ...state.errors import FleetError, within
from .policy_settings import LIVE_POLICY

ENDPOINTS, CA, CERT, KEY = "calico_etcd_endpoints", "calico_etcd_ca", "calico_etcd_cert", "calico_etcd_key"
USERNAME, PASSWORD = "calico_etcd_username", "calico_etcd_password"
NODE_SECRET, PROGRESS = "calico_etcd_node_secret", "calico_etcd_progress_interval"
OPERATORS = "calico_etcd_operators"

#: The most members of a cluster that are named.
MOST_ENDPOINTS = 16
#: The most operators, and the most addresses of one.
MOST_OPERATORS, MOST_ADDRESSES = 64, 256
#: The largest number of an operator's rotation.
_MOST_ROTATIONS = 1_000_000_000
#: The user of etcd that may do everything.
_ROOT = "root"
_URL = re.compile(r"https://(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(:([0-9]{1,5}))?/?")
_SECRET = re.compile(r"([0-9A-Fa-f]{2}){16,128}")
#: A name that can be a part of a key of the datastore.
_OPERATOR = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?", re.ASCII)
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


@dataclasses.dataclass(frozen=True)
class Operator:
    """A user of etcd who writes live documents: its name, and the addresses and CIDRs from which it reaches members.

    With another `rotation` it has another password.
    """

    name: str
    addresses: tuple[str, ...] = ()
    rotation: int = 0


def operators(value: t.Any, nodes: t.Container[str] = (), username: t.Optional[str] = None) -> tuple[Operator, ...]:
    """Return the operators in a value of calico_etcd_operators, in order of names.

    `nodes` and `username`, that of runs, are names that no operator may have. Raise FleetError.
    """
    if not isinstance(value, (list, tuple)):
        raise FleetError(OPERATORS, value, "is not a list.", _OPERATOR_EXAMPLE)
    if len(value) > MOST_OPERATORS:
        raise FleetError(OPERATORS, None, f"has {len(value)} entries.", f"Name at most {MOST_OPERATORS} operators.")
    found: dict[str, Operator] = {}
    for index, entry in enumerate(value):
        operator = _operator(entry, f"{OPERATORS}[{index}]")
        label = f"{OPERATORS}[{index}].name"
        if operator.name in found:
            raise FleetError(label, operator.name, "stands there twice.", "Name each operator once.")
        if operator.name in nodes:
            raise FleetError(label, operator.name, "is the name of a node.", "Give the operator another name.")
        if operator.name in (_ROOT, username):
            raise FleetError(
                label, operator.name, "is the user of etcd that runs use.", "Give the operator another name."
            )
        found[operator.name] = operator
    return tuple(found[name] for name in sorted(found))


def _operator(entry: t.Any, label: str) -> Operator:
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", _OPERATOR_EXAMPLE)
    for field in entry:
        if field not in ("name", "addresses", "rotation"):
            raise FleetError(within(label, str(field)), None, "is not a field of an operator.", _OPERATOR_EXAMPLE)
    name, rotation, addresses = entry.get("name"), entry.get("rotation", 0), entry.get("addresses") or ()
    if not isinstance(name, str) or not _OPERATOR.fullmatch(name):
        raise FleetError(
            within(label, "name"),
            name,
            "is not a name.",
            "Write at most 64 letters, digits, '-', '_' and '.', a letter or digit first and last.",
        )
    if isinstance(rotation, bool) or not isinstance(rotation, int) or not 0 <= rotation <= _MOST_ROTATIONS:
        raise FleetError(within(label, "rotation"), rotation, "is not a number from 0 on.", "Write for example 1.")
    if not isinstance(addresses, (list, tuple)):
        raise FleetError(within(label, "addresses"), addresses, "is not a list.", _OPERATOR_EXAMPLE)
    if len(addresses) > MOST_ADDRESSES:
        raise FleetError(
            within(label, "addresses"),
            None,
            f"has {len(addresses)} entries.",
            f"Name at most {MOST_ADDRESSES} addresses and CIDRs.",
        )
    networks = []
    for number, address in enumerate(addresses):
        network = parse_cidr_or_address(address) if isinstance(address, str) else None
        if network is None:
            raise FleetError(
                f"{label}.addresses[{number}]",
                address,
                "is neither an address nor a CIDR.",
                "Write it like 192.0.2.5 or 192.0.2.0/24.",
            )
        networks.append(str(network))
    return Operator(str.__str__(name), tuple(networks), rotation)


_OPERATOR_EXAMPLE = "Write for example [{name: ada, addresses: [192.0.2.5]}]."


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
