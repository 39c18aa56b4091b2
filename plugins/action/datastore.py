# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.live_source import without_live_documents
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import (
    access,
    cluster_calls,
    fleet_publication,
    operator_files,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.cluster_calls import (
    DatastoreAway,
    DatastoreRefused,
    DocumentsInTheWay,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.fleet_publication import (
    FleetPublisher,
    Publication,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import etcd_folder
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import datastore_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import targets

_UNTOUCHED = "No node was changed."
_UNCHECKED = (
    "The release of etcd was not checked, on which live policy without gates depends (CVE-2026-33343). Each node "
    "checks it before it takes a live document."
)


class ActionModule(GuardedAction):
    """The action datastore, which brings the fleet's datastore to the inventory, on the controller.

    In check mode it only compares. Without a datastore it does nothing. A datastore that is away is a warning if a node
    of the play uses it already; nodes do without it. The task fails if no node does, if the datastore cannot be used
    before somebody corrects something, or if a file or a secret of the controller cannot be used.

    For a fleet that returns to stored states, it publishes only the inventory's policy of these, if they tell it. The
    task fails only if live documents need what they lack.
    """

    _requires_connection = False

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "fleet": {"type": "str", "required": True},
                "observed": {"type": "str", "required": True},
                "leaving": {"type": "str", "default": ""},
            }
        )
        try:
            return self._publish(task_vars, args)
        except (FleetError, DatastoreRefused) as error:
            return {"failed": True, "msg": f"{error} {_UNTOUCHED}"}

    def _publish(self, task_vars: dict[str, t.Any], args: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return the keys of the task's result. Raise FleetError, DatastoreRefused, or OSError for missing targets."""
        restored = targets.load_restored(args["fleet"])
        if restored is not None:
            return self._restore(task_vars, restored)
        fleet, datastore = targets.load(args["fleet"]).fleet, targets.load_datastore(args["fleet"])
        nothing: dict[str, t.Any] = {"changed": False, "reachable": None, "version": "", "plan": [], "live": []}
        if datastore is None or fleet is None:
            return nothing
        secret = access.node_secret(task_vars)
        access.node_files(datastore, secret, next(iter(fleet.nodes)))  # so that a bad file stops the run here
        live = targets.load_live(args["fleet"])
        credentials = access.operator(task_vars)
        operators = {one.name: rights.origin_of_operator(one.name, one.rotation) for one in datastore.operators}
        publisher = FleetPublisher(credentials.user, secret, gated=bool(datastore.gates), operators=operators)
        try:
            done = cluster_calls.ask(
                datastore,
                credentials,
                lambda client: publisher.publish(
                    client, fleet, leaving=args["leaving"], check=self._task.check_mode, live=live
                ),
            )
        except DatastoreAway as away:
            if not self._is_used(task_vars, args["observed"]):
                raise DatastoreRefused(
                    f"The datastore does not answer, and no node of this run uses it yet: {away}. Bring it up "
                    "(playbooks/etcd.yml makes a cluster), or leave it out with calico_etcd_endpoints: []."
                ) from None
            warning = (
                f"The datastore was not updated: {away}. The run goes on without it, and nodes keep what they know of "
                "each other. The next run publishes what this one could not."
            )
            if live is not None:
                warning += f" The plan is {without_live_documents('the datastore does not answer')}."
            unchecked = [_UNCHECKED] if datastore.check_rights else []
            return {**nothing, "reachable": False, "warnings": [warning, *unchecked]}
        files = operator_files.bring(datastore, secret, etcd_folder.folder_of(task_vars), self._task.check_mode)
        done = dataclasses.replace(done, changes=(*done.changes, *files.changes))
        return _answer(
            done,
            [
                *datastore_lines.left_behind(done.left_behind),
                *datastore_lines.superusers(done.superusers if datastore.own else ()),
                *datastore_lines.operators_left(done.operators_left, datastore.own),
                *datastore_lines.operators_without_certificate(files.without_certificate),
            ],
        )

    def _restore(self, task_vars: dict[str, t.Any], source: targets.RestoredSource) -> dict[str, t.Any]:
        """Publish the policy of stored states. Raise DocumentsInTheWay; another error of the datastore is a warning."""
        newer = (
            "The datastore keeps the newer inventory's policy, because {}. Operators plan live policy by that. Bring "
            "the inventory to what is in force, and run playbooks/site.yml."
        )
        reason = source.policy.reason
        try:
            done = cluster_calls.ask(
                source.datastore,
                access.operator(task_vars),
                lambda client: fleet_publication.restore(client, source.policy, self._task.check_mode),
            )
        except DocumentsInTheWay:
            raise
        except (DatastoreAway, DatastoreRefused, FleetError) as error:
            why = f"it was not updated ({str(error).rstrip('.')})"
            warnings = [newer.format(why), f"The plan is {without_live_documents('the datastore is not read')}."]
            return {"changed": False, "reachable": False, "version": "", "plan": [], "live": [], "warnings": warnings}
        return _answer(done, [newer.format(reason)] if reason else [])

    @staticmethod
    def _is_used(task_vars: dict[str, t.Any], observed: str) -> bool:
        """Return whether a node of the play says that it has the files by which it reaches a datastore."""
        hosts = task_vars.get("ansible_play_hosts_all", [])
        return any(
            result.get("datastore") is True for result in run_results.of_hosts(task_vars, observed, hosts).values()
        )


def _answer(done: Publication, warnings: t.Sequence[str]) -> dict[str, t.Any]:
    """Return the result of a task that published, or would publish, with these warnings after the review's notices."""
    answer: dict[str, t.Any] = {
        "changed": bool(done.changes),
        "reachable": True,
        "version": done.version,
        "plan": datastore_lines.plan(done.changes),
        "live": datastore_lines.plan(done.review.changes),
        "warnings": [*done.review.notices, *warnings],
    }
    if done.changes:
        answer["diff"] = {"prepared": datastore_lines.prepared(done)}
    return answer
