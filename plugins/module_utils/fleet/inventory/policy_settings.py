# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of the settings of policy from an inventory's variables."""

from __future__ import annotations

import typing as t

from ...base.addresses import parse_cidr_or_address
from ...base.ports import BGP_PORT
from ...policy import model
from ...policy.chains import settings as chains
from ...policy.chains.rules.marks import marks
from ...policy.model import Failsafe
from ...state.errors import FleetError, did_you_mean, within
from ...state.policy_state import ALLOW_ALL, PolicySettings
from .. import variables
from .bgp_inventory import FleetBGP

LIVE_POLICY = "calico_live_policy"
_BFD_ECHO, _BFD_MULTIHOP = 3785, 4784


def read(get: t.Callable[[str], t.Any], profiles: t.Collection[str], bgp: FleetBGP) -> PolicySettings:
    """Return the settings of policy for the whole fleet, without audit mode and SSH ports, which nodes have.

    Raise FleetError for a profile not in `profiles`, a mark mask of fewer than five bits or an invalid failsafe port.
    """
    workload_profiles = profile_names(get("calico_workload_profiles"), "calico_workload_profiles", profiles)
    mask = get("calico_iptables_mark_mask")
    try:
        marks(mask)
    except ValueError:
        raise FleetError(
            "calico_iptables_mark_mask",
            hex(mask),
            "has fewer than five bits.",
            "Choose bits that nobody else on the hosts marks packets with, for example 0xffff0000.",
        ) from None
    return PolicySettings(
        default_endpoint_to_host_action=get("calico_default_endpoint_to_host_action"),
        deny_action=get("calico_iptables_filter_deny_action"),
        allow_action=get("calico_iptables_filter_allow_action"),
        failsafe_inbound=_failsafes(get, "calico_failsafe_inbound_host_ports", chains.FAILSAFE_INBOUND, bgp),
        failsafe_outbound=_failsafes(get, "calico_failsafe_outbound_host_ports", chains.FAILSAFE_OUTBOUND, bgp),
        workload_profiles=workload_profiles,
        drop_invalid=not get("calico_disable_conntrack_invalid_check"),
        allow_vxlan_from_workloads=get("calico_allow_vxlan_packets_from_workloads"),
        allow_ipip_from_workloads=get("calico_allow_ipip_packets_from_workloads"),
        nflog_group=get("calico_policy_log_group"),
        cut_denied_flows=get("calico_policy_cut_denied_flows"),
        live=get(LIVE_POLICY),
        mark_mask=mask,
    )


def profile_names(names: t.Any, label: str, profiles: t.Collection[str]) -> tuple[str, ...]:
    """Return `names` as a tuple. Raise FleetError about field `label` if one is no text or not in `profiles`."""
    if not isinstance(names, (list, tuple)):
        raise FleetError(label, names, "is not a list.", f"Write for example [{ALLOW_ALL}].")
    variables.check_texts(label, names, f"Write for example [{ALLOW_ALL}].")
    for index, name in enumerate(names):
        if name not in profiles:
            raise FleetError(within(label, index), name, *unknown_profile(name, profiles))
    return tuple(names)


def _failsafes(
    get: t.Callable[[str], t.Any], variable: str, default: tuple[Failsafe, ...], bgp: FleetBGP
) -> tuple[Failsafe, ...]:
    given = get(variable)
    if given is None:
        return tuple(_with_bgp(default, bgp))
    return tuple(_failsafe(entry, f"{variable}[{index}]") for index, entry in enumerate(given))


def _with_bgp(default: t.Iterable[Failsafe], bgp: FleetBGP) -> t.Iterator[Failsafe]:
    """Yield the default failsafe ports with the fleet's BGP ports and, if `bgp.has_bfd`, multihop BFD's (RFC 5883)."""
    for one in default:
        if (one.protocol, one.port) == ("tcp", BGP_PORT):
            yield from (Failsafe("tcp", port) for port in bgp.ports)
        else:
            yield one
        if (one.protocol, one.port) == ("udp", _BFD_ECHO) and bgp.has_bfd:
            yield Failsafe("udp", _BFD_MULTIHOP)


def _failsafe(entry: t.Any, label: str) -> Failsafe:
    example = "Write for example {protocol: tcp, port: 22}, with net: 10.0.0.0/8 for those in a network only."
    if not isinstance(entry, t.Mapping):
        raise FleetError(label, entry, "is not a dictionary.", example)
    for field in entry:
        if field not in ("protocol", "port", "net"):
            raise FleetError(within(label, str(field)), None, "is not a field of a failsafe port.", example)
    protocol = str(entry.get("protocol", "tcp")).lower()
    if protocol not in model.PROTOCOLS_WITH_PORTS:
        raise FleetError(within(label, "protocol"), entry["protocol"], "has no ports.", "Write tcp, udp or sctp.")
    port = entry.get("port")
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise FleetError(within(label, "port"), port, "is not a port.", "Write a number from 1 to 65535.")
    net = entry.get("net") or ""
    cidr = parse_cidr_or_address(net) if isinstance(net, str) and net else None
    if net and cidr is None:
        raise FleetError(
            within(label, "net"), net, "is not a range of addresses.", "Write for example 10.0.0.0/8, or leave it out."
        )
    return Failsafe(protocol, port, str(cidr) if cidr else "")


def unknown_profile(name: str, profiles: t.Collection[str]) -> tuple[str, str]:
    """Return the rule and the remedy of an error about a profile that does not exist. `profiles` is not empty."""
    return "is not a profile.", did_you_mean(name, profiles, "Define a Profile of that name, or write")
