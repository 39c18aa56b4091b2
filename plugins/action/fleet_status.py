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
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import (
    live_drift,
    member_lines,
    status_lines,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.heartbeat_lines import (
    HeartbeatStatus,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines.live_drift import LiveDrift
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import FleetReport, Loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived import path_status
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.path_status import PathStatus
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import Untried
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


class _Status(t.NamedTuple):
    """The status of all hosts, by the heartbeats or by the nodes' own answers. `report` makes a report of it."""

    problems: list[str]
    warnings: list[str]
    nodes: dict[str, t.Any]
    lines: list[str]
    report: t.Callable[[Places], FleetReport]


class ActionModule(GuardedAction):
    """The action fleet_status, which prints the status of all nodes as one table or as JSON.

    It is that of heartbeats if the datastore was read, and that of the nodes' own answers otherwise. It says also how
    live policy differs from `live_folder`. The result has `lines`, `good`, `problems`, `warnings_found`, `not_tried`,
    `nodes` and `live`. With `strict` the task fails if there is a problem. It also fails if it cannot write the HTML
    file `report`, or if a part of the inventory was not read.
    """

    _requires_connection = False
    NEEDS_ALL_HOSTS = True

    def check(self, task_vars: dict[str, t.Any]) -> None:
        given_inventory.check_parsed(task_vars)

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "status": {"type": "str", "required": True},
                "datastore": {"type": "str"},
                "live": {"type": "str", "default": ""},
                "live_folder": {"type": "str", "default": ""},
                "live_datastore": {"type": "str", "default": live_drift.DATASTORE},
                "live_owner": {"type": "str", "default": live_drift.OWNER},
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
            return {"failed": True, "msg": f"The datastore cannot be read: {why}. -e source=nodes asks the nodes."}
        gaps = self._untried(task_vars, hosts)
        drift = _drift(task_vars, args)
        if known.get("reachable"):
            status = _by_heartbeats(task_vars, hosts, known, gaps, drift)
        else:
            found = run_results.of_hosts(task_vars, args["status"], hosts, readers.status)
            status = _by_nodes(task_vars, hosts, found, unread, gaps, known, drift)
        written = self._write(args["report"], status, gaps, task_vars, hosts) if args["report"] else ""
        problems = status.problems
        if args["output"] == "json":
            answer = {
                "good": not problems,
                "problems": problems,
                "warnings": status.warnings,
                "not_tried": untried.to_data(gaps),
                **({"source": "etcd"} if known.get("reachable") else {}),
                "nodes": status.nodes,
                **({"live": drift.to_data()} if drift else {}),
            }
            lines = json.dumps(answer, indent=2).splitlines()
        else:
            lines = status.lines
        shown_lines.show([*lines, f"report  {written}"] if written else lines)
        if problems and args["strict"]:
            # The failure does not repeat the lines that are printed above it.
            count = "1 thing is" if len(problems) == 1 else f"{len(problems)} things are"
            msg = f"{count} not well with the fleet, see above."
            return {"failed": True, "msg": msg, "not_tried": untried.to_data(gaps)}
        return {
            "lines": lines,
            "good": not problems,
            "problems": problems,
            "warnings_found": status.warnings,
            "not_tried": untried.to_data(gaps),
            "nodes": status.nodes,
            **({"live": drift.to_data()} if drift else {}),
        }

    def _untried(self, task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> list[Untried]:
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

    def _write(
        self,
        path: str,
        status: _Status,
        gaps: t.Sequence[Untried],
        task_vars: t.Mapping[str, t.Any],
        hosts: t.Sequence[str],
    ) -> str:
        """Write the report, with the last switch and what is left out; return its path. Raise FleetError."""
        places, notes, loss = self._places(task_vars, hosts)
        report = status.report(places)
        whole = dataclasses.replace(
            report,
            notes=(*report.notes, *(f"Not tried: {gap}." for gap in gaps), *notes),
            loss=loss,
            loss_note="" if loss is not None else _UNRECORDED,
        )
        written = report_file.path_for(path)
        report_file.write(written, page.html(whole))
        return written


def _drift(task_vars: t.Mapping[str, t.Any], args: t.Mapping[str, t.Any]) -> t.Optional[LiveDrift]:
    """Return how live policy differs from the folder, None if no folder was named."""
    if not args["live_folder"]:
        return None
    found = task_vars.get(args["live"]) or {}
    return live_drift.of_result(found, args["live_folder"], args["live_datastore"], args["live_owner"])


def _by_nodes(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[str],
    found: t.Mapping[str, t.Mapping[str, t.Any]],
    unread: str,
    gaps: t.Sequence[Untried],
    known: t.Mapping[str, t.Any],
    drift: t.Optional[LiveDrift],
) -> _Status:
    """Return the status by the nodes' own answers. `unread` is why the datastore was not read, "" if nobody tried.

    `known` is the answer of datastore_info, which may have asked the members of the etcd cluster.
    """
    members, silent = known.get("members", 0), known.get("silent_members", {})
    problems = [*status_lines.problems(hosts, found), *member_lines.problems(silent)]
    problems += drift.problems if drift else ()
    warned = status_lines.warnings(hosts, found)
    if unread:
        warned = [f"the datastore was not read, so the nodes were asked: {unread}", *warned]
    made = origin.origin(_TITLE, task_vars, "the nodes themselves")
    return _Status(
        problems,
        warned,
        {host: status_lines.known(found.get(host)) for host in hosts},
        status_lines.text(hosts, found, warned, gaps, members, silent, drift),
        lambda places: status_report.by_nodes(made, hosts, found, places, problems, warned),
    )


def _by_heartbeats(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[str],
    known: t.Mapping[str, t.Any],
    gaps: t.Sequence[Untried],
    drift: t.Optional[LiveDrift],
) -> _Status:
    """Return the status by the heartbeats in `known`, an answer of datastore_info."""
    names = {field.name for field in dataclasses.fields(Heartbeat)}
    found = {
        node: Heartbeat(**{**{name: value for name, value in fields.items() if name in names}, "paths": _paths(fields)})
        for node, fields in known["nodes"].items()
    }
    agents = set(task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()))
    members, silent = known.get("members", 0), known.get("silent_members", {})
    status = HeartbeatStatus(hosts, agents, found, known["refused"], time.time(), members, silent, drift)
    made = origin.origin(_TITLE, task_vars, "heartbeats in the datastore, which agents write every 10 seconds")
    return _Status(
        status.problems,
        [],
        {host: known["nodes"].get(host) for host in hosts},
        status.lines(gaps),
        lambda places: status_report.by_heartbeats(made, status, places),
    )


def _paths(fields: t.Mapping[str, t.Any]) -> t.Optional[PathStatus]:
    """Return the paths of a heartbeat in an answer of datastore_info, which has read it with its bounds."""
    return path_status.decode(fields["paths"]) if fields.get("paths") is not None else None
