# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts on policies and endpoints beyond the vectors, from the source of Calico's validator."""

from __future__ import annotations

import json

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources


def document(kind: str, name: object = "x", **spec: object) -> dict:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def ingress(**rule: object) -> dict:
    return document("GlobalNetworkPolicy", ingress=[{"action": "Allow", **rule}])


def egress(**rule: object) -> dict:
    return document("GlobalNetworkPolicy", egress=[{"action": "Allow", **rule}])


def ports(*entries: object, protocol: object = "TCP") -> dict:
    return ingress(protocol=protocol, source={"ports": list(entries)})


def policy(name: object = "x", **spec: object) -> dict:
    return document("GlobalNetworkPolicy", name, **spec)


def namespaced(name: object = "x", namespace: object = None, **spec: object) -> dict:
    return {"kind": "NetworkPolicy", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def tier(name: object = "platform", **spec: object) -> dict:
    return document("Tier", name, **spec)


def host(**spec: object) -> dict:
    return document("HostEndpoint", **{"node": "n", "interfaceName": "eth0", **spec})


def workload(**spec: object) -> dict:
    return document("WorkloadEndpoint", **{"interfaceName": "cali0", **spec})


def nets(*entries: object) -> dict:
    return document("GlobalNetworkSet", nets=list(entries))


RULES = [
    # ports: numbers and ranges also with zeros in front, names as Kubernetes has them
    (ports("00080", "0001:00002"), True),
    (ports("65536"), False),
    (ports(65536), False),
    (ports("9" * 5000), False),
    (ports("100:99"), False),
    (ports("99:99"), True),
    (ports("0"), False),
    (ports("80\n"), False),
    (ports("٨٠"), False),
    (ports(True), False),
    (ports(None), False),
    (ports(80.0), False),
    (ports({}), False),
    (ports("0x50"), True),
    (ports("8-0"), False),
    (ports("a--b"), False),
    (ports("a-"), False),
    (ports("a23456789012345"), True),
    (ports("a234567890123456"), False),
    (ports(80, protocol="UDPLite"), False),
    (ports(80, protocol="132"), True),
    (ports(80, protocol=None), False),
    (ingress(source={"ports": []}), True),
    (ingress(source={"ports": 80}, protocol="TCP"), False),
    # protocols
    (ingress(protocol="006"), True),
    (ingress(protocol="+6"), False),
    (ingress(protocol=""), False),
    (ingress(protocol="any"), False),
    (ingress(protocol="ICMPV6"), False),
    (ingress(protocol=6.0), False),
    (ingress(protocol=True), False),
    (ingress(protocol=None, notProtocol=None), True),
    (ingress(protocol="TCP", notProtocol="TCP"), True),
    (ingress(protocol=1, ipVersion=6), True),
    (ingress(notProtocol="ICMP", ipVersion=6), False),
    (ingress(notProtocol="ICMPv6", ipVersion=4), False),
    # versions of IP
    (ingress(ipVersion=5), False),
    (ingress(ipVersion="4"), False),
    (ingress(ipVersion=True), False),
    (ingress(ipVersion=None), True),
    # ICMP
    (ingress(icmp=None), True),
    (ingress(notICMP={}), True),
    (ingress(notICMP={"code": 1}), False),
    (ingress(notICMP={"type": 255}), False),
    (ingress(protocol="ICMP", icmp={"type": None, "code": 0}), False),
    (ingress(protocol="ICMP", icmp={"type": "8"}), False),
    (ingress(protocol="ICMP", icmp={"type": 8, "code": None}), True),
    (ingress(protocol="ICMP", icmp={"typ": 8}), False),
    (ingress(notProtocol="ICMP", icmp={"type": 8}), False),
    # nets of a rule: one version of IP, a prefix length, nothing beyond it
    (ingress(source={"nets": ["10.0.0.0/8"]}, destination={"notNets": ["fd00::/8"]}), False),
    (ingress(source={"notNets": ["10.0.0.0/8"]}, destination={"notNets": ["fd00::/8"]}), False),
    (ingress(source={"nets": ["10.0.0.0/8", "10.0.0.0/8"]}, destination={"nets": ["0.0.0.0/0"]}), True),
    (ingress(source={"nets": ["::ffff:10.0.0.0/104"]}, destination={"nets": ["10.0.0.0/8"]}), True),
    (ingress(source={"nets": ["::ffff:10.0.0.0/104"]}, ipVersion=6), False),
    (ingress(source={"nets": ["fd00::1"]}), False),
    (ingress(source={"nets": ["0.0.0.0/0"], "notNets": ["10.0.0.0/8"]}), True),
    (ingress(source={"notNets": ["0.0.0.0/1", "128.0.0.0/1"]}), True),
    (ingress(source={"notNets": ["0.0.0.0/0"]}), False),
    (ingress(source={"notNets": ["::/0"]}), False),
    (ingress(destination={"notNets": ["10.0.0.0/8", "0.0.0.0/0"]}), False),
    (ingress(destination={"nets": ["fd00::/8"], "notNets": ["0::/0"]}), False),
    (ingress(source={"notNets": ["::ffff:0.0.0.0/96"]}), False),
    (document("GlobalNetworkPolicy", egress=[{"action": "Deny", "source": {"notNets": ["::/0"]}}]), False),
    (document("NetworkPolicy", ingress=[{"action": "Deny", "source": {"notNets": ["::/0"]}}]), False),
    (document("StagedNetworkPolicy", ingress=[{"action": "Deny", "source": {"notNets": ["::/0"]}}]), False),
    (document("Profile", egress=[{"action": "Allow", "destination": {"notNets": ["0.0.0.0/0"]}}]), False),
    (ingress(source={"nets": [None]}), False),
    (ingress(source={"nets": "10.0.0.0/8"}), False),
    # selectors
    (ingress(source={"selector": "a =="}), False),
    (ingress(source={"notSelector": "a =="}), False),
    (ingress(source={"namespaceSelector": "a =="}), False),
    (ingress(source={"notSelector": "global()"}), True),
    (ingress(source={"selector": "a == 'global()'"}), False),
    (ingress(source={"namespaceSelector": "global( )"}), True),
    (ingress(source={"namespaceSelector": "!global()"}), False),
    (ingress(source={"namespaceSelector": "(global())"}), False),
    (ingress(source={"namespaceSelector": "a == 'global()'"}), False),
    (ingress(source={"namespaceSelector": "a == 'global'"}), True),
    (ingress(source={"serviceAccounts": {"names": ["a", None]}}), True),
    (ingress(source={"serviceAccounts": {"selector": "a =="}}), False),
    (ingress(source={"serviceAccounts": {"selector": "has(a)"}, "selector": "has(b)"}), True),
    (policy(selector=""), True),
    (policy(selector=None), True),
    (policy(selector="a =="), False),
    (policy(serviceAccountSelector="a =="), False),
    (policy(namespaceSelector="a =="), False),
    # Calico 3.22 reads global( ) as all(); later releases refuse it, as this collection does
    (policy(selector="global( )"), False),
    # services
    (ingress(source={"services": {}}), False),
    (ingress(source={"services": {"name": "a", "namespace": "b"}}), True),
    (ingress(source={"services": {"name": "a", "namespace": ""}}), False),
    (ingress(source={"services": {"name": "A", "namespace": "b"}}), False),
    (ingress(source={"services": {"name": "a", "namespace": "b"}, "serviceAccounts": {}}), False),
    (ingress(source={"services": {"name": "a", "namespace": "b"}, "nets": []}), True),
    (egress(destination={"services": {"name": "a", "namespace": "b"}}), True),
    (egress(destination={"services": {"name": "a", "namespace": "b"}, "ports": [80]}, protocol="TCP"), False),
    (namespaced(ingress=[{"action": "Allow", "source": {"services": {"name": "a"}}}]), True),
    (document("Profile", ingress=[{"action": "Allow", "destination": {"services": {"name": "a"}}}]), True),
    # HTTP
    (ingress(http={}), True),
    (ingress(http={}, action="Deny"), False),
    (ingress(http={}, action="Log"), False),
    (ingress(http={}, protocol=6), False),
    (ingress(http={"paths": [None]}), False),
    (ingress(http={"paths": [{"exact": "a"}]}), False),
    (ingress(http={"paths": [{"prefix": "/a"}], "methods": ["GET", "PUT"]}), True),
    (egress(http={}), False),
    (document("Profile", egress=[{"action": "Allow", "http": {}}]), True),
    # rules
    (policy(ingress=[None]), False),
    (policy(ingress=[]), True),
    (policy(ingress={}), False),
    (ingress(action="allow"), False),
    (ingress(action="Pass"), True),
    (ingress(action=None), False),
    (ingress(source=None, destination=None, metadata=None, http=None), True),
    (ingress(source=[]), False),
    (ingress(src={}), False),
    (ingress(source={"net": ["10.0.0.0/8"]}), False),
    (ingress(metadata={"annotations": {"a": "x" * (256 * 1024)}}), False),
    (ingress(metadata={"annotations": {"A.B/c": "anything"}}), True),
    (ingress(metadata={"labels": {}}), False),
    # policies
    (policy(order=0), True),
    (policy(order=True), False),
    (policy(order=float("nan")), False),
    (policy(order=10**400), False),
    (policy(order=1e308), True),
    (policy(types=["Egress", "Ingress"]), True),
    (policy(types=["Egress", "Ingress", "Egress"]), False),
    (policy(types="Ingress"), False),
    (policy(types=[None]), False),
    (policy(performanceHints=["AssumeNeededOnEveryNode"]), True),
    (policy(performanceHints=["AssumeNeededOnEveryNode"] * 2), False),
    (policy(performanceHints=["x"]), False),
    (policy(preDNAT=True, applyOnForward=True, types=["Egress"]), False),
    (policy(preDNAT=False, doNotTrack=False, applyOnForward=None), True),
    (policy(preDNAT="true", applyOnForward=True), False),
    # names of policies, and tiers
    (policy(name="a.b"), True),
    (policy(name="a.b", tier="default"), True),
    (policy(name="a.b", tier="platform"), True),
    (policy(name="a.b.c"), False),
    (policy(name=".b"), False),
    (policy(name="a."), False),
    (policy(name="a..b"), False),
    (policy(name="a.B"), False),
    (policy(name="default.a"), True),
    (policy(name="default.default"), True),
    (policy(name="default.a", tier="default"), True),
    (policy(name="platform.a", tier="platform"), True),
    (policy(name="a", tier="platform"), True),
    (policy(name="default.a", tier="platform"), True),
    (policy(name="platform.a.b", tier="platform"), False),
    (policy(name="platform.", tier="platform"), False),
    (policy(name="knp.default.a", tier="default"), False),
    (policy(name="a", tier=""), True),
    (policy(name="a", tier="A"), False),
    (policy(name="a", tier="a.b"), False),
    (namespaced(name="knp.default.a.b"), True),
    (namespaced(name="knp.default.A"), False),
    (namespaced(name="knp.default."), False),
    (namespaced(name="knp.a"), True),
    (namespaced(name="a.b"), True),
    (namespaced(name="a.b.c"), False),
    (namespaced(name="platform.a", tier="platform"), True),
    (tier(), True),
    (tier("a.b"), False),
    (tier("a" * 63), True),
    (tier("a" * 64), False),
    (tier(order=None, defaultAction="Pass"), True),
    (tier(defaultAction=""), True),
    (tier(defaultAction="Allow"), False),
    (tier(order="1"), False),
    (tier("default"), True),
    (tier("default", order=1000000), True),
    (tier("default", order=1), False),
    (tier("default", defaultAction="Pass"), False),
    # namespaces
    (namespaced(namespace=""), True),
    (namespaced(namespace="team-1"), True),
    (namespaced(namespace="Team"), False),
    (namespaced(namespace="a.b"), False),
    (namespaced(namespace="a" * 64), False),
    (namespaced(namespace=1), False),
    # sets: nets also without a prefix length, also with bits beyond it
    (nets("10.0.0.1/8"), True),
    (nets("fd00::1/64", "10.0.0.1"), True),
    (nets("", None), True),
    (nets("::/0", "0.0.0.0/0"), True),
    (nets("10.0.0.0/8 "), False),
    (nets(10), False),
    # profiles
    (document("Profile", "kns.default"), True),
    (document("Profile", labelsToApply=None), True),
    (document("Profile", labelsToApply={"a": None}), True),
    (document("Profile", labelsToApply=["a"]), False),
    (document("Profile", types=["Ingress"]), False),
    # host endpoints
    (host(interfaceName="", expectedIPs=["10.0.0.1"]), True),
    (host(interfaceName="", expectedIPs=[]), False),
    (host(interfaceName="e*"), False),
    (host(interfaceName="eth0:1"), False),
    (host(expectedIPs=["10.0.0.1/32"]), False),
    (host(expectedIPs=[""]), False),
    (host(node="A"), False),
    (host(node=None), False),
    (host(profiles=[""]), False),
    (host(profiles=["a", "a"]), True),
    (host(ports=[None]), False),
    (host(ports=[{"name": "a", "protocol": "UDP", "port": "53"}]), False),
    (host(ports=[{"name": "a", "protocol": "17", "port": 53}]), True),
    (host(ports=[{"name": "a", "port": 53}]), False),
    (host(ports=[{"name": "a", "protocol": "UDP"}]), False),
    (host(ports=[{"protocol": "UDP", "port": 53}]), False),
    (host(ports=[{"name": "53", "protocol": "UDP", "port": 53}]), False),
    # workload endpoints
    (workload(interfaceName=None), False),
    (workload(ipNetworks=["10.0.0.1", "fd00::1/128", ""]), True),
    (workload(ipNetworks=["fd00::1/32"]), False),
    (workload(ipNetworks=["fd00::/32"]), False),
    (workload(ipv4Gateway="10.0.0.1/32"), False),
    (workload(ipv6Gateway="::ffff:10.0.0.1"), False),
    (workload(mac="66:aa:bb:cc:dd:ee"), True),
    (workload(mac="66:aa:bb"), False),
    (workload(workload="web_1"), False),
    (workload(profiles=["A"]), False),
    (workload(ipNetworks=["10.0.0.1"], ipNATs=[{}]), False),
    (workload(ipNetworks=["10.0.0.1"], ipNATs=[{"internalIP": "10.0.0.1"}]), False),
    (workload(ipNetworks=["10.0.0.1"], ipNATs=[{"internalIP": "10.0.0.1/32", "externalIP": "10.1.0.1"}]), False),
    (workload(ipNetworks=["::ffff:10.0.0.1"], ipNATs=[{"internalIP": "10.0.0.1", "externalIP": "10.1.0.1"}]), True),
    (workload(ports=[{"protocol": "TCP", "port": 1, "hostPort": 65536}]), False),
    (workload(ports=[{"protocol": "TCP", "port": 1, "hostPort": 1, "hostIP": "10.0.0.1/8"}]), False),
    (workload(ports=[{"protocol": "TCP", "hostPort": 1}]), False),
]


@pytest.mark.parametrize(("written", "valid"), RULES, ids=lambda value: json.dumps(value)[:110])
def test_rules_beyond_the_vectors(written: dict, valid: bool) -> None:
    try:
        resources.parse(written)
    except resources.ResourceError as error:
        assert not valid, str(error)
    else:
        assert valid
