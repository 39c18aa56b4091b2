# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of requests to add a workload: valid values, defaults, and the errors for all others."""

from __future__ import annotations

import json

import hypothesis
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import AddRequest
from hypothesis import given
from hypothesis import strategies as st


def test_missing_parameters_get_defaults():
    request = AddRequest.from_params({"name": "web", "netns": "web", "mac": None, "pools": [], "address": None})
    assert (request.id, request.namespace, request.peer_interface) == ("default/web", "default", "eth0")
    assert AddRequest.from_params({"name": "web", "netns_owned": True}).netns == "web"
    assert (
        AddRequest.from_params({"name": "web", "netns": "/proc/1/ns/net", "mac": "02:AA:00:00:00:01"}).mac
        == "02:aa:00:00:00:01"
    )


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "the parameter name is missing. Give the workload one."),
        ({"name": None}, "name is None, not a text of at most 4096 characters."),
        ({"name": "web", "id": "x" * 601}, f"id '{'x' * 76}... must be 1 to 600 printable characters."),
        ({"name": "web", "ports": {}}, "ports is a table, not a list of at most 1024."),
        (
            {"name": "a b"},
            "name 'a b' must be 1 to 200 letters, digits, '-', '_' and '.', a letter or digit at its ends.",
        ),
        ({"name": "web"}, "netns '' must be a name as `ip netns list` shows it, or an absolute path."),
        (
            {"name": "web", "netns": "/x", "netns_owned": True},
            "netns '/x' must be a name and no path when netns_owned is true: it is made by name.",
        ),
        (
            {"name": "web", "netns": "..", "netns_owned": True},
            "netns '..' must be a name as `ip netns list` shows it, or an absolute path.",
        ),
        ({"name": "web", "netns": "n", "netns_owned": 1}, "netns_owned is 1, not true or false."),
        (
            {"name": "web", "netns": "n", "address": "10.244.0.1/26"},
            "address '10.244.0.1/26' must be an IP address without a prefix length, such as 10.244.0.7.",
        ),
        (
            {"name": "web", "netns": "n", "address": "fd00::1"},
            "address 'fd00::1' must be an IPv4 address: an IPv6 address goes into address6.",
        ),
        (
            {"name": "web", "netns": "n", "address6": "10.244.0.7"},
            "address6 '10.244.0.7' must be an IPv6 address: an IPv4 address goes into address.",
        ),
        (
            {"name": "web", "netns": "n", "address6": "fd00::1/128"},
            "address6 'fd00::1/128' must be an IP address without a prefix length, such as fd00:10:244::7.",
        ),
        ({"name": "web", "netns": "n", "families": [4, 5]}, "families[1] is 5, not an IP version, 4 or 6."),
        ({"name": "web", "netns": "n", "families": [4, 4]}, "families (4, 4) must name each IP version once."),
        (
            {"name": "web", "netns": "n", "families": 4, "address": "10.0.0.1"},
            "families is 4, not a list of at most 2.",
        ),
        ({"name": "web", "netns": "n", "families": [4.0]}, "families[0] is 4.0, not an IP version, 4 or 6."),
        ({"name": "web", "netns": "n", "id": []}, "id is a list, not a text of at most 4096 characters."),
        ({"name": "web", "netns": "n", "id": 0}, "id is 0, not a text of at most 4096 characters."),
        ({"name": "web", "netns": "n", "id": False}, "id is False, not a text of at most 4096 characters."),
        ({"name": "web", "netns": "n", "families": "6"}, "families is 6, not a list of at most 2."),
        (
            {"name": "web", "netns": "n", "families": [4], "address6": "fd00::1"},
            "families (4,) lacks 6, the IP version of address6 fd00::1.",
        ),
        (
            {"name": "web", "netns": "n", "mac": "01:00:5e:00:00:01"},
            "mac '01:00:5e:00:00:01' must be the MAC address of one device, such as 02:00:00:00:00:01.",
        ),
        ({"name": "web", "netns": "n", "mtu": 67}, "mtu 67 must be a number of bytes from 68 to 65535."),
        ({"name": "web", "netns": "n", "mtu": True}, "mtu is True, not a whole number from 0 to 9007199254740992."),
        ({"name": "web", "netns": "n", "pools": "p"}, "pools is p, not a list of at most 1024."),
        (
            {"name": "web", "netns": "n", "labels": {"a": 1}},
            "labels.a is 1, not a text of at most 4096 characters.",
        ),
        (
            {"name": "web", "netns": "n", "peer_interface": "a/b"},
            "peer_interface 'a/b' cannot be the name of a device. Use 1 to 15 characters without white space, '/' and"
            " ':'.",
        ),
        (
            {"name": "web", "netns": "n", "peer_interface": "lo"},
            "peer_interface 'lo' is the namespace's own loopback. Use another name, such as eth0.",
        ),
        *(
            (
                {"name": "web", "netns": netns},
                f"netns {netns!r} belongs to the node's own probe endpoint, by which it tests its paths to other nodes."
                " Choose another one.",
            )
            for netns in ("calico-probe", "/run/netns/calico-probe", "/var/run/netns/calico-probe")
        ),
        (
            {"name": "calico-probe", "netns_owned": True},
            "netns 'calico-probe' belongs to the node's own probe endpoint, by which it tests its paths to other nodes."
            " Choose another one.",
        ),
        (
            {"name": "probe", "namespace": "calico-system", "netns": "n"},
            "name 'calico-system/probe' belongs to the node's own probe endpoint, by which it tests its paths to other"
            " nodes. Choose another one.",
        ),
        (
            {"name": "web", "container": "c"},
            "container is not known. There are: name, netns, id, namespace, netns_owned, peer_interface, address,"
            " address6, families, pools, labels, mac, mtu, handed_over, ports.",
        ),
    ],
)
def test_an_invalid_parameter_is_refused_with_the_reason(params, words):
    with pytest.raises(AgentError) as caught:
        AddRequest.from_params(params)
    assert (caught.value.code, caught.value.message) == ("invalid_params", f"workload.add: {words}")


TEXTS = st.text("ab1-_./: \n\0é😀", max_size=8) | st.sampled_from(["10.244.0.1", "02:00:00:00:00:01", "/run/x"])
VALUES = st.none() | st.booleans() | st.integers(-1, 70000) | st.just(1.5) | TEXTS
JSON = VALUES | st.lists(VALUES, max_size=2) | st.dictionaries(TEXTS, VALUES, max_size=2)
FIELDS = (
    "id",
    "name",
    "namespace",
    "netns",
    "netns_owned",
    "peer_interface",
    "address",
    "pools",
    "labels",
    "mac",
    "mtu",
)


@hypothesis.settings(max_examples=200)
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, JSON)))
def test_any_parameters_are_refused_or_make_a_valid_workload(params):
    try:
        request = AddRequest.from_params(params)
    except AgentError as error:
        assert error.code == "invalid_params"
        return
    workload = request.workload("")
    assert workload.interface.startswith("cali") and len(workload.interface) == 15
    assert type(workload).from_dict(json.loads(json.dumps(workload.to_dict()))) == workload
    assert request.differs_from(workload) == "" or request.address or request.pools
