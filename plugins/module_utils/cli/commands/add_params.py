# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parameters of workload.add, shared by calicoctl and the module `workload`. No I/O."""

from __future__ import annotations

import typing as t

from ...base.addresses import family_of
from ...base.published_port import PublishedPort
from ...state.attachment import is_of_pools

Data = dict[str, t.Any]


def identity(namespace: str, name: str) -> str:
    """Return the id of a workload that no container runtime made: "<namespace>/<name>"."""
    return f"{namespace}/{name}"


def add_params(
    name: str,
    namespace: str = "default",
    *,
    netns: t.Optional[str] = None,
    pid: t.Optional[int] = None,
    peer_interface: str = "eth0",
    address: t.Optional[str] = None,
    address6: t.Optional[str] = None,
    families: t.Sequence[int] = (),
    pools: t.Sequence[str] = (),
    labels: t.Optional[t.Mapping[str, str]] = None,
    mac: t.Optional[str] = None,
    mtu: t.Optional[int] = None,
    ports: t.Sequence[PublishedPort] = (),
) -> Data:
    """Return the parameters of the API method workload.add, by name: this function's but `pid`, and `netns_owned`.

    `netns` in the result is the path of the namespace of the process `pid`, else `netns`, else `name`. A name, unlike a
    path, has `netns_owned` True: the agent owns that namespace, and makes it if it is missing. `mtu` is in bytes, and
    `mac` is put into small letters. `address6`, `families` and `ports` are in the result only if they are given. The
    agent chooses each address, family, pool, MAC address and MTU that is None or empty.
    """
    path = f"/proc/{pid}/ns/net" if pid is not None else netns or name
    wanted = {
        "name": name,
        "namespace": namespace,
        "netns": path,
        "netns_owned": not path.startswith("/"),
        "peer_interface": peer_interface,
        "address": address,
        "pools": list(pools),
        "labels": dict(labels or {}),
        "mac": mac.lower() if mac else None,
        "mtu": mtu,
    }
    # These fields are sent only if they are given, because an agent of the previous release refuses them.
    later = {"address6": address6, "families": list(families), "ports": [port.to_dict() for port in ports]}
    return {**wanted, **{field: value for field, value in later.items() if value}}


def differences(wanted: t.Mapping[str, t.Any], have: t.Mapping[str, t.Any]) -> list[tuple[str, str, str]]:
    """Return (field, value of the workload, wanted value), both as texts, for each difference.

    `wanted` is what `add_params` returns, `have` a workload as the agent's API returns it. `netns`, `peer_interface`,
    `labels`, `mac` and `mtu` have to be equal, None included. It must have a wanted address, be of one of the wanted
    pools, and have exactly the wanted families; what is not wanted is not compared.
    """
    found = [
        (field, _shown(have[field]), _shown(wanted[field]))
        for field in ("netns", "peer_interface", "labels", "mac", "mtu")
        if have[field] != wanted[field]
    ]
    for field in ("address", "address6"):
        if wanted.get(field) is not None and wanted[field] not in have["addresses"]:
            found.append((field, ",".join(have["addresses"]), wanted[field]))
    families = sorted({family_of(address) for address in have["addresses"]})
    if wanted.get("families") and families != sorted(wanted["families"]):
        found.append(("families", _shown(families), _shown(wanted["families"])))
    if wanted["pools"] and not is_of_pools(wanted["pools"], have["pool"], have["addresses"]):
        found.append(("pool", have["pool"], ",".join(wanted["pools"])))
    return found


def described(wanted: t.Mapping[str, t.Any]) -> str:
    """Return the interface, the network namespace, and what else is wanted but name and namespace, as one line."""
    parts = [f"{wanted['peer_interface']} in {wanted['netns']}"]
    for field in ("address", "address6", "families", "pools", "labels", "mac", "mtu"):
        if wanted.get(field):
            parts.append(f"{field} {_shown(wanted[field])}")
    return "  ".join(parts)


def _shown(value: t.Any) -> str:
    if isinstance(value, t.Mapping):
        return ",".join(f"{key}={text}" for key, text in sorted(value.items())) or "none"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "any"
    return "any" if value is None else str(value)
