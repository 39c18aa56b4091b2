# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of BGPFilters, communities, ignored interfaces and configuration folders in the data for a node's BIRD."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BirdPeer, Communities
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import bgp_announcements
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

REJECT_ALL = {"name": "reject-all", "importV4": [{"action": "Reject"}], "importV6": [{"action": "Reject"}]}
TOR = {
    "apiVersion": "projectcalico.org/v3",
    "kind": "BGPFilter",
    "metadata": {"name": "tor"},
    "spec": {"exportV4": [{"action": "Accept", "cidr": "10.0.0.0/8", "matchOperator": "In"}]},
}


def read(fleet: t.Mapping[str, t.Any], **hosts: t.Mapping[str, t.Any]) -> bgp_announcements.Announcements:
    found = [Host(name, own) for name, own in (hosts or {"node1": {}}).items()]

    def get(name: str) -> t.Any:
        return variables.check(name, fleet.get(name, variables.BY_NAME[name].default))

    return bgp_announcements.read(get, found)


def test_without_any_variable_nothing_is_added() -> None:
    found = read({})
    assert found.of("node1") == bgp_announcements.NodeAnnouncements((), "/etc/calico/bird.d")
    assert found.functions([BirdPeer("Mesh_1", "10.0.0.1", 64512, "mesh")]) == ()
    assert found.ignored_interfaces == ()


def test_a_node_has_the_functions_that_its_sessions_need() -> None:
    found = read({"calico_bgp_filters": [REJECT_ALL, TOR]})

    def symbols(*peers: tuple[int, tuple[str, ...]]) -> list[str]:
        sessions = [BirdPeer("p", "10.0.0.1", 1, "external", family=family, filters=names) for family, names in peers]
        return [function.symbol for function in found.functions(sessions)]

    v4, v6 = "'bgp_reject-all_importFilterV4'", "'bgp_reject-all_importFilterV6'"
    assert symbols((4, ("tor", "reject-all"))) == [v4, "'bgp_tor_exportFilterV4'"]
    assert symbols((6, ("tor", "reject-all"))) == [v6]
    assert symbols((4, ("reject-all",)), (6, ("reject-all",)), (4, ("reject-all",))) == [v4, v6]
    assert symbols((4, ())) == []


def test_communities_by_name_and_by_value() -> None:
    found = read(
        {
            "calico_bgp_communities": [{"name": "green", "value": "65000:7"}, {"name": "large", "value": "65000:1:7"}],
            "calico_bgp_prefix_advertisements": [
                {"cidr": "10.244.0.0/16", "communities": ["green", "large", "65000:8"]},
                {"cidr": "10.9.9.9", "communities": []},
                {"cidr": "fd00::/48", "communities": ["large"]},
            ],
        },
        node1={},
        node2={"calico_node_bgp_prefix_advertisements": [{"cidr": "10.244.1.1", "communities": ["green"]}]},
        node3={"calico_node_bgp_prefix_advertisements": []},
    )
    assert found.of("node1").communities == (
        Communities("10.244.0.0/16", ((65000, 7), (65000, 8)), ((65000, 1, 7),)),
        Communities("fd00::/48", (), ((65000, 1, 7),)),
    )
    assert found.of("node2").communities == (Communities("10.244.1.1/32", ((65000, 7),)),)
    assert found.of("node3").communities == ()


def test_names_may_be_for_one_node_alone() -> None:
    found = read(
        {"calico_bgp_communities": [{"name": "green", "value": "65000:7"}]},
        node2={"calico_node_bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["green"]}]},
    )
    assert found.of("node2").communities == (Communities("10.244.0.0/16", ((65000, 7),)),)


def test_content_of_announcements_has_all_settings_that_differ() -> None:
    one = read({"calico_bgp_filters": [TOR]})
    assert one.content() != read({}).content()
    assert one.content() == read({"calico_bgp_filters": [TOR]}, node1={}, node2={}).content() | {
        "nodes": {"node1": {"communities": (), "include_dir": "/etc/calico/bird.d"}}
    }
    assert read({"calico_bgp_ignored_interfaces": ["docker*"]}).content()["ignored_interfaces"] == ["docker*"]


@pytest.mark.parametrize(
    ("fleet", "own", "said"),
    [
        (
            {"calico_bgp_filters": ["tor"]},
            {},
            "calico_bgp_filters[0] tor is not a dictionary. Write the fields of one BGPFilter there.",
        ),
        (
            {"calico_bgp_filters": [REJECT_ALL, {**TOR, "metadata": {"name": "reject-all"}}]},
            {},
            "calico_bgp_filters[1].metadata.name reject-all is also the name of calico_bgp_filters[0]. Rename one.",
        ),
        (
            {"calico_bgp_filters": [{"name": "a", "importV4": [{"action": "Deny"}]}]},
            {},
            "calico_bgp_filters[0].importV4[0].action Deny is not one of Accept, Reject. Did you mean Reject?",
        ),
        (
            {
                "calico_bgp_filters": [
                    {
                        "name": "a",
                        "importV4": [
                            {
                                "action": "Accept",
                                "cidr": "10.0.0.0/8",
                                "matchOperator": "NotEqual",
                                "prefixLength": {"min": 9},
                            }
                        ],
                    }
                ]
            },
            {},
            "calico_bgp_filters[0].importV4[0].prefixLength stands beside matchOperator NotEqual, which compares the "
            "whole prefix. Write matchOperator NotIn, or remove it.",
        ),
        (
            {"calico_bgp_communities": [{"name": "green", "value": "65536:7"}]},
            {},
            "calico_bgp_communities[0].value 65536:7 has a number of more than 16 bits. Write 65000:100, two numbers "
            "of 16 bits, or 65000:1:100, three of 32 bits.",
        ),
        (
            {"calico_bgp_communities": [{"name": "green", "value": "1:2:100000000000000000000"}]},
            {},
            "calico_bgp_communities[0].value 1:2:100000000000000000000 has a number of more than 32 bits. Write "
            "65000:100, two numbers of 16 bits, or 65000:1:100, three of 32 bits.",
        ),
        (
            {"calico_bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["green"]}]},
            {},
            "calico_bgp_prefix_advertisements[0].communities[0] green is neither a BGP community nor a name given in "
            "calico_bgp_communities. Write 65000:100, two numbers of 16 bits, or 65000:1:100, three of 32 bits.",
        ),
        (
            {},
            {"calico_node_bgp_prefix_advertisements": [{"cidr": "10.244.0.1/16", "communities": []}]},
            "calico_node_bgp_prefix_advertisements[0].cidr of node1 10.244.0.1/16 is not a range of addresses. Write "
            "it as address/prefix length, without address bits beyond the prefix, for example 10.1.0.0/16.",
        ),
        (
            {"calico_bgp_ignored_interfaces": ["docker0", "*"]},
            {},
            "calico_bgp_ignored_interfaces[1] * ignores every interface, and so all next hops. Name those to be "
            "ignored, for example docker*.",
        ),
        (
            {"calico_bgp_ignored_interfaces": ['a"b']},
            {},
            "calico_bgp_ignored_interfaces[0] a\"b cannot match a device's name. Use at most 15 letters, digits, '-', "
            "'_', '.' and '*'.",
        ),
        (
            {},
            {"calico_node_bird_include_dir": "/etc/../bird.d"},
            "calico_node_bird_include_dir of node1 /etc/../bird.d is not the absolute path of a folder, in letters, "
            "digits, '.', '_' and '-'. Write for example /etc/calico/bird.d, or '' for none.",
        ),
    ],
)
def test_an_invalid_announcement_is_refused_with_its_reason(
    fleet: dict[str, t.Any], own: dict[str, t.Any], said: str
) -> None:
    with pytest.raises(FleetError) as caught:
        read(fleet, node1=own)
    assert str(caught.value) == said


@pytest.mark.parametrize("folder", ["bird.d", "/", "/etc/bird [1]", "/etc/calico/*", '/etc/"x'])
def test_folders_that_bird_would_not_read_as_one(folder: str) -> None:
    with pytest.raises(FleetError):
        read({}, node1={"calico_node_bird_include_dir": folder})


@pytest.mark.parametrize("folder", ["", "/etc/bird.d", "/etc/bird-2.0/own_files/"])
def test_a_folder_is_kept_as_written(folder: str) -> None:
    """An absolute path in letters, digits, '.', '_' and '-' is kept, unless it has a part '..'; '' means none."""
    assert read({}, node1={"calico_node_bird_include_dir": folder}).of("node1").include_dir == folder


def test_filters_of_one_document_and_of_one_flat_mapping_have_errors_in_their_own_fields() -> None:
    """The field that an error names is the one that is written: with `spec` in a document, without it otherwise."""
    odd = [{"action": "Accept", "cidr": "10.0.0.0/8", "matchOperator": "NotEqual", "prefixLength": {"min": 9}}]
    for entry, field in (
        ({"name": "a", "importV4": odd}, "importV4[0].prefixLength"),
        ({**TOR, "spec": {"importV4": odd}}, "spec.importV4[0].prefixLength"),
    ):
        with pytest.raises(FleetError) as caught:
            read({"calico_bgp_filters": [entry]})
        assert caught.value.variable == f"calico_bgp_filters[0].{field}"


def test_the_label_of_a_node_without_advertisements_names_the_fleet_s_communities() -> None:
    """An error in a list of communities names that list, also where a node's own advertisements are read with it."""
    with pytest.raises(FleetError) as caught:
        read(
            {"calico_bgp_communities": [{"name": "green", "value": "x"}]},
            node1={"calico_node_bgp_prefix_advertisements": [{"cidr": "10.244.0.0/16", "communities": ["green"]}]},
        )
    assert caught.value.variable == "calico_bgp_communities[0].value"


def test_a_filter_that_does_not_exist_is_not_passed_over() -> None:
    found = read({"calico_bgp_filters": [TOR, REJECT_ALL]})
    found.check_names(("tor",), "calico_bgp_peers[0].filters")
    with pytest.raises(FleetError) as caught:
        found.check_names(("tor", "rejectall"), "calico_node_bgp_peers[0].filters of node1")
    assert str(caught.value) == (
        "calico_node_bgp_peers[0].filters[1] of node1 rejectall is not in calico_bgp_filters. Did you mean reject-all?"
    )
    with pytest.raises(FleetError) as caught:
        read({}).check_names(("tor",), "calico_bgp_peers[0].filters")
    assert str(caught.value) == (
        "calico_bgp_peers[0].filters[0] tor is not in calico_bgp_filters. Write the BGPFilter tor there, or remove the "
        "name."
    )
