# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random worlds of policies and endpoints, and flows in them. About half of the flows match a rule.

    rng = random.Random(seed)
    world = random_world(rng)
    for endpoint in world.local_workloads: flow = random_flow(rng, world, endpoint, "Ingress")

`worlds()` returns a hypothesis strategy for such worlds. There are few labels, networks and usual ports, so that flows
match rules and sets often. Only protocols with ports have ports, and only ICMP has ICMP types.
Not all is valid as a resource: a rule may have networks that do not fit its IP version or each other, and a preDNAT
policy may have egress rules. No flow has the protocol or the port of an encapsulation. ICMP messages have types that
begin a flow.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import selectors
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.explain.evaluator import Evaluator
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.hooks import NORMAL, applies_at
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    EGRESS,
    HOST_ENDPOINT,
    INGRESS,
    PROTOCOL_NUMBERS,
    PROTOCOLS_WITH_PORTS,
    WILDCARD,
    WORKLOAD_ENDPOINT,
    DefinedPort,
    Endpoint,
    Entity,
    Flow,
    Icmp,
    NamedPort,
    Policy,
    PolicyNetworkSet,
    PolicyProfile,
    PolicyRule,
    PolicySet,
    PolicyTier,
    Port,
    Protocol,
    policy_set,
    protocol_number,
)
from hypothesis import strategies as st

T = t.TypeVar("T")

NODE, OTHER_NODE = "node1", "node2"
LABELS = {"role": ("web", "app", "db"), "env": ("prod", "dev"), "zone": ("a", "b")}
PORT_NAMES = ("http", "sql")
PORTS = (53, 80, 443, 8080)
NETS = {
    4: ("10.65.0.0/24", "10.65.0.0/30", "10.65.1.0/24", "10.64.0.0/14", "192.0.2.0/28", "192.0.2.7/32", "0.0.0.0/0"),
    6: ("fd65::/64", "fd65::/126", "fd65:0:0:1::/64", "fd00::/8", "2001:db8::/124", "2001:db8::7/128", "::/0"),
}
#: Addresses that no endpoint has. Network sets may contain them.
STRANGERS = {4: ("192.0.2.1", "192.0.2.7", "198.51.100.9"), 6: ("2001:db8::1", "2001:db8::7", "2001:db8:1::9")}
#: The ICMP types that begin a flow: connection tracking reports their state as NEW.
MESSAGES = {4: (8, 13, 17), 6: (128, 139)}
#: Protocols without a name in rules, and without support in Linux.
PLAIN_PROTOCOLS = (253, 254)
PROTOCOLS: tuple[Protocol, ...] = ("tcp", "udp", "sctp", "icmp", "icmpv6", "udplite", *PLAIN_PROTOCOLS)


#: Random generators for hypothesis, by seed: a world needs more random numbers than hypothesis can draw one by one.
RANDOMS = st.integers(0, 2**32 - 1).map(random.Random)


@dataclasses.dataclass(frozen=True)
class World:
    """A random set of policies, and the endpoints of all nodes. NODE is the node under test.

    `families` are the IP versions of the addresses, and `protocols` those that rules may have.
    """

    policy_set: PolicySet
    endpoints: tuple[Endpoint, ...]
    families: tuple[int, ...] = (4, 6)
    protocols: tuple[Protocol, ...] = PROTOCOLS

    @property
    def local_workloads(self) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.endpoints if one.kind == WORKLOAD_ENDPOINT and one.node == NODE)

    @property
    def local_host_endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(one for one in self.endpoints if one.kind == HOST_ENDPOINT and one.node == NODE)


def worlds(**options: t.Any) -> st.SearchStrategy[World]:
    """Return a hypothesis strategy for random worlds; `options` are those of `random_world`."""
    return RANDOMS.map(lambda rng: random_world(rng, **options))


def random_world(
    rng: random.Random,
    *,
    families: tuple[int, ...] = (4, 6),
    protocols: tuple[Protocol, ...] = PROTOCOLS,
    local: int = 4,
    remote: int = 4,
    policies: int = 8,
    host_endpoints: bool = True,
    staged: bool = True,
) -> World:
    """Return a random world.

    It has 1 to `local` workloads on NODE, up to `remote` workloads on the other node, and up to `policies` policies.
    Addresses and networks are of `families`, and rules have only `protocols`. Without `host_endpoints` it has no
    HostEndpoints and no policy for hosts alone, without `staged` no staged policies. Raise ValueError if `local` is 0.
    """
    makers = _Makers(rng, families, protocols)
    tiers = makers.tiers()
    profiles = [makers.profile(name) for name in ("kns.default", "strict", "kns.prod")]
    chosen = [makers.policy(f"p{index}", tiers, host_endpoints, staged) for index in range(rng.randint(0, policies))]
    network_sets = [makers.network_set(f"set{index}") for index in range(rng.randint(0, 3))]
    endpoints = [makers.workload(index, NODE) for index in range(rng.randint(1, local))]
    endpoints += [makers.workload(100 + index, OTHER_NODE) for index in range(rng.randint(0, remote))]
    if host_endpoints:
        endpoints += makers.host_endpoints()
    return World(policy_set(tiers, chosen, profiles, network_sets), tuple(endpoints), families, protocols)


def random_selector(rng: random.Random) -> str:
    """Return the canonical text of a selector over LABELS."""
    return _Makers(rng, (4,), PROTOCOLS).selector()


class _Makers:
    def __init__(self, rng: random.Random, families: tuple[int, ...], protocols: tuple[Protocol, ...]) -> None:
        self.rng = rng
        self.families = families
        self.protocols = protocols

    def some(self, values: t.Sequence[T], most: int = 3) -> tuple[T, ...]:
        return tuple(self.rng.sample(values, self.rng.randint(1, min(most, len(values)))))

    def chance(self, likelihood: float) -> bool:
        return self.rng.random() < likelihood

    # --- endpoints and network sets

    def labels(self) -> tuple[tuple[str, str], ...]:
        keys = [key for key in LABELS if self.chance(0.6)]
        return tuple(sorted((key, self.rng.choice(LABELS[key])) for key in keys))

    def addresses(self, index: int, net: int) -> tuple[str, ...]:
        by_family = {4: f"10.65.{net}.{index + 1}"}
        by_family[6] = f"fd65::{index + 1:x}" if not net else f"fd65:0:0:{net:x}::{index + 1:x}"
        return tuple(by_family[family] for family in self.families)

    def workload(self, index: int, node: str) -> Endpoint:
        name = f"w{index}"
        return Endpoint(
            kind=WORKLOAD_ENDPOINT,
            name=f"default/{name}",
            node=node,
            interface=f"cali{index:011x}",
            addresses=self.addresses(index % 100, 0 if node == NODE else 1),
            labels=self.labels(),
            profiles=self.profiles(),
            ports=self.ports_of_endpoint(),
            namespace="default",
        )

    def host_endpoints(self) -> list[Endpoint]:
        found = []
        for name, node, interface, net in (
            ("node1-eth0", NODE, "eth0", 2),
            ("node1-any", NODE, WILDCARD, 3),
            ("node2-eth0", OTHER_NODE, "", 4),
        ):
            if self.chance(0.6):
                found.append(
                    Endpoint(
                        kind=HOST_ENDPOINT,
                        name=name,
                        node=node,
                        interface=interface,
                        addresses=self.addresses(0, net),
                        labels=self.labels(),
                        profiles=self.profiles(),
                        ports=self.ports_of_endpoint(),
                    )
                )
        return found

    def profiles(self) -> tuple[str, ...]:
        if self.chance(0.05):
            return ("missing",)
        return tuple(self.rng.sample(("kns.default", "strict", "kns.prod"), self.rng.randint(0, 2)))

    def ports_of_endpoint(self) -> tuple[DefinedPort, ...]:
        if self.chance(0.5):
            return ()
        return tuple(
            DefinedPort(self.rng.choice(PORT_NAMES), self.rng.choice(("tcp", "udp", "sctp")), self.rng.choice(PORTS))
            for _dummy in range(self.rng.randint(1, 3))
        )

    def network_set(self, name: str) -> PolicyNetworkSet:
        return PolicyNetworkSet(
            name, nets=self.some(self.all_nets()), labels=self.labels(), profiles=self.profiles()[:1]
        )

    def all_nets(self) -> list[str]:
        return [net for family in self.families for net in NETS[family]]

    # --- policies

    def tiers(self) -> list[PolicyTier]:
        names = self.rng.sample(("platform", "security", "app"), self.rng.randint(0, 2))
        return [
            PolicyTier(name, self.rng.choice((None, 1.0, 10.0, 2e6)), self.rng.choice(("Deny", "Pass", "Pass")))
            for name in names
        ]

    def policy(self, name: str, tiers: list[PolicyTier], host: bool, staged: bool) -> Policy:
        types = self.rng.choice(((INGRESS,), (EGRESS,), (INGRESS, EGRESS), (INGRESS, EGRESS)))
        special = self.rng.choice(("", "", "", "forward", "preDNAT", "untracked")) if host else ""
        if special == "preDNAT":
            types = (INGRESS,)
        return Policy(
            name=name,
            tier=self.rng.choice([*(tier.name for tier in tiers), "default"]),
            order=self.rng.choice((None, 0.0, 10.0, 10.0, 20.5, -1.0)),
            selector=self.selector() if self.chance(0.6) else "all()",
            types=types,
            ingress=self.rules() if INGRESS in types or self.chance(0.2) else (),
            egress=self.rules() if EGRESS in types or self.chance(0.2) else (),
            do_not_track=special == "untracked",
            pre_dnat=special == "preDNAT",
            apply_on_forward=bool(special),
            staged=staged and self.chance(0.1),
        )

    def profile(self, name: str) -> PolicyProfile:
        strict = name == "strict"
        allow = () if strict else (PolicyRule("Allow"),)
        return PolicyProfile(
            name,
            labels=self.labels(),
            ingress=(*self.rules(2), *allow) if self.chance(0.5) else allow,
            egress=(*self.rules(2), *allow) if self.chance(0.5) else allow,
        )

    def rules(self, most: int = 4) -> tuple[PolicyRule, ...]:
        return tuple(self.rule() for _dummy in range(self.rng.randint(0, most)))

    def rule(self) -> PolicyRule:
        action = self.rng.choice(("Allow", "Allow", "Allow", "Deny", "Deny", "Pass", "Log"))
        protocol = self.rng.choice(self.protocols) if self.chance(0.7) else None
        numbers = {"icmp": 4, "icmpv6": 6}
        family = numbers.get(str(protocol))
        icmp = not_icmp = None
        if family and self.chance(0.6):
            message = Icmp(self.rng.choice(MESSAGES[family]), self.rng.choice((None, None, 0, 1)))
            icmp, not_icmp = (message, None) if self.chance(0.7) else (None, message)
        return PolicyRule(
            action=action,
            ip_version=family if family and self.chance(0.5) else self.ip_version() if not family else None,
            protocol=protocol,
            not_protocol=self.rng.choice(self.protocols) if self.chance(0.1) else None,
            icmp=icmp,
            not_icmp=not_icmp,
            source=self.entity(protocol),
            destination=self.entity(protocol),
        )

    def ip_version(self) -> t.Optional[int]:
        return self.rng.choice(self.families) if self.chance(0.15) else None

    def entity(self, protocol: t.Optional[Protocol]) -> Entity:
        ported = protocol in PROTOCOLS_WITH_PORTS
        return Entity(
            nets=self.some(self.all_nets()) if self.chance(0.2) else (),
            not_nets=self.some(self.all_nets(), 2) if self.chance(0.1) else (),
            selector=self.selector() if self.chance(0.25) else "",
            not_selector=self.selector() if self.chance(0.1) else "",
            ports=self.ports() if ported and self.chance(0.35) else (),
            not_ports=self.ports() if ported and self.chance(0.1) else (),
        )

    def ports(self) -> tuple[Port, ...]:
        found: list[Port] = []
        # 17 ports are more than one multiport condition of iptables can have.
        for _dummy in range(self.rng.choice((1, 1, 2, 3, 17))):
            if self.chance(0.3):
                found.append(NamedPort(self.rng.choice(PORT_NAMES)))
            elif self.chance(0.6):
                port = self.rng.choice(PORTS)
                found.append(PortRange(port, port))
            else:
                first = self.rng.randint(1, 9000)
                found.append(PortRange(first, min(first + self.rng.choice((1, 100, 5000)), 65535)))
        return tuple(dict.fromkeys(found))

    def selector(self) -> str:
        return selectors.parse(self.selector_text(2)).canonical

    def selector_text(self, depth: int) -> str:
        if depth and self.chance(0.35):
            glue = self.rng.choice((" && ", " || "))
            text = glue.join(self.selector_text(depth - 1) for _dummy in range(2))
            return f"!({text})" if self.chance(0.2) else f"({text})"
        key = self.rng.choice(sorted(LABELS))
        value = self.rng.choice(LABELS[key])
        return self.rng.choice(
            (
                f"{key} == '{value}'",
                f"{key} == '{value}'",
                f"{key} != '{value}'",
                f"{key} in {{'{value}', 'other'}}",
                f"{key} not in {{'{value}', 'other'}}",
                f"has({key})",
                f"!has({key})",
                f"{key} starts with '{value[:1]}'",
                f"{key} contains '{value[-1:]}'",
                "all()",
            )
        )


# --- flows ------------------------------------------------------------------------------------------------------------


def random_flow(
    rng: random.Random, world: World, endpoint: Endpoint, direction: str, hook: str = NORMAL
) -> t.Optional[Flow]:
    """Return a flow to ("Ingress") or from ("Egress") one of the endpoint's addresses; None if it has none.

    Three of four flows are made to match a rule of a policy that applies at `hook` or of a profile, if there is one.
    In a third of all flows the protocol, the port or the other address is then chosen anew.
    """
    if not endpoint.addresses:
        return None
    own = rng.choice(endpoint.addresses)
    rules = _rules_at(world, endpoint, direction, hook) if rng.random() < 0.75 else []
    rule = rng.choice(rules) if rules else PolicyRule("Allow")
    if rule.ip_version:
        own = next((one for one in endpoint.addresses if (6 if ":" in one else 4) == rule.ip_version), own)
    family = 6 if ":" in own else 4
    flow = _matching(rng, world, rule, own, family, direction)
    return _spoiled(rng, world, flow, family, direction) if rng.random() < 0.33 else flow


def _rules_at(world: World, endpoint: Endpoint, direction: str, hook: str) -> list[PolicyRule]:
    evaluator = Evaluator(world.policy_set, world.endpoints)
    owners: list[t.Union[Policy, PolicyProfile]] = [
        policy for policy in evaluator.selecting(endpoint) if applies_at(policy, direction, hook, endpoint)
    ]
    owners += [profile for profile in world.policy_set.profiles if profile.name in endpoint.profiles]
    return [rule for owner in owners for rule in owner.rules(direction)]


def _matching(rng: random.Random, world: World, rule: PolicyRule, own: str, family: int, direction: str) -> Flow:
    """Return a random flow that probably matches `rule`: with its protocol, and mostly an address and ports it selects.

    The address is that of the other end; `own` is the endpoint's. ICMP is that of `family` (4 or 6), whichever the rule
    names. Ports may be just beyond a range, or excluded ones. A rule without a protocol gets a random one. `direction`
    is the flow's direction at the endpoint.
    """
    ingress = direction == INGRESS
    entity = rule.source if ingress else rule.destination
    other = _address(rng, world, entity, family)
    source, destination = (other, own) if ingress else (own, other)
    protocol = rule.protocol if rule.protocol is not None else rng.choice(world.protocols)
    number = protocol_number(protocol)
    # Each IP version has its own ICMP protocol.
    if number in (1, 58):
        number = {4: 1, 6: 58}[family]
    return _with_numbers(rng, world, Flow(number, source, destination), rule)


def _with_numbers(rng: random.Random, world: World, flow: Flow, rule: PolicyRule) -> Flow:
    if flow.protocol in (1, 58):
        message = rule.icmp or Icmp()
        kind = message.type if message.type in MESSAGES[flow.ip_version] else rng.choice(MESSAGES[flow.ip_version])
        code = rng.choice((0, 0, 1)) if message.code is None else message.code
        return dataclasses.replace(flow, icmp_type=kind, icmp_code=code)
    if flow.protocol in (6, 17, 132, 136):
        return dataclasses.replace(
            flow,
            source_port=_port(rng, world, rule.source, flow.source),
            destination_port=_port(rng, world, rule.destination, flow.destination),
        )
    return flow


def _port(rng: random.Random, world: World, entity: Entity, address: str) -> int:
    ports = entity.ports or (entity.not_ports if rng.random() < 0.5 else ())
    if not ports:
        return _but_vxlan(rng.choice((*PORTS, rng.randint(1024, 65535))))
    port = rng.choice(ports)
    if isinstance(port, NamedPort):
        numbers = [
            one.port for endpoint in world.endpoints if address in endpoint.addresses for one in endpoint.ports
            if one.name == port.name
        ]  # fmt: skip
        return rng.choice(numbers or PORTS)
    # The ends of the range, the ports just beyond them, or any port in between.
    candidates = (port.first, port.last, max(port.first - 1, 1), min(port.last + 1, 65535))
    return _but_vxlan(rng.choice((*candidates[:2], *candidates, rng.randint(port.first, port.last))))


def _but_vxlan(port: int) -> int:
    """Return the port, or the next one instead of VXLAN's, which workloads may not use whatever policy says."""
    return port + 1 if port == 4789 else port


def _address(rng: random.Random, world: World, entity: Entity, family: int) -> str:
    everybody = [one for endpoint in world.endpoints for one in endpoint.addresses if (":" in one) == (family == 6)]
    strangers = list(STRANGERS[family])
    if entity.selector and rng.random() < 0.9:
        index = Evaluator(world.policy_set, world.endpoints).addresses
        matching = [one for one in (*everybody, *strangers) if index.match(entity.selector, one)]
        return rng.choice(matching or everybody or strangers)
    nets = [net for net in entity.nets if (":" in net) == (family == 6)]
    if nets and rng.random() < 0.9:
        inside = [one for one in (*everybody, *strangers) if any(_holds(net, one) for net in nets)]
        return rng.choice(inside or strangers)
    return rng.choice(rng.choice((everybody or strangers, strangers)))


def _holds(net: str, address: str) -> bool:
    return ipaddress.ip_address(address) in ipaddress.ip_network(net)


def _spoiled(rng: random.Random, world: World, flow: Flow, family: int, direction: str) -> Flow:
    what = rng.choice(("protocol", "port", "address"))
    if what == "address":
        other = _address(rng, world, Entity(), family)
        return dataclasses.replace(flow, **{"source" if direction == INGRESS else "destination": other})
    if what == "port" and flow.destination_port:
        port = _but_vxlan(rng.choice((*PORTS, flow.destination_port % 65535 + 1)))
        return dataclasses.replace(flow, destination_port=port)
    foreign = {4: "icmpv6", 6: "icmp"}[family]
    possible = [one for one in world.protocols if one != foreign]
    number = protocol_number(rng.choice(possible or [PROTOCOL_NUMBERS["tcp"]]))
    return _with_numbers(rng, world, Flow(number, flow.source, flow.destination), PolicyRule("Allow"))
