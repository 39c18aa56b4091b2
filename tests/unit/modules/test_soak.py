# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the soak: it probes only what has all sessions and routes, and then ends the watch."""

from __future__ import annotations

import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes import probe
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import convergence, probing, watch
from ansible_collections.baremetal.host_routing.plugins.modules import soak

from tests.unit.modules.test_convergence_info import STATE

CONVERGED = convergence.Convergence(2, 2, 3, 3, ())
MISSING = convergence.Convergence(2, 1, 3, 3, ("session with node2 (10.10.1.12) is Active",))
TARGETS = [{"name": "node2", "address": "10.244.7.1", "size": 1450}]
ASKED = {"state": STATE.to_dict(), "targets": TARGETS, "seconds": 3, "timeout": 0}


class Probed:
    """The sizes in bytes that the module probed, and whether it collected the watch.

    Each target loses one probe. A probe raises `error` if it is set.
    """

    def __init__(self, monkeypatch):
        self.sizes, self.collected, self.error = [], False, None
        monkeypatch.setattr(convergence, "observe", lambda *dummy: CONVERGED)
        monkeypatch.setattr(probing, "probe", self.probe)
        monkeypatch.setattr(watch, "running", lambda: 812)
        monkeypatch.setattr(watch, "collect", self.collect)
        monkeypatch.setattr(time, "sleep", lambda dummy: None)

    def probe(self, targets, count, *dummy):
        if self.error:
            raise self.error
        self.sizes += [target.size for target in targets]
        return [probing.ProbeResult(t.name, t.address, t.size, count, count - 1, 0.1, 0.2, 0.0, "") for t in targets]

    def collect(self, process):
        self.collected = True
        entry = {"name": "node2", "address": "10.244.7.1", "sent": 40, "received": 39, "lost": 1}
        found = {**entry, "longest_gap": 50.0, "silent": 0.0, "reason": "no answer", "by": ""}
        return {
            "state": "stopped", "seconds": 9.0, "interval": 50.0, "resolution": 51.0, "lost_by_second": [[3, 1]],
            "targets": [found],
        }  # fmt: skip


@pytest.fixture
def probed(monkeypatch):
    return Probed(monkeypatch)


def test_a_host_with_all_sessions_and_routes_is_probed_and_its_watch_collected(host, probed):
    answer = host.run(soak, **ASKED)
    assert answer["converged"]
    assert answer["sessions"] == {"expected": 2, "established": 2, "external_established": 0}
    assert answer["routes"] == {"expected": 3, "present": 3}
    assert probed.sizes == [1450] and probed.collected
    assert answer["watch"]["complete"] is True and answer["watch"]["lost_by_second"] == [[3, 1]]
    assert (answer["sent"], answer["lost"]) == (3 + 40, 1 + 1)
    assert answer["targets"][0]["longest_gap"] == 50.0


def test_a_host_that_lacks_a_session_fails_and_its_watch_goes_on(host, probed, monkeypatch):
    monkeypatch.setattr(convergence, "observe", lambda *dummy: MISSING)
    answer = host.run(soak, **ASKED)
    assert answer["failed"] is True
    assert answer["msg"] == (
        "not converged after 0 s: session with node2 (10.10.1.12) is Active. "
        "See `birdc -s /run/calico/bird.ctl show protocols all` there."
    )
    assert answer["missing"] == list(MISSING.missing)
    assert probed.sizes == [] and not probed.collected


def test_without_targets_sessions_and_routes_alone_are_waited_for(host, probed):
    answer = host.run(soak, **{**ASKED, "targets": []})
    assert (answer["converged"], answer["targets"], answer["sent"]) == (True, [], 0)
    assert "watch" not in answer and not probed.collected


def test_check_mode_leaves_the_watch_alone(host, probed):
    answer = host.run(soak, check=True, **ASKED)
    assert answer["converged"] is True
    assert probed.sizes == [] and not probed.collected


def test_a_host_that_cannot_probe_fails(host, probed):
    probed.error = probing.ProbeError("no socket. Run as root.")
    answer = host.run(soak, **ASKED)
    assert (answer["failed"], answer["msg"]) == (True, "no socket. Run as root.")


@pytest.mark.parametrize(("lost", "dead"), [(0, False), (9, False), (10, True)])
def test_a_path_whose_last_probes_are_all_lost_is_dead(lost, dead):
    """The watch had answers before routes were replaced."""
    sent = {"sent": 10, "received": 10 - lost, "lost": lost, "longest_gap": 0.0, "reason": "", "by": ""}
    watched = {"sent": 400, "received": 380, "lost": 20, "longest_gap": 50.0, "silent": 0.0, "reason": "", "by": ""}
    for found in (probe.together(sent, watched), probe.together(sent, None)):
        assert found["dead"] is dead
