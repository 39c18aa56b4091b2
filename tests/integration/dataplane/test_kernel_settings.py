# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that every setting that this kernel has for an interface is closed on our devices, or has a reason why not.

A setting of a kernel that is newer than JUDGED is a warning, so that the tests pass on it. Judge it then: add it to
hardening.SETTINGS if a neighbour gains anything when an administrator's default opens it, or to NOT_CLOSED with the
reason.
"""

from __future__ import annotations

import pathlib
import platform
import re
import warnings

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane import hardening

#: The newest kernel whose settings are all judged here.
JUDGED = (6, 18)

_OWN_VALUE = "the drivers write the value that our devices need"
_REDIRECTS = "it matters to redirects alone, which are not accepted"
_ADVERTISEMENTS = "it matters to router advertisements alone, which are not accepted"
_AUTOCONF = "it matters to addresses by autoconfiguration alone, which is off"
_OUR_MESSAGES = "it changes what the host sends about its own addresses, and believes nobody"
_TIMERS = "it sets versions or times of multicast reports"
_STRICTER = "it drops more when it is on, and what it drops gains a workload nothing"
_IPSEC = "the administrator's choice of IPsec; a workload cannot change it"
_ASKED = "the entries that it needs are the administrator's"

NOT_CLOSED = {
    "ipv4": {
        "arp_announce": _OUR_MESSAGES,
        "arp_evict_nocarrier": "it removes entries when the device loses its carrier",
        "arp_filter": "it says which of its own addresses the host answers for, and believes nobody",
        "arp_ignore": "it says which of its own addresses the host answers for, and believes nobody",
        "arp_notify": _OUR_MESSAGES,
        "bootp_relay": "the kernel does not implement it",
        "disable_policy": _IPSEC,
        "disable_xfrm": _IPSEC,
        "drop_gratuitous_arp": _STRICTER,
        "drop_unicast_in_l2_multicast": _STRICTER,
        "force_igmp_version": _TIMERS,
        "forwarding": _OWN_VALUE,
        "igmpv2_unsolicited_report_interval": _TIMERS,
        "igmpv3_unsolicited_report_interval": _TIMERS,
        "ignore_routes_with_linkdown": "it says whether routes of a device without carrier are used",
        "log_martians": "it logs, at a limited rate",
        "mc_forwarding": "it cannot be written, and only a multicast router sets it",
        "medium_id": "it restricts proxy_arp between devices",
        "promote_secondaries": "it matters when the host deletes an address",
        "proxy_arp": _OWN_VALUE,
        "proxy_arp_pvlan": "the host answers a workload's requests for all addresses anyway (proxy_arp)",
        "rp_filter": _OWN_VALUE,
        "secure_redirects": _REDIRECTS,
        "send_redirects": "the host tells a workload about a path that it may refuse to use",
        "shared_media": _REDIRECTS,
        "src_valid_mark": "rp_filter then uses the packet's mark, which a workload cannot set",
        "tag": "the kernel does not use it",
    },
    "ipv6": {
        "accept_dad": _OWN_VALUE,
        "accept_ra_defrtr": _ADVERTISEMENTS,
        "accept_ra_from_local": _ADVERTISEMENTS,
        "accept_ra_min_hop_limit": _ADVERTISEMENTS,
        "accept_ra_min_lft": _ADVERTISEMENTS,
        "accept_ra_mtu": _ADVERTISEMENTS,
        "accept_ra_pinfo": _ADVERTISEMENTS,
        "accept_ra_rt_info_max_plen": _ADVERTISEMENTS,
        "accept_ra_rt_info_min_plen": _ADVERTISEMENTS,
        "accept_ra_rtr_pref": _ADVERTISEMENTS,
        "addr_gen_mode": _OWN_VALUE,
        "dad_transmits": "the drivers switch duplicate address detection off",
        "disable_ipv6": _OWN_VALUE,
        "disable_policy": _IPSEC,
        "drop_unicast_in_l2_multicast": _STRICTER,
        "drop_unsolicited_na": _STRICTER,
        "enhanced_dad": "the drivers switch duplicate address detection off",
        "force_forwarding": "the administrator's choice for a host that does not route IPv6; policy and checks apply",
        "force_mld_version": _TIMERS,
        "force_tllao": _OUR_MESSAGES,
        "forwarding": _OWN_VALUE,
        "hop_limit": "advertisements alone change it; forget_advertised resets it",
        "ignore_routes_with_linkdown": "it says whether routes of a device without carrier are used",
        "ioam6_id": "it is a number, which packets get only with ioam6_enabled",
        "ioam6_id_wide": "it is a number, which packets get only with ioam6_enabled",
        "keep_addr_on_down": "it says whether the host's own addresses stay when a device goes down",
        "max_addresses": _AUTOCONF,
        "max_desync_factor": _AUTOCONF,
        "mc_forwarding": "it cannot be written, and only a multicast router sets it",
        "mldv1_unsolicited_report_interval": _TIMERS,
        "mldv2_unsolicited_report_interval": _TIMERS,
        "mtu": "advertisements alone change it; forget_advertised resets it",
        "ndisc_evict_nocarrier": "it removes entries when the device loses its carrier",
        "ndisc_notify": _OUR_MESSAGES,
        "ndisc_tclass": _OUR_MESSAGES,
        "optimistic_dad": "the drivers switch duplicate address detection off",
        "proxy_ndp": _ASKED,
        "ra_defrtr_metric": _ADVERTISEMENTS,
        "ra_honor_pio_life": _ADVERTISEMENTS,
        "ra_honor_pio_pflag": _ADVERTISEMENTS,
        "regen_max_retry": _AUTOCONF,
        "regen_min_advance": _AUTOCONF,
        "router_probe_interval": _ADVERTISEMENTS,
        "router_solicitation_delay": _ADVERTISEMENTS,
        "router_solicitation_interval": _ADVERTISEMENTS,
        "router_solicitation_max_interval": _ADVERTISEMENTS,
        "router_solicitations": _ADVERTISEMENTS,
        "seg6_require_hmac": "it matters to segment routing alone, which is off",
        "stable_secret": _AUTOCONF,
        "suppress_frag_ndisc": "the limit for link-local sources counts fragments, too",
        "temp_prefered_lft": _AUTOCONF,
        "temp_valid_lft": _AUTOCONF,
        "use_oif_addrs_only": "it says which of its own addresses the host sends from",
        "use_optimistic": "the drivers switch duplicate address detection off",
        "use_tempaddr": _AUTOCONF,
    },
}


def closed(version: str) -> set[str]:
    return {name for folder, _slash, name in (one.partition("/") for one in hardening.SETTINGS) if folder == version}


@pytest.mark.parametrize("version", ["ipv4", "ipv6"])
def test_each_setting_of_the_kernel_is_closed_or_has_a_reason(version: str) -> None:
    assert closed(version) & NOT_CLOSED[version].keys() == set()
    there = {path.name for path in pathlib.Path(f"/proc/sys/net/{version}/conf/lo").iterdir()}
    unknown = sorted(there - closed(version) - NOT_CLOSED[version].keys())
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    assert found
    if (int(found[1]), int(found[2])) > JUDGED:
        for name in unknown:
            warnings.warn(f"Judge net.{version}.conf.*.{name} of Linux {platform.release()}.", stacklevel=1)
    else:
        assert unknown == []
