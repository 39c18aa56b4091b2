# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The verdicts of Calico's validator and client on the supported kinds."""

from __future__ import annotations

import functools
import json
import pathlib

import jsonschema
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

CASES = json.loads((pathlib.Path(__file__).parent.parent / "cases" / "validation.json").read_text(encoding="utf-8"))

IN_RULE = (
    "a rule's field of another name is dropped by Calico's library, so that the rule matches more; calicoctl refuses it"
)
GLOBAL_ONLY = "a field of GlobalNetworkPolicy is dropped by Calico's library, and not in force; calicoctl refuses it"

# id -> why the verdict here differs. Most vectors are of the library behind calicoctl. calicoctl itself reads documents
# strictly ("field in document is not recognized"), as this collection does.
EXCEPTIONS: dict[str, str] = {
    **dict.fromkeys(("v0953", "v0955"), "Calico now refuses notNets of all addresses"),
    **dict.fromkeys(("v1003", "v1006", "v1046", "v1049"), "Calico now accepts one dot in a policy's name"),
    "v0557": "VXLAN over IPv6 came to Calico (v3.23) after the validator was asked",
    "v0966": IN_RULE,
    **dict.fromkeys(
        ("v1031", "v1032", "v1033", "v1034", "v1035", "v1036", "v1038", "v1039", "v1042"),
        GLOBAL_ONLY,
    ),
}

OURS = [case for case in CASES["cases"] if case["kind"] in resources.KINDS and case["id"] not in EXCEPTIONS]
EXCEPTED = [case for case in CASES["cases"] if case["id"] in EXCEPTIONS]


def document_of(case: dict) -> dict:
    document = {"apiVersion": resources.API_VERSION, "kind": case["kind"]}
    return {**document, **{part: case[part] for part in ("metadata", "spec", "status") if part in case}}


def expected(case: dict) -> bool:
    after_defaults = case.get("valid_after_client_defaults")
    return case["valid"] if after_defaults is None else after_defaults


def verdict(document: dict) -> bool:
    try:
        resources.parse(document)
    except resources.ResourceError:
        return False
    return True


def test_the_vectors_are_all_there() -> None:
    assert len(OURS) == 840
    # The vectors have none of these kinds. Calico published tiers and staged policies after the vectors were made.
    later = {"BGPFilter", "Tier", "StagedGlobalNetworkPolicy", "StagedNetworkPolicy", "IPAMConfiguration"}
    assert {case["kind"] for case in OURS} == set(resources.KINDS) - later
    assert len(EXCEPTED) == len(EXCEPTIONS)


@functools.cache
def schema_of(kind: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(resources.json_schema(kind))


def check_refusal(case: dict) -> None:
    """Assert that the case is refused, with an error of one line that names the place and the remedy."""
    with pytest.raises(resources.ResourceError) as caught:
        resources.parse(document_of(case))
    error = caught.value
    assert error.kind == case["kind"]
    assert error.name == case["metadata"]["name"]
    assert error.field.split(".")[0] in ("metadata", "spec", "status")
    assert error.rule.endswith(".")
    assert error.remedy.endswith((".", "?"))
    assert len(str(error)) < 600
    assert "\n" not in str(error)


def check_acceptance(case: dict) -> None:
    """Assert that the case is accepted, is read back from its written form, and fits the schema."""
    resource = resources.parse(document_of(case))
    written = resource.to_document()
    assert resources.parse(json.loads(json.dumps(written))) == resource
    schema_of(case["kind"]).validate(written)


@pytest.mark.parametrize("case", OURS, ids=lambda case: case["id"])
def test_same_verdict_as_calico(case: dict) -> None:
    assert verdict(document_of(case)) is expected(case), case["why"]
    (check_acceptance if expected(case) else check_refusal)(case)


@pytest.mark.parametrize("case", EXCEPTED, ids=lambda case: case["id"])
def test_exceptions_are_needed_and_say_how_to_go_on(case: dict) -> None:
    taken = verdict(document_of(case))
    assert taken is not expected(case)
    (check_acceptance if taken else check_refusal)(case)


def pool(**spec: object) -> dict:
    return {"kind": "IPPool", "metadata": {"name": "p"}, "spec": {"cidr": "10.0.0.0/16", **spec}}


def bgp(**spec: object) -> dict:
    return {"kind": "BGPConfiguration", "metadata": {"name": "default"}, "spec": spec}


def peer(**spec: object) -> dict:
    return {"kind": "BGPPeer", "metadata": {"name": "p"}, "spec": spec}


def node(**spec: object) -> dict:
    return {"kind": "Node", "metadata": {"name": "n"}, "spec": spec}


def named(**metadata: object) -> dict:
    return {"kind": "Node", "metadata": {"name": "n", **metadata}}


# Documents without a vector, and whether they are valid by the source of Calico's validator.
RULES = [
    # addresses as Go reads them
    (pool(cidr="10.0.0.0/024"), True),
    (pool(cidr="10.0.0.0/"), False),
    (pool(cidr="10.0.0.0/-1"), False),
    (pool(cidr="10.0.0.0/+8"), False),
    (pool(cidr="10.0.0.0/16/1"), False),
    (pool(cidr="10.0.0.0/१६"), False),
    (pool(cidr="10.0.0.00/16"), False),
    (pool(cidr="10.0.0.1/16"), False),
    (pool(cidr="10.0.0.0/16\n"), False),
    (pool(cidr="fd00::%eth0/64"), False),
    (pool(cidr="FD00::/64"), True),
    (pool(cidr="fd00::1/64"), False),
    (pool(cidr="::ffff:10.0.0.0/120", disabled=True), True),
    (pool(cidr="::ffff:10.0.0.0/112"), False),
    (pool(cidr="::ffff:10.0.0.0/90", disabled=True), False),
    (pool(cidr="169.254.255.255/32", disabled=True), False),
    (pool(cidr="169.255.0.0/16"), True),
    (pool(cidr="febf::/64"), False),
    (pool(cidr="fec0::/64"), True),
    (pool(cidr="10.0.0.0/20", blockSize=20), True),
    (pool(cidr="10.0.0.0/32", blockSize=32), True),
    (pool(cidr="10.0.0.0/32"), False),
    (pool(cidr="fd00::/128", blockSize=128), True),
    (pool(cidr="fd00::/64", blockSize=129), False),
    (pool(cidr="10.0.0.0/28", blockSize=33, disabled=True), False),
    # types: a value of another JSON type is not converted
    (pool(blockSize="26"), False),
    (pool(blockSize=26.0), False),
    (pool(blockSize=True), False),
    (pool(natOutgoing="true"), False),
    (pool(natOutgoing=1), False),
    (pool(cidr=10), False),
    (pool(nodeSelector=True), False),
    (pool(allowedUses="Workload"), False),
    (pool(allowedUses=[1]), False),
    (pool(allowedUses=[None]), False),
    (pool(allowedUses=[""]), False),
    (pool(allowedUses=[]), True),
    (pool(allowedUses=["Tunnel", "Tunnel"]), True),
    # null counts as an absent field
    (pool(blockSize=None, ipipMode=None, disabled=None, allowedUses=None, nodeSelector=None), True),
    (pool(cidr=None), False),
    (pool(ipip=None), True),
    (pool(ipip={"enabled": False}), False),
    (pool(**{"nat-outgoing": False}), True),
    # fields that later releases of Calico added
    (pool(assignmentMode="Manual"), True),
    (pool(assignmentMode="manual"), False),
    (pool(namespaceSelector="has(a)"), True),
    (pool(namespaceSelector="has(a"), False),
    # the status that a server writes
    ({**pool(), "status": {"conditions": []}}, True),
    # unknown fields
    (pool(nat_outgoing=True), False),
    ({**pool(), "extra": 1}, False),
    ({"kind": "BGPPeer", "metadata": {"name": "p"}, "spec": {"peerIP": "10.0.0.1"}, "status": {}}, False),
    ({**pool(), "cidr": "10.0.0.0/16"}, False),
    (node(bgp={"ipv4Address": "10.0.0.1/24", "as": 1}), False),
    (bgp(communities=[{"name": "a", "value": "1:1", "x": 1}], prefixAdvertisements=[]), False),
    # the envelope
    ({**pool(), "apiVersion": "projectcalico.org/v3"}, True),
    ({**pool(), "apiVersion": None}, True),
    ({**pool(), "apiVersion": "projectcalico.org/v1"}, False),
    ({**pool(), "apiVersion": "v3"}, False),
    ({**pool(), "kind": "ippool"}, False),
    ({**pool(), "kind": None}, False),
    ({**pool(), "kind": ["IPPool"]}, False),
    ({"kind": "IPPool", "metadata": {"name": "a"}}, False),
    ({"kind": "IPPool", "metadata": {"name": "a"}, "spec": []}, False),
    ({"kind": "Node", "metadata": {"name": "a"}}, True),
    ({"kind": "Node", "metadata": {"name": "a"}, "spec": None}, True),
    ({"kind": "Node", "spec": {}}, False),
    ({"kind": "Node", "metadata": "a", "spec": {}}, False),
    # metadata
    (named(name=""), False),
    (named(name=None), False),
    (named(name=1), False),
    (named(name="A"), False),
    (named(name="a."), False),
    (named(name="a..b"), False),
    (named(name="a.-b"), False),
    (named(name="a\n"), False),
    (named(name="1"), True),
    (named(uid="x", resourceVersion="1", creationTimestamp=None, namespace="ns", generation=1), True),
    (named(label={}), False),
    (named(labels=None), True),
    (named(labels=[]), False),
    (named(labels={"a": ""}), True),
    (named(labels={"a": None}), True),
    (named(labels={"a": True}), False),
    (named(labels={"a": 1}), False),
    (named(labels={"a": "-"}), False),
    (named(labels={"a": "a b"}), False),
    (named(labels={"a": "a\n"}), False),
    (named(labels={"a": "A_.-9"}), True),
    (named(labels={"": "a"}), False),
    (named(labels={"a/": "a"}), False),
    (named(labels={"/a": "a"}), False),
    (named(labels={"a/b/c": "a"}), False),
    (named(labels={"a.b/c_D": "a"}), True),
    (named(labels={"a_b/c": "a"}), False),
    (named(labels={"a" * 63: "a"}), True),
    (named(labels={"a" * 64: "a"}), False),
    (named(labels={"b" * 253 + "/a": "a"}), True),
    (named(labels={"b" * 254 + "/a": "a"}), False),
    (named(annotations={"A.B/c": "anything at all\n"}), True),
    (named(annotations={"a": "x" * (256 * 1024 - 1)}), True),
    (named(annotations={"a": "x" * (256 * 1024)}), False),
    (named(annotations={"a": "ü" * (128 * 1024)}), False),
    # AS numbers
    (bgp(asNumber=0), True),
    (bgp(asNumber=4294967295), True),
    (bgp(asNumber=-1), False),
    (bgp(asNumber=1.5), False),
    (bgp(asNumber=True), False),
    (bgp(asNumber=""), False),
    (bgp(asNumber="4294967296"), False),
    (bgp(asNumber="65535.65535"), True),
    (bgp(asNumber="1."), False),
    (bgp(asNumber="1.2.3"), False),
    (bgp(asNumber="+1"), False),
    (bgp(asNumber="1 "), False),
    (bgp(asNumber="0x10"), False),
    (bgp(asNumber="007"), True),
    # BGPConfiguration
    (bgp(listenPort=-1), False),
    (bgp(listenPort=65535), True),
    (bgp(listenPort="179"), False),
    (bgp(listenPort=True), False),
    (bgp(logSeverityScreen=""), True),
    (bgp(bindMode="Node"), False),
    (bgp(nodeMeshMaxRestartTime=120), False),
    (bgp(nodeMeshMaxRestartTime="1m30s"), True),
    (bgp(nodeMeshMaxRestartTime="1.5h"), True),
    (bgp(nodeMeshMaxRestartTime=""), False),
    (bgp(nodeMeshMaxRestartTime=" "), False),
    (bgp(nodeMeshMaxRestartTime=None), True),
    (bgp(nodeMeshMaxRestartTime="120"), False),
    (bgp(nodeMeshMaxRestartTime="0"), True),
    (bgp(nodeMeshMaxRestartTime="-.5s"), True),
    (bgp(nodeMeshMaxRestartTime=".s"), False),
    (bgp(nodeMeshMaxRestartTime="1d"), False),
    (bgp(nodeMeshMaxRestartTime="9999999h"), False),
    (bgp(serviceClusterIPs=[{"cidr": ""}]), True),
    (bgp(serviceClusterIPs=[{}, None]), True),
    (bgp(serviceLoadBalancerIPs=[{"cidr": "10.0.0.1/8"}]), False),
    (bgp(serviceLoadBalancerIPs=[{"cidr": "::ffff:10.0.0.1"}]), True),
    (bgp(serviceLoadBalancerIPs="10.0.0.0/8"), False),
    (bgp(ignoredInterfaces=["eth*", "*"]), True),
    (bgp(ignoredInterfaces=["a-name-that-is-too-long"]), False),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": []}]), True),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": None}]), False),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": [""]}]), False),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.1/8", "communities": ["1:1"]}]), False),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.1", "communities": ["1:1"]}]), True),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": ["65536:1"]}]), False),
    (bgp(prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": ["1:1\n"]}]), False),
    (bgp(prefixAdvertisements=[], communities=[]), True),
    (
        bgp(
            communities=[{"name": "C", "value": "1:1"}],
            prefixAdvertisements=[{"cidr": "10.0.0.0/8", "communities": ["C"]}],
        ),
        False,
    ),
    # BGPPeer
    (peer(peerIP="10.0.0.1:00179"), True),
    (peer(peerIP="10.0.0.1:+1"), False),
    (peer(peerIP="10.0.0.1/32"), False),
    (peer(peerIP="[fd00::1]"), False),
    (peer(peerIP="fd00::1%eth0"), False),
    (peer(peerIP="::ffff:10.0.0.1"), True),
    (peer(peerIP="10.0.0.01"), False),
    (peer(asNumber=0, peerSelector="all()"), True),
    (peer(node="n", nodeSelector="all()"), False),
    (peer(filters=["a", "b.c"]), True),
    (peer(filters=["a_b"]), False),
    (peer(ttlSecurity=256), False),
    (peer(ttlSecurity=255), True),
    (peer(nextHopMode="Self"), True),
    (peer(nextHopMode="self"), False),
    (peer(nextHopMode="Self", keepOriginalNextHop=True), False),
    (peer(reachableBy="10.0.0.1"), False),
    (peer(reachableBy="10.0.0.1", peerIP="10.1.0.1:179"), True),
    (peer(reachableBy="fd00::1", peerIP="10.1.0.1"), False),
    (peer(reachableBy="x", peerIP="10.1.0.1"), False),
    (peer(localWorkloadSelector="all()"), False),
    (peer(localWorkloadSelector="all()", asNumber=1), True),
    (peer(localWorkloadSelector="all()", asNumber=1, peerIP="10.0.0.1"), False),
    (peer(localWorkloadSelector="all()", peerSelector="all()"), False),
    (peer(password={"secretKeyRef": {"name": "a", "key": "b", "optional": True}}), True),
    (peer(password={"secret": "hunter2"}), False),
    (peer(password="hunter2"), False),
    (peer(maxRestartTime=None), True),
    (peer(maxRestartTime=""), False),
    (peer(node="a" * 253), True),
    (peer(node="a" * 254), False),
    (peer(node=".".join(["a" * 63] * 4)), False),
    (peer(node=""), True),
    (peer(maxRestartTime="1"), False),
    # Node
    (node(bgp={"ipv4Address": ""}), False),
    (node(bgp={"asNumber": 0}), True),
    (node(bgp=None), True),
    (node(bgp={"ipv4Address": "::ffff:10.0.0.1"}), True),
    (node(bgp={"ipv4Address": "::ffff:10.0.0.1/64"}), True),
    (node(bgp={"ipv6Address": "::ffff:10.0.0.1"}), False),
    (node(bgp={"ipv6Address": "fd00::1"}), True),
    (node(bgp={"ipv4IPIPTunnelAddr": "10.0.0.1/32"}), False),
    (node(ipv4VXLANTunnelAddr="fd00::1"), False),
    (node(vxlanTunnelMACAddr="66:aa:bb:cc:dd:ee"), True),
    (node(vxlanTunnelMACAddr="66-AA-bb-cc-dd-ee"), True),
    (node(vxlanTunnelMACAddr="66aa.bbcc.ddee"), True),
    (node(vxlanTunnelMACAddr="66:aa:bb:cc:dd:ee:00:11"), True),
    (node(vxlanTunnelMACAddr="66.aa.bb.cc.dd.ee"), False),
    (node(vxlanTunnelMACAddr=":".join(["00"] * 20)), True),
    (node(vxlanTunnelMACAddr="66:aa:bb:cc:dd"), False),
    (node(vxlanTunnelMACAddr="66:aa-bb:cc:dd:ee"), False),
    (node(vxlanTunnelMACAddr="6:aa:bb:cc:dd:ee"), False),
    (node(vxlanTunnelMACAddr="66aabbccddee"), False),
    (node(addresses=[{"address": "10.0.0.1/24", "type": "InternalIP"}]), True),
    (node(orchRefs=[{"nodeName": "n", "orchestrator": "k8s"}]), True),
    ({**node(), "status": {"podCIDRs": ["10.0.0.0/24"]}}, True),
    ({**node(), "status": {"wireguardPublicKey": "A" * 43 + "="}}, True),
    ({**node(), "status": {"wireguardPublicKey": "A" * 44}}, False),
    ({**node(), "status": {"wireguardPublicKey": "A" * 42 + "=="}}, False),
]


@pytest.mark.parametrize(("document", "valid"), RULES, ids=lambda value: json.dumps(value)[:70])
def test_rules_beyond_the_vectors(document: dict, valid: bool) -> None:
    assert verdict(document) is valid


@pytest.mark.parametrize("case", [case for case in OURS if case["kind"] in ("GlobalNetworkPolicy", "NetworkPolicy")])
def test_a_staged_policy_has_the_verdict_of_the_policy(case: dict) -> None:
    document = document_of(case)
    assert verdict({**document, "kind": f"Staged{document['kind']}"}) is verdict(document)


@pytest.mark.parametrize("kind", sorted(resources.KINDS))
def test_schemas_are_schemas(kind: str) -> None:
    for flat in (False, True):
        jsonschema.Draft202012Validator.check_schema(resources.json_schema(kind, flat=flat))
