# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a host to keep a change, and the output if it does not."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import new_connection

CUT = [
    "a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22 would be cut by no-ssh#1 (ingress, HostEndpoint e)"
]


class Host:
    """A host that answers after `reachable` seconds; each earlier attempt takes `patience` seconds."""

    def __init__(self, reachable, patience=10.0):
        self.now, self.reachable, self.patience = 100.0, 100.0 + reachable, patience
        self.calls = []

    def reset(self):
        self.calls.append("reset")

    def ask(self):
        self.calls.append("ask")
        if self.now < self.reachable:
            self.now += self.patience
            raise AnsibleConnectionFailure("Failed to connect to the host via ssh: timed out\nmore")
        return {"outcome": "confirmed"}

    def sleep(self, seconds):
        self.now += seconds

    def confirm(self, seconds=60):
        return new_connection.confirm(self.reset, self.ask, seconds, lambda: self.now, self.sleep)


def test_each_attempt_is_a_new_connection():
    host = Host(reachable=20)
    assert host.confirm() == {"outcome": "confirmed"}
    assert host.calls == ["reset", "ask"] * 3


def test_a_host_is_asked_for_a_while_after_the_confirm_timeout():
    assert Host(reachable=65).confirm(60) == {"outcome": "confirmed"}


def test_one_that_never_answers_is_given_up():
    host = Host(reachable=1000)
    assert host.confirm(60) == {"unreachable": True, "msg": "Failed to connect to the host via ssh: timed out"}
    assert 100 + 60 + new_connection.GOING_BACK <= host.now < 100 + 60 + new_connection.GOING_BACK + 12


@pytest.mark.parametrize("outcome", ["confirmed", "replaced", "nothing"])
def test_confirmed_replaced_and_nothing_are_no_problem(outcome):
    assert new_connection.problem("node1", {"outcome": outcome}, 60, CUT) == ""


@pytest.mark.parametrize(
    ("answer", "cut", "text"),
    [
        (
            {"outcome": "went_back"},
            CUT,
            "node1 could not be reached by a new connection within 20 s of the change, and went back by itself to what"
            " it had before. The plan said: a new connection like ssh from 10.10.1.1 to 10.10.1.11 port 22"
            " would be cut by no-ssh#1 (ingress, HostEndpoint e). Correct the inventory, then run again.",
        ),
        (
            {"outcome": "went_back"},
            [],
            "node1 could not be reached by a new connection within 20 s of the change, and went back by itself to what"
            " it had before. Correct the inventory, then run again.",
        ),
        (
            {"unreachable": True, "msg": "timed out"},
            [],
            "node1 did not confirm the change by a new connection (unreachable: timed out). It goes back by itself to"
            " what it had before 20 s after the change. Correct the inventory, then run again.",
        ),
        (
            {"failed": True, "msg": "No space left on device\nmore"},
            [],
            "node1 did not confirm the change by a new connection (No space left on device). It goes back by itself to"
            " what it had before 20 s after the change. Correct the inventory, then run again.",
        ),
        (
            {"outcome": "same_connection"},
            CUT,
            "node1 was asked by the connection that it was changed by, so that nothing is known of new ones. It goes"
            " back to what it had before within 20 s of the change. Have Ansible open a new one for meta:"
            " reset_connection, or give calico_node_confirm_timeout: 0, which confirms nothing.",
        ),
    ],
)
def test_each_unconfirmed_outcome_has_its_message(answer, cut, text):
    assert new_connection.problem("node1", answer, 20, cut) == text
