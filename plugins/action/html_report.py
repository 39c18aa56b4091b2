# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Reader
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import readers as report_readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import run_report, switch_loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import report_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import Loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.places import Places
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
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

Results = dict[str, t.Mapping[str, t.Any]]


class ActionModule(GuardedAction):
    """The action html_report writes one HTML file about a run: its plan, its changes, or the packets a switch lost.

    The result has its `path`, if it is to be written. With `gates`, the loss of the change is also recorded beside the
    lockfile. It writes in check mode, too, because a plan is a report. The task fails if the file
    cannot be written. With `gates` this is a warning: the play has to say what became of the change.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "path": {"type": "str", "required": True},
                "run": {"type": "str", "required": True},
                "datastore": {"type": "str"},
                "plan": {"type": "str", "required": True},
                "convergence": {"type": "str"},
                "reachability": {"type": "str"},
                "soak": {"type": "str"},
                "phases": {"type": "dict", "default": {}},
                "gates": {"type": "dict", "default": {}},
                "subject": {"type": "str", "default": ""},
                "switched": {"type": "bool", "default": True},
                "max_lost_probes": {"type": "int", "default": 0},
            }
        )
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        run = next(iter(run_results.of_hosts(task_vars, args["run"], hosts).values()), {})
        reachability = self._read(task_vars, args["reachability"], report_readers.soak)
        gates = {str(phase): self._gate(str(name), task_vars, hosts) for phase, name in args["gates"].items()}
        soaks = self._read(task_vars, args["soak"], report_readers.soak) if args["soak"] else reachability
        names = targets.names(str(run.get("path", "")))
        loss = (
            switch_loss.measured(args["subject"], gates, soaks, args["switched"], origin.local_time, names)
            if gates
            else None
        )
        try:
            if loss is not None and run.get("lockfile") and not self._task.check_mode:
                switch_record.write(str(run["lockfile"]), loss)
            if not args["path"]:
                return {}
            path = report_file.path_for(args["path"])
            report_file.write(path, self._page(args, task_vars, hosts, run, reachability, gates, loss, names))
        except FleetError as error:
            if not gates:
                raise
            return {"warnings": [str(error)]}
        shown_lines.show([f"report  {path}"])
        return {"path": path}

    @staticmethod
    def _read(task_vars: t.Mapping[str, t.Any], name: t.Optional[str], reader: t.Optional[Reader]) -> Results:
        hosts = list(task_vars.get("ansible_play_hosts_all", []))
        return run_results.of_hosts(task_vars, name, hosts, reader) if name else {}

    def _page(
        self,
        args: t.Mapping[str, t.Any],
        task_vars: t.Mapping[str, t.Any],
        hosts: t.Sequence[str],
        run: t.Mapping[str, t.Any],
        reachability: Results,
        gates: t.Mapping[str, t.Mapping[str, t.Any]],
        loss: t.Optional[Loss],
        names: t.Mapping[str, str],
    ) -> str:
        def read(name: t.Optional[str], reader: Reader) -> Results:
            return self._read(task_vars, name, reader)

        # The change in phases comes first, and the last step may be one of its phases.
        steps = list(dict.fromkeys([*map(str, args["phases"].values()), args["plan"]]))
        plans = read(args["plan"], readers.PLAN)
        settled = {host: plan["settled"] for host, plan in plans.items() if plan.get("settled")}
        gaps: t.Sequence[Untried] = ()
        if self._task.check_mode:
            lines = report_lines.plan(hosts, plans)
        else:
            convergence = read(args["convergence"], readers.CONVERGENCE) or settled
            elapsed = time.time() - run["started"] if run.get("started") else None
            members = targets.members(str(run.get("path", "")), task_vars)
            verdict = report_lines.converged(
                hosts,
                plans,
                convergence,
                reachability or settled,
                elapsed,
                members,
                args["max_lost_probes"],
                names,
            )
            lines, gaps = verdict.lines, verdict.untried
        phases = {str(name): read(str(variable), report_readers.CHANGES) for name, variable in args["phases"].items()}
        datastore = next(iter(self._read(task_vars, args["datastore"], None).values()), {})
        try:
            fleet = targets.load(str(run.get("path", ""))).fleet
        except OSError:
            fleet = None
        title = "Plan of a run" if self._task.check_mode else "Switch" if gates else "Run"
        report = run_report.report(
            origin.origin(f"{title}: {args['subject']}" if args["subject"] else title, task_vars),
            hosts,
            run_report.of_steps(read(name, readers.PLAN) for name in steps),
            run_report.changes_of_steps(
                # What put a change back is not shown beside the change.
                read(name, report_readers.CHANGES)
                for name in (steps if args["switched"] else steps[:-1])
            ),
            reachability,
            Places(fleet, hosts),
            run_report.RunFacts(
                self._task.check_mode,
                str(run.get("plan", "")),
                str(run.get("approval", "")),
                [str(line) for line in (*run.get("impact", ()), *datastore.get("live", ()))],
                [str(warning) for warning in (*run.get("warnings", ()), *datastore.get("warnings", ()))],
                run_report.phase_lines(phases),
                [str(problem) for gate in gates.values() for problem in gate.get("problems", ())],
                gaps,
                names,
            ),
            lines,
            loss,
        )
        return page.html(report)

    @staticmethod
    def _gate(name: str, task_vars: t.Mapping[str, t.Any], hosts: t.Sequence[str]) -> t.Mapping[str, t.Any]:
        return next(iter(run_results.of_hosts(task_vars, name, hosts).values()), {})
