# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools in an Installation of Calico's operator, as entries of calico_ip_pools with the operator's defaults."""

from __future__ import annotations

import ipaddress
import typing as t

from ..base.addresses import parse_cidr
from .errors import Refused

#: The path of the pools in an Installation.
PATH = "spec.calicoNetwork.ipPools"
_DEFAULT_NAMES = {4: "default-ipv4-ippool", 6: "default-ipv6-ippool"}
_POOL_FIELDS = (
    "name",
    "cidr",
    "encapsulation",
    "natOutgoing",
    "blockSize",
    "nodeSelector",
    "disableBGPExport",
    "disableNewAllocations",
    "allowedUses",
    "assignmentMode",
)


class PoolEntry(t.NamedTuple):
    """A pool of an Installation: its name, its path in the document, and its entry of calico_ip_pools."""

    name: str
    path: str
    entry: t.Mapping[str, t.Any]


def entries(listed: t.Any) -> list[PoolEntry]:
    """Return the pools in the field ipPools of an Installation. Raise Refused, with the path, for anything else.

    Fields are checked only as far as a default depends on them: the pools are read as others are.
    """
    if listed is not None and not isinstance(listed, (list, tuple)):
        raise Refused(listed, "is not a list.", "Write the pools one a line, each behind a dash.", PATH)
    pools = [mapping(pool, f"{PATH}[{index}]") for index, pool in enumerate(listed or ())]
    return [_entry(pool, f"{PATH}[{index}]", pools) for index, pool in enumerate(pools)]


def mapping(value: t.Any, path: str) -> t.Mapping[str, t.Any]:
    """Return a mapping, {} for None. Raise Refused for anything else."""
    if value is None:
        return {}
    if not isinstance(value, t.Mapping):
        raise Refused(value, "is not a mapping.", "Write its fields one a line, each with a colon.", path)
    return value


def _entry(pool: t.Mapping[str, t.Any], path: str, pools: t.Sequence[t.Mapping[str, t.Any]]) -> PoolEntry:
    """Return the entry of a pool at `path`, with the operator's defaults; `pools` are all of the Installation."""
    for field in pool:
        if field not in _POOL_FIELDS:
            raise Refused(None, "is not a field here.", f"The fields are {', '.join(_POOL_FIELDS)}.", f"{path}.{field}")
    flat = {field: value for field, value in pool.items() if value not in (None, "")}
    version = _version(flat.get("cidr"))
    flat.setdefault("name", _name(flat.get("cidr"), version, pools))
    flat.setdefault("encapsulation", "None" if version == 6 else "IPIP")
    flat.setdefault("natOutgoing", "Disabled" if version == 6 else "Enabled")
    disabled = flat.pop("disableNewAllocations", None)
    if disabled is not None:
        flat["disabled"] = disabled
    return PoolEntry(str(flat["name"]), path, flat)


def _version(cidr: t.Any) -> int:
    found = parse_cidr(cidr) if isinstance(cidr, str) else None
    return found.version if found is not None else 4


def _name(cidr: t.Any, version: int, pools: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return the name that the operator gives a pool without one: a fixed one if it is the only one of its family."""
    versions = [_version(pool.get("cidr")) for pool in pools]
    if len(versions) <= 2 and versions.count(version) == 1:
        return _DEFAULT_NAMES[version]
    try:
        network = ipaddress.ip_network(str(cidr), strict=False)
    except ValueError:
        return _DEFAULT_NAMES[version]
    return f"{network.network_address.exploded.replace(':', '.')}-{network.prefixlen}"
