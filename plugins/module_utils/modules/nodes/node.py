# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node brings a whole node to its state."""

from __future__ import annotations

import hashlib
import typing as t

from ...base import terminal_text
from ...bgp import passwords
from ...bird.errors import BirdError
from ...dataplane.change import Change, ObserveError, change_lines
from ...dataplane.drivers import workload
from ...dataplane.drivers.file import WantedFile
from ...dataplane.kernel.port import KernelError
from ...node import machine
from ...node.change import apply, missing_files, phases
from ...node.change.comparison import Engine
from ...node.change.plan import ChangePlan, plan_change
from ...node.engine import bundle, carried_start
from ...node.errors import ERRORS, InTheWay
from ...node.host import units
from ...node.probe import convergence, probing
from ...node.store import unconfirmed
from ...node.store.store import File, Stored
from ...node.store.stored_file import StoreError
from ...node.write import datastore_files
from ...state.node_state import NodeState
from ...wire import running_agent
from ..module_call import ModuleCall
from ..specs.nodes import ONE_ROUND
from . import convergence_info, probe
from .node_request import NodeRequest

#: The most rounds of probes by which a path is found silent.
_ATTEMPTS = 3


def target_of(params: t.Mapping[str, t.Any]) -> Stored:
    """Return the state, bird.cfg (None without BIRD) and files (None to keep those of the node) to apply.

    Raise ValueError if the state is missing or this release cannot read it.
    """
    if params["state"] is None:
        raise ValueError("state is missing. It is worked out by the module's action, on the controller.")
    files = None
    if params["files"] is not None:
        files = tuple(
            File(entry["path"], entry["content"] or "", entry["mode"], entry["last"]) for entry in params["files"]
        )
    state = NodeState.from_dict(params["state"])
    return Stored(state, params["bird_config"] if state.bird else None, files, params["who"])


def units_of(params: t.Mapping[str, t.Any]) -> tuple[units.WantedUnit, ...]:
    """Return the given units without those whose settings all stay as they are."""
    wanted = [
        units.WantedUnit(entry["name"], entry["enabled"], entry["started"], entry["masked"])
        for entry in params["units"] or ()
    ]
    return tuple(unit for unit in wanted if unit != units.WantedUnit(unit.name))


def engine_of(request: NodeRequest) -> t.Optional[Engine]:
    """Return the engine that the node must have, None to keep its own.

    Its `packed` is what came with the call, else the content of the file `engine`, else None.
    """
    if not request.engine_digest:
        return None
    packed = carried_start.arrived
    if packed is None and request.engine:
        with open(request.engine, "rb") as stream:
            packed = carried_start.PackedEngine(stream.read(), request.engine_sha256)
    return Engine(request.engine_digest, packed)


def confirm_of(
    here: machine.Machine, params: t.Mapping[str, t.Any], request: NodeRequest
) -> t.Optional[unconfirmed.Confirm]:
    if params["confirm_timeout"] <= 0:
        return None
    own = next(iter(here.sessions()), None)
    previous = None
    if request.previous:
        state = NodeState.from_dict(request.previous["state"])
        previous = Stored(state, request.previous.get("bird_config") if state.bird else None)
    return unconfirmed.Confirm(
        request.change or params["who"], params["confirm_timeout"], own.text if own else "", previous
    )


def waiting_change(here: machine.Machine) -> str:
    """Return the name of the change that waits for its confirmation, even if it failed; "" if none can be read."""
    try:
        pending = unconfirmed.UnconfirmedStore(here.store).load()
    except StoreError:
        return ""
    return pending.change if pending else ""


def phases_of(here: machine.Machine, request: NodeRequest) -> list[dict[str, t.Any]]:
    """Return what each phase will change once the one before it is done; [] if the request has no phases.

    Each is a dict with its name as `phase`, the lines as `plan` and the data as `changes`, as `changes_of` returns it.
    """
    plans = []
    for entry in request.phases:
        state = NodeState.from_dict(entry["state"])
        stored = Stored(state, entry.get("bird_config") if state.bird else None)
        plans.append(plan_change(here, stored, passwords=passwords.unpack(request.bgp_passwords)))
    return [
        {
            "phase": entry["phase"],
            "plan": change_lines(step),
            "changes": changes_of(step),
        }
        for entry, step in zip(request.phases, phases.steps(plans))
    ]


def prepared_diff(plan: ChangePlan, steps: t.Sequence[t.Mapping[str, t.Any]] = (), whole_files: bool = False) -> str:
    """Return the plan as text for people: `steps` as of `phases_of`, the plan's lines, then its changes' details.

    Without `whole_files`, new files are one line with their number. Of a node without a state, the contents of
    bird.cfg and of chains are left out as well.
    """
    node, lines = plan.target.state.node, []
    for step in steps:
        lines.append(
            f"{node}  {step['phase']:<8} {_count((change['kind'], change['action']) for change in step['changes'])}"
        )
        lines += [f"  {line}" for line in step["plan"]]
    head = f"{node}  {_count((change.kind, change.action) for change in plan.shown if change not in plan.cut)}"
    lines.append(f"{head:<58} plan {plan.target.state.plan[:12]}".rstrip())
    new = [] if whole_files else [change for change in plan.shown if _of_new_file(change)]
    shown = [change for change in plan.shown if change not in new]
    lines += [f"  {line}" for line in change_lines(shown)]
    if new:
        lines.append(f"  + file     {len(new)} new file{'' if len(new) == 1 else 's'}")
    # A policy is what people have written; a chain is made of it, and only a node that has others shows its rules.
    left_out = ("bird", "iptables") if plan.stored is None and not whole_files else ()
    told = [change for change in shown if change.action != "+" or change.kind not in left_out]
    details = [terminal_text.text(change.detail.rstrip("\n")) for change in told if change.detail]
    return "\n".join([*lines, *details]) + "\n"


def _count(changes: t.Iterable[tuple[str, str]]) -> str:
    """Return the number of changes in words, from pairs (kind, action).

    Not counted are notes, whose action is "=", and sessions that end or restart, since another change causes that.
    """
    count = sum(action != "=" and kind != "session" for kind, action in changes)
    return f"{count} change{'' if count == 1 else 's'}"


def changes_of(changes: t.Iterable[Change]) -> list[dict[str, t.Any]]:
    return [
        {
            "kind": change.kind,
            "action": change.action,
            "subject": change.subject,
            "before": change.before,
            "after": change.after,
            "note": change.note,
            "by": "bird" if change.note == "proto bird" else "node",
            **_of_new_file(change),
        }
        for change in changes
    ]


def _of_new_file(change: Change) -> dict[str, t.Any]:
    """Return the `size` of a new file in bytes, and a `digest` by which equal ones are known; {} for other changes.

    A secret file has the `digest` "".
    """
    wanted = change.new
    if change.action != "+" or not isinstance(wanted, WantedFile) or wanted.content is None:
        return {}
    content = wanted.content.encode("utf-8", "surrogateescape")
    digest = "" if wanted.secret else hashlib.sha256(content).hexdigest()[:16]
    return {"size": len(content), "digest": digest}


def settled(here: machine.Machine, state: NodeState, request: NodeRequest) -> t.Optional[dict[str, t.Any]]:
    """Return whether the node has all sessions and routes of `state`, and the counts of sessions, paths and probes.

    The keys are `converged`, `sessions` (see `sessions_of`), `paths`, and `sent` and `lost` of probes. Sessions with
    `absent_nodes` of the request, and their routes, are not expected. Probes are sent only if nothing is missing, in at
    most three rounds; `targets` has the paths that lost some of the last. The node is looked at once: what is missing
    may need a change of another host, which is not waited for here. A BIRD that cannot be asked counts as not
    converged. Return None if the kernel cannot be asked or no probe can be sent.
    """
    try:
        seen = convergence.wait(here, convergence.without(state, request.absent_nodes), 0)
        asked = request.targets if seen.converged else ()
        targets = [probing.Target(*target) for target in asked]
        options = {**ONE_ROUND, "attempts": _ATTEMPTS, "endpoint": True, "secret": request.secret}
        answers = probe.send(options, targets, 1) if targets else []
        return {
            "converged": seen.converged,
            "sessions": convergence_info.sessions_of(seen),
            "paths": len(targets),
            "sent": sum(answer["sent"] for answer in answers),
            "lost": sum(answer["lost"] for answer in answers),
            "targets": [answer for answer in answers if answer["lost"]],
        }
    except (BirdError, KernelError, ObserveError, probing.ProbeError):
        return None


def run(module: ModuleCall) -> t.NoReturn:
    """Bring a whole node to its state, and answer as the module node."""
    here = machine.here(running_agent.connect)
    steps: list[dict[str, t.Any]] = []
    found: t.Optional[dict[str, t.Any]] = None
    try:
        request = NodeRequest.unpack(module.params["request"])
        if module.params["foresee"]:
            from ...node.change.verdicts import lockout_check  # few runs need it, and it loads what evaluates policy

            foreseen = lockout_check.newly_denied(here, target_of(module.params).state)
            module.exit_json(changed=False, foreseen=[{"session": one.what, "by": one.by} for one in foreseen])
        if module.check_mode:
            steps = phases_of(here, request)
        result = apply.bring_to(
            here,
            target_of(module.params),
            engine=engine_of(request),
            wanted_units=units_of(module.params),
            check=module.check_mode,
            keep=module.params["generations_kept"],
            lock_timeout=module.params["lock_timeout"],
            confirm=confirm_of(here, module.params, request),
            passwords=passwords.unpack(request.bgp_passwords),
            datastore=datastore_files.unpack(request.datastore),
        )
        quiet = not (result.plan.changed or result.unconfirmed)
        if not module.check_mode and (module.params["look"] or (module.params["settle"] and quiet)):
            found = settled(here, result.plan.target.state, request)
        unwatched = "" if module.check_mode else missing_files.unwatched(here, result.plan.target)
    except (*ERRORS, InTheWay, bundle.BundleError, ValueError) as error:
        module.fail_json(msg=str(error), unconfirmed=waiting_change(here))
    finally:
        here.kernel.close()
    plan = result.plan
    answer: dict[str, t.Any] = {
        "changed": plan.changed,
        "plan": plan.lines,
        "changes": changes_of(plan.shown),
        "new": plan.stored is None,
        "sessions_begun": plan.sessions_begun,
        "sessions_reset": plan.sessions_reset,
        "routes_withdrawn": plan.routes_withdrawn,
        "kept": plan.kept,
        "units_changed": plan.units_changed,
        "generation": result.generation,
        "cut": plan.cut_sentences,
        "unconfirmed": result.unconfirmed,
    }
    if steps:
        answer["phases"] = steps
    if found is not None:
        answer["settled"] = found
    if module._diff and plan.changed:
        answer["diff"] = {"prepared": prepared_diff(plan, steps, module.params["whole_files"])}
    if unwatched:
        module.warn(f"{plan.target.state.node}: {unwatched}")
    for change in plan.node.problems:
        module.warn(f"{plan.target.state.node}: {change.note}")
    for change in plan.node.kept:
        if change.kind == "ipset" or workload.is_inside(change.note):
            module.warn(f"{plan.target.state.node}: {change.subject}: {change.note}")
    policy = plan.target.state.policy
    standing = "" if policy is not None and policy.settings.cut_denied_flows else " Connections that stand go on."
    for sentence in answer["cut"]:
        module.warn(f"{plan.target.state.node}: {sentence}.{standing}")
    for change in plan.unseen_revert:
        module.warn(f"{plan.target.state.node} {change.note}")
    module.exit_json(**answer)
