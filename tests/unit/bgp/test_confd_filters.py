# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters, communities, interfaces and the kernel protocol, compared with the output of Calico's templates.

Intended differences are in DIFFERENCES with their reasons.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from tests.unit.bgp import bird_facts, confd_cases
from tests.unit.bgp.confd_cases import Case
from tests.unit.bgp.test_confd_peers import CASES, FAMILIES

#: Statements that differ from Calico's configurations on purpose, each with the reason.
DIFFERENCES = {
    "functions": "only those that the node's sessions call: a BGPFilter of one rack does not change another's bird.cfg",
    "priority 1024": "a route without local preference has it, as Calico's export filter gives it before it asks; here "
    "the rule asks for either, and own blocks keep BGP's default",
    "kernel: metric": "routes of the pools have none, as the Calico documents show them; what BGPFilters let in beside "
    "them has the priority that they set, else 1025, so that no route of the host's own is replaced",
    "import: accept": "from a peer are taken blocks of the pools, and what a BGPFilter accepts; Calico takes all",
    "import: own blocks": "refused from everybody, before any BGPFilter, and reported; Calico follows a stale peer",
    "import: preference 200": "no route of a peer wins over own ones: live migration, which that is for, is not done",
    "export: pools": "own blocks as a whole are told to peers, not all that lies in a pool: no workload alone, and "
    "nobody becomes a transit; a reflector passes on blocks of the pools",
    "kernel: tunnels": "BIRD writes the routes of each kind of pool by `ifname` and `onlink`; Calico's is a fork for "
    "IPIP, and leaves the rest to Felix",
    "static: blackholes": "own blocks are routes of the kernel (protocol 179), which BIRD learns: blocks come and go "
    "without another bird.cfg",
    "direct": "kube-ipvs* is a device of Kubernetes; tunnels are left out instead, whose addresses lead nowhere",
    "debug": "states of all protocols are logged, by one line; Calico logs each route of each peer",
    "services": "Kubernetes' services have no place here",
}
#: A case whose second step removes the BGPFilter by a command. The documents of the case do not show that.
UNSAID = {"bgpfilter/filter_deletion/step2"}

_PREFIX = re.compile(r"[0-9a-f]*:[0-9a-f:]+/\d+")
_PRIORITY_1024 = "(defined(bgp_local_pref)&&(bgp_local_pref = 2147482623))"


def every() -> t.Iterator[tuple[Case, str, str, t.Mapping[str, t.Any]]]:
    """Yield (case, "ipv4" or "ipv6", our bird.cfg, Calico's facts of that family) for all of CASES but UNSAID.

    CASES has none that cannot be a fleet here.
    """
    for case in CASES:
        if case.name not in UNSAID:
            for family in FAMILIES:
                yield case, family, confd_cases.config(case), case.expected[family]


def canonical(line: str) -> str:
    """Return the line with IPv6 prefixes and blanks as we write them: 5000:0::0/64 becomes 5000::/64.

    Raise ValueError for a prefix with bits set beyond its length.
    """
    return _PREFIX.sub(lambda found: str(ipaddress.ip_network(found.group())), " ".join(line.split()))


def functions(text: str, family: str) -> dict[str, list[str]]:
    found = re.findall(r"^function '(bgp_\S+FilterV(\d))'\([^)]*\)\n\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    wanted = str(FAMILIES[family])
    return {name: [line.strip() for line in body.splitlines()] for name, own, body in found if own == wanted}


def calls(text: str, family: str, session: str, direction: str) -> list[str]:
    """Return the calls of BGPFilters in a session's import or export filter, [] if it has no such filter.

    `family` is "ipv4" or "ipv6"; a session without that channel has no filter. `direction` is "import" or "export".
    Raise KeyError if the bird.cfg `text` has no such session, and ValueError if the filter has no closing line `};`.
    """
    lines = bird_facts.blocks(text)[session].channels.get(family, ())
    if f"{direction} filter {{" not in lines:
        return []
    start = lines.index(f"{direction} filter {{")
    return [line.rstrip(";") for line in lines[start : lines.index("};", start)] if line.startswith("'bgp_")]


def body(text: str, head: str) -> list[str]:
    return text.split(f"\n{head}\n", 1)[1].split("\n}\n", 1)[0].splitlines()


def test_bgp_filters_become_the_same_functions() -> None:
    compared = 0
    for case, family, text, facts in every():
        used = {
            line.split("'")[1]
            for peer in facts["peers"]
            for line in (*peer["import_filter"], *peer["export_filter"])
            if line.startswith("'bgp_")
        }
        expected = {
            name: [
                canonical(line).replace(_PRIORITY_1024, f"(!defined(bgp_local_pref)||{_PRIORITY_1024})")
                for line in lines
            ]
            for name, lines in facts["bgp_filter_functions"].items()
            if name in used
        }
        assert functions(text, family) == expected, (case.name, family)
        compared += len(expected)
    assert compared == 100


def test_sessions_call_them_in_the_same_order_and_with_the_same_answer() -> None:
    compared = 0
    for case, family, text, facts in every():
        for peer in facts["peers"]:
            for direction in ("import", "export"):
                expected = [line.rstrip(";") for line in peer[f"{direction}_filter"] if line.startswith("'bgp_")]
                assert calls(text, family, peer["name"], direction) == expected, (case.name, peer["name"], direction)
                compared += len(expected)
    assert compared == 172


def test_the_same_communities_for_the_same_ranges() -> None:
    """The same ranges get the same communities, although Calico has a daemon for each family."""
    compared = 0
    for case in CASES:
        expected: dict[str, set[str]] = {}
        network = ""
        for line in (*case.expected["ipv4"]["communities"], *case.expected["ipv6"]["communities"]):
            found = re.fullmatch(r"if \( net ~ (\S+) \) then \{", line)
            if found:
                network = canonical(found.group(1))
            elif "add" in line:
                expected.setdefault(network, set()).add(line)
        own = {}
        for line in body(confd_cases.config(case), "function calico_announce()\n{"):
            found = re.fullmatch(r"  if net ~ (\S+) then \{ (.*) \}", line)
            if found:
                own[found.group(1)] = set(re.findall(r"\S+\.add\(.*?\)\);", found.group(2)))
        assert own == expected, case.name
        compared += len(expected)
    assert compared == 4


def test_the_same_interfaces_are_ignored() -> None:
    for case, family, text, facts in every():
        direct = bird_facts.blocks(text).get(f"direct{'1' if family == 'ipv4' else '6'}")
        if direct is None:
            assert (family, confd_cases.bird(case).address6) == ("ipv6", "")
            continue
        own = set(re.findall(r'-"([^"]*)"', " ".join(direct.statements)))
        theirs = set(re.findall(r'-"([^"]*)"', facts["direct_interfaces"]))
        assert own - {"tunl*", "vxlan.calico", "vxlan-v6.calico"} == theirs - {"kube-ipvs*"}, case.name


def test_pools_that_are_not_exported_are_refused_first() -> None:
    compared = 0
    for case, family, text, facts in every():
        if family == "ipv6" and not confd_cases.bird(case).address6:
            continue  # a node without an IPv6 address gets no IPv6 pools
        expected = [
            line.split("net ~ ")[1].split(")")[0] for line in facts["export_filter"] if "BGP export is disabled" in line
        ]
        announce = body(text, "function calico_announce()\n{")
        hidden = [line for line in announce if "export is disabled" in line]
        assert announce[: len(hidden)] == hidden
        own = [line.split()[3] for line in hidden]
        assert [one for one in own if (":" in one) == (family == "ipv6")] == expected, case.name
        compared += len(expected)
    assert compared == 1


def test_pools_go_by_the_same_devices() -> None:
    """Where BIRD writes a pool's routes in Calico, ours use tunl0, and the subnet without a tunnel, as Calico's do."""
    compared = 0
    for case, dummy, text, facts in every():
        program = "\n".join(body(text, "filter calico_kernel_programming {"))
        for line in facts["kernel_filter"]:
            pool = re.match(r"if \(net ~ (\S+)\) then \{ (.*) \}", line)
            if pool is None or "Felix" in line:
                continue
            own = program.split(f"if net ~ {canonical(pool.group(1))} then {{")[1].split("accept;")[0]
            for ours, theirs in (
                ('ifname = "tunl0"; onlink = true;' in own, 'krt_tunnel="tunl0"' in pool.group(2)),
                (_near(own), _near(pool.group(2))),
            ):
                assert ours == theirs, (case.name, line)
            compared += 1
    assert compared == 19


def _near(text: str) -> t.Optional[str]:
    """Return the first IPv4 subnet with which `text` compares the next hop (inside it no tunnel is used), or None."""
    found = re.search(r"bgp_next_hop ~ ([0-9./]+)", text)
    return found.group(1) if found else None


def test_filters_differ_from_calicos_only_as_differences_says() -> None:
    """Our filters refuse, set metrics and accept as DIFFERENCES says, and Calico's import filters accept at the end."""
    for case, family, text, facts in every():
        in_place = ["  calico_keep_in_place();"] if "define calico_pools6" in text else []
        assert body(text, "filter calico_from_peers {") == [
            "  calico_refuse_own();",
            *in_place,
            "  calico_believe();",
            "  reject;",
        ]
        assert "krt_tunnel" not in text
        kernel = body(text, "filter calico_kernel_programming {")
        # Other filters set no metric on IPv4 routes. On IPv6 routes in pools they set the metric that the kernel uses.
        elsewhere = text.replace("\n".join(kernel), "")
        assert re.findall(r".*krt_metric.*", elsewhere) == (
            ["  if net ~ calico_pools6 then krt_metric = calico_metric6;"] if in_place else []
        )
        assert kernel[-3:] == [
            "  krt_metric = 1025;",
            "  if bgp_local_pref > 1000000000 then krt_metric = 2147483647 - bgp_local_pref;",
            "  accept;",
        ]
        assert [line for line in text.splitlines() if "blackhole" in line] == []
        for peer in facts["peers"]:
            lines = bird_facts.blocks(text)[peer["name"]].channels.get(family, ())
            if "import filter {" in lines:
                start = lines.index("import filter {")
                assert lines[start + 1] == "calico_refuse_own();", case.name
                kept = family == "ipv6" and bool(in_place)
                assert (lines[start + 2] == "calico_keep_in_place();") is kept, case.name
                assert lines[lines.index("};", start) - 2 : lines.index("};", start)] == (
                    "calico_believe();",
                    "reject;",
                )
            assert peer["import_filter"][-1] == "accept;", "Calico's default, of which DIFFERENCES speaks"
