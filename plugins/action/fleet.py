# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import Unreadable
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DOCUMENT_BYTES
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    live_policy,
    stored_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication.live_policy import (
    InventoryPolicy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.change import renumbering
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_settings import LIVE_POLICY
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.lint import refusals
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import observed_nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results as readers
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run import impact, pool_modes
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.decision import (
    Approval,
    Decision,
    check_lockouts,
    decide,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.impact import ImpactLimits
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.plan_run import FleetRun, needs_phases
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.targets import Targets
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.run.topology import TOPOLOGIES
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.answers.left_out import (
    sentences as left_out_sentences,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import controller_variables
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import GuardedAction
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import access
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import cluster_members
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.lines import lint_lines, shown_lines
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.nodes import host_check, run_results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources import (
    fleet_source,
    inventory_source,
    lint_source,
    lockfile_store,
    targets,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.sources.targets import RestoredSource

#: The role's options that together switch the CNI plugin on.
_CNI_OPTIONS = ("calico_node_agent", "calico_node_cni")
_PODMAN_OPTIONS = ("calico_node_runtimes", "calico_node_podman_networks")

HostOptions = dict[str, dict[str, t.Any]]


class ActionModule(GuardedAction):
    """The action fleet, which compiles the fleet once per run, on the controller.

    It stores the nodes' targets in a private folder, whose `path` the result has. It writes the lockfile if that
    changes, except in check mode and with `restore`. The task fails, with the text of the FleetError, if the fleet
    cannot be planned, if nodes cannot take part in a change that needs all, if a generation to restore is missing or
    unreadable, or if the run exceeds its limits without approval. In check mode, an excess is only a warning.
    """

    _requires_connection = False
    NEEDS_ALL_HOSTS = True

    def act(self, task_vars: dict[str, t.Any]) -> dict[str, t.Any]:
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
                "foreseen": {"type": "str"},
                "cni": {"type": "bool", "default": False},
                "podman": {"type": "str", "choices": ["no", "auto", "yes"], "default": "no"},
                "podman_networks": {"type": "raw", "default": []},
                "install_packages": {"type": "bool", "default": True},
            },
            required_together=[("pool", "mode")],
        )
        try:
            return self._compile(task_vars, args)
        except FleetError as error:
            told = str(error) if args["restore"] or args["without"] else self._with_others(error, task_vars)
            return {"failed": True, "msg": told}

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
        if args["foreseen"]:
            foreseen = run_results.of_hosts(task_vars, args["foreseen"], answers.states, readers.FORESEEN)
            answers = dataclasses.replace(answers, denied=observed_nodes.denied(foreseen))
        if args["restore"]:
            return self._restore(task_vars, args, answers)
        asked = fleet_source.request(
            task_vars, **{name: args[name] for name in ("pool", "mode", "as_observed", "hold", "topology", "without")}
        )
        sources = fleet_source.read(task_vars, asked)
        if not args["as_observed"]:
            cluster_members.check_kept(task_vars, answers.states)

        def decided(approval: Approval) -> Decision:
            members = inventory_source.members(task_vars)
            return decide(sources.hosts, sources.documents, sources.lockfile, answers, asked, approval, members)

        allowed = self._approval(args)
        if args["limits"] is None or args["foreseen"]:
            decision = decided(allowed)
        else:
            decision = decided(dataclasses.replace(allowed, enforced=False))
            to_foresee = _to_foresee(decision.run, decision.answers)
            if to_foresee:
                return {
                    "changed": False,
                    "path": targets.save(decision.run.targets, sources.datastore),
                    "foresee": to_foresee,
                }
            if decision.refusals and allowed.enforced:
                decision = decided(allowed)
        run, found, approval, answers = decision.run, decision.found, decision.approval, decision.answers
        warnings = [*run.notices, *left_out_sentences(answers.left_out), *map(str, decision.refusals)]
        if args["limits"] is not None:
            shown_lines.show(found.lines)
        live = _published_policy(run)
        changed = run.before != run.after
        if changed and not self._task.check_mode:
            lockfile_store.write(run.lockfile, run.fleet.allocation)
        answer = {
            "changed": changed,
            "path": targets.save(run.targets, sources.datastore, live=live),
            "plan": run.fleet.digest,
            "lockfile": run.lockfile,
            "generation": run.fleet.allocation.generation,
            "change": run.change,
            "hold": run.targets.hold,
            "divert": run.targets.divert,
            "fresh": list(run.fresh),
            "foresee": [],
            "first": "" if self._task.check_mode else found.first,
            "prepare": self._to_prepare(run, answers, results, task_vars, args),
            "steady": not run.change and _is_plan_of_all(answers.states, run.fleet.digest),
            "datastore": sources.datastore is not None,
            "approval": approval,
            "impact": found.lines if args["limits"] is not None else [],
            "modes": run.modes,
            "warnings": [str(warning) for warning in warnings],
            "started": time.time(),
        }
        if changed:
            answer["diff"] = {
                "before_header": run.lockfile,
                "after_header": run.lockfile,
                "before": run.before,
                "after": run.after,
            }
        return answer

    def _to_prepare(
        self,
        run: FleetRun,
        answers: observed_nodes.ObservedNodes,
        results: t.Mapping[str, t.Mapping[str, t.Any]],
        task_vars: t.Mapping[str, t.Any],
        args: t.Mapping[str, t.Any],
    ) -> bool:
        """Return whether a host has findings or lacks packages that this run installs, before it gets its state.

        It is also True for a change in phases, for a refused host, and for one that cannot be judged.
        """
        own = _own_options(task_vars, answers.states)
        with_cni = _with_cni(task_vars, own, args["cni"])
        if run.change or answers.refused or _differ_in_podman(own):
            return True
        podman = host_check.podman_wish(args["podman"], args["podman_networks"])
        try:
            for host in answers.states:
                found = host_check.check(results[host], run.targets.state(host), host in with_cni, podman=podman)
                if found.findings or (found.missing_packages and args["install_packages"]):
                    return True
        except (host_check.NotJudged, KeyError):  # the host's own task says what is wrong
            return True
        return False

    def _approval(self, args: t.Mapping[str, t.Any]) -> Approval:
        """Return how far the run may go by its arguments."""
        limits = ImpactLimits(**args["limits"]) if args["limits"] is not None else None
        return Approval(limits, str(args["approve"]), enforced=not self._task.check_mode)

    def _restore(
        self,
        task_vars: dict[str, t.Any],
        args: t.Mapping[str, t.Any],
        answers: observed_nodes.ObservedNodes,
    ) -> dict[str, t.Any]:
        """Save the states that the nodes stored as a generation as the run's targets, and return the task's result.

        Its `plan` is "" unless all nodes have the same one. The variable that `restore` names has each host's node_info
        result with its `generation`. Blocks of a generation's pools that were granted later, and from which addresses
        are in use, stay. Nodes keep the addresses that they have now.
        """
        observed = answers.states
        states: dict[str, NodeState] = {}
        policies: dict[str, str] = {}
        given: dict[str, t.Any] = {}
        missing = []
        for host in observed:
            chosen = _generation(task_vars["hostvars"][host].get(args["restore"]))
            if chosen:
                stored = observed_nodes.kept_state(host, chosen)
                if stored is not None:
                    allocated = answers.journals[host].allocated
                    current = observed[host]
                    stored = _with_addresses_of(host, stored, current)
                    states[host] = attachment.with_blocks_in_use(stored, current, allocated)
                    given[host] = policy = chosen["state"].get("policy")
                    if isinstance(policy, str):
                        policies[host] = str.__str__(policy)
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
        whole = set(task_vars.get("groups", {}).get(inventory_source.NODES_GROUP, ())) <= set(states)
        hosts = _hosts(task_vars, whole)
        known = _known_to_routers(hosts)
        pools = {pool.cidr: pool.name for state in states.values() for pool in state.pools if pool.name not in known}
        interrupted = impact.of_run(observed, birds, announced, states, answers.passwords, pools=pools)
        if args["limits"] is not None and args["limits"]["hosts_changed"] >= 0:
            interrupted = dataclasses.replace(interrupted, hosts=impact.changing(observed, states))
        interrupted = dataclasses.replace(interrupted, lockouts=impact.lockouts(answers.denied))
        plans = sorted({state.plan for state in states.values()})
        approval = interrupted.digest(" ".join(plans))
        restored = dataclasses.replace(
            self._restored(task_vars, states, hosts if whole else None),
            hold=interrupted.hold,
            divert=interrupted.divert,
            refused=answers.refused,
        )
        if args["limits"] is not None and not args["foreseen"]:
            to_foresee = sorted(host for host in policies if _is_another_plan(observed[host], states[host].plan))
            if to_foresee:
                return {"changed": False, "path": targets.save(restored, policies=policies), "foresee": to_foresee}
        change = interrupted.hold or self._most_need_phases(observed, states)
        check_lockouts(interrupted, change)
        allowed = self._approval(args)
        refusal = allowed.refusal(interrupted, approval)
        if refusal is not None and allowed.enforced:
            raise refusal
        if args["limits"] is not None:
            shown_lines.show(interrupted.lines)
        source = _restored_policy(task_vars, hosts, {host: state.plan for host, state in states.items()}, given, whole)
        return {
            "changed": False,
            "foresee": [],
            "first": "" if self._task.check_mode else interrupted.first,
            "path": targets.save(restored, policies=policies, restored=source),
            "plan": plans[0] if len(plans) == 1 else "",
            "plans": plans,
            "change": change,
            "hold": interrupted.hold,
            "divert": interrupted.divert,
            "fresh": sorted(host for host, state in observed.items() if state is None),
            "prepare": True,
            "steady": False,
            "datastore": source is not None,
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
        needing = sum(needs_phases(observed[host], states[host]) for host in states)
        return needing > 0 and 2 * needing >= len(states)

    @staticmethod
    def _restored(
        task_vars: dict[str, t.Any], states: t.Mapping[str, NodeState], hosts: t.Optional[t.Sequence[Host]]
    ) -> Targets:
        """Return the targets for these states, with lockfile and modes to record if these are of all workload nodes.

        `hosts` are those of the inventory then, and None otherwise.
        """
        restored = Targets(states=states)
        if hosts is not None:
            with contextlib.suppress(FleetError):
                chosen = variables.of_fleet(hosts, "calico_lockfile")
                restored = dataclasses.replace(
                    restored,
                    lockfile=lockfile_store.path_for(chosen, task_vars),
                    encapsulations=pool_modes.modes_of_most(states.values()),
                )
        return restored


def _restored_policy(
    task_vars: t.Mapping[str, t.Any],
    hosts: t.Sequence[Host],
    plans: t.Mapping[str, str],
    policies: t.Mapping[str, t.Any],
    whole: bool,
) -> t.Optional[RestoredSource]:
    """Return what stored states mean for the inventory's policy in the datastore, None if neither has live policy.

    `policies` has the packed policy of each host. It is None as well if the inventory names no datastore, or none that
    can be read.
    """
    try:
        datastore = access.of(hosts, task_vars) if hosts else None
        live = bool(hosts and variables.of_fleet(hosts, LIVE_POLICY))
    except FleetError:
        return None
    if datastore is None:
        return None
    if not live and not stored_policy.read(plans, policies, whole, most=1).has_live_policy:
        return None
    return RestoredSource(datastore, stored_policy.read(plans, policies, whole))


def _published_policy(run: FleetRun) -> t.Optional[InventoryPolicy]:
    """Return what a fleet with live policy publishes of it, None without. Raise FleetError for a large document."""
    if run.fleet.policy is None or not run.fleet.has_live_policy:
        return None
    policy = run.fleet.policy.policy
    try:
        return live_policy.of_inventory(policy.policy_set, policy.settings)
    except live_policy.OversizedDocument as error:
        raise FleetError(
            error.name,
            None,
            f"has {error.size} bytes as JSON, and with calico_live_policy at most {DOCUMENT_BYTES} are allowed.",
            "Make two of it, or set calico_live_policy to false.",
        ) from None


def _to_foresee(run: FleetRun, answers: observed_nodes.ObservedNodes) -> list[str]:
    """Return the sorted hosts of the run that get another plan with policy of their own: it may deny SSH to them."""
    if run.fleet.policy is None:
        return []
    protected = {endpoint.node for endpoint in run.fleet.policy.policy.host_endpoints}
    return sorted(
        host
        for host, state in answers.states.items()
        if host in protected and _is_another_plan(state, run.fleet.digest)
    )


def _is_another_plan(state: t.Optional[NodeState], plan: str) -> bool:
    return state is None or state.plan != plan


def _hosts(task_vars: t.Mapping[str, t.Any], needed: bool) -> list[Host]:
    """Return the inventory's hosts. If they cannot be read, raise FleetError if they are `needed`, else return []."""
    try:
        return inventory_source.hosts(task_vars)
    except FleetError:
        if needed:
            raise
        return []


def _known_to_routers(hosts: t.Iterable[Host]) -> t.Collection[str]:
    """Return the names of pools that routers know without sessions; none, which asks for more, if that is invalid."""
    with contextlib.suppress(FleetError):
        return t.cast("list[str]", variables.of_fleet(hosts, "calico_pools_known_to_routers") or [])
    return []


def _with_addresses_of(host: str, stored: NodeState, current: t.Optional[NodeState]) -> NodeState:
    """Return a stored state with the addresses that nodes have in `current`. Raise FleetError if it is unusable."""
    try:
        return renumbering.returned(stored, current) if current is not None else stored
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        why = Unreadable("", "a state from which no way leads to another one")
        raise observed_nodes.unreadable(host, why) from error


def _is_plan_of_all(observed: t.Mapping[str, t.Optional[NodeState]], plan: str) -> bool:
    """Return whether all nodes have their state of this plan, by what they say; True if there are no nodes."""
    return all(state is not None and state.plan == plan for state in observed.values())


def _own_options(task_vars: t.Mapping[str, t.Any], hosts: t.Collection[str]) -> HostOptions:
    """Return {host: {option: value}} of the hosts' own values of _CNI_OPTIONS and _PODMAN_OPTIONS, as written."""
    raw = controller_variables.raw(task_vars["hostvars"])
    found = {}
    for host in hosts:
        own = raw(host)
        found[host] = {name: own[name] for name in (*_CNI_OPTIONS, *_PODMAN_OPTIONS) if name in own}
    return found


def _with_cni(task_vars: t.Mapping[str, t.Any], own: HostOptions, default: bool) -> set[str]:
    """Return the hosts of group calico_nodes that may have the CNI plugin; `own` are those of `_own_options`.

    If no host has a value of its own for one of _CNI_OPTIONS, all count or none, by `default`. Otherwise all hosts
    count that do not have False for one of them: one too many costs a question to each host, and one too few leaves a
    package out.
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
