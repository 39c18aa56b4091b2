# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the template makes of data; that BIRD can read it, and what it does with it, is tests/integration/bird's."""

from __future__ import annotations

import dataclasses
import pathlib
import re

import jinja2
import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_state import (
    Bird,
    BirdPeer,
    BirdPool,
    NodeState,
)

TEMPLATE = pathlib.Path(__file__).resolve().parents[3] / "roles" / "calico_node" / "templates" / "bird.cfg.j2"
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


def render(bird: Bird, **changes: object) -> str:
    """As Ansible does: a line that is only a block leaves nothing; what is not defined is an error."""
    environment = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    bird = dataclasses.replace(bird, **changes)
    data = NodeState("node1", "10.10.1.11/24", bird=bird).to_dict()["bird"]
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(calico_node_bird=data)


def body(text: str, head: str) -> list[str]:
    """The lines between `head {` and its closing brace at the line's start, without comments."""
    lines = text.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"{head} ") and line.endswith("{"))
    end = lines.index("}", start)
    bare = (re.sub(r"\s*#.*", "", line).rstrip() for line in lines[start + 1 : end])
    return [" ".join(line.split()) for line in bare if line]


def kernel(*pools: BirdPool, **changes: object) -> list[str]:
    return body(render(BIRD, pools=pools, **changes), "filter calico_kernel_programming")


def test_a_tunnelled_pool_is_placed_on_its_device() -> None:
    assert kernel(POOL) == [
        "if source != RTS_BGP then reject;",
        'if net ~ 10.244.0.0/16 then { ifname = "tunl0"; onlink = true; gw = bgp_next_hop; onlink = true; accept; }',
        "reject;",
    ]


def test_across_subnets_only() -> None:
    assert kernel(BirdPool("10.244.0.0/16", "vxlan.calico", cross_subnet=True)) == [
        "if source != RTS_BGP then reject;",
        "if net ~ 10.244.0.0/16 then {",
        'if !(bgp_next_hop ~ 10.10.1.0/24) then { ifname = "vxlan.calico"; onlink = true; gw = bgp_next_hop; '
        "onlink = true; }",
        "accept;",
        "}",
        "reject;",
    ]


def test_each_pool_by_its_own_mode_and_mtu() -> None:
    assert kernel(BirdPool("10.244.0.0/16"), BirdPool("10.245.0.0/16", "tunl0", mtu=1430)) == [
        "if source != RTS_BGP then reject;",
        "if net ~ 10.244.0.0/16 then { accept; }",
        'if net ~ 10.245.0.0/16 then { krt_mtu = 1430; ifname = "tunl0"; onlink = true; gw = bgp_next_hop; '
        "onlink = true; accept; }",
        "reject;",
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


def test_peers_are_told_own_blocks_and_nothing_else() -> None:
    text = render(BIRD)
    assert "define calico_own_blocks = [ 10.244.0.0/26, 10.244.5.64/26 ];" in text
    assert body(text, "filter calico_to_fleet") == [
        "if source != RTS_BGP && net ~ calico_own_blocks then accept;",
        "reject;",
    ]
    assert body(render(BIRD, blocks=()), "filter calico_to_fleet") == ["reject;"]


def test_peers_are_believed_blocks_that_are_not_ours() -> None:
    text = render(BIRD)
    assert "define calico_inside_own_blocks = [ 10.244.0.0/26+, 10.244.5.64/26+ ];" in text
    assert "define calico_pool_blocks = [\n  10.244.0.0/16{26,26}\n];" in text
    assert body(text, "filter calico_from_fleet") == [
        "if net ~ calico_inside_own_blocks then {",
        'print "calico: refused ", net, " from ", from, ": it is inside a block of this node";',
        "reject;",
        "}",
        "if net ~ calico_pool_blocks then accept;",
        "reject;",
    ]


def test_a_pool_that_is_not_exported_stays_at_home() -> None:
    text = render(BIRD, pools=(POOL, BirdPool("10.245.0.0/16", export=False)))
    for name in ("calico_to_fleet", "calico_to_external"):
        assert body(text, f"filter {name}")[0] == "if net ~ [ 10.245.0.0/16+ ] then reject;"


def test_a_reflector_passes_on_what_it_learned() -> None:
    clients = (
        BirdPeer("Node_10_10_1_12", "10.10.1.12", 64512, "client", node="node2"),
        BirdPeer("Mesh_10_10_1_13", "10.10.1.13", 64512, "mesh", node="other-reflector"),
    )
    text = render(BIRD, peers=clients, cluster_id="10.10.0.1")
    assert "if source = RTS_BGP && net ~ calico_pool_blocks then accept;" in body(text, "filter calico_to_fleet")
    assert body(text, "protocol bgp Node_10_10_1_12 from calico_fleet") == [
        'description "node2";',
        "neighbor 10.10.1.12 port 179 as 64512;",
        "multihop;",
        "rr client;",
        "rr cluster id 10.10.0.1;",
    ]
    assert "rr client;" not in body(text, "protocol bgp Mesh_10_10_1_13 from calico_fleet")
    assert "source = RTS_BGP" not in "".join(body(render(BIRD), "filter calico_to_fleet"))


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
    assert "import none;" in body(text, "template bgp calico_external from calico_peer")


@pytest.mark.parametrize("severity", ["Debug", "Info", "Warning", "Error", "Fatal", "None"])
def test_bird_is_always_told_where_to_log(severity: str) -> None:
    assert len(re.findall(r"^log stderr .*;", render(BIRD, log_severity=severity), re.MULTILINE)) == 1


def test_the_four_parts_of_graceful_restart() -> None:
    text = render(BIRD, graceful_restart_time=77)
    assert {"persist;", "graceful restart on;"} <= set(body(text, "protocol kernel kernel4"))
    assert {"graceful restart on;", "graceful restart time 77;"} <= set(body(text, "template bgp calico_peer"))
    unit = TEMPLATE.parents[1] / "files" / "systemd" / "calico-bird.service"
    assert "set -- -R" in unit.read_text("utf-8")


def test_the_same_data_gives_the_same_file() -> None:
    text = render(BIRD)
    assert text == render(BIRD)
    assert text.startswith("# Ansible managed: baremetal.host_routing, node 10.10.1.11\n")
    assert text.endswith(("}\n", "# none\n"))
    assert "{%" not in text and "{{" not in text


def test_ansible_renders_it_alike() -> None:
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar, trust_as_template

    data = NodeState("node1", "10.10.1.11/24", bird=BIRD).to_dict()["bird"]
    templar = Templar(loader=DataLoader(), variables={"calico_node_bird": data})
    text = templar.template(trust_as_template(TEMPLATE.read_text("utf-8")), preserve_trailing_newlines=True)
    assert text == render(BIRD)
