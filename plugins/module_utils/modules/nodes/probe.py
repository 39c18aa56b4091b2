# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module probe sends probes to many addresses at once."""

from __future__ import annotations

import time
import typing as t

from ...node.probe import probing, watch
from ..module_call import ModuleCall

Found = dict[str, t.Any]


# Probes per second: to each target without a watch and with one, and to all targets together.
_ALONE = 10
_BESIDE_A_WATCH = 1
_TOGETHER = 200


def targets_of(params: t.Mapping[str, t.Any]) -> list[probing.Target]:
    """Return the targets in a module's parameters, [] if they have none."""
    return [probing.Target(entry["address"], entry["size"], entry["name"]) for entry in params["targets"] or ()]


def send(params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target], a_second: int) -> list[Found]:
    """Probe the targets, and return the fields of ProbeResult and `lost` for each, in their order; [] without targets.

    Probe each target for `seconds` with `a_second` probes per second, at most 200 to all targets together, but at least
    one to each. If `seconds` is 0, probe `count` times, `interval` milliseconds apart. Targets with a loss are probed
    again, in at most `attempts` rounds in all, and the last round of a target counts. `timeout` is in milliseconds,
    `mark`, `source` and the errors are as in `probing.probe`.
    """
    count, interval = params["count"], params["interval"] / 1000
    if params["seconds"] and targets:
        count = max(1, int(params["seconds"] * min(a_second, _TOGETHER / len(targets))))
        interval = params["seconds"] / count
    answers: list[probing.ProbeResult] = []
    missing = list(range(len(targets)))
    for dummy in range(max(1, params["attempts"])):
        again = [targets[number] for number in missing]
        found = probing.probe(again, count, interval, params["timeout"] / 1000, params["mark"], params["source"])
        latest = dict(zip(missing, found))
        answers = [latest.get(number) or answers[number] for number in range(len(targets))]
        missing = [number for number in missing if latest[number].lost]
        if not missing:
            break
    return [{**answer._asdict(), "lost": answer.lost} for answer in answers]


def start(params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target], found: t.Sequence[Found]) -> Found:
    if not found or any(entry["lost"] for entry in found):
        return {"running": False, "reason": "not all targets answered" if found else "there is nothing to watch"}
    # Small probes: before and after the routes are replaced, the largest size that passes differs.
    watch.start([probing.Target(target.address, name=target.name) for target in targets], params["limit"])
    return {"running": True, "reason": "", "interval": round(watch.interval(len(targets)) * 1000, 1)}


def collect(params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target]) -> tuple[list[Found], Found]:
    running = watch.running()
    until = time.monotonic() + params["seconds"]
    found = send(params, targets, _ALONE if running is None else _BESIDE_A_WATCH)
    time.sleep(max(0.0, until - time.monotonic()))  # the last probe is sent before the last second is over
    report = watch.collect(running)
    state = report["state"] if report else None
    if state == "stopped" and running is None:
        state = None  # an earlier collection or stop left the file
    reasons = {
        None: "no watch was running",
        "running": "the watch was killed",
        "ended": "the watch came to its limit before",
    }
    about: Found = {"running": False, "complete": state == "stopped", "reason": reasons.get(state, "")}
    if report and state in ("stopped", "ended"):
        about.update({key: report[key] for key in ("seconds", "interval", "resolution")})
        about["lost_by_second"] = report.get("lost_by_second", [])  # a watch of an earlier release has none
        watched = {(entry["name"], entry["address"]): entry for entry in report["targets"]}
        found = [together(entry, watched.get((entry["name"], entry["address"]))) for entry in found]
    return found, about


def together(sent: Found, watched: t.Optional[Found]) -> Found:
    """Return one entry for a target: the probes of full size in `sent` and those of the watch, if it had the target.

    Counts are added up. `longest_gap` (that of `sent` if the watch has 0) and `silent` are those of the watch, in
    milliseconds. `reason` says why either lost probes; all else is that of `sent`.
    """
    if watched is None:
        return {**sent, "silent": 0.0}
    both: Found = {key: sent[key] + watched[key] for key in ("sent", "received", "lost")}
    reasons = [watched["reason"]] if watched["lost"] else []
    if sent["lost"]:
        reasons.append(f"in full size {sent['reason']}")
    return {
        **sent,
        **both,
        "longest_gap": watched["longest_gap"] or sent["longest_gap"],
        "silent": watched["silent"],
        "reason": "; ".join(reasons),
    }


def counted(found: t.Sequence[Found]) -> Found:
    """Return `found` as `targets`, and the probes of all targets together as `sent` and `lost`."""
    return {
        "targets": list(found),
        "sent": sum(entry["sent"] for entry in found),
        "lost": sum(entry["lost"] for entry in found),
    }


def run(module: ModuleCall) -> t.NoReturn:
    """Send probes to many addresses at once, and answer as the module probe, also if probes are lost.

    `watch` also starts or collects a watch, or only stops it and sends no probes. A watch is started only if there are
    targets and no probe was lost.
    """
    params = module.params
    targets = targets_of(params)
    wanted = None if module.check_mode else params["watch"]
    answer: Found = {}
    found: list[Found] = []
    try:
        if wanted == "collect":
            found, answer["watch"] = collect(params, targets)
        elif wanted == "stop":
            answer["watch"] = {"running": False, "reason": "stopped" if watch.stop() else "there was none"}
        else:
            found = send(params, targets, _ALONE)
            if wanted == "start":
                answer["watch"] = start(params, targets, found)
    except probing.ProbeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **counted(found), **answer)
