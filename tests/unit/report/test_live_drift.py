# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a status says that live policy differs from a folder."""

from __future__ import annotations

import shlex

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import live_drift
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.live_drift import LiveDrift

from tests.conftest import ROOT


def test_each_difference_is_counted_and_at_most_16_are_named() -> None:
    sets = tuple(f"GlobalNetworkSet(s{number})" for number in range(18))
    drift = LiveDrift("live", missing=sets, different=("Tier(a)",), extra=("Tier(b)", "Tier(c)"), same=4)
    assert drift.problems == [
        f"live policy differs from the folder live: 18 documents are missing ({', '.join(sets[:16])} and 2 more); "
        "1 document differs (Tier(a)); 2 documents are not in the folder (Tier(b), Tier(c)). See the change with "
        "`ansible-playbook playbooks/live.yml -e folder=live -e prune=true --check --diff`, and make it without "
        "--check."
    ]
    assert drift.lines == []
    assert drift.to_data()["missing"] == {"count": 18, "names": list(sets[:16])}


def test_no_difference_is_a_line() -> None:
    assert LiveDrift("live", same=1).lines == ["live policy is that of the folder live: 1 document"]


def test_what_was_not_compared_is_a_problem() -> None:
    drift = live_drift.of_result({"failed": False, "msg": "it is away."}, "live", "x", "y")
    assert drift.problems == ["live policy was not compared with the folder live: it is away."] and drift.lines == []
    assert drift.to_data()["compared"] is False
    assert live_drift.of_result({}, "live", "x", "y").reason == "its plan is not known"


def test_the_command_has_what_is_not_a_default() -> None:
    """Each option is one word of a shell, and Ansible reads it as it is."""
    command = LiveDrift("my live", "/root/a's.cfg", "ci", different=("Tier(a)",)).command
    words = shlex.split(command)
    given = [words[place + 1] for place, word in enumerate(words) if word == "-e"]
    assert list(map(yaml.safe_load, given[:2])) == [{"folder": "my live"}, {"datastore": "/root/a's.cfg"}]
    assert given[2] == "owner=ci" and words[-2:] == ["--check", "--diff"]


def test_the_defaults_are_those_of_the_playbooks() -> None:
    (live,), (status,) = (
        yaml.safe_load((ROOT / "playbooks" / f"{name}.yml").read_text("utf-8")) for name in ("live", "status")
    )
    assert (live["vars"]["datastore"], live["vars"]["owner"]) == (live_drift.DATASTORE, live_drift.OWNER)
    given = {name: status["vars"][f"live_{name}"] for name in ("datastore", "owner")}
    assert given == {name: live["vars"][name] for name in given}
