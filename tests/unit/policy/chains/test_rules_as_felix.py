# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our rules and Felix's (tests/unit/cases/iptables_rules.json) have the same effect on packets.

Cases in which Felix is known to be wrong are left out: see `is_wrong`.
"""

from __future__ import annotations

import json
import pathlib
import random
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.policy_chains import (
    RuleWriter,
    marking_chains,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.marks import marks
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.rules.rule import (
    IptablesRule,
    jump,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.tables import HookRule, Table, Tables
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (
    INGRESS,
    PROTOCOL_NAMES,
    PROTOCOL_NUMBERS,
    Entity,
    Icmp,
    NamedPort,
    NamedPortKey,
    Policy,
    PolicyRule,
    Protocol,
    protocol_number,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.sets import ip_sets

from tests.unit.policy.chains.simulated_netfilter import Netfilter, Packet

CASES = json.loads((pathlib.Path(__file__).parents[2] / "cases" / "iptables_rules.json").read_text("utf-8"))["rules"]
ACTIONS = {"deny": "Deny", "pass": "Pass", "next-tier": "Pass", "log": "Log"}
ADDRESSES = {
    4: ("10.0.0.9", "10.1.2.3", "10.1.0.5", "10.1.1.5", "10.2.0.5", "10.2.1.4", "10.3.0.4", "10.3.1.4", "10.4.0.1",
        "10.4.1.1", "172.16.3.3", "192.168.4.4", "198.51.100.8"),
    6: ("2001:db8::1", "fd00::5", "2001:db9::1", "fe80::1"),
}  # fmt: skip
SETS = [f"s:set{number}" for number in range(10)]
NAMED_PORTS = [f"n:set{number}" for number in range(10)]
#: Words in Felix's rules, and those that simulated_netfilter knows for them.
WORDS = (
    ("-A test ", ""),
    ("--jump", "-j"),
    ("--source-ports", "--sports"),
    ("--destination-ports", "--dports"),
    ("--source", "-s"),
    ("--destination", "-d"),
    ("--set-mark", "--set-xmark"),
    ("-p icmpv6", "-p 58"),
    ("-p icmp ", "-p 1 "),
    ("-p udplite", "-p 136"),
    ("-p sctp", "-p 132"),
    ('-j LOG --log-prefix "calico-packet: " --log-level 5', "-j NFLOG --nflog-prefix log:"),
)
MARKS = marks()


def as_ours(text: str) -> str:
    """Return a rule of Felix with the words that rules of ours have in their place."""
    for theirs, ours in WORDS:
        text = text.replace(theirs, ours)
    return text


def is_wrong(case: t.Mapping[str, t.Any], family: int) -> bool:
    """Return whether Felix's result is known to be wrong, refused by iptables-restore, or of a rule that cannot be.

    For a negated list of networks that are all of the other IP version, Felix leaves out the whole rule. So it allows
    packets that a Deny rule should deny. If a rule with the ICMP protocol of the other IP version also has a type,
    negated or not, Felix writes the type in a form that iptables-restore refuses. Without a type it is not refused.
    Felix joins a selector and a notSelector of one side before it writes rules, so that there is no rule with both.
    """
    rule = case["rule"]
    if any(rule.get(f"{side}_ip_set_ids") and rule.get(f"not_{side}_ip_set_ids") for side in ("src", "dst")):
        return True
    lists = [rule.get(f"not_{side}_net", []) for side in ("src", "dst")]
    if any(nets and not any(ip_sets.is_of(family, net) for net in nets) for nets in lists):
        return True
    wrong_icmp = {4: ("icmpv6", 58), 6: ("icmp", 1)}[family]
    return bool({"icmp", "not_icmp"} & set(rule)) and rule.get("protocol") in wrong_icmp


def rule_of(felix: t.Mapping[str, t.Any]) -> PolicyRule:
    def protocol(field: str) -> t.Optional[Protocol]:
        given = felix.get(field)
        if isinstance(given, int):
            return PROTOCOL_NAMES.get(given, given)
        return given if given in PROTOCOL_NUMBERS else None

    def ports(field: str) -> tuple[t.Union[PortRange, NamedPort], ...]:
        numbers = [PortRange(one["first"], one["last"]) for one in felix.get(f"{field}_ports", ())]
        return (*numbers, *(NamedPort(name) for name in felix.get(f"{field}_named_port_ip_set_ids", ())))

    def entity(side: str) -> Entity:
        return Entity(
            nets=tuple(felix.get(f"{side}_net", ())),
            not_nets=tuple(felix.get(f"not_{side}_net", ())),
            selector=next(iter(felix.get(f"{side}_ip_set_ids", ())), ""),
            not_selector=next(iter(felix.get(f"not_{side}_ip_set_ids", ())), ""),
            ports=ports(side),
            not_ports=ports(f"not_{side}"),
        )

    return PolicyRule(
        ACTIONS.get(felix.get("action", ""), "Allow"),
        felix.get("ip_version"),
        protocol("protocol"),
        protocol("not_protocol"),
        Icmp(*felix["icmp"]) if "icmp" in felix else None,
        Icmp(*felix["not_icmp"]) if "not_icmp" in felix else None,
        entity("src"),
        entity("dst"),
    )


def sets(rng: random.Random, rule: PolicyRule, family: int) -> t.Iterator[ip_sets.PolicyIpSet]:
    """Yield the sets to which a rule can refer, with random members, each by Felix's name and by ours."""
    protocol = str(rule.protocol or "tcp")
    for name in SETS:
        members = rng.sample(ADDRESSES[family], 4)
        for called in (ip_sets.name_of(family, name), ip_sets.selector_set(name, family)):
            yield ip_sets.addresses(called, family, members)
    for name in NAMED_PORTS:
        pairs = [(rng.choice(ADDRESSES[family]), rng.choice((80, 443))) for _dummy in range(6)]
        keys = [NamedPortKey(name, protocol, selector) for selector in ("", *SETS)]
        for called in (ip_sets.name_of(family, name), *(ip_sets.named_port_set(key, family) for key in keys)):
            yield ip_sets.addresses_and_ports(called, family, (protocol, pairs))


def packet(rng: random.Random, rule: PolicyRule, family: int) -> Packet:
    known = None if rule.protocol is None else protocol_number(rule.protocol)
    number = known if known and rng.random() < 0.9 else rng.choice((6, 17, 132, 253, 1 if family == 4 else 58))
    found = Packet(number, rng.choice(ADDRESSES[family]), rng.choice(ADDRESSES[family]))
    if number in (6, 17, 132, 136):
        found.source_port, found.destination_port = (port(rng, one) for one in (rule.source, rule.destination))
    if number in (1, 58):
        message = rule.icmp or rule.not_icmp or Icmp()
        found.icmp_type = rng.choice((0, 8, message.type or 0))
        found.icmp_code = rng.choice((0, 1, message.code or 0))
    return found


def port(rng: random.Random, entity: Entity) -> int:
    ranges = [one for one in (*entity.ports, *entity.not_ports) if isinstance(one, PortRange)]
    ends = [end for one in ranges for end in (one.first, one.last, one.last + 1, max(one.first - 1, 0))]
    return rng.choice((80, 443, 5, *ends))


def effect(
    rules: tuple[str, ...], family: int, ipsets: t.Iterable[ip_sets.PolicyIpSet], given: list[Packet]
) -> list[t.Any]:
    hook = HookRule("FORWARD", IptablesRule((), jump("cali-rule")))
    marking = {name: tuple(rule.render() for rule in rules) for name, rules in marking_chains(MARKS).items()}
    table = Table("filter", {"cali-rule": rules, **marking}, (hook,))
    kernel = Netfilter(Tables(family, {"filter": table}, ()), ipsets)
    found = []
    for one in given:
        verdict = kernel._chain(("filter", "FORWARD"), one)
        found.append((verdict, one.mark & (MARKS.accept | MARKS.passed), any(text[:4] == "log:" for text in one.log)))
    return found


@pytest.mark.parametrize("family", [4, 6])
def test_the_effect_is_that_of_felix(family: int) -> None:
    matched = 0
    for number, case in enumerate(CASES):
        if is_wrong(case, family):
            continue
        rng = random.Random(number)
        rule = rule_of(case["rule"])
        written = RuleWriter(ChainSettings(), MARKS, family, "filter").policy(Policy("p", ingress=(rule,)), INGRESS)
        ipsets = [*sets(rng, rule, family), *written.sets]
        seed = rng.random()
        packets = [[packet(again, rule, family) for _dummy in range(12)] for again in map(random.Random, (seed, seed))]
        theirs = effect(tuple(map(as_ours, case[f"v{family}"])), family, ipsets, packets[0])
        ours = effect(written.rules, family, ipsets, packets[1])
        assert ours == theirs, (case, written.rules)
        matched += sum(one != ("", 0, False) for one in ours)
    assert matched > 300
