# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import dataclasses
import getpass
import os
import re
import socket
import typing as t
import uuid

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.connection import ConnectionBase
from ansible.utils.display import Display
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import renumbering
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.paths import untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.nodes.node_request import NodeRequest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.probe import convergence
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write import datastore_files
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.lines import remark_lines
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import plain_data
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.derived.probe_paths import Untried
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.phase import Phase
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import engine_call, new_connection
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.state_action import StateAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    bgp_secrets,
    inventory_source,
    targets,
)

_COLLECTION = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ROLE = os.path.join(_COLLECTION, "roles", "calico_node")

#: The verbosity (-vvv) from which on Ansible prints a module's arguments.
_SHOWS_ARGUMENTS = 3

# Ansible imports an action once per run, before it forks for each host. So templates are read, and the reader of states
# is made, once per run.
bird_config.prepare()
plain_data.reader(t.cast("t.Hashable", NodeState))


class ActionModule(StateAction):
    """The controller's part of the module node: it compiles the node's state and sends it and its bird.cfg in one call.

    With the option `state` it compiles and renders nothing. If the change is to be confirmed, the action then does so
    by a new connection. The task fails if the state cannot be compiled or rendered, if calico_bgp_secrets is invalid,
    if the module fails, or if the change is not confirmed.
    """

    #: The digest of the engine that the node had when it was asked last, None if it has none or was not asked.
    _installed: t.Optional[str] = None

    @property
    def shows_arguments(self) -> bool:
        """Whether the result has the module's arguments: the whole state, which Ansible would process but not show."""
        return bool(Display().verbosity >= _SHOWS_ARGUMENTS)

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        args = dict(self._task.args)
        gaps: list[Untried] = []
        request = NodeRequest(change=uuid.uuid4().hex)
        if "state" not in args:
            own = {name: args.pop(name, None) for name in ("fleet", "observed", "pool", "mode")}
            phase = self.phase_of(args)
            by_phase = boolean(args.pop("by_phase", False)) and self._task.check_mode
            (dummy, state), *steps = self.host_states(
                task_vars,
                own["fleet"],
                own["observed"],
                lambda found: (phase, *(found.phases if by_phase else ())),
                own["pool"] or None,
                own["mode"] or None,
            )
            settle = boolean(args.get("settle", False)) and not self._task.check_mode
            look = boolean(args.get("look", False)) and not self._task.check_mode
            sample = int(args.get("sample") or 0)
            # The later one of two nodes to change tries their paths after both have changed, but a sample may leave
            # its paths out.
            if settle or (look and not sample):
                (paths, gaps), secret = self.plan_probes(state, own["fleet"], sample)
                to_probe = [(path.address, path.size, path.node, path.pool, path.source) for path in paths]
                request = dataclasses.replace(request, targets=to_probe, secret=secret)
            if settle or look:
                absent = convergence.absent(state, task_vars.get("ansible_play_hosts", ()))
                request = dataclasses.replace(request, absent_nodes=absent)
            policy = targets.load_policy(own["fleet"], task_vars["inventory_hostname"]) if own["fleet"] else None
            args["state"] = self._content(state, policy)
            if boolean(args.get("foresee", False)):
                return self._execute_module(
                    module_name="baremetal.host_routing.node", module_args=args, task_vars=task_vars
                )
            if int(args.get("confirm_timeout") or 0) and self.current is not None:
                request = dataclasses.replace(request, previous=self._previous(self.current, state))
            try:
                if state.bird is not None:
                    args["bird_config"] = bird_config.render(args["state"]["bird"])
                if by_phase:
                    phases = [self._step(name, step, policy) for name, step in steps]
                    request = dataclasses.replace(request, phases=phases)
            except NotEncodable as error:
                msg = f"{error} Correct it in the inventory, then run again. Nothing was changed on this host."
                return {"failed": True, "msg": msg}
        held = [args["state"], *(step["state"] for step in request.phases)]
        request = dataclasses.replace(
            request, bgp_passwords=bgp_secrets.packed(task_vars, bgp_secrets.named(held)) or ""
        )
        if args.get("files") and self._task.args.get("fleet"):
            datastore = self._datastore(str(self._task.args["fleet"]), task_vars)
            request = dataclasses.replace(request, datastore=datastore)
        if args.get("units"):
            args["units"] = [self._unit(entry, args["state"]) for entry in args["units"]]
        if args.get("files"):
            args["files"] = [self._file(entry) for entry in args["files"]]
        seconds = int(args.get("confirm_timeout") or 0)
        if args.get("files") or self._task.args.get("observed") or seconds:
            # The role's calls have one of these and bring the engine along, also in the phases of a change: an agent of
            # an older release cannot read the states of phases.
            request = dataclasses.replace(request, engine_digest=engine_call.engine_digest())
            observed = task_vars.get(self._task.args.get("observed") or "") or self.answered
            self._installed = observed.get("engine_digest")
        args.setdefault("who", f"{getpass.getuser()}@{socket.gethostname()}")
        args["request"] = request.pack()
        result = self._execute_module(module_name="baremetal.host_routing.node", module_args=args, task_vars=task_vars)
        result["bgp"] = args["state"].get("bird") is not None
        if isinstance(result.get("settled"), dict):
            result["settled"]["external_sessions"] = self.external_sessions(args["state"])
            result["settled"]["untried"] = untried.to_data(gaps)
        if not self.shows_arguments:
            result.pop("invocation", None)
        self._remove_tmp_path(self._connection._shell.tmpdir)
        change = result.pop("unconfirmed", "")
        if change and seconds and not self._task.check_mode:
            self._confirm(result, str(change), seconds, args, task_vars)
        result.pop("remarks", None)
        if boolean(args.get("collect_warnings", False)) and not result.get("failed"):
            self._collect_warnings(result, str(task_vars["inventory_hostname"]))
        return result

    @staticmethod
    def _collect_warnings(result: dict[str, t.Any], host: str) -> None:
        """Move the warnings that begin with the host's name from `warnings` to `remarks`, without the name."""
        about = re.compile(rf"{re.escape(host)}:? ")
        given = result.get("warnings")
        warnings = list(given) if isinstance(given, (list, tuple)) else []
        own = [text for text in warnings if isinstance(text, str) and about.match(text)]
        if own:
            result["warnings"] = [text for text in warnings if text not in own]
            result["remarks"] = remark_lines.bounded([about.sub("", text, count=1) for text in own])

    @staticmethod
    def _datastore(fleet: str, task_vars: dict[str, t.Any]) -> str:
        """Return the packed files by which the node reaches the datastore, those of no files if it needs none.

        A run that restores stored states leaves a node's files as they are: the result is "" then.
        """
        host = task_vars["inventory_hostname"]
        run = targets.load(fleet)
        if run.fleet is None:
            return ""
        found = targets.load_datastore(fleet)
        if found is None or host not in task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()):
            return datastore_files.pack({})
        return datastore_files.pack(access.node_files(found, access.node_secret(task_vars), str(host)))

    def _confirm(
        self,
        result: dict[str, t.Any],
        change: str,
        seconds: int,
        args: t.Mapping[str, t.Any],
        task_vars: dict[str, t.Any],
    ) -> None:
        """Confirm the change by a new connection, so that the node keeps it, and set `confirmed` in `result`.

        This also happens after the module has failed: a failure may leave changes, which stay as long as the node can
        be reached. Attempts that cannot connect are repeated until 45 seconds after `seconds`, the node's time to
        confirm. A connection that cannot be renewed, such as `local`, is used again. If the change is not confirmed,
        and no later one replaced it, also set `failed`, and `msg` to the reason, after the message of a module that
        failed.
        """
        kept = {name: args[name] for name in ("generations_kept", "lock_timeout") if name in args}
        # A connection without a `reset` of its own keeps nothing open from one task to the next. `local` may itself run
        # inside an SSH session, which cannot be renewed here.
        renewable = type(self._connection).reset is not ConnectionBase.reset and self._connection.transport != "local"

        def reset() -> None:
            self._connection._shell.tmpdir = None
            if renewable:
                self._connection.reset()

        def ask() -> dict[str, t.Any]:
            return self._execute_module(
                module_name="baremetal.host_routing.node_confirm",
                module_args={"change": change, "same_connection": not renewable, **kept},
                task_vars=task_vars,
            )

        with contextlib.suppress(AnsibleError):
            # The connection repeats no attempt by itself. So each attempt ends within its own time limit, and a node's
            # return to its earlier state is noticed at once.
            self._connection.set_option("reconnection_retries", 0)
        answer = new_connection.confirm(reset, ask, seconds)
        if answer.get("unreachable"):
            self._connection._shell.tmpdir = None  # Ansible must not try to remove the folder: the host is unreachable
        problem = new_connection.problem(task_vars["inventory_hostname"], answer, seconds, result.get("cut", ()))
        result["confirmed"] = not problem
        if answer.get("generation") is not None:
            result["generation"] = answer["generation"]
        if problem:
            before = f"{result['msg']}\n" if result.get("failed") and result.get("msg") else ""
            result.update(failed=True, msg=before + problem)

    @staticmethod
    def _content(state: NodeState, policy: t.Union[dict[str, t.Any], str, None]) -> dict[str, t.Any]:
        """Return `NodeState.to_wire` of the state, with the node's `policy` if there is one and the state has any.

        A text is the packed policy of a stored state, which the controller has read without it.
        """
        content = state.to_wire()
        has_any = state.policy is not None or isinstance(policy, str)
        return {**content, "policy": policy} if policy and has_any else content

    @staticmethod
    def _previous(current: NodeState, state: NodeState) -> dict[str, t.Any]:
        """Return what the node reverts to if it has `current` stored: that, with the addresses that `state` has.

        It keeps the backup routes of `state`: in the middle of a change, no other node has sessions with its address.
        The result is empty if all addresses stay, or if `current`, which is the node's word, cannot have others.
        """
        try:
            before = renumbering.returned(current, state)
            if before is current:
                return {}
            if before.bird is not None and state.bird is not None:
                bird = dataclasses.replace(
                    before.bird, backups=state.bird.backups, backups_lead=state.bird.backups_lead
                )
                before = dataclasses.replace(before, bird=bird)
            content = before.to_dict()
            config = bird_config.render(content["bird"]) if content["bird"] is not None else None
        except (NotEncodable, LookupError, ValueError, TypeError, AttributeError):
            return {}
        return {"state": content, "bird_config": config}

    def _step(self, phase: Phase, state: NodeState, policy: t.Union[dict[str, t.Any], str, None]) -> dict[str, t.Any]:
        content = self._content(state, policy)
        config = bird_config.render(content["bird"]) if state.bird is not None else None
        return {"phase": str(phase), "state": content, "bird_config": config}

    @staticmethod
    def _file(entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        """Return a copy of `entry` (path, content, mode) with the content of the role's file `src`, if it names one."""
        entry = dict(entry)
        source = entry.pop("src", None)
        if source is not None:
            with open(os.path.join(_ROLE, "files", source), encoding="utf-8") as stream:
                entry["content"] = stream.read()
        return entry

    @staticmethod
    def _unit(entry: t.Mapping[str, t.Any], state: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
        entry = dict(entry)
        if boolean(entry.pop("bgp", False)):
            entry["enabled"] = entry["started"] = state.get("bird") is not None
        return entry

    def archive_options(self, options: dict[str, t.Any]) -> dict[str, t.Any]:
        """Copy this controller's engine to a file on the node, and return the call's options, whose request names it.

        Nothing is copied or added in check mode, without `engine_digest` in the request, or if the node has it.
        """
        args = options.get("module_args") or {}
        request = NodeRequest.unpack(args.get("request"))
        if request.engine_digest in ("", self._installed) or self._task.check_mode:
            return options
        packed = engine_call.packed_engine()
        if not self._connection._shell.tmpdir:  # most calls transfer no file, and need no folder
            self._make_tmp_path()
        remote = self._connection._shell.join_path(self._connection._shell.tmpdir, "engine")
        path = self._transfer_file(engine_call.packed_path(), remote)
        request = dataclasses.replace(request, engine=path, engine_sha256=packed.sha256)
        return {**options, "module_args": {**args, "request": request.pack()}}
