# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An Installation of Calico's operator as the pools and variables that it means.

The operator makes pools of its field calicoNetwork.ipPools, with defaults of its own, which hold here, too.
"""

from __future__ import annotations

import typing as t

from ....resources import operator_pools
from ....resources.errors import Refused
from ....resources.operator_pools import PoolEntry, mapping
from ....state.node_state import overhead

#: The beginning of the apiVersion of the operator's kinds.
OPERATOR = "operator.tigera.io/"
_VERSION = f"{OPERATOR}v1"
_NETWORK = "spec.calicoNetwork"
#: {field of calicoNetwork: values that say what holds here in any case}
_HOLDS: t.Mapping[str, tuple[t.Any, ...]] = {
    "linuxDataplane": ("Iptables",),
    "windowsDataplane": ("Disabled",),
    "multiInterfaceMode": ("None",),
    "containerIPForwarding": ("Disabled",),
    "hostPorts": ("Disabled",),
}


class InstallationMeaning(t.NamedTuple):
    """What an Installation means: `values` maps variables to (path in the document, value).

    `without_effect` are the paths of fields that mean nothing here.
    """

    pools: tuple[PoolEntry, ...]
    values: t.Mapping[str, tuple[str, t.Any]]
    without_effect: tuple[str, ...]


def installation(content: t.Mapping[str, t.Any]) -> InstallationMeaning:
    """Return what an Installation means. Raise Refused, with the path, for one that the operator could not read.

    The fields of pools are checked only as far as a default depends on them: the pools are read as others are.
    """
    if content.get("apiVersion") != _VERSION:
        raise Refused(
            content.get("apiVersion"), "is not an API that is known here.", f"Write {_VERSION}.", "apiVersion"
        )
    spec = mapping(content.get("spec"), "spec")
    network = mapping(spec.get("calicoNetwork"), _NETWORK)
    entries = operator_pools.entries(network.get("ipPools"))
    values: dict[str, tuple[str, t.Any]] = {}
    if network.get("bgp") is not None:
        path = f"{_NETWORK}.bgp"
        values["calico_bgp_enabled"] = path, _switch(network["bgp"], path)
    if network.get("mtu") is not None:
        path = f"{_NETWORK}.mtu"
        values["calico_underlay_mtu"] = path, _underlay_mtu(network["mtu"], path, entries)
    return InstallationMeaning(tuple(entries), values, tuple(_without_effect(spec, network)))


def _without_effect(spec: t.Mapping[str, t.Any], network: t.Mapping[str, t.Any]) -> t.Iterator[str]:
    cni = spec.get("cni")
    for name, value in spec.items():
        means = name in ("calicoNetwork", "variant")
        if name == "cni":
            means = isinstance(cni, t.Mapping) and cni.get("type", "Calico") == "Calico"
        if value and not means:
            yield f"spec.{name}"
    for name, value in network.items():
        if value and name not in ("bgp", "mtu", "ipPools") and value not in _HOLDS.get(name, ()):
            yield f"{_NETWORK}.{name}"


def _switch(value: t.Any, path: str) -> bool:
    if value not in ("Enabled", "Disabled"):
        raise Refused(value, "is not one of Enabled, Disabled.", "Choose one of these.", path)
    return bool(value == "Enabled")


def _underlay_mtu(value: t.Any, path: str, pools: t.Sequence[PoolEntry]) -> int:
    """Return the underlay's MTU for that of workloads, both in bytes, by the tunnel of `pools` that takes most."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refused(value, "is not a whole number.", "Write digits only, without quotes.", path)
    return value + max(map(_overhead, pools), default=0)


def _overhead(pool: PoolEntry) -> int:
    """Return the bytes that a pool's tunnel adds; 0 for a pool that is refused elsewhere."""
    try:
        return overhead(str(pool.entry["encapsulation"]), str(pool.entry.get("cidr")))
    except (KeyError, ValueError):
        return 0
