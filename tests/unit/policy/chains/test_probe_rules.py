# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The chains of the probe endpoint, with policy and without it."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.naming import (
    PROBE_INTERFACE,
    interface_name,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains import probe_rules
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import Tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets.ip_sets import PolicyIpSet

from tests.unit.policy.chains.compiled import compile_node
from tests.unit.policy.chains.simulated_netfilter import Netfilter, Packet
from tests.unit.policy.chains.test_chains import ONE, TWO, between, node, workload

PROBES = PolicyIpSet("cali40probes", "hash:net", "inet", ("10.65.0.62", "10.65.1.62"))
PROBED = ChainSettings(probes=(4, 6), nflog_group=0)
OUT = Packet(1, "10.65.0.62", "10.65.1.62", icmp_type=8, comes_in_by=PROBE_INTERFACE, goes_out_by="eth0")
IN = Packet(1, "10.65.1.62", "10.65.0.62", icmp_type=8, comes_in_by="eth0", goes_out_by=PROBE_INTERFACE)


def texts(tables: Tables, *chains: str) -> list[tuple[str, ...]]:
    return [tables.tables["filter"].chains[name] for name in chains]


def changed(packet: Packet, **fields: object) -> Packet:
    """Return the packet as it arrives, with other fields."""
    return dataclasses.replace(packet, mark=0, log=[], **fields)  # type: ignore[arg-type]


def test_a_workload_has_no_interface_of_that_name() -> None:
    assert PROBE_INTERFACE == "caliprobe" != interface_name("default", "probe")
    assert len(interface_name("default", "probe")) != len(PROBE_INTERFACE)


@pytest.mark.parametrize(
    ("family", "protocol", "request_type", "reply_type"),
    [(4, "-p 1 -m icmp --icmp-type", 8, 0), (6, "-p 58 -m icmp6 --icmpv6-type", 128, 129)],
)
def test_the_chains_with_policy(family: int, protocol: str, request_type: int, reply_type: int) -> None:
    set_ = f"-m set --match-set cali{family}0probes"
    found = compile_node(node(), dataclasses.replace(PROBED, nflog_group=179), family)
    log = "-j NFLOG --nflog-group 179 --nflog-size 128 --nflog-prefix"
    from_probe, to_probe, dispatch, back = texts(
        found, "cali-from-probe", "cali-to-probe", "cali-from-wl-dispatch", "cali-to-wl-dispatch"
    )
    assert from_probe == (
        f"{protocol} {request_type} {set_} dst -g cali-allow",
        f"{protocol} {reply_type} {set_} dst -g cali-allow",
        f"{log} deny:out:host:0:probe-endpoint",
        "-j DROP",
    )
    assert to_probe == (
        f"{protocol} {request_type} {set_} src -g cali-allow",
        f"{protocol} {reply_type} {set_} src -g cali-allow",
        f"{log} deny:in:host:0:probe-endpoint",
        "-j DROP",
    )
    assert dispatch == (
        "-i caliprobe -g cali-from-probe",
        f"{log} deny:out:host:0:unknown-interface",
        "-j DROP",
    )
    assert back[0] == "-o caliprobe -g cali-to-probe"


def test_a_node_without_a_set_of_probe_endpoints_has_no_chains_for_them() -> None:
    plain = compile_node(node(ONE), ChainSettings(), 4)
    assert plain == compile_node(node(ONE), ChainSettings(probes=(6,)), 4)
    assert not any("probe" in chain for chain in plain.tables["filter"].chains)
    kernel = Netfilter(plain, (PROBES,))
    assert not kernel.forwarded(changed(OUT)) and not kernel.forwarded(changed(IN))


def test_a_workloads_packet_passes_no_rule_of_the_probe_endpoint() -> None:
    found = compile_node(node(ONE, TWO), PROBED, 4)
    for rules in texts(found, "cali-from-wl-dispatch", "cali-to-wl-dispatch"):
        assert "--match-set cali40w:" in rules[0] and "caliprobe" in rules[1]
    assert texts(found, "cali-FORWARD") == texts(compile_node(node(ONE, TWO), ChainSettings(), 4), "cali-FORWARD")


@pytest.mark.parametrize("count", [0, 2, 60])
@pytest.mark.parametrize("spoofing", [False, True])
@pytest.mark.parametrize("action", ["Accept", "Return"])
def test_echo_between_probe_endpoints_passes_alone(count: int, spoofing: bool, action: str) -> None:
    settings = dataclasses.replace(
        PROBED,
        workload_source_spoofing=spoofing,
        allow_action=action,
        audit=True,
        default_endpoint_to_host_action="Accept",
    )
    endpoints = [workload(number, profiles=(f"p{number}",)) for number in range(1, count + 1)]
    kernel = Netfilter(compile_node(node(*endpoints), settings, 4), (PROBES,))
    for packet, other in ((OUT, "destination"), (IN, "source")):
        for kind in (8, 0):
            passing = changed(packet, icmp_type=kind)
            assert kernel.forwarded(passing) and passing.mark == 0x10000
        refused = [{other: "10.65.0.1"}, {other: "8.8.8.8"}, {"icmp_type": 5}, {"icmp_type": 13}, {"icmp_type": 3}]
        refused += [{"protocol": one, "icmp_type": None, "source_port": 1, "destination_port": 22} for one in (6, 17)]
        for fields in refused:
            assert not kernel.forwarded(changed(packet, **fields)), fields
    assert kernel.forwarded(changed(IN, source="8.8.8.8", icmp_type=3, state="RELATED"))
    for fields in ({}, {"protocol": 6, "icmp_type": None, "source_port": 1, "destination_port": 22}):
        host = {**fields, "destination": "192.0.2.1", "goes_out_by": "", "destination_is_local": True}
        assert not kernel.received(changed(OUT, **host))


def test_policy_of_workloads_does_not_select_the_probe_endpoint() -> None:
    closed = node(workload(1, profiles=()))
    kernel = Netfilter(compile_node(closed, PROBED, 4), (PROBES,))
    assert not kernel.forwarded(between(ONE, TWO))
    assert kernel.forwarded(changed(OUT)) and kernel.forwarded(changed(IN))


# --- without policy ---------------------------------------------------------------------------------------------------


def chains_of(family: int, tracked: bool) -> dict[str, list[str]]:
    chains = probe_rules.without_policy(family, tracked)
    return {name: [rule.render() for rule in rules] for name, rules in chains.items()}


def test_the_chains_without_policy() -> None:
    found = chains_of(4, True)
    assert found == {
        "cali-FORWARD": ["-i caliprobe -j cali-from-probe", "-o caliprobe -j cali-to-probe"],
        "cali-from-probe": [
            "-p 1 -m icmp --icmp-type 8 -m set --match-set cali40probes dst -j RETURN",
            "-p 1 -m icmp --icmp-type 0 -m set --match-set cali40probes dst -j RETURN",
            "-p 1 -f -m set --match-set cali40probes dst -j RETURN",
            "-j DROP",
        ],
        "cali-to-probe": [
            "-p 1 -m icmp --icmp-type 8 -m set --match-set cali40probes src -j RETURN",
            "-p 1 -m icmp --icmp-type 0 -m set --match-set cali40probes src -j RETURN",
            "-p 1 -m icmp --icmp-type 3 -m conntrack --ctstate RELATED -j RETURN",
            "-p 1 -m icmp --icmp-type 11 -m conntrack --ctstate RELATED -j RETURN",
            "-p 1 -f -m set --match-set cali40probes src -j RETURN",
            "-j DROP",
        ],
        "cali-INPUT": ["-i caliprobe -j DROP"],
    }


def test_the_chains_of_ipv6_without_policy() -> None:
    found = chains_of(6, False)
    assert found["cali-to-probe"][2:] == [
        *(f"-p 58 -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in (1, 2, 3)),
        "-p 58 -m icmp6 ! --icmpv6-type 255 -j DROP",
        "-p 58 -m set --match-set cali60probes src -j RETURN",
        "-j DROP",
    ]
    assert found["cali-INPUT"] == ["-i caliprobe -g cali-probe-to-host"]
    assert found["cali-probe-to-host"] == [
        *(f"-p 58 -m icmp6 --icmpv6-type {kind} -j RETURN" for kind in (130, 131, 132, 133, 135, 136)),
        "-j DROP",
    ]
