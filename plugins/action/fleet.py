# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import observed_nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import impact, pool_modes, witnesses
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import Impact, ImpactLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.pool_modes import some
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.topology import TOPOLOGIES
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import (
    sentences as left_out_sentences,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import controller_variables
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines, shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import host_check, run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    fleet_source,
    inventory_source,
    lint_source,
    lockfile_store,
    targets,
)

#: The role's options that together switch the CNI plugin on.
_CNI_OPTIONS = ("calico_node_agent", "calico_node_cni")
_PODMAN_OPTIONS = ("calico_node_runtimes", "calico_node_podman_networks")

HostOptions = dict[str, dict[str, t.Any]]


@dataclasses.dataclass(frozen=True)
class _Decision:
    """What a run does by the answers of its nodes, without those that it leaves out.

    `approval` is the hash of this plan and its impact `found`. `refusals` are the errors for lack of approval.
    """

    compiled: fleet_source.Compiled
    found: Impact
    approval: str
    answers: observed_nodes.ObservedNodes
    refusals: tuple[FleetError, ...] = ()


class ActionModule(GuardedAction):
    """The action fleet, which compiles the fleet once per run, on the controller.

    It stores the nodes' targets in a private folder, whose `path` the result has. It writes the lockfile if that
    changes, except in check mode and with `restore`. The task fails, with the text of the FleetError, if the inventory
    or the lockfile is invalid, if the fleet cannot be planned, if most nodes run with BGP and the inventory is without
    (or the reverse), if nodes cannot take part in a change that needs all, if a generation to restore is missing or
    unreadable, or if the run exceeds its limits without approval. In check mode, an excess is only a warning.
    """

    TRANSFERS_FILES = False
    _requires_connection = False

    def act(self, result: dict[str, t.Any], task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
        dummy, args = self.validate_argument_spec(
            {
                "observed": {"type": "str", "required": True},
                "pool": {"type": "str"},
                "mode": {"type": "str"},
                "as_observed": {"type": "bool", "default": False},
                "restore": {"type": "str"},
                "without": {"type": "str"},
                "topology": {"type": "str", "choices": ["", *TOPOLOGIES], "default": ""},
                "hold": {"type": "bool", "default": False},
                "limits": {
                    "type": "dict",
                    "options": {
                        field.name: {"type": "int", "default": -1} for field in dataclasses.fields(ImpactLimits)
                    },
                },
                "approve": {"type": "str", "default": ""},
                "cni": {"type": "bool", "default": False},
                "podman": {"type": "str", "choices": ["no", "auto", "yes"], "default": "no"},
                "podman_networks": {"type": "raw", "default": []},
                "install_packages": {"type": "bool", "default": True},
            },
            required_together=[("pool", "mode")],
        )
        try:
            result.update(self._compile(task_vars, args))
        except FleetError as error:
            told = str(error) if args["restore"] or args["without"] else self._with_others(error, task_vars)
            result.update(failed=True, msg=told, variable=error.variable, origin=error.origin)
        return result

    @staticmethod
    def _with_others(error: FleetError, task_vars: t.Mapping[str, t.Any]) -> str:
        """Return the text of an error. If the inventory has it and others, print all and add the others' number."""
        this = refusals.finding(error)
        found = lint_source.refused(task_vars)
        others = [one for one in found if (one.variable, one.what) != (this.variable, this.what)]
        return lint_lines.first_of(str(error), [this, *others] if len(others) < len(found) else [this])

    def _compile(self, task_vars: dict[str, t.Any], args: dict[str, t.Any]) -> dict[str, t.Any]:
        play_hosts = task_vars.get("ansible_play_hosts_all", [])
        results = run_results.of_hosts(task_vars, args["observed"], play_hosts)
        answers = observed_nodes.read(results)
        if args["restore"]:
            return self._restore(task_vars, args, answers)
        decision = self._decide(task_vars, answers, args)
        compiled, found, approval, answers = decision.compiled, decision.found, decision.approval, decision.answers
        warnings = [*compiled.notices, *left_out_sentences(answers.left_out), *map(str, decision.refusals)]
        if args["limits"] is not None:
            shown_lines.show(found.lines)
        changed = compiled.before != compiled.after
        if changed and not self._task.check_mode:
            lockfile_store.write(compiled.lockfile, compiled.fleet.allocation)
        answer = {
            "changed": changed,
            "path": targets.save(compiled.targets),
            "plan": compiled.fleet.digest,
            "lockfile": compiled.lockfile,
            "generation": compiled.fleet.allocation.generation,
            "change": compiled.change,
            "hold": compiled.targets.hold,
            "divert": compiled.targets.divert,
            "fresh": list(compiled.fresh),
            "prepare": self._to_prepare(compiled, answers, results, task_vars, args),
            "steady": not compiled.change and _is_plan_of_all(answers.states, compiled.fleet.digest),
            "datastore": compiled.targets.datastore is not None,
            "approval": approval,
            "impact": found.lines if args["limits"] is not None else [],
            "modes": compiled.modes,
            "warnings": [str(warning) for warning in warnings],
            "started": time.time(),
        }
        if changed:
            answer["diff"] = {
                "before_header": compiled.lockfile,
                "after_header": compiled.lockfile,
                "before": compiled.before,
                "after": compiled.after,
            }
        return answer

    def _decide(
        self, task_vars: t.Mapping[str, t.Any], answers: observed_nodes.ObservedNodes, args: t.Mapping[str, t.Any]
    ) -> _Decision:
        """Return what the run does. In check mode, return what it would do with approval, and its refusals without.

        A node is refused, and the run goes on, if only this node and few others say what stops the run. If the run
        cannot go on without the nodes that are refused for lack of approval, the run as a whole lacks approval. Both
        modes decide alike. Raise FleetError if the run is refused; in check mode not for lack of approval.
        """
        unapproved: t.Optional[_Decision] = None  # the first decision that lacks approval
        refused: dict[str, FleetError] = {}  # the hosts that are left out after it
        while True:
            try:
                decision = self._decision(task_vars, answers, args)
                alone = self._other_routing(decision.compiled, answers.states)
                alone = alone or self._cannot_take_part(decision.compiled, answers.states)
            except FleetError:
                if unapproved is None:
                    raise
                return self._without_approval(unapproved)
            lack = None if alone else self._refusal(decision.found, decision.approval, args)
            if lack is not None:
                unapproved = unapproved or dataclasses.replace(decision, refusals=(lack,))
                alone = self._too_far(decision, answers.states, args)
                if not alone:
                    return self._without_approval(unapproved)
            if not alone:
                break
            if unapproved is not None:
                refused.update(alone)
            answers = answers.without(alone)
        if unapproved is not None and self._task.check_mode:
            return dataclasses.replace(unapproved, refusals=tuple(refused[host] for host in sorted(refused)))
        return decision

    def _without_approval(self, decision: _Decision) -> _Decision:
        """Return the decision in check mode, else raise its refusal."""
        if not self._task.check_mode:
            raise decision.refusals[0]
        return decision

    def _decision(
        self, task_vars: t.Mapping[str, t.Any], answers: observed_nodes.ObservedNodes, args: t.Mapping[str, t.Any]
    ) -> _Decision:
        """Compile the fleet by these answers. Raise FleetError if it cannot be, or would lose a renamed node."""
        compiled = fleet_source.compile_targets(
            task_vars,
            answers.states,
            pool=args["pool"],
            mode=args["mode"],
            as_observed=args["as_observed"],
            given=answers.journals,
            passwords=answers.passwords,
            hold=args["hold"],
            topology=args["topology"],
            without=args["without"],
            refused=answers.refused,
        )
        self._check_renamed(compiled, answers, task_vars)
        found = self._with_hosts(compiled, answers.states, args)
        return _Decision(compiled, found, found.digest(compiled.fleet.digest), answers)

    @staticmethod
    def _check_renamed(
        compiled: fleet_source.Compiled, answers: observed_nodes.ObservedNodes, task_vars: t.Mapping[str, t.Any]
    ) -> None:
        """Raise FleetError if the run would remove a node whose host has another name in the inventory now."""
        known = compiled.remembered.nodes if compiled.remembered is not None else {}
        staying = {*compiled.fleet.allocation.nodes, *inventory_source.members(task_vars)}
        renamed = sorted(witnesses.renamed(answers.claims, known, staying).items())
        if not renamed:
            return
        (host, node), *others = renamed
        also = f" Renamed, too: {some([other for other, dummy in others])}." if others else ""
        raise FleetError(
            "host",
            host,
            f"was renamed: it has the state of {node}, which the lockfile has and the inventory has not, and this run "
            f"would remove {node} from the fleet.{also}",
            f"Call it {node} in the inventory again. To give it another name, remove {node} with "
            f"playbooks/remove_node.yml first. If it is not {node}, run without it: --limit 'all:!{host}'. Nothing was "
            "changed.",
        )

    def _to_prepare(
        self,
        compiled: fleet_source.Compiled,
        answers: observed_nodes.ObservedNodes,
        results: t.Mapping[str, t.Mapping[str, t.Any]],
        task_vars: t.Mapping[str, t.Any],
        args: t.Mapping[str, t.Any],
    ) -> bool:
        """Return whether a host has findings or lacks packages, which later tasks handle before it gets its state.

        Lacking packages count only if the run installs packages. The result is also True if the run is a change in
        phases, if `answers` refuses a host, or if a host has no target or gave an answer that cannot be judged.
        """
        own = _own_options(task_vars, answers.states)
        with_cni = _with_cni(task_vars, own, args["cni"])
        if compiled.change or answers.refused or _differ_in_podman(own):
            return True
        podman = host_check.podman_wish(args["podman"], args["podman_networks"])
        try:
            for host in answers.states:
                found = host_check.check(results[host], compiled.targets.state(host), host in with_cni, podman=podman)
                if found.findings or (found.missing_packages and args["install_packages"]):
                    return True
        except (host_check.NotJudged, KeyError):  # the host's own task says what is wrong
            return True
        return False

    @staticmethod
    def _refusal(found: Impact, approval: str, args: t.Mapping[str, t.Any]) -> t.Optional[FleetError]:
        """Return the error for a run that exceeds its limits without approval, or None.

        It is approved if the argument `approve` is `approval`, the hash of this plan and its impact.
        """
        exceeded = ImpactLimits(**args["limits"]).exceeded(found) if args["limits"] is not None else []
        given = str(args["approve"])
        if not exceeded or given == approval:
            return None
        other = f" What was approved, {given}, is another plan." if given else ""
        return FleetError(
            "plan",
            approval,
            f"needs approval: {'; '.join(exceeded)}.{other}",
            f"Look at it with --check --diff. If it is what you want, run it with -e approve={approval}. "
            "Nothing was changed.",
        )

    @staticmethod
    def _with_hosts(
        compiled: fleet_source.Compiled, observed: t.Mapping[str, t.Optional[NodeState]], args: t.Mapping[str, t.Any]
    ) -> Impact:
        """Return the impact of the run. The hosts that change are in it only if their number has a limit."""
        if args["limits"] is None or args["limits"]["hosts_changed"] < 0:
            return compiled.impact
        after = {host: compiled.targets.state(host) for host in observed if host in compiled.fleet.nodes}
        return dataclasses.replace(compiled.impact, hosts=impact.changing(observed, after))

    @staticmethod
    def _too_far(
        decision: _Decision, observed: t.Mapping[str, t.Optional[NodeState]], args: t.Mapping[str, t.Any]
    ) -> dict[str, FleetError]:
        """Return an error for each of the few nodes without whose stored states the run stays inside its limits.

        The result maps the node's name to its error, and is {} if `witnesses.too_far` finds no such nodes.
        """
        limits = ImpactLimits(**args["limits"])
        nodes = witnesses.too_far(decision.found, limits, decision.compiled.told_alone, observed)
        clauses = "; ".join(limits.exceeded(decision.found))
        given = str(args["approve"])
        other = f" What was approved, {given}, is another plan." if given else ""
        return {
            node: FleetError(
                "plan",
                decision.approval,
                f"needs approval because of what {some(nodes)} alone "
                f"{'says' if len(nodes) == 1 else 'say'}: {clauses}.{other}",
                f"Look at it with --check --diff. If it is what you want, run it with "
                f"-e approve={decision.approval}. Nothing was changed on {node}.",
            )
            for node in nodes
        }

    @staticmethod
    def _other_routing(
        compiled: fleet_source.Compiled, observed: t.Mapping[str, t.Optional[NodeState]]
    ) -> dict[str, FleetError]:
        """Return errors, by node, for the few nodes that run with BGP while the inventory is without, or the reverse.

        The result is {} if there are none. Raise FleetError if they are more than half of the nodes with a state: then
        the inventory has changed. BIRD's routes and the collection's own routes for the same blocks conflict.
        """
        enabled = compiled.fleet.settings.bgp_enabled
        other = sorted(host for host, state in observed.items() if state and (state.bird is not None) != enabled)
        if witnesses.few(other, observed):
            rule = f"says that it runs {'without' if enabled else 'with'} BGP, unlike the other nodes."
            remedy = "Remove /var/lib/calico/state.json on the node if its workloads may be planned anew."
            return {host: FleetError(f"stored state of {host}", None, rule, remedy) for host in other}
        if other:
            raise FleetError(
                "calico_bgp_enabled",
                enabled,
                f"differs from how {', '.join(other)} {'is' if len(other) == 1 else 'are'} running.",
                "A running fleet cannot change it in this release: set it back, or move its workloads to new nodes. "
                "Nothing was changed.",
            )
        return {}

    @staticmethod
    def _cannot_take_part(
        compiled: fleet_source.Compiled, observed: t.Mapping[str, t.Optional[NodeState]]
    ) -> dict[str, FleetError]:
        """Return errors, by node, for nodes that cannot be changed because another one takes no part in the phases.

        These are the few nodes that alone say that their sessions are interrupted. The result is {} if there are no
        phases or every node takes part; pure reflectors have to only if backup routes are used. If one does not, raise
        FleetError if phases are needed for another reason, or if more than half of the nodes with a state say so. A
        node that does not take part would go on to send in a mode that the others no longer accept, or lose sessions
        without routes to replace them.
        """
        if not compiled.change:
            return {}
        nodes = compiled.fleet.nodes.values()
        concerned = [node.name for node in nodes if node.workload_node or compiled.targets.hold]
        absent = [name for name in concerned if name not in observed]
        if not absent:
            return {}
        if witnesses.few(compiled.interrupted, observed) and not compiled.fleet_change:
            return {
                node: FleetError(
                    f"stored state of {node}",
                    None,
                    "says that this run interrupts its BGP sessions, unlike those of other nodes. That needs all "
                    f"nodes, and {some(absent)} cannot take part.",
                    f"Bring back or remove nodes that are down, and run again. Nothing was changed on {node}.",
                )
                for node in compiled.interrupted
            }
        what = "asks for a change of mode or MTU"
        if compiled.impact.hold:
            resets = [str(reset) for reset in compiled.impact.resets[:2]]
            what = f"interrupts BGP sessions ({', '.join(resets) or 'and was left half-way'})"
        raise FleetError(
            "plan" if compiled.impact.hold else "calico_ip_pools",
            None,
            f"{what}, and {', '.join(absent)} cannot take part in it.",
            "All nodes go through it in step: run it without --limit, and bring back or remove nodes that are "
            "down. Nothing was changed.",
        )

    def _restore(
        self,
        task_vars: dict[str, t.Any],
        args: t.Mapping[str, t.Any],
        answers: observed_nodes.ObservedNodes,
    ) -> dict[str, t.Any]:
        """Save the states that the nodes stored as a generation as the run's targets, and return the task's result.

        Its keys are changed, `path` of the targets, `plan` ("" unless all nodes have the same one), plans, `change`
        (whether phases are needed), hold, divert, fresh, prepare, steady, datastore, approval, impact, modes, warnings
        and started. Nodes are not changed. The variable that `restore` names has each host's node_info result with its
        `generation`. Blocks of a generation's pools that were granted later, and from which addresses are in use, stay.
        Raise FleetError if a node that was read does not have the generation, or has there a state that cannot be read
        or is another node's. Also raise it if a variable of a host cannot be read, or if the run exceeds its limits
        without approval; in check mode an excess is only a warning. Raise OSError if the targets cannot be stored.
        """
        observed = answers.states
        states: dict[str, NodeState] = {}
        missing = []
        for host in observed:
            chosen = _generation(task_vars["hostvars"][host].get(args["restore"]))
            if chosen:
                stored = observed_nodes.kept_state(host, chosen)
                if stored is not None:
                    allocated = answers.journals[host].allocated
                    states[host] = attachment.with_blocks_in_use(stored, observed[host], allocated)
                    continue
            missing.append(host)
        if missing:
            raise FleetError(
                "generation",
                None,
                f"is not stored on {', '.join(sorted(missing))}.",
                "Choose one that every node has (playbooks/rollback.yml without a plan lists them), "
                "or leave those nodes out with --limit.",
            )
        birds = {host: state.bird for host, state in states.items()}
        announced = {block for state in states.values() for block in impact.announced_by(state)}
        interrupted = impact.of_run(observed, birds, announced, states, answers.passwords)
        if args["limits"] is not None and args["limits"]["hosts_changed"] >= 0:
            interrupted = dataclasses.replace(interrupted, hosts=impact.changing(observed, states))
        plans = sorted({state.plan for state in states.values()})
        approval = interrupted.digest(" ".join(plans))
        refusal = self._refusal(interrupted, approval, args)
        if refusal is not None and not self._task.check_mode:
            raise refusal
        if args["limits"] is not None:
            shown_lines.show(interrupted.lines)
        restored = dataclasses.replace(
            self._restored(task_vars, states),
            hold=interrupted.hold,
            divert=interrupted.divert,
            refused=answers.refused,
        )
        return {
            "changed": False,
            "path": targets.save(restored),
            "plan": plans[0] if len(plans) == 1 else "",
            "plans": plans,
            "change": interrupted.hold or self._most_need_phases(observed, states),
            "hold": interrupted.hold,
            "divert": interrupted.divert,
            "fresh": sorted(host for host, state in observed.items() if state is None),
            "prepare": True,
            "steady": False,
            "datastore": False,
            "approval": approval,
            "impact": interrupted.lines if args["limits"] is not None else [],
            "modes": {
                name: pool_modes.MODE_OF[mode] for name, mode in pool_modes.modes_of_most(states.values()).items()
            },
            "warnings": [
                *([str(refusal)] if refusal is not None else ()),
                *(str(error) for dummy, error in sorted(answers.refused.items())),
                *left_out_sentences(answers.left_out),
            ],
            "started": time.time(),
        }

    @staticmethod
    def _most_need_phases(observed: t.Mapping[str, t.Optional[NodeState]], states: t.Mapping[str, NodeState]) -> bool:
        """Return whether at least half of the nodes need phases to get to these states; False if there are none."""
        needing = sum(fleet_source.needs_phases(observed[host], states[host]) for host in states)
        return needing > 0 and 2 * needing >= len(states)

    @staticmethod
    def _restored(task_vars: dict[str, t.Any], states: t.Mapping[str, NodeState]) -> targets.Targets:
        """Return the targets for these states.

        They include the lockfile's path and the modes to record in it, unless a host of calico_nodes is left out or the
        path cannot be told. Raise FleetError if a variable of a host cannot be read.
        """
        restored = targets.Targets(states=states)
        groups = task_vars.get("groups", {})
        if set(groups.get(inventory_source.NODES_GROUP, ())) <= set(states):
            hosts = inventory_source.hosts(task_vars)
            with contextlib.suppress(FleetError):
                restored.lockfile = lockfile_store.path_for(
                    fleet_source.fleet_variable(hosts, "calico_lockfile"), task_vars
                )
                restored.encapsulations = pool_modes.modes_of_most(states.values())
        return restored


def _is_plan_of_all(observed: t.Mapping[str, t.Optional[NodeState]], plan: str) -> bool:
    """Return whether all nodes have their state of this plan, by what they say; True if there are no nodes."""
    return all(state is not None and state.plan == plan for state in observed.values())


def _own_options(task_vars: t.Mapping[str, t.Any], hosts: t.Collection[str]) -> HostOptions:
    """Return {host: {option: value}} of the hosts' own values of _CNI_OPTIONS and _PODMAN_OPTIONS, as they are written.

    An option that only the play or the role sets is left out.
    """
    raw = controller_variables.raw(task_vars["hostvars"])
    found = {}
    for host in hosts:
        variables = raw(host)
        found[host] = {name: variables[name] for name in (*_CNI_OPTIONS, *_PODMAN_OPTIONS) if name in variables}
    return found


def _with_cni(task_vars: t.Mapping[str, t.Any], own: HostOptions, default: bool) -> set[str]:
    """Return the hosts that may have the CNI plugin; `own` are those of `_own_options`.

    If no host has a value of its own for one of the role's two options (_CNI_OPTIONS), all count or none: by `default`,
    which is what the role's options say for the first host. Otherwise all hosts count that do not have False for one of
    them: one too many costs a question to each host, and one too few leaves a package out. Only hosts of group
    calico_nodes are in the result.
    """
    cni = {host: [options[name] for name in _CNI_OPTIONS if name in options] for host, options in own.items()}
    differ = any(cni.values())
    workload_nodes = set(task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ()))
    wanting = {host for host, given in cni.items() if not any(value is False for value in given)}
    return (wanting if differ or default else set()) & workload_nodes


def _differ_in_podman(own: HostOptions) -> bool:
    """Return whether hosts have values of their own for one of the role's options (_PODMAN_OPTIONS) that differ."""
    podman = [[options.get(name) for name in _PODMAN_OPTIONS] for options in own.values()]
    return any(values != podman[0] for values in podman)


def _generation(answer: t.Any) -> t.Any:
    """Return the stored generation in a node_info result, with a `state` like the result itself; None without one."""
    return answer.get("generation") if isinstance(answer, t.Mapping) else None
