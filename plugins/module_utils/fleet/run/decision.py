# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decision whether a run goes on, and without which nodes: those are left out that alone say what would stop it."""

from __future__ import annotations

import dataclasses
import typing as t

from ...state.errors import FleetError
from ..host import Host
from ..inventory.policy_sources import Document
from ..node_answers.observed_nodes import ObservedNodes
from . import impact, witnesses
from .impact import Impact, ImpactLimits
from .live_inventory import asked_change
from .plan_run import FleetRun, plan_run
from .pool_modes import some
from .request import Lockfile, RunRequest


@dataclasses.dataclass(frozen=True)
class Approval:
    """How far a run may go without a person.

    `limits` are None if it may go as far as it wants. `given` is the hash of the plan that a person approved, "" for
    none. `enforced` is False in check mode, where lack of approval stops nothing.
    """

    limits: t.Optional[ImpactLimits] = None
    given: str = ""
    enforced: bool = True

    def refusal(self, found: Impact, needed: str) -> t.Optional[FleetError]:
        """Return the error for a run with this impact, None inside the limits or if `needed`, its hash, is approved."""
        exceeded = self.limits.exceeded(found) if self.limits is not None else []
        if not exceeded or self.given == needed:
            return None
        return FleetError(
            "plan",
            needed,
            f"needs approval: {'; '.join(exceeded)}.{self._other}",
            f"Look at it with --check --diff. If it is what you want, run it with -e approve={needed}"
            f"{_in_order(found)}. Nothing was changed.",
        )

    def too_far(self, run: FleetRun, found: Impact, needed: str, answers: ObservedNodes) -> dict[str, FleetError]:
        """Return an error for each of the few nodes without which the run stays in its limits (`witnesses.too_far`)."""
        if self.limits is None:
            return {}
        alone = impact.with_lockouts(run.reported_alone, found.lockouts)
        nodes = witnesses.too_far(found, self.limits, alone, answers.states)
        clauses = "; ".join(self.limits.exceeded(found))
        return {
            node: FleetError(
                "plan",
                needed,
                f"needs approval because of what {some(nodes)} alone "
                f"{'says' if len(nodes) == 1 else 'say'}: {clauses}.{self._other}",
                f"Look at it with --check --diff. If it is what you want, run it with "
                f"-e approve={needed}{_in_order(found)}. Nothing was changed on {node}.",
            )
            for node in nodes
        }

    @property
    def _other(self) -> str:
        return f" What was approved, {self.given}, is another plan." if self.given else ""


@dataclasses.dataclass(frozen=True)
class Decision:
    """What a run does by the answers of its nodes, without those that it leaves out.

    `approval` is the hash of this plan and its impact `found`. `refusals` are the errors for lack of approval.
    """

    run: FleetRun
    found: Impact
    approval: str
    answers: ObservedNodes
    refusals: tuple[FleetError, ...] = ()


def decide(
    hosts: t.Sequence[Host],
    documents: t.Sequence[Document],
    lockfile: Lockfile,
    answers: ObservedNodes,
    request: RunRequest,
    approval: Approval,
    staying: t.Collection[str] = (),
) -> Decision:
    """Return what the run does. In check mode, return what it would do with approval, and its refusals without.

    A node is refused, and the run goes on, if only this node and few others say what stops the run. If the run cannot
    go on without the nodes that are refused for lack of approval, the run as a whole lacks approval. `staying` are
    nodes that stay in the inventory although the run plans without them. The other arguments are those of `plan_run`.
    Raise FleetError if the run is refused; in check mode not for lack of approval.
    """
    unapproved: t.Optional[Decision] = None  # the first decision that lacks approval
    refused: dict[str, FleetError] = {}  # the hosts that are left out after it
    while True:
        try:
            run = plan_run(hosts, documents, lockfile, answers, request)
            _check_renamed(run, answers, staying)
            found = _with_hosts(run, answers, approval.limits)
            if approval.limits is not None:
                found = dataclasses.replace(found, lockouts=impact.lockouts(answers.denied))
                check_lockouts(found, run.change)
            decision = Decision(run, found, found.digest(run.fleet.digest), answers)
            alone = other_routing(run, answers) or cannot_take_part(run, answers)
        except FleetError:
            if unapproved is None:
                raise
            return _without_approval(unapproved, approval)
        lack = None if alone else approval.refusal(found, decision.approval)
        if lack is not None:
            unapproved = unapproved or dataclasses.replace(decision, refusals=(lack,))
            alone = approval.too_far(run, found, decision.approval, answers)
            if not alone:
                return _without_approval(unapproved, approval)
        if not alone:
            break
        if unapproved is not None:
            refused.update(alone)
        answers = answers.without(alone)
    if unapproved is not None and not approval.enforced:
        return dataclasses.replace(unapproved, refusals=tuple(refused[host] for host in sorted(refused)))
    return decision


def check_lockouts(found: Impact, in_phases: bool) -> None:
    """Raise FleetError if the run locks out nodes and goes through phases, in which all nodes change in step."""
    if found.lockouts and in_phases:
        raise FleetError(
            "plan",
            None,
            f"would deny new SSH connections to {found.locked_out}, and changes all nodes in phases, so that none of "
            "these can be tried first.",
            "Change policy in a run of its own, before or after what needs phases. Nothing was changed.",
        )


def _in_order(found: Impact) -> str:
    """Return the end of a sentence about a run with approval: which node goes first if it locks out several."""
    if not found.lockouts:
        return ""
    return f": then {found.first} goes first, alone, and the others follow when a new connection has reached it"


def _without_approval(decision: Decision, approval: Approval) -> Decision:
    """Return the decision in check mode, else raise its refusal."""
    if approval.enforced:
        raise decision.refusals[0]
    return decision


def _check_renamed(run: FleetRun, answers: ObservedNodes, staying: t.Collection[str]) -> None:
    """Raise FleetError if the run would remove a node whose host has another name in the inventory now."""
    known = run.remembered.nodes if run.remembered is not None else {}
    renamed = sorted(witnesses.renamed(answers.claims, known, {*run.fleet.allocation.nodes, *staying}).items())
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


def _with_hosts(run: FleetRun, answers: ObservedNodes, limits: t.Optional[ImpactLimits]) -> Impact:
    """Return the impact of the run. The hosts that change are in it only if their number has a limit."""
    if limits is None or limits.hosts_changed < 0:
        return run.impact
    after = {host: run.targets.state(host) for host in answers.states if host in run.fleet.nodes}
    return dataclasses.replace(run.impact, hosts=impact.changing(answers.states, after))


def other_routing(run: FleetRun, answers: ObservedNodes) -> dict[str, FleetError]:
    """Return errors, by node, for the few nodes that run with BGP while the inventory is without, or the reverse.

    The result is {} if there are none. Raise FleetError if they are more than half of the nodes with a state: then
    the inventory has changed. BIRD's routes and the collection's own routes for the same blocks conflict.
    """
    enabled = run.fleet.settings.bgp_enabled
    other = sorted(host for host, state in answers.states.items() if state and (state.bird is not None) != enabled)
    if witnesses.sole_reporters(other, answers.states):
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


def cannot_take_part(run: FleetRun, answers: ObservedNodes) -> dict[str, FleetError]:
    """Return errors, by node, for nodes that cannot be changed because another one takes no part in the phases.

    These are the few nodes that alone say that their sessions are interrupted. The result is {} if there are no
    phases or every node takes part; pure reflectors have to only if backup routes are used. If one does not, raise
    FleetError if phases are needed for another reason, or if more than half of the nodes with a state say so. A
    node that does not take part would go on to send in a mode that the others no longer accept, or lose sessions
    without routes to replace them.
    """
    if not run.change:
        return {}
    nodes = run.fleet.nodes.values()
    concerned = [node.name for node in nodes if node.workload_node or run.targets.hold]
    absent = [name for name in concerned if name not in answers.states]
    if not absent:
        return {}
    if witnesses.sole_reporters(run.interrupted, answers.states) and not run.fleet_change:
        return {
            node: FleetError(
                f"stored state of {node}",
                None,
                "says that this run interrupts its BGP sessions, unlike those of other nodes. That needs all "
                f"nodes, and {some(absent)} cannot take part.",
                f"Bring back or remove nodes that are down, and run again. Nothing was changed on {node}.",
            )
            for node in run.interrupted
        }
    what = ""
    if run.impact.moved:
        what = f"gives a node another address ({', '.join(run.impact.moved[:2])})"
    elif run.impact.hold:
        resets = [str(reset) for reset in run.impact.resets[:2]]
        what = f"interrupts BGP sessions ({', '.join(resets) or 'and was left half-way'})"
    variable, value = "plan", None
    if not (run.impact.moved or run.impact.hold):
        variable, value, what = asked_change(run.fleet.settings.underlay_mtu, answers.states.values())
    raise FleetError(
        variable,
        value,
        f"{what}, and {', '.join(absent)} cannot take part in it.",
        "All nodes go through it in step: run it without --limit, and bring back or remove nodes that are "
        "down. Nothing was changed.",
    )
