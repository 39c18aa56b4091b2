# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import dataclasses
import json
import time
import typing as t

from ansible.errors import AnsibleError
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import status_report
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import status_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import (
    HeartbeatStatus,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport, Loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.report import (
    origin,
    page,
    report_file,
    switch_record,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    given_inventory,
    inventory_fleet,
    inventory_source,
    lockfile_store,
)

_TITLE = "Status of the fleet"
_UNRECORDED = "No switch is recorded beside the lockfile: switch_pool_mode.yml and switch_topology.yml record theirs."


def _note(gap: untried.Untried) -> str:
    return f"Not tried: {gap}."


class ActionModule(GuardedAction):
    """The action fleet_status, which prints the status of all nodes as one table or as JSON.

    It is that of heartbeats if the datastore was read, and that of the nodes' own answers otherwise. The result has
    `lines`, `good`, `problems`, `warnings_found`, `not_tried` and `nodes`. With `strict` the task fails if there is a
    problem. It also fails if it cannot write the HTML file `report`, or if a part of the inventory was not read.
    """

    _requires_connection = False

    def check(self, task_vars: dict[str, t.Any]) -> None:
        given_inventory.check_parsed(task_vars)

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "status": {"type": "str", "required": True},
                "datastore": {"type": "str"},
                "source": {"type": "str", "choices": ["auto", "etcd", "nodes"], "default": "auto"},
                "output": {"type": "str", "choices": ["text", "json"], "default": "text"},
                "strict": {"type": "bool", "default": False},
                "report": {"type": "str", "default": ""},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        known = task_vars.get(args["datastore"] or "") or {}
        unread = str(known.get("reason") or known.get("msg") or "")
        if args["source"] == "etcd" and not known.get("reachable"):
            why = (unread or "the inventory names none (calico_etcd_endpoints, group calico_etcd)").rstrip(".")
            result.update(failed=True, msg=f"The datastore cannot be read: {why}. -e source=nodes asks the nodes.")
            return result
        if known.get("reachable"):
            return self._by_heartbeats(result, task_vars, hosts, known, args)
        found = run_results.of_hosts(task_vars, args["status"], hosts, readers.status)
        problems, warned = status_lines.problems(hosts, found), status_lines.warnings(hosts, found)
        gaps = self._untried(task_vars, hosts)
        if unread:
            warned = [f"the datastore was not read, so the nodes were asked: {unread}", *warned]
        nodes = {host: status_lines.known(found.get(host)) for host in hosts}
        written = ""
        if args["report"]:
            places, notes, loss = self._places(task_vars, hosts)
            made = origin.origin(_TITLE, task_vars, "the nodes themselves")
            report = status_report.by_nodes(made, hosts, found, places, problems, warned)
            written = self._write(args["report"], report, [*map(_note, gaps), *notes], loss)
        if args["output"] == "json":
            answer = {
                "good": not problems,
                "problems": problems,
                "warnings": warned,
                "not_tried": untried.to_data(gaps),
                "nodes": nodes,
            }
            lines = json.dumps(answer, indent=2).splitlines()
        else:
            lines = status_lines.text(hosts, found, warned, gaps)
        result["not_tried"] = untried.to_data(gaps)
        return self._shown(result, lines, problems, warned, nodes, strict=args["strict"], written=written)

    def _by_heartbeats(
        self,
        result: dict[str, t.Any],
        task_vars: t.Mapping[str, t.Any],
        hosts: t.Sequence[str],
        known: t.Mapping[str, t.Any],
        args: t.Mapping[str, t.Any],
    ) -> dict[str, t.Any]:
        """Print the status by the heartbeats in `known`, an answer of datastore_info, and return the task's result."""
        names = {field.name for field in dataclasses.fields(Heartbeat)}
        found = {
            node: Heartbeat(**{name: value for name, value in fields.items() if name in names})
            for node, fields in known["nodes"].items()
        }
        agents = set(task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()))
        status = HeartbeatStatus(hosts, agents, found, known["refused"], time.time())
        gaps = self._untried(task_vars, hosts)
        nodes = {host: known["nodes"].get(host) for host in hosts}
        written = ""
        if args["report"]:
            places, notes, loss = self._places(task_vars, hosts)
            source = "heartbeats in the datastore, which agents write every 10 seconds"
            report = status_report.by_heartbeats(origin.origin(_TITLE, task_vars, source), status, places)
            written = self._write(args["report"], report, [*map(_note, gaps), *notes], loss)
        if args["output"] == "json":
            answer = {
                "good": not status.problems,
                "problems": status.problems,
                "warnings": [],
                "not_tried": untried.to_data(gaps),
                "source": "etcd",
                "nodes": nodes,
            }
            lines = json.dumps(answer, indent=2).splitlines()
        else:
            lines = status.lines(gaps)
        result["not_tried"] = untried.to_data(gaps)
        return self._shown(result, lines, status.problems, [], nodes, strict=args["strict"], written=written)

    def _untried(self, task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> list[untried.Untried]:
        """Return the paths that this status does not try, and those that no run tries, if the lockfile can be read."""
        plan = None
        with contextlib.suppress(FleetError, AnsibleError):
            chosen = self._templar.template(task_vars.get("calico_lockfile"))
            plan = lockfile_store.read(lockfile_store.path_for(chosen, task_vars))
        return untried.of_status(hosts, plan)

    @staticmethod
    def _places(task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> tuple[Places, list[str], t.Optional[Loss]]:
        """Return the places of the hosts by the inventory, notes on what is left out, and the last switch."""
        notes = []
        try:
            planned = inventory_fleet.with_lockfile(task_vars)
        except FleetError as error:
            notes.append(f"Racks, pools and modes are left out, as the inventory has an error: {error}")
            return Places(None, hosts), notes, None
        try:
            return Places(planned.fleet, hosts), notes, switch_record.read(planned.lockfile)
        except FleetError as error:
            return Places(planned.fleet, hosts), [str(error)], None

    @staticmethod
    def _write(path: str, report: FleetReport, notes: t.Sequence[str], loss: t.Optional[Loss]) -> str:
        """Write the report with the last switch and more notes; return its path. Raise AnsibleError if that fails."""
        whole = dataclasses.replace(
            report, notes=(*report.notes, *notes), loss=loss, loss_note="" if loss is not None else _UNRECORDED
        )
        try:
            written = report_file.path_for(path)
            report_file.write(written, page.html(whole))
        except FleetError as error:
            raise AnsibleError(str(error)) from error
        return written

    @staticmethod
    def _shown(
        result: dict[str, t.Any],
        lines: list[str],
        problems: list[str],
        warned: list[str],
        nodes: t.Mapping[str, t.Any],
        *,
        strict: bool,
        written: str,
    ) -> dict[str, t.Any]:
        shown_lines.show([*lines, f"report  {written}"] if written else lines)
        if problems and strict:
            # The failure does not repeat the lines that are printed above it.
            count = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
            result.update(failed=True, msg=f"{count} not well with the fleet, see above.")
            return result
        result.update(lines=lines, good=not problems, problems=problems, warnings_found=warned, nodes=nodes)
        return result
