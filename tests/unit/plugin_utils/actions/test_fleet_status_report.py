# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports of fleet_status: from answers, from heartbeats, of an inventory with an error, with a torn record."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re

import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import switch_record

from tests.unit.plugin_utils import controller
from tests.unit.plugin_utils.controller import Run
from tests.unit.plugin_utils.report import simulated

NAMES = ("node1", "node2", "node3", "node4")


def inventory(folder: pathlib.Path, address: str = "10.10.0") -> str:
    folder.mkdir()
    hosts = {
        name: {
            "calico_node_address": f"{address}.{11 + index}/24",
            "calico_node_labels": {"rack": "01" if index < 2 else "02"},
        }
        for index, name in enumerate(NAMES)
    }
    variables = {"calico_ip_pools": [{"name": "default-ipv4-ippool", "cidr": "10.244.0.0/14", "vxlanMode": "Always"}]}
    (folder / "hosts.yml").write_text(yaml.safe_dump({"calico_nodes": {"hosts": hosts, "vars": variables}}))
    return str(folder / "hosts.yml")


def test_each_report_is_written_and_named_after_the_table(tmp_path: pathlib.Path) -> None:
    """A report is named below the table. It names how old heartbeats are, and what is left out of it and why."""
    fleet = simulated.fleet(4, 2)
    answers = simulated.status(fleet, {("node1", "node3")})
    beats = {name: dataclasses.asdict(beat) for name, beat in simulated.heartbeats(fleet, 1e9).items()}
    good, bad, torn = (inventory(tmp_path / name) for name in ("good", "bad", "torn"))
    (tmp_path / "bad" / "hosts.yml").write_text(
        (tmp_path / "bad" / "hosts.yml").read_text().replace("10.10.0.12/24", "10.10.0.11/24")
    )
    loss = simulated.switch_of(fleet, {("node1", "node3"): 9}).loss
    assert loss is not None
    switch_record.write(str(tmp_path / "good" / "x"), loss)
    (tmp_path / "torn" / switch_record.NAME).write_text("{")

    def run(hosts_file: str, report: str, known: object = None) -> Run:
        args = {"status": "seen", "datastore": "known", "report": str(tmp_path / report)}
        registered = {name: {"seen": answers[name], "known": known or {"skipped": True}} for name in NAMES}
        return Run("fleet_status", args, hosts_file, registered)

    datastore = {"reachable": True, "reason": "", "nodes": beats, "refused": {"node4": "it is torn"}, "version": "3.5"}
    printed, results = controller.printed(
        [
            run(good, "nodes.html"),
            run(good, "heartbeats.html", datastore),
            run(bad, "bad.html"),
            run(torn, "torn.html"),
            run(good, "none/report.html"),
        ]
    )
    assert not any("exception" in result for result in results[:4]), results
    assert f"report  {tmp_path}/nodes.html" in printed.partition("degraded")[2]
    words = {
        path.stem: re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", path.read_text())) for path in tmp_path.glob("*.html")
    }
    assert "rack 01" in words["nodes"] and "VXLAN" in words["nodes"] and "Loss of the last switch" in words["nodes"]
    assert "Read from heartbeats in the datastore" in words["heartbeats"] and " old " in words["heartbeats"]
    assert "it is torn" in words["heartbeats"] and "rack 02" in words["heartbeats"]
    assert "Racks, pools and modes are left out, as the inventory has an error:" in words["bad"]
    assert "record of the last switch" in words["torn"] and "No switch is recorded" in words["torn"]
    assert "the folder" in json.dumps(results[4]) and "does not exist" in json.dumps(results[4])
