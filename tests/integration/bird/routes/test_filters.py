# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random BGPFilters: BIRD decides, and changes routes, as the evaluator says.

One daemon announces routes with all kinds of attributes to another, which has some routes of its own. There a pipe with
each filter leads from the main table to a table of its own, from which the tests read the accepted routes. A route that
no rule matches gets a community that is used nowhere else (NO_RULE).
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import random
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp import filter_verdict, filters
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, Communities
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_rules import FilterFunction
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.filter_verdict import BgpRoute
from ansible_collections.baremetal.host_routing.plugins.module_utils.resources import api as resources

from tests.integration.bird.daemons import AS_NUMBER, Daemon, Fleet, bird_of, mesh, pool, render
from tests.integration.bird.debian_bird import BUILDS, EACH_RELEASE, Build
from tests.integration.bird.interop import stranger
from tests.integration.bird.network import POOL, Namespace, Network, wait_for

pytestmark = pytest.mark.root

FUNCTIONS = 120  # BGPFilters for each IP version
NO_RULE = (4294967295, 1, 1)
NUMBERS = (65000, 65001, 4200000000)
COMMUNITIES = ("65000:1", "65000:2", "65000:1:2", "65001:1:2")
PRIORITIES = (100, 1024, 2147483547)
DEVICES = ("eth0", "eth1", "cali7", "vxlan.calico")
PATTERNS = ("eth*", "eth0", "cali*", "*.calico", "*", "vxlan")
#: The ranges of rules and the prefixes of routes by IP version: equal, inside, outside, and the shortest and longest.
RANGES = {
    4: ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "0.0.0.0/0"),
    6: ("fd00:1::/32", "fd00:1:2::/48", "fd00:1:2:3::/64", "fd00:1:2:3::4/128", "::/0"),
}
PREFIXES = {
    4: ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3/32", "10.1.2.4/31", "10.2.0.0/15", "192.168.0.0/24"),
    6: ("fd00:1::/32", "fd00:1:2::/48", "fd00:1:2:3::/64", "fd00:1:2:3::4/128", "fd00:1:2:3::6/127", "fd01::/47"),
}


def rule(chance: random.Random, family: int) -> dict[str, t.Any]:
    """Return a random rule of a BGPFilter for one IP version, for either direction.

    It has few conditions, so that many rules match.
    """

    def now_and_then() -> bool:
        return chance.random() < 0.25

    made: dict[str, t.Any] = {"action": chance.choice(("Accept", "Reject"))}
    if chance.random() < 0.6:
        made["cidr"] = chance.choice(RANGES[family])
        made["matchOperator"] = chance.choice(("Equal", "NotEqual", "In", "NotIn"))
        shortest, longest = int(made["cidr"].split("/")[1]), 32 if family == 4 else 128
        if now_and_then() and made["matchOperator"] in ("In", "NotIn"):
            made["prefixLength"] = {
                "min": chance.randint(0, longest), "max": chance.randint(shortest, longest)
            }  # fmt: skip
            made["prefixLength"]["min"] = min(made["prefixLength"].values())
            if chance.random() < 0.5:
                del made["prefixLength"][chance.choice(("min", "max"))]
    if now_and_then():
        made["source"] = "RemotePeers"
    if now_and_then():
        made["interface"] = chance.choice(PATTERNS)
    if now_and_then():
        made["peerType"] = chance.choice(("iBGP", "eBGP"))
    if now_and_then():
        made["communities"] = {"values": [chance.choice(COMMUNITIES)]}
    if now_and_then():
        made["asPathPrefix"] = [chance.choice(NUMBERS) for _ in range(chance.randint(1, 2))]
    if now_and_then():
        made["priority"] = chance.choice(PRIORITIES)
    if made["action"] == "Accept":
        operations = [
            {"addCommunity": {"value": chance.choice(COMMUNITIES)}},
            {"prependASPath": {"prefix": [chance.choice(NUMBERS), chance.choice(NUMBERS)]}},
            {"setPriority": {"value": chance.choice(PRIORITIES)}},
        ]
        made["operations"] = chance.sample(operations, chance.randint(0, 3))
        if not made["operations"]:
            del made["operations"]
    return made


def functions(chance: random.Random, family: int) -> list[FilterFunction]:
    found = []
    for number in range(FUNCTIONS):
        direction = chance.choice(("import", "export"))
        rules = [rule(chance, family) for _ in range(chance.randint(1, 4))]
        made = resources.parse_flat("BGPFilter", {"name": f"f{number}", f"{direction}V{family}": rules})
        resources.check_supported(made)
        found += filters.functions(t.cast(resources.BGPFilter, made))
    return found


def routes(chance: random.Random, family: int) -> dict[str, BgpRoute]:
    """Return routes of one IP version by prefix.

    The peer announces each of PREFIXES, with random attributes. The node's own routes, one on each of DEVICES, have
    other prefixes.
    """
    found = {}
    for prefix in PREFIXES[family]:
        communities = chance.sample(COMMUNITIES, chance.randint(0, 3))
        numbers = [tuple(int(part) for part in text.split(":")) for text in communities]
        found[prefix] = BgpRoute(
            prefix,
            from_peers=True,
            as_path=tuple(chance.choice(NUMBERS) for _ in range(chance.randint(0, 3))),
            communities=frozenset(t.cast(t.Any, one) for one in numbers if len(one) == 2),
            large_communities=frozenset(t.cast(t.Any, one) for one in numbers if len(one) == 3),
            local_pref=chance.choice([100, *(filters.PRIORITY_BASE - priority for priority in PRIORITIES)]),
            interface="eth0",
        )
    own = ("10.1.2.128/25", "10.7.0.0/16", "10.1.3.0/24", "172.16.0.0/12")
    own6 = ("fd00:1:2:3:8000::/65", "fd00:1:7::/48", "fd00:1:2:4::/64", "fd07::/16")
    for device, prefix in zip(DEVICES, own if family == 4 else own6):
        found[prefix] = BgpRoute(prefix, from_peers=False, interface=device)
    return found


def announcing(found: t.Mapping[str, BgpRoute]) -> str:
    lines = []
    for route in found.values():
        if route.from_peers:
            attributes = [f"bgp_path.prepend({number});" for number in reversed(route.as_path)]
            attributes += [f"bgp_community.add({one});" for one in route.communities]
            attributes += [f"bgp_large_community.add({one});" for one in route.large_communities]
            attributes.append(f"bgp_local_pref = {route.local_pref};")
            lines.append(f"route {route.net} blackhole {{ {' '.join(attributes)} }};")
    return "\n".join(lines)


def shown(text: str) -> dict[str, dict[str, str]]:
    """Return {prefix: {BGP attribute: its text}} from the output of `show route all` of any BIRD.

    The names have no prefix, as in `local_pref`; the AS path is `path`.
    """
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        prefix = re.match(r"([0-9a-f:.]+/\d+)\s", line)
        if prefix:
            current = found[prefix.group(1)] = {}
        attribute = re.match(r"\s+(?:BGP\.|bgp_)(\w+):\s*(.*)", line)
        if attribute:
            current[attribute.group(1).replace("as_path", "path")] = attribute.group(2)
    return found


def as_shown(route: BgpRoute) -> dict[str, t.Any]:
    return {
        "path": list(route.as_path),
        "community": set(route.communities),
        "large_community": set(route.large_communities),
        "local_pref": route.local_pref,
    }


def understood(attributes: t.Mapping[str, str]) -> dict[str, t.Any]:
    def sets(name: str) -> set[tuple[int, ...]]:
        return {
            tuple(int(number) for number in one.split(","))
            for one in re.findall(r"\(([^)]*)\)", attributes.get(name, ""))
        }

    return {
        "path": [int(number) for number in attributes.get("path", "").split()],
        "community": sets("community"),
        "large_community": sets("large_community"),
        "local_pref": int(attributes["local_pref"]) if "local_pref" in attributes else None,
    }


@pytest.fixture
def pair() -> t.Iterator[tuple[Namespace, Namespace]]:
    other, own = Namespace("filters-other"), Namespace("filters-own")
    other.ip(f"link add eth0 type veth peer name eth0 netns {own.pid}")
    for space, number in ((other, 1), (own, 2)):
        space.ip(f"addr add 10.99.0.{number}/24 dev eth0", f"addr add fd99::{number}/64 dev eth0 nodad")
        space.ip("link set eth0 up")
    for device in DEVICES[1:]:
        own.ip(f"link add {device} type bridge", f"link set {device} up")
    yield other, own
    other.close()
    own.close()


SESSION = """
protocol bgp bgp{family} {{
  local {own} as {number};
  neighbor {other} as {number};
  direct;
  connect delay time 1;
  ipv{family} {{ {policy} }};
}}
"""


@pytest.mark.parametrize("build", [*BUILDS], indirect=True)
def test_bird_decides_as_the_evaluator(build: Build, pair: tuple[Namespace, Namespace], tmp_path: pathlib.Path) -> None:
    chance = random.Random(build.version)
    other, own = (Daemon(build, space, tmp_path, space.name) for space in pair)
    given = {family: routes(chance, family) for family in (4, 6)}
    made = {family: functions(chance, family) for family in (4, 6)}
    ends = {4: ("10.99.0.1", "10.99.0.2"), 6: ("fd99::1", "fd99::2")}

    text = ["router id 10.99.0.1;", "protocol device { }"]
    for family, found in given.items():
        text.append(f"protocol static {{ ipv{family};\n{announcing(found)}\n}}")
        first, second = ends[family]
        policy = "import none; export where source = RTS_STATIC;"
        text.append(SESSION.format(family=family, own=first, other=second, number=AS_NUMBER, policy=policy))
    other.config.write_text("\n".join(text))

    calls: dict[str, tuple[FilterFunction, bool]] = {}
    text = ["router id 10.99.0.2;", "protocol device { }", "protocol direct { ipv4; ipv6; }"]
    whole = Bird("10.0.0.1", "10.0.0.1", 1, "10.0.0.0/24", filters=tuple(made[4] + made[6]))
    rendered = render(whole)
    text.append(rendered[rendered.index("# ---------------- BGPFilters") : rendered.index("# ---------------- Kernel")])
    for family, found in given.items():
        first, second = ends[family]
        policy = "import all; export none;"
        text.append(SESSION.format(family=family, own=second, other=first, number=AS_NUMBER, policy=policy))
        mine = "\n".join(f'route {one.net} via "{one.interface}";' for one in found.values() if not one.from_peers)
        text.append(f"protocol static {{ ipv{family};\n{mine}\n}}")
        for function in made[family]:
            table, same_as = f"t{family}_{len(calls)}", chance.random() < 0.5
            calls[table] = (function, same_as)
            argument = str(same_as).lower() if function.by_peer_type else ""
            text.append(
                f"ipv{family} table {table};\nprotocol pipe {{ table master{family}; peer table {table}; import none;\n"
                f"  export filter {{ if source !~ [ RTS_BGP, RTS_STATIC ] then reject; {function.symbol}({argument}); "
                f"bgp_large_community.add({NO_RULE}); accept; }}; }}"
            )
    own.config.write_text("\n".join(text))

    try:
        other.start()
        own.start()
        for family, found in given.items():
            known = {prefix for prefix, route in found.items() if route.from_peers}
            wait_for(
                f"IPv{family} routes",
                lambda f=family, k=known: k <= set(shown(own.birdc("show", "route", "protocol", f"bgp{f}", "all"))),
            )
        matched = differing = 0
        for table, (function, same_as) in calls.items():
            verdicts = {
                prefix: filter_verdict.verdict(function, route, same_as)
                for prefix, route in given[function.family].items()
            }
            let_through = {prefix for prefix, verdict in verdicts.items() if verdict.accept is not False}

            def read(table: str = table) -> dict[str, dict[str, str]]:
                return shown(own.birdc("show", "route", "table", table, "all"))

            # BIRD 3 fills a table in steps. If routes are missing after the wait, the comparison below fails.
            with contextlib.suppress(AssertionError):
                wait_for(table, lambda wanted=let_through, read=read: wanted <= set(read()))
            answer = read()
            for prefix, route in given[function.family].items():
                verdict = verdicts[prefix]
                where = f"{build.version}: {prefix} of {route} through {function}, same AS: {same_as}"
                matched += verdict.accept is not None
                differing += bool(verdict.accept)
                if verdict.accept is False:
                    assert prefix not in answer, where
                    continue
                assert prefix in answer, where
                expected = verdict.route
                if verdict.accept is None:
                    both = expected.large_communities | {NO_RULE}
                    expected = dataclasses.replace(expected, large_communities=both)
                assert understood(answer[prefix]) == as_shown(expected), where
    finally:
        own.stop()
        other.stop()
    total = len(calls) * len(given[4])
    assert matched > total / 5
    assert differing > total / 20


@pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
def test_accepted_router_routes_are_written_beside_those_of_the_host(fleet: Fleet, network: Network) -> None:
    """Routes of a router outside the fleet that a rule accepts are written to the kernel beside the host's own routes.

    Rules decide before the general filters, in both directions, but cannot accept a route inside the node's own block.
    """
    one, router = network.nodes[:2]
    rules = {
        "importV4": [
            {"action": "Accept", "cidr": "0.0.0.0/0", "matchOperator": "Equal"},
            {
                "action": "Accept",
                "cidr": "192.0.2.0/24",
                "matchOperator": "In",
                "prefixLength": {"max": 25},
                "operations": [{"setPriority": {"value": 100}}],
            },
            {"action": "Reject", "cidr": "10.244.3.0/24", "matchOperator": "In"},
            {"action": "Accept", "cidr": one.block, "matchOperator": "In"},
        ],
        "exportV4": [
            {
                "action": "Accept",
                "cidr": POOL,
                "matchOperator": "In",
                "prefixLength": {"max": 26},
                "operations": [{"addCommunity": {"value": "65000:7"}}],
            },
            {"action": "Reject"},
        ],
    }
    made = t.cast(resources.BGPFilter, resources.parse_flat("BGPFilter", {"name": "router", **rules}))
    peer = BirdPeer("Global_1", router.address, 65001, "external", passive=True, multihop=False, filters=("router",))
    bird = bird_of(one, [peer], pool(), filters=filters.functions(made))
    said = [
        "0.0.0.0/0", "192.0.2.0/24", "192.0.2.128/25", "192.0.2.0/26", "198.51.100.0/24",
        "10.244.3.0/26", "10.244.4.0/26", one.block, "10.244.1.9/32",
    ]  # fmt: skip
    fleet["node1"].write(bird)
    fleet["node1"].start()
    session = stranger.neighbor("node1", one.address, AS_NUMBER, 65001)
    fleet["node2"].config.write_text(stranger.configuration(router, said, session, direct=True))
    before = one.space.routes()
    fleet["node2"].start()
    wait_for("what is accepted", lambda: len(one.space.routes("proto", "bird")) == 4)
    assert one.space.routes("proto", "bird") == [
        "10.244.4.0/26 via 10.10.1.12 dev eth0",
        "192.0.2.0/24 via 10.10.1.12 dev eth0 metric 100",
        "192.0.2.128/25 via 10.10.1.12 dev eth0 metric 100",
        "default via 10.10.1.12 dev eth0 metric 1025",
    ]
    assert [line for line in one.space.routes() if " proto bird" not in line] == before
    assert f"calico: refused {one.block} from {router.address}" in fleet["node1"].log.read_text()
    heard = fleet["node2"].birdc("show", "route", "protocol", "node1", "all").replace("bgp_", "BGP.")
    assert re.findall(r"^(\d+\S+)", heard, re.MULTILINE) == [one.block]
    assert "BGP.community: (65000,7)" in heard
    fleet["node2"].stop()
    # Graceful restart keeps the routes of the stopped peer for a while. Disabling the session removes them at once.
    fleet["node1"].birdc("disable", "Global_1")
    wait_for("all of it is gone", lambda: one.space.routes("proto", "bird") == [])
    assert one.space.routes() == before


@pytest.mark.parametrize("build", EACH_RELEASE, indirect=True)
def test_communities_reach_peers_and_ignored_interfaces_are_no_way(fleet: Fleet, network: Network) -> None:
    """Communities reach peers, and subnets of ignored interfaces are no routes of BIRD; neither resets a session."""
    one, two = network.nodes[:2]
    birds = mesh([one, two], pool())
    fleet.start(birds)
    for node in (one, two):
        wait_for("the other's block", lambda n=node: n.space.routes("proto", "bird"))
    one.space.ip("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up")
    try:
        wait_for("its subnet", lambda: "172.17.0.0/16" in fleet["node1"].birdc("show", "route", "protocol", "direct1"))
        added = (Communities(POOL, ((64512, 100),), ((64512, 1, 7),)),)
        fleet["node1"].configure(communities=added, ignored_interfaces=("docker*",))
        wait_for("communities", lambda: "(64512,100)" in fleet["node2"].birdc("show", "route", one.block, "all"))
        assert "(64512, 1, 7)" in fleet["node2"].birdc("show", "route", one.block, "all")
        wait_for("connected", lambda: "10.10.1.0/24" in fleet["node1"].birdc("show", "route", "protocol", "direct1"))
        assert "172.17.0.0/16" not in fleet["node1"].birdc("show", "route", "protocol", "direct1")
        fleet["node1"].configure(birds["node1"])
        wait_for("no communities", lambda: "(64512,100)" not in fleet["node2"].birdc("show", "route", one.block, "all"))
    finally:
        one.space.ip("link del docker0")
    wait_for("as before", lambda: one.space.routes("proto", "bird") == ["10.244.2.0/26 via 10.10.1.12 dev eth0"])
    for name in ("node1", "node2"):
        assert "Restarting protocol Mesh" not in fleet[name].log.read_text()
