# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module probe sends probes to many addresses at once."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
import typing as t

from ...node.probe import probing, watch
from ...state.node_state import PROBE_NETNS
from ..module_call import ModuleCall

Found = dict[str, t.Any]


# Probes per second: to each target without a watch and with one, and to all targets together.
_ALONE = 10
_BESIDE_A_WATCH = 1
_TOGETHER = 200
_SMALL = 84  # bytes of a probe of the watch
_LEAST_SECRET, _LARGEST_SECRET = 16, 32  # bytes


def targets_of(params: t.Mapping[str, t.Any]) -> list[probing.Target]:
    """Return the targets in a module's parameters, [] if they have none."""
    return [
        probing.Target(entry["address"], entry["size"], entry["name"], entry["pool"], entry["source"])
        for entry in params["targets"] or ()
    ]


def sending_of(params: t.Mapping[str, t.Any]) -> probing.Sending:
    """Return how probes are sent. Raise ProbeError if the secret of the run is none."""
    namespace = PROBE_NETNS if params["endpoint"] else ""
    try:
        secret = bytes.fromhex(params["secret"] or "")
    except ValueError:
        secret = b""
    if params["secret"] and not _LEAST_SECRET <= len(secret) <= _LARGEST_SECRET:
        raise probing.ProbeError("the secret of the run is not 16 bytes in hexadecimal digits. The action makes it.")
    return probing.Sending(params["tos"], params["source"], namespace, secret)


class Clock:
    """The times of probes in one call of a module, in seconds since it began."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._began = self._ended = 0.0

    @contextlib.contextmanager
    def probing(self) -> t.Iterator[None]:
        """Measure when probes are sent and heard."""
        self._began = time.monotonic() - self._start
        yield
        self._ended = time.monotonic() - self._start

    def read(self) -> Found:
        """Return when probes began and ended, and the time of the call until now as `total`."""
        times = {"began": self._began, "ended": self._ended, "total": time.monotonic() - self._start}
        return {name: round(seconds, 3) for name, seconds in times.items()}


def send(
    params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target], a_second: int, clock: t.Optional[Clock] = None
) -> list[Found]:
    """Probe the targets, and return the fields of ProbeResult and `lost` for each, in their order; [] without targets.

    Probe each target for `seconds` with `a_second` probes per second, at most 200 to all targets together, but at least
    one to each. If `seconds` is 0, probe `count` times, `interval` milliseconds apart. Targets with a loss are probed
    again, in at most `attempts` rounds in all, and the last round of a target counts. `timeout` is in milliseconds.
    `tos`, `source`, `endpoint` and `secret` are those of `sending_of`. Raise ProbeError.
    """
    count, interval = params["count"], params["interval"] / 1000
    if params["seconds"] and targets:
        count = max(1, int(params["seconds"] * min(a_second, _TOGETHER / len(targets))))
        interval = params["seconds"] / count
    with clock.probing() if clock is not None else contextlib.nullcontext():
        answers = probing.probe(
            targets, count, interval, params["timeout"] / 1000, params["attempts"], sending_of(params)
        )
    return [{**answer._asdict(), "lost": answer.lost} for answer in answers]


def start(params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target], found: t.Sequence[Found]) -> Found:
    if not found or any(entry["lost"] for entry in found):
        return {"running": False, "reason": "not all targets answered" if found else "there is nothing to watch"}
    # Small probes: before and after the routes are replaced, the largest size that passes differs. They take the path
    # of live packets, and their process does not need the secret: nobody asks it what it heard.
    small = [target._replace(size=_SMALL) for target in targets]
    sending = dataclasses.replace(sending_of(params), tos=0, secret=b"")
    watch.start(small, params["limit"], exchange=functools.partial(probing.Exchange, sending=sending))
    return {"running": True, "reason": "", "interval": round(watch.interval(len(targets)) * 1000, 1)}


def collect(
    params: t.Mapping[str, t.Any], targets: t.Sequence[probing.Target], clock: t.Optional[Clock] = None
) -> tuple[list[Found], Found]:
    running = watch.running()
    until = time.monotonic() + params["seconds"]
    found = send(params, targets, _ALONE if running is None else _BESIDE_A_WATCH, clock)
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
    milliseconds. `reason` and `by` say why probes of full size were lost, or those of the watch if it alone lost some.
    `dead` says that all probes of full size were lost, which are the last ones. All else is that of `sent`.
    """
    sent = {**sent, "dead": 0 < sent["sent"] <= sent["lost"]}
    if watched is None:
        return {**sent, "silent": 0.0}
    both: Found = {key: sent[key] + watched[key] for key in ("sent", "received", "lost")}
    why = watched if watched["lost"] and not sent["lost"] else sent
    return {
        **sent,
        **both,
        "longest_gap": watched["longest_gap"] or sent["longest_gap"],
        "silent": watched["silent"],
        "reason": why["reason"],
        "by": why["by"],
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
    clock = Clock()
    try:
        if wanted == "collect":
            found, answer["watch"] = collect(params, targets, clock)
        elif wanted == "stop":
            answer["watch"] = {"running": False, "reason": "stopped" if watch.stop() else "there was none"}
        else:
            found = send(params, targets, _ALONE, clock)
            if wanted == "start":
                answer["watch"] = start(params, targets, found)
    except probing.ProbeError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **counted(found), **answer, clock=clock.read())
