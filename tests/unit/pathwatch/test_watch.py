# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of the watch over paths, in a simulated network and against a naive oracle."""

from __future__ import annotations

import dataclasses
import ipaddress
import random
import time
import tracemalloc

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.findings import findings
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.paths import packed
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.payload import Payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch.watch import PathWatch
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import PathStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import ProbePath
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.pathwatch.network import Network, address_of, paths_of

SESSION = bytes(range(8))


@given(st.integers(0, 1 << 32), st.sampled_from([0.0, 0.02, 0.3, 0.7, 1.0]), st.integers(2, 4), st.integers(1, 3))
@example(0, 1.0, 4, 3)
@settings(max_examples=60, deadline=None)
def test_down_and_up_as_the_rule_says(seed: int, share: float, nodes: int, pools: int) -> None:
    """At each second the watch has the paths as down that are down by the rule, whatever share of packets is lost."""
    chance = random.Random(seed)
    until = 1000.0 + chance.randrange(40, 90)
    network = Network(nodes, pools, lambda source, address, now: now < until and chance.random() < share)
    for dummy in range(120):
        network.pass_second()
        for node in range(nodes):
            assert network.down(node) == network.really_down(node)
    assert not any(network.down(node) for node in range(nodes))


@given(st.integers(0, 1 << 32), st.integers(1, 400), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_rate_and_time_of_a_round(seed: int, others: int, pools: int) -> None:
    """At most ten probes a second leave a node, and each path is tried within the time that is stated for its pool."""
    chance = random.Random(seed)
    watch = PathWatch(SESSION)
    watch.update(paths_of(0, others + 1, pools))
    found = findings(watch, 0.0)
    assert sum(watch.round.rates) <= 10.0001
    if others * pools <= 300:
        assert max(pool.seconds for pool in found.pools) <= 30
    last = dict.fromkeys(range(len(watch.table)), 1000.0)
    longest = dict.fromkeys(watch.table.names, 0.0)
    now = 1000.0
    for dummy in range(2 * max(pool.seconds for pool in found.pools) + 10):
        probes = watch.tick(now)
        assert len(probes) <= 10
        for probe in probes:
            pool = watch.table.names[watch.table.pool[probe.path]]
            longest[pool] = max(longest[pool], now - last[probe.path])
            last[probe.path] = now
            watch.answered(probe.address, probe.payload, now, now)
        now += chance.uniform(0.99, 1.01)
    for pool, seconds in ((pool.pool, pool.seconds) for pool in found.pools):
        assert longest[pool] <= seconds + 3, pool


@pytest.mark.parametrize(("others", "pools"), [(49, 6), (1, 1), (12, 2)])
def test_a_broken_path_is_down_within_a_minute(others: int, pools: int) -> None:
    """A path that breaks is down within a minute, and up within a minute of its end, in a mesh of 50 and six pools."""
    broken = address_of(1, 0)
    network = Network(2, 1)
    network.watches[0].update(paths_of(0, others + 1, pools))
    silent = {1: False}
    network.loss = lambda source, address, now: silent[1] and broken in (source, address)
    for dummy in range(40):
        network.pass_second()
    assert network.down(0) == set()
    silent[1] = True
    seconds = 0
    while network.down(0) != {broken}:
        network.pass_second()
        seconds += 1
        assert seconds <= 45
    silent[1] = False
    seconds = 0
    while network.down(0):
        network.pass_second()
        seconds += 1
        assert seconds <= 30


def test_a_node_that_loses_everything_says_so_soon() -> None:
    """If all 294 paths break, more than a hundred are down within a minute and all within five."""
    network = Network(1, 1, lambda source, address, now: now > 1040.0)
    network.watches[0].update(paths_of(0, 50, 6))
    for dummy in range(100):
        network.pass_second()
    assert len(network.down(0)) > 60
    for dummy in range(240):
        network.pass_second()
    assert len(network.down(0)) == 294


@given(st.sampled_from(["there", "back", "both", "none"]), st.integers(0, 30), st.floats(0, 0.4), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_direction_of_a_loss(broken: str, late: int, delay: float, seed: int) -> None:
    """What both ends tell each other says on which way probes are lost, or nothing; a late start makes no error."""
    chance = random.Random(seed)
    one, other = address_of(0, 0), address_of(1, 0)

    def loss(source: str, address: str, now: float) -> bool:
        if now < 1060.0:
            return False
        there = (source, address) == (one, other)
        return broken == "both" or (there and broken == "there") or (not there and broken == "back")

    network = Network(2, 1, loss, delay, [0.0, float(late)])
    for dummy in range(150):
        network.pass_second(chance.uniform(-0.005, 0.005))
    down = [findings(watch, network.now).down for watch in network.watches]
    if broken == "none":
        assert down == [(), ()]
        return
    (first,), (second,) = down
    assert first.loss.reason == second.loss.reason == path_loss.NO_ANSWER
    # An end that hears nothing cannot know. The other one knows, and tells people.
    assert first.loss.direction == {"there": path_loss.THERE, "back": "", "both": ""}[broken]
    assert second.loss.direction == {"there": "", "back": path_loss.THERE, "both": ""}[broken]
    assert (first.heard is not None and first.heard < 30) == (broken == "there")
    assert (second.heard is not None and second.heard < 30) == (broken == "back")
    assert 60 < first.seconds < 95


def test_one_of_thousands_is_tried_again_soon() -> None:
    """A path that is down is tried again each ten seconds or so, however long the round over all paths takes."""
    watch, now, tried = PathWatch(SESSION), 1000.0, list[float]()
    watch.update(paths_of(0, 1000, 6))
    for dummy in range(900):
        for probe in watch.tick(now):
            if probe.path == 0:
                tried.append(now)
            else:
                watch.answered(probe.address, probe.payload, now, now)
        now += 1.0
    assert findings(watch, now).count_down == 1
    assert max(later - earlier for earlier, later in zip(tried[5:], tried[6:])) <= 25


def test_probes_that_the_other_end_heard_lately_show_the_way() -> None:
    """If the other end hears probes to the last, answers are lost. If it stops to hear them, they are lost."""
    watch, now, heard = _one_path(), 100.0, 0

    def directions(seconds: int, hears: bool) -> list[str]:
        nonlocal now, heard
        for dummy in range(seconds):
            for probe in watch.tick(now):
                heard = probe.payload.number if hears else heard
                watch.requested(probe.address, Payload(bytes(8), 1, now, SESSION[:4], heard), now)
            now += 1.0
        return [path.loss.direction for path in findings(watch, now).down]

    assert directions(30, True) == [path_loss.BACK]
    assert directions(30, False) == [path_loss.THERE]
    assert directions(10, True) == [path_loss.BACK]
    watch.requested(packed("10.0.0.2"), Payload(bytes(8), 2, now, b"xxxx", 99), now)
    assert [path.loss.direction for path in findings(watch, now).down] == [path_loss.THERE]


@given(st.permutations(["there", "back", "both"]), st.integers(0, 20), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_direction_follows_a_cause_that_changes(order: list[str], extra: int, seed: int) -> None:
    """If a path stays down and its packets are lost on another way, both ends say so within 45 seconds."""
    chance = random.Random(seed)
    one, other = address_of(0, 0), address_of(1, 0)
    broken = ""

    def loss(source: str, address: str, now: float) -> bool:
        return broken == "both" or broken == ("there" if (source, address) == (one, other) else "back")

    network = Network(2, 1, loss)
    for broken in ("", *order):
        for dummy in range(45 + extra):
            network.pass_second(chance.uniform(-0.005, 0.005))
        if broken:
            (first,), (second,) = (findings(watch, network.now).down for watch in network.watches)
            assert first.loss.direction == {"there": path_loss.THERE}.get(broken, "")
            assert second.loss.direction == {"back": path_loss.THERE}.get(broken, "")


def test_answers_alone_that_are_lost() -> None:
    """If requests pass in both directions and answers do not, the loss is on the way back."""
    network = Network(2)
    for dummy in range(20):
        network.pass_second()
    for dummy in range(30):
        network.now += 1.0
        for node, watch in enumerate(network.watches):
            for probe in watch.tick(network.now):
                network.watches[1 - node].requested(packed(probe.source), probe.payload, network.now)
    (down,) = findings(network.watches[0], network.now).down
    assert down.loss.direction == path_loss.BACK


def test_an_error_shows_the_way_of_a_loss_that_began_otherwise() -> None:
    """If answers were lost first, and a router now reports errors about probes, the loss is on the way there."""
    watch, now = _one_path(), 100.0
    first = 0
    for dummy in range(30):
        for probe in watch.tick(now):
            first = first or probe.payload.number
            watch.requested(probe.address, Payload(bytes(8), 1, now, SESSION[:4], first), now)
            if now > 115.0:
                watch.error(probe.address, probe.payload.number & 0xFFFF, path_loss.TOO_LARGE, "10.9.9.9")
        now += 1.0
    (down,) = findings(watch, now).down
    assert down.loss == path_loss.PathLoss(path_loss.TOO_LARGE, "10.9.9.9", path_loss.THERE)


def test_a_node_whose_session_is_gone_is_one_line() -> None:
    """A node without a session whose paths are all silent is named once. Another node's path is named for itself."""
    gone = {address_of(1, pool) for pool in range(2)}
    dead = {*gone, address_of(2, 0)}
    network = Network(4, 2, lambda source, address, now: now > 1030 and (source in dead or address in dead))
    for dummy in range(120):
        network.pass_second()
    watch = network.watches[0]
    found = findings(watch, network.now, absent={"node1", "node2", "node3"})
    assert (found.nodes, found.count_nodes) == (("node1",), 1)
    assert [(path.pool, path.node) for path in found.down] == [("pool0", "node2")]
    assert [(pool.up, pool.down, pool.absent) for pool in found.pools] == [(1, 1, 1), (2, 0, 1)]
    assert len(findings(watch, network.now).down) == 3


def test_named_paths_are_of_each_pool() -> None:
    """Where not all paths can be named, the first ones of each pool are."""
    network = Network(1, 1, lambda source, address, now: True)
    network.watches[0].update(paths_of(0, 6, 3))
    for dummy in range(90):
        network.pass_second()
    found = findings(network.watches[0], network.now, most=4)
    assert [path.pool for path in found.down] == ["pool0", "pool1", "pool2", "pool0"]
    assert found.count_down == 15


def _one_path(size: int = 1480) -> PathWatch:
    watch = PathWatch(SESSION)
    watch.update([ProbePath("web", "node2", "10.0.0.1", "10.0.0.2", size)])
    return watch


def test_reasons_of_a_loss() -> None:
    """An error explains a loss as long as it is repeated; one about another probe, or from too long ago, does not."""
    watch, now = _one_path(), 100.0
    for dummy in range(20):
        for probe in watch.tick(now):
            watch.error(probe.address, probe.payload.number & 0xFFFF, path_loss.TOO_LARGE, "10.9.9.9")
        now += 1.0
    (down,) = findings(watch, now).down
    assert str(down.loss) == "too large for the path, says 10.9.9.9 (lost on the way there)"
    watch.error(packed("10.0.0.2"), 999, path_loss.REFUSED, "10.6.6.6")
    assert findings(watch, now).down[0].loss.reason == path_loss.TOO_LARGE
    for dummy in range(90):
        watch.tick(now)
        now += 1.0
    assert findings(watch, now).down[0].loss == path_loss.PathLoss(path_loss.NO_ANSWER)


def test_forged_answers_count_nothing() -> None:
    """An answer with another session, from another address, or to a probe that was not sent is ignored."""
    watch, now = _one_path(), 100.0
    for dummy in range(12):
        for probe in watch.tick(now):
            content = probe.payload
            watch.answered(packed("10.0.0.3"), content, now, now)
            watch.answered(probe.address, content._replace(session=bytes(8)), now, now)
            watch.answered(probe.address, content._replace(number=content.number + 1), now, now)
            watch.answered(probe.address, content._replace(number=0), now, now)
        now += 1.0
    assert findings(watch, now).count_down == 1
    assert sum(watch.round_trips["web"].counts) == 0


def test_repeated_answers_count_once() -> None:
    """The same answer twice does not make two answers in a row."""
    watch, now = _one_path(), 100.0
    for dummy in range(10):
        watch.tick(now)
        now += 1.0
    assert findings(watch, now).count_down == 1
    while not (probes := watch.tick(now)):
        now += 1.0
    for dummy in range(3):
        watch.answered(probes[0].address, probes[0].payload, now, now)
    assert findings(watch, now).count_down == 1


def test_late_answers_are_answers() -> None:
    """A path whose answers take two seconds is slow, not down."""
    watch, now = _one_path(), 100.0
    waiting: list[tuple[float, bytes, Payload]] = []
    for dummy in range(60):
        for sent, sender, content in waiting:
            if sent <= now - 2.0:
                watch.answered(sender, content, now, now)
        waiting += [(now, probe.address, probe.payload) for probe in watch.tick(now)]
        assert findings(watch, now).count_down == 0
        now += 1.0


def test_dropped_answers_are_no_losses() -> None:
    """Answers that were dropped on this node before they could be read make no path suspected."""
    watch, now = _one_path(), 100.0
    for dummy in range(60):
        watch.tick(now)
        watch.forgive()
        now += 1.0
    assert findings(watch, now).pools[0].untested == 1


def test_changed_paths_keep_what_is_known() -> None:
    """A path that stays keeps its state when others come and go, also with another size; a new source begins anew."""
    network = Network(3, 1, lambda source, address, now: address == address_of(1, 0))
    for dummy in range(60):
        network.pass_second()
    watch = network.watches[0]
    before = findings(watch, network.now).down
    watch.update([dataclasses.replace(path, size=1200) for path in paths_of(0, 5, 2)])
    (after,) = findings(watch, network.now).down
    assert after == dataclasses.replace(before[0], size=1200)
    assert findings(watch, network.now).pools[0].untested == 2
    network.pass_second()
    watch.update([dataclasses.replace(path, source="10.0.0.77") for path in paths_of(0, 3)])
    assert findings(watch, network.now).pools[0].untested == 2
    watch.update([])
    assert findings(watch, network.now) == PathStatus(watched=True)
    assert watch.tick(network.now + 1) == []


def test_memory_of_six_thousand_paths_that_are_down() -> None:
    """A thousand nodes with six paths each take at most 2 MiB, also if all paths are down for a reason."""
    paths = [
        ProbePath(
            f"pool{pool}",
            f"node{other}",
            "10.0.0.1",
            str(ipaddress.ip_address((0x2001 << 112) + (pool << 64) + other)),
            1480,
        )
        for pool in range(6)
        for other in range(1000)
    ]
    tracemalloc.start()
    try:
        watch = PathWatch(SESSION)
        watch.update(paths)
        for path in range(6000):
            for dummy in range(5):
                watch.table.number[path] += 1
                watch.table.sent_at[path] = 100.0
                watch._lose(path, 110.0)
            watch.error(watch.table.addresses[path], 5, path_loss.UNREACHABLE, f"10.9.{path >> 8}.{path & 255}")
        assert findings(watch, 120.0).count_down == 6000
        for second in range(100):
            watch.tick(120.0 + second)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept <= 2 << 20
    assert peak <= 3 << 20


def test_cost_of_a_second() -> None:
    """A second of the watch over 300 paths, with all answers, takes less than 1 % of a processor."""
    watch, now = PathWatch(SESSION), 1000.0
    watch.update(paths_of(0, 51, 6))
    began = time.process_time()
    for dummy in range(200):
        for probe in watch.tick(now):
            content = payload.decode(payload.encode(probe.payload))
            assert content is not None
            watch.answered(probe.address, content, now, now)
            watch.requested(probe.address, content, now)
        now += 1.0
    assert (time.process_time() - began) / 200 < 0.01
