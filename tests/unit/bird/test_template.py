# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The template's output; tests/integration/bird shows that BIRD can read it, and what it does with it."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import jinja2
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import (
    BackupRoute,
    Bird,
    BirdPeer,
    BirdPool,
    Communities,
    Vtep6,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_rules import (
    FilterFunction,
    FilterOperation,
    FilterRule,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

ROLE = pathlib.Path(__file__).resolve().parents[3] / "roles" / "calico_node"
POOL = BirdPool("10.244.0.0/16", "tunl0", block_size=26)
BIRD = Bird(
    router_id="10.10.1.11",
    address="10.10.1.11",
    as_number=64512,
    subnet="10.10.1.0/24",
    blocks=("10.244.0.0/26", "10.244.5.64/26"),
    pools=(POOL,),
    peers=(
        BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),
        BirdPeer("Mesh_10_10_2_13", "10.10.2.13", 64600, "mesh", passive=True, node="node3"),
    ),
)


#: The statements at the end of the kernel filter, for routes outside the pools.
OUTSIDE = (
    "krt_metric = 1025;",
    "if bgp_local_pref > 1000000000 then krt_metric = 2147483647 - bgp_local_pref;",
    "accept;",
)


def render(bird: Bird, **changes: object) -> str:
    bird = dataclasses.replace(bird, **changes)
    return bird_config.render(NodeState("node1", "10.10.1.11/24", bird=bird).to_dict()["bird"])


def function(text: str, name: str) -> list[str]:
    return body(text, f"function {name}()", "{")


def body(text: str, head: str, brace: str = "") -> list[str]:
    """Return the lines between `head {` and its closing brace at the line's start, without comments.

    Empty lines and indentation are left out, and white space within a line is one blank. `brace` is the line after
    `head`, if the opening brace is not on the same line. Raise StopIteration if there is no such `head`, and ValueError
    if its block has no closing brace.
    """
    lines = text.splitlines()
    if brace:
        start = next(number for number, line in enumerate(lines) if line == head and lines[number + 1] == brace) + 1
    else:
        start = next(number for number, line in enumerate(lines) if line.startswith(f"{head} ") and line.endswith("{"))
    end = lines.index("}", start)
    bare = (re.sub(r"\s*#.*", "", line).rstrip() for line in lines[start + 1 : end])
    return [" ".join(line.split()) for line in bare if line]


def kernel(*pools: BirdPool, **changes: object) -> list[str]:
    return body(render(BIRD, pools=pools, **changes), "filter calico_kernel_programming")


def test_a_node_with_ipv6_alone_has_nothing_of_ipv4() -> None:
    peer = BirdPeer("Mesh_fd00__12", "fd00::12", 64512, "mesh", node="node2", family=6)
    pools = (BirdPool("fd00:10:244::/64", "vxlan-v6.calico", block_size=122),)
    own = {"address": "", "subnet": "", "address6": "fd00::11", "subnet6": "fd00::/64"}
    text = render(BIRD, pools=pools, blocks=("fd00:10:244::40/122",), peers=(peer,), **own)
    configured = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert [line for line in configured if re.search(r"ipv4|10\.\d+\.\d+\.\d+", line)] == ["router id 10.10.1.11;"]
    names = [line.split()[:3] for line in configured if line.startswith(("protocol", "template"))]
    assert [" ".join(name) for name in names] == [
        "protocol kernel kernel6",
        "protocol device device1",
        "protocol direct direct6",
        "template bgp calico_peer",
        "template bgp calico_fleet6",
        "protocol bgp Mesh_fd00__12",
    ]


def test_a_tunnelled_pool_is_placed_on_its_device() -> None:
    assert kernel(POOL) == [
        "if source != RTS_BGP then reject;",
        'if net ~ 10.244.0.0/16 then { ifname = "tunl0"; onlink = true; gw = bgp_next_hop; onlink = true; accept; }',
        *OUTSIDE,
    ]


def test_across_subnets_only() -> None:
    assert kernel(BirdPool("10.244.0.0/16", "vxlan.calico", cross_subnet=True)) == [
        "if source != RTS_BGP then reject;",
        "if net ~ 10.244.0.0/16 then {",
        'if !(bgp_next_hop ~ 10.10.1.0/24) then { ifname = "vxlan.calico"; onlink = true; gw = bgp_next_hop; '
        "onlink = true; }",
        "accept;",
        "}",
        *OUTSIDE,
    ]


def test_each_pool_by_its_own_mode_and_mtu() -> None:
    assert kernel(BirdPool("10.244.0.0/16"), BirdPool("10.245.0.0/16", "tunl0", mtu=1430)) == [
        "if source != RTS_BGP then reject;",
        "if net ~ 10.244.0.0/16 then { accept; }",
        'if net ~ 10.245.0.0/16 then { krt_mtu = 1430; ifname = "tunl0"; onlink = true; gw = bgp_next_hop; '
        "onlink = true; accept; }",
        *OUTSIDE,
    ]


def test_a_pure_reflector_neither_writes_routes_nor_learns_workloads() -> None:
    text = render(BIRD, workload_node=False, cluster_id="10.10.1.11", blocks=())
    assert body(text, "filter calico_kernel_programming") == ["reject;"]
    assert body(text, "filter calico_kernel_learning") == [
        "if krt_source = 179 then reject;",
        "if net ~ calico_pools then reject;",
        "accept;",
    ]


def test_own_routes_outrank_what_peers_say() -> None:
    assert body(render(BIRD), "filter calico_kernel_learning") == [
        "if krt_source = 179 then { preference = 200; accept; }",
        "if net ~ calico_pools then reject;",
        "accept;",
    ]


def test_only_own_blocks_are_announced_to_peers() -> None:
    text = render(BIRD)
    assert "define calico_own_blocks = [ 10.244.0.0/26, 10.244.5.64/26 ];" in text
    assert function(text, "calico_announce") == ["if source != RTS_BGP && net ~ calico_own_blocks then accept;"]
    for name in ("calico_to_fleet", "calico_to_external"):
        assert body(text, f"filter {name}") == ["calico_announce();", "reject;"]
    assert function(render(BIRD, blocks=()), "calico_announce") == []


def test_peers_are_believed_blocks_that_are_not_ours() -> None:
    text = render(BIRD)
    assert "define calico_inside_own_blocks = [ 10.244.0.0/26+, 10.244.5.64/26+ ];" in text
    assert "define calico_pool_blocks = [\n  10.244.0.0/16{26,26}\n];" in text
    assert body(text, "filter calico_from_peers") == ["calico_refuse_own();", "calico_believe();", "reject;"]
    assert function(text, "calico_refuse_own") == [
        "if net ~ calico_inside_own_blocks then {",
        'print "calico: refused ", net, " from ", from, ": it is inside a block of this node";',
        "reject;",
        "}",
    ]
    assert function(text, "calico_believe") == ["if net ~ calico_pool_blocks then accept;"]


def test_both_families_have_sets_of_their_own() -> None:
    pools = (POOL, BirdPool("fd00:10:244::/48", block_size=122), BirdPool("10.245.0.0/16", block_size=26))
    text = render(BIRD, pools=pools, blocks=(*BIRD.blocks, "fd00:10:244::40/122"))
    assert {
        "define calico_pools = [ 10.244.0.0/16+, 10.245.0.0/16+ ];",
        "define calico_pools6 = [ fd00:10:244::/48+ ];",
        "define calico_own_blocks6 = [ fd00:10:244::40/122 ];",
        "define calico_inside_own_blocks6 = [ fd00:10:244::40/122+ ];",
        "  fd00:10:244::/48{122,122}",
    } <= set(text.splitlines())
    assert "if net ~ calico_pools6 then reject;" in body(text, "filter calico_kernel_learning")
    assert "if source != RTS_BGP && net ~ calico_own_blocks6 then accept;" in function(text, "calico_announce")
    assert "if net ~ calico_inside_own_blocks6 then {" in function(text, "calico_refuse_own")
    assert "if net ~ calico_pool_blocks6 then accept;" in function(text, "calico_believe")
    assert "if source = RTS_BGP && net ~ calico_pool_blocks6 then accept;" in function(
        render(BIRD, pools=pools, cluster_id="10.10.0.1"), "calico_reflect"
    )


def test_ipv6_routes_of_pools_have_the_metric_that_the_kernel_shows() -> None:
    """Import filters set the kernel's metric on IPv6 routes of pools before any BGPFilter and before accepting them."""
    pools = (POOL, BirdPool("fd00:10:244::/48", block_size=122))
    peer = BirdPeer("Global_fd00__99", "fd00::99", 65001, "external", family=6, filters=("tor",))
    text = render(
        BIRD,
        pools=pools,
        address6="fd00::11",
        subnet6="fd00::/64",
        peers=(peer,),
        filters=filters(FilterRule(True), family=6),
    )
    assert "define calico_metric6 = 1024;" in text
    assert function(text, "calico_keep_in_place") == ["if net ~ calico_pools6 then krt_metric = calico_metric6;"]
    expected = ["calico_refuse_own();", "calico_keep_in_place();", "calico_believe();", "reject;"]
    assert body(text, "filter calico_from_peers") == expected
    lines = [line.strip() for line in text.splitlines()]
    start = lines.index("import filter {")
    assert lines[start + 1 : start + 6] == [*expected[:2], "'bgp_tor_importFilterV6'();", *expected[2:]]
    assert "krt_metric = calico_metric6" not in render(BIRD)


def test_a_node_with_ipv6_has_a_kernel_and_connected_subnets_of_it() -> None:
    text = render(BIRD, address6="fd00:10:10::11", subnet6="fd00:10:10::/64")
    assert body(text, "protocol kernel kernel6")[-4:] == [
        "ipv6 {",
        "import filter calico_kernel_learning;",
        "export filter calico_kernel_programming;",
        "};",
    ]
    assert "ipv6;" in body(text, "protocol direct direct6")
    assert "kernel6" not in render(BIRD)
    assert "direct6" not in render(BIRD)


def test_a_tunnel_over_ipv6_leads_to_link_local_addresses() -> None:
    vteps = (Vtep6("fd00:10:10::12", "fe80::1"), Vtep6("fd00:10:20::13", "fe80::2"))
    pools = (
        BirdPool("fd00:10:244::/48", "vxlan-v6.calico", block_size=122),
        BirdPool("fd00:10:245::/48", "vxlan-v6.calico", True, 1400, block_size=122),
    )
    changes = {"address6": "fd00:10:10::11", "subnet6": "fd00:10:10::/64", "pools": pools}
    text = render(BIRD, vteps6=vteps, **changes)
    assert function(text, "calico_into_vxlan6") == [
        'ifname = "vxlan-v6.calico";',
        "onlink = true;",
        "case bgp_next_hop {",
        "fd00:10:10::12 : gw = fe80::1;",
        "fd00:10:20::13 : gw = fe80::2;",
        "else: reject;",
        "}",
        "onlink = true;",
    ]
    assert body(text, "filter calico_kernel_programming") == [
        "if source != RTS_BGP then reject;",
        "if net ~ fd00:10:244::/48 then { calico_into_vxlan6(); accept; }",
        "if net ~ fd00:10:245::/48 then { krt_mtu = 1400;",
        "if !(bgp_next_hop ~ fd00:10:10::/64) then { calico_into_vxlan6(); }",
        "accept;",
        "}",
        *OUTSIDE,
    ]
    assert function(render(BIRD, **changes), "calico_into_vxlan6") == ["reject;"]
    assert "calico_into_vxlan6" not in render(BIRD, **changes, workload_node=False)


def test_a_pool_that_is_not_exported_stays_at_home() -> None:
    text = render(BIRD, pools=(POOL, BirdPool("10.245.0.0/16", export=False)))
    assert function(text, "calico_announce")[0] == "if net ~ 10.245.0.0/16 then reject;"


def test_communities_are_added_to_what_is_announced() -> None:
    entries = (Communities("10.244.0.0/16", ((65000, 1), (65000, 2)), ((65000, 1, 2),)),)
    assert function(render(BIRD, communities=entries), "calico_announce") == [
        "if net ~ 10.244.0.0/16 then { bgp_community.add((65000, 1)); bgp_community.add((65000, 2)); "
        "bgp_large_community.add((65000, 1, 2)); }",
        "if source != RTS_BGP && net ~ calico_own_blocks then accept;",
    ]


def test_ignored_interfaces_are_no_way_to_a_next_hop() -> None:
    text = render(BIRD, ignored_interfaces=("docker*", "cni0"), address6="fd00::1", subnet6="fd00::/64")
    assert body(text, "protocol direct direct1") == [
        "ipv4;",
        'interface -"docker*", -"cni0", -"cali*", -"tunl*", -"vxlan.calico", "*";',
    ]
    assert body(text, "protocol direct direct6") == [
        "ipv6;",
        'interface -"docker*", -"cni0", -"cali*", -"tunl*", -"vxlan.calico", -"vxlan-v6.calico", "*";',
    ]
    assert body(render(BIRD), "protocol direct direct1")[1] == 'interface -"cali*", -"tunl*", -"vxlan.calico", "*";'


def test_snippets_of_the_operator_come_last() -> None:
    assert (
        render(BIRD, include_dir="/etc/calico/bird.d").splitlines()[-1] == 'include "/[e]tc/[c]alico/[b]ird.d/*.conf";'
    )
    assert "include" not in render(BIRD)


def filters(*rules: FilterRule, family: int = 4, by_peer_type: bool = False) -> tuple[FilterFunction, ...]:
    """Return the import and the export function of the BGPFilter tor, both with these rules.

    `family` is their IP version, and `by_peer_type` their field of that name.
    """
    return tuple(
        FilterFunction("tor", direction, family, f"'bgp_tor_{direction}FilterV{family}'", rules, by_peer_type)
        for direction in ("import", "export")
    )


def test_a_rule_of_a_bgp_filter_asks_for_all_that_it_names() -> None:
    everything = FilterRule(
        True,
        "10.0.0.0/8",
        "NotIn",
        (16, 24),
        from_peers=True,
        interface="eth*",
        peer_type="eBGP",
        community=(65000, 1),
        as_path=(65000, 65001),
        local_pref=2147483547,
        operations=(
            FilterOperation("as_path", (65001, 65002)),
            FilterOperation("community", (65000, 9)),
            FilterOperation("large_community", (65000, 1, 9)),
            FilterOperation("local_pref", (77,)),
        ),
    )
    others = (
        FilterRule(False, "10.0.0.0/8", "Equal"),
        FilterRule(False, community=(1, 2, 3), peer_type="iBGP"),
        FilterRule(True, local_pref=2147482623, unset_local_pref=True),
        FilterRule(False),
    )
    text = render(BIRD, filters=filters(everything, *others, by_peer_type=True))
    assert body(text, "function 'bgp_tor_importFilterV4'(bool is_same_as)", "{") == [
        "if (!is_same_as) then { if ((net !~ [ 10.0.0.0/8{16,24} ])&&((defined(source))&&(source ~ [ RTS_BGP ]))"
        '&&((defined(ifname))&&(ifname ~ "eth*"))&&((65000, 1) ~ bgp_community)&&(bgp_path ~ [= 65000 65001 * =])'
        "&&(defined(bgp_local_pref)&&(bgp_local_pref = 2147483547))) then { bgp_path.prepend(65002); "
        "bgp_path.prepend(65001); bgp_community.add((65000, 9)); bgp_large_community.add((65000, 1, 9)); "
        "bgp_local_pref = 77; accept; } }",
        "if ((net = 10.0.0.0/8)) then { reject; }",
        "if (is_same_as) then { if (((1, 2, 3) ~ bgp_large_community)) then { reject; } }",
        "if ((!defined(bgp_local_pref)||(defined(bgp_local_pref)&&(bgp_local_pref = 2147482623)))) then { accept; }",
        "reject;",
    ]


@pytest.mark.parametrize(
    ("peer", "told"),
    [
        (BirdPeer("Mesh_1", "10.10.1.12", 64512, "mesh", filters=("tor",)), ["true", "calico_announce();"]),
        (BirdPeer("Global_1", "10.10.1.12", 65001, "external", filters=("tor",)), ["false", "calico_announce();"]),
        (
            BirdPeer("Global_1", "10.10.1.12", 65001, "external", local_as=65001, filters=("tor",)),
            ["true", "calico_announce();"],
        ),
        (
            BirdPeer("Node_1", "10.10.1.12", 64512, "client", filters=("none", "tor")),
            ["true", "calico_announce();", "calico_reflect();"],
        ),
    ],
    ids=["mesh", "external", "local-as", "client"],
)
def test_the_filters_of_a_peer_come_before_what_holds_for_all(peer: BirdPeer, told: list[str]) -> None:
    cluster = "10.10.0.1" if peer.kind == "client" else None
    text = render(BIRD, filters=filters(FilterRule(False), by_peer_type=True), peers=(peer,), cluster_id=cluster)
    kind = "external" if peer.kind == "external" else "fleet"
    lines = body(text, f"protocol bgp {peer.name} from calico_{kind}")
    same_as, *announced = told
    assert lines[lines.index("ipv4 {") :] == [
        "ipv4 {",
        "import filter {",
        "calico_refuse_own();",
        f"'bgp_tor_importFilterV4'({same_as});",
        "calico_believe();",
        "reject;",
        "};",
        "export filter {",
        f"'bgp_tor_exportFilterV4'({same_as});",
        *announced,
        "reject;",
        "};",
        "};",
    ]


def test_no_bgp_filter_lets_a_backup_route_out() -> None:
    peer = dataclasses.replace(BIRD.peers[0], filters=("tor",))
    backups = (BackupRoute("10.244.7.0/26", "10.10.1.12"),)
    text = render(BIRD, filters=filters(FilterRule(True)), peers=(peer,), backups=backups)
    lines = body(text, f"protocol bgp {peer.name} from calico_fleet")
    assert lines[lines.index("export filter {") + 1] == 'if proto ~ "calico_backup*" then reject;'


def test_a_filter_of_the_other_family_changes_nothing() -> None:
    peer = dataclasses.replace(BIRD.peers[0], filters=("tor",))
    text = render(BIRD, filters=filters(FilterRule(False), family=6), peers=(peer,))
    assert body(text, f"protocol bgp {peer.name} from calico_fleet")[-4:] == [
        "ipv4 {",
        "import filter calico_from_peers;",
        "export filter calico_to_fleet;",
        "};",
    ]


def test_a_reflector_passes_on_what_it_learned() -> None:
    clients = (
        BirdPeer("Node_10_10_1_12", "10.10.1.12", 64512, "client", node="node2", cluster_id="10.10.0.1"),
        BirdPeer("Mesh_10_10_1_13", "10.10.1.13", 64512, "mesh", node="other-reflector"),
    )
    text = render(BIRD, peers=clients, cluster_id="10.10.0.1")
    assert function(text, "calico_reflect") == ["if source = RTS_BGP && net ~ calico_pool_blocks then accept;"]
    assert body(text, "filter calico_to_fleet") == ["calico_announce();", "calico_reflect();", "reject;"]
    assert body(text, "protocol bgp Node_10_10_1_12 from calico_fleet") == [
        'description "node2";',
        "neighbor 10.10.1.12 port 179 as 64512;",
        "multihop;",
        "rr client;",
        "rr cluster id 10.10.0.1;",
    ]
    assert "rr client;" not in body(text, "protocol bgp Mesh_10_10_1_13 from calico_fleet")
    assert "calico_reflect" not in render(BIRD)


def test_sections_say_when_they_are_empty() -> None:
    def empty(*peers: BirdPeer) -> dict[str, bool]:
        parts = re.split(r"^# -{16} (.+) -{16}$", render(BIRD, peers=peers), flags=re.MULTILINE)[1:]
        return {title: "\n# none\n" in content for title, content in list(zip(parts[::2], parts[1::2]))[3:]}

    titles = ["Node-to-node mesh", "Clients of this reflector", "Reflectors of this node", "Global peers"]
    assert empty() == dict.fromkeys(titles, True)
    for title, kind in zip(titles, ("mesh", "client", "reflector", "external")):
        peer = BirdPeer("Peer_1", "10.10.1.12", 64512, kind, node="" if kind == "external" else "node2")
        assert empty(peer) == {**dict.fromkeys(titles, True), title: False}


def test_one_side_of_a_pair_waits() -> None:
    text = render(BIRD, listen_port=1179)
    assert body(text, "protocol bgp Mesh_10_10_2_13 from calico_fleet") == [
        'description "node3";',
        "neighbor 10.10.2.13 port 1179 as 64600;",
        "multihop;",
        "passive on;",
    ]
    assert "passive on;" not in body(text, "protocol bgp Mesh_10_10_1_12 from calico_fleet")
    assert "local port 1179 as 64512;" in body(text, "template bgp calico_fleet from calico_peer")


def test_routers_outside_the_fleet() -> None:
    router = BirdPeer("Global_10_10_1_1", "10.10.1.1", 65001, "external", multihop=False)
    text = render(BIRD, peers=(router,))
    assert body(text, "protocol bgp Global_10_10_1_1 from calico_external") == [
        "neighbor 10.10.1.1 as 65001;",
        "direct;",
    ]
    assert "import filter calico_from_peers;" in body(text, "template bgp calico_external from calico_peer")


@pytest.mark.parametrize("severity", ["Debug", "Info", "Warning", "Error", "Fatal", "None"])
def test_bird_is_always_told_where_to_log(severity: str) -> None:
    assert len(re.findall(r"^log stderr .*;", render(BIRD, log_severity=severity), re.MULTILINE)) == 1


def test_backup_routes_hold_for_this_node_alone() -> None:
    """Backup routes pass the kernel filter with the next hop that BGP would bring, and no peer receives them."""
    backups = (BackupRoute("10.244.7.0/26", "10.10.1.12"), BackupRoute("fd00:7::/122", "fd00::12"))
    text = render(BIRD, backups=backups)
    assert body(text, "protocol static calico_backup4") == [
        "ipv4 { preference 5; };",
        "route 10.244.7.0/26 recursive 10.10.1.12 { bgp_next_hop = 10.10.1.12; };",
    ]
    assert body(text, "protocol static calico_backup6") == [
        "ipv6 { preference 5; };",
        "route fd00:7::/122 recursive fd00::12 { bgp_next_hop = fd00::12; krt_metric = calico_metric6; };",
    ]
    assert kernel(POOL, backups=backups)[0] == 'if source != RTS_BGP && !(proto ~ "calico_backup*") then reject;'
    for name in ("calico_to_fleet", "calico_to_external"):
        assert body(text, f"filter {name}")[0] == 'if proto ~ "calico_backup*" then reject;'
    assert "backup" not in render(BIRD)


def test_the_four_parts_of_graceful_restart() -> None:
    text = render(BIRD, graceful_restart_time=77)
    assert {"persist;", "graceful restart on;"} <= set(body(text, "protocol kernel kernel4"))
    assert {"graceful restart on;", "graceful restart time 77;"} <= set(body(text, "template bgp calico_peer"))
    unit = ROLE / "files" / "systemd" / "calico-bird.service"
    assert "set -- -R" in unit.read_text("utf-8")


def test_the_same_data_gives_the_same_file() -> None:
    text = render(BIRD)
    assert text == render(BIRD)
    assert text.startswith("# Ansible managed: baremetal.host_routing, node 10.10.1.11\n")
    assert text.endswith(("}\n", "# none\n"))
    assert "{%" not in text and "{{" not in text


def test_a_missing_value_makes_rendering_fail() -> None:
    data = NodeState("node1", "10.10.1.11/24", bird=BIRD).to_dict()["bird"]
    del data["as_number"]
    with pytest.raises(jinja2.UndefinedError, match="as_number"):
        bird_config.render(data)


def test_data_is_not_looked_through_for_templates() -> None:
    peer = BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="{{ 6 * 7 }}")
    assert 'description "{{ 6 * 7 }}";' in render(BIRD, peers=(peer,))
