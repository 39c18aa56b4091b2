# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A shop of three tiers on four hosts: exactly what its policy allows passes, as `calicoctl policy explain` says, while
policy, labels, the pool's mode and the agents themselves change under streams of which no packet may be lost, and
others of which none may get through.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence

import pytest

from tests.lab import Lab
from tests.lab.handle import BaseLab
from tests.lab.reach import Attempt, attempt, serving
from tests.lab.streams import Report, Stream, Streams

from . import three_tiers
from .conftest import LAB, Fleet, Run
from .three_tiers import PORTS, Member, Shop

NODES = ("node1", "node2", "node3", "node4")
#: A little more than is asserted: a busy machine drops ticks.
PPS = 600
NAME = f"{LAB}-policy"
#: Answers for a list of command lines in one process, since a Python of its own for each would take minutes.
EXPLAIN = """
import contextlib, io, json, os, sys
sys.path.insert(0, os.path.realpath("/usr/local/lib/calico/current"))
from host_routing.cli.command import main
found = []
for words in json.load(sys.stdin):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main(["policy", "explain", *words])
    found.append([status, said.getvalue()])
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    lab = Lab(NAME, machine="native")
    lab.down()
    lab.up()
    yield lab
    lab.down()


@pytest.fixture(scope="module")
def fleet(lab: BaseLab) -> Fleet:
    return Fleet(lab)


@pytest.fixture(scope="module")
def shop(lab: BaseLab, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Converged without policy; what is in force later is for the tests to say."""
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.variables["policy_enabled"] = False
    fleet.site(inventory=shop.write()).check()
    del shop.variables["policy_enabled"]
    three_tiers.routed_outside(lab)
    return shop


@pytest.fixture(scope="module")
def found(lab: BaseLab, shop: Shop) -> list[Member]:
    """The inventory's workloads, and some that came afterwards."""
    return [
        *three_tiers.members(lab, shop.workloads),
        three_tiers.attach(lab, "node2", "late-web", "web"),
        three_tiers.attach(lab, "node3", "late-app", "app"),
        three_tiers.attach(lab, "node1", "late-client", "client"),
    ]


def by_name(found: Sequence[Member]) -> dict[str, Member]:
    return {member.name: member for member in found}


def explained(lab: BaseLab, asked: dict[Attempt, tuple[Member, Member]]) -> dict[Attempt, dict[str, tuple[int, str]]]:
    """{attempt: {node: (exit status, what it says)}}, by the nodes of both ends: each of them has to let it pass."""
    answers: dict[Attempt, dict[str, tuple[int, str]]] = {one: {} for one in asked}
    for node in NODES:
        here = [one for one, ends in asked.items() if node in (ends[0].node, ends[1].node)]
        words = [
            ["--from", one.source.address, "--to", one.target.address, "--port", f"{one.port}/{one.protocol}"]
            for one in here
        ]
        done = lab.exec(node, ["python3", "-c", EXPLAIN], input=json.dumps(words), timeout=180)
        for one, (status, said) in zip(here, json.loads(done.stdout)):
            answers[one][node] = (status, said)
    return answers


def hold_matrix(lab: BaseLab, found: Sequence[Member], protocols: Sequence[str] = ("tcp", "udp")) -> None:
    """What comes through is what is to come through, and what the nodes say does."""
    asked = three_tiers.matrix(found, protocols)
    expected = {one for one, (source, target) in asked.items() if three_tiers.allowed(source, target, one.port)}
    with serving(lab, [member.place for member in found], PORTS):
        came = attempt(lab, list(asked), expected)
    assert sorted(map(str, came - expected)) == [], "came through and must not"
    assert sorted(map(str, expected - came)) == [], "must come through and did not"
    answers = explained(lab, {one: ends for one, ends in asked.items() if one.protocol == "tcp"})
    wrong = [
        f"{one}: {found}"
        for one, found in answers.items()
        if (one in came) != all(status == 0 for status, _said in found.values())
        or not {status for status, _said in found.values()} <= {0, 1}
    ]
    assert wrong == [], f"{len(wrong)} of {len(answers)} are explained otherwise than they are"


def streams_between(found: Sequence[Member], wanted: Sequence[tuple[str, str, int]]) -> list[Stream]:
    """UDP from each first one to the port of each second one, small and full-size in turn."""
    names = by_name(found)
    ends = [(names[source].place, names[target].place, port) for source, target, port in wanted]
    return [
        Stream(one.where, one.netns, other.where, other.netns, other.address, size, PPS, port)
        for (one, other, port), size in zip(ends, itertools.cycle((64, "full")))
    ]


def hold(report: Report, allowed: Sequence[Stream], forbidden: Sequence[Stream]) -> None:
    """All of `allowed` arrived, nothing of `forbidden` did."""
    results = {result.stream: result for result in report.streams}
    assert not report.silent_hosts, report.summary()
    assert {str(one): results[one].received for one in forbidden if results[one].received} == {}
    lost = sum(results[one].lost for one in allowed) - report.buffer_drops
    assert lost == 0, report.summary()
    assert min(result.rate for result in results.values()) >= 500, report.summary()


def policy_lines(run: Run) -> set[str]:
    """What a plan says of policy, by any node, without what its lines say behind the subject."""
    return set(re.findall(r"^  ([+~-]) policy   ((?:\S+ )*\S+)(?:  |$)", run.output, re.MULTILINE))


def unchanged(fleet: Fleet, path: str) -> None:
    recap = fleet.site(inventory=path).check().recap()
    assert {host: entry["changed"] for host, entry in recap.items()} == dict.fromkeys(NODES, 0)


ALLOWED = (
    *(("client-1", "web-1", 80), ("client-1", "web-2", 80), ("guest-1", "web-2", 80)),
    *((web, app, 8080) for web in ("web-1", "web-2") for app in ("app-1", "app-2")),
    *((app, db, 5432) for app in ("app-1", "app-2") for db in ("db-1", "db-2")),
)


def test_the_plan_names_each_policy_and_the_run_loses_nothing(lab: BaseLab, fleet: Fleet, shop: Shop) -> None:
    """Policy comes to a fleet that had none: packets that it allows go on."""
    path = shop.write()
    planned = fleet.site("--check", "--diff", inventory=path).check()
    assert policy_lines(planned) == {
        ("+", "tier security"),
        ("+", "security.guests"),
        ("+", "default/app"),
        ("+", "default/db"),
        ("+", "default/web"),
        ("+", "network set pools"),
        ("+", "workloads of this node"),
        ("+", "endpoints of other nodes"),
        ("+", "settings"),
    }
    assert "+ingress  Allow tcp to ports 80, 443" in planned.output
    assert lab.exec("node1", ["iptables-save"]).stdout.count("app") == 0
    streams = streams_between(three_tiers.members(lab, shop.workloads), ALLOWED)
    with Streams(lab, streams) as running:
        run = fleet.site(inventory=path).check()
        report = running.stop()
    assert {host: entry["changed"] for host, entry in run.recap().items()} == dict.fromkeys(NODES, 1)
    hold(report, streams, [])
    unchanged(fleet, path)


def test_exactly_what_is_allowed_passes(lab: BaseLab, shop: Shop, found: list[Member]) -> None:
    hold_matrix(lab, found)
