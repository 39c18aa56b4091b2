# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the demonstration with an operator, who changes policy under traffic without a run, and undoes it."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.fleet import Workload
from tests.lab.handle import BaseLab
from tests.lab.measure.streams import Report, Stream, StreamResult, Streams, Transfer
from tests.lab.topology import LabError

NAME = "ada"
FILE = "block-till.yml"
#: What the operator puts in force: one address is not let in any more.
DOCUMENT = """\
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata:
  name: block-till
spec:
  order: 1
  selector: app == 'guarded'
  types: [Ingress]
  ingress:
    - action: Deny
      source:
        nets: [{address}/32]
"""
_PATIENCE = 60.0  # seconds in which all nodes have to answer a question, on a machine that is busy otherwise
_TOLERANCE = 1.0  # seconds by which a receiver on such a machine reads packets too late
_SETTLED = 1.0  # seconds of traffic after the last command


@dataclass(frozen=True)
class Operator:
    """An operator's calicoctl, and where it runs.

    `config` is the calicoctl.cfg, and `inside` are the words that run a command in the network of the lab's controller.
    `folder` is where the operator's own files are.
    """

    config: Path
    inside: tuple[str, ...]
    folder: Path
    root: Path

    @property
    def command(self) -> tuple[str, ...]:
        """What a person types for `calicoctl`, in the clone's folder."""
        return *self.inside, "bin/calicoctl", "-c", str(self.config)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run calicoctl in the operator's folder; print the command as a person would type it, and its output."""
        print(f"$ calicoctl {' '.join(words)}", flush=True)
        command = [*self.inside, sys.executable, str(self.root / "bin" / "calicoctl"), "-c", str(self.config), *words]
        done = subprocess.run(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        print(done.stdout, flush=True)
        return done


@dataclass(frozen=True)
class Times:
    """Moments of a change and its undoing, as Unix times in seconds: each was written, and its command returned."""

    written: float
    returned: float
    undone: float
    back: float


def show(
    lab: BaseLab,
    operator: Operator,
    vault: Workload,
    till: Workload,
    desk: Workload,
    beside: Sequence[Stream | Transfer],
) -> bool:
    """Let the operator plan, apply and undo a policy under traffic; print what that did, and return whether it fits.

    The policy refuses `till`, whose packets to `vault` have to stop, and to pass again afterwards. Those of `desk` to
    `vault` and the streams `beside` must lose nothing. Raise LabError if a command fails.
    """
    (operator.folder / FILE).write_text(DOCUMENT.format(address=till.address), "utf-8")
    ends = (vault.node, vault.name, vault.address)
    refused = Stream(till.node, till.name, *ends)
    allowed: list[Stream | Transfer] = [Stream(desk.node, desk.name, *ends), Transfer(desk.node, desk.name, *ends)]
    print(f"calicoctl is here {' '.join(operator.command)}")
    print(f"till ({till.address}) and desk ({desk.address}) send to {vault.name} ({vault.address}).\n")
    with Streams(lab, [refused, *allowed, *beside]) as streams:
        _plan(operator)
        applied = _change(operator, "apply", "-f", FILE, "--wait")
        returned = time.time()
        _change(operator, "history")
        undone = _change(operator, "rollback", applied, "--wait")
        times = Times(_written(applied), returned, _written(undone), time.time())
        time.sleep(_SETTLED)
        report = streams.stop()
    result = next(one for one in report.streams if one.stream == refused)
    print("\n".join(lines_of(report, result, times)))
    return is_refused_between(result, times) and lost_beside(report, result) == 0 and report.resets == 0


def _plan(operator: Operator) -> None:
    end = time.monotonic() + _PATIENCE
    while operator.run("apply", "-f", FILE, "--dry-run=server").returncode != 0:
        if time.monotonic() > end:
            raise LabError("not all nodes say what the change would do; see above.")
        print("The nodes are asked again.")


def _change(operator: Operator, *words: str) -> str:
    """Return the id of the change that a command made, "" if it made none. Raise LabError if it fails."""
    done = operator.run(*words)
    if done.returncode != 0:
        raise LabError(f"calicoctl {words[0]} ended with status {done.returncode}; its output stands above.")
    found = re.search(r"^It is change (\S+),", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def _written(change: str) -> float:
    """Return the Unix time just before a change was written, which its id begins with."""
    moment = datetime.datetime.strptime(change.partition("-")[0], "%Y%m%dT%H%M%S.%f")
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def gap(result: StreamResult) -> tuple[float, float] | None:
    """Return the Unix times of the last packet before the only gap of a stream and of the first one after it.

    None if packets are missing at several places, or nowhere.
    """
    if len(result.missing_ranges) != 1:
        return None
    again = result.missing_ranges[0][2]
    return again - result.longest_gap_ms / 1000, again


def is_refused_between(result: StreamResult, times: Times) -> bool:
    """Return whether a stream stopped with the change and went on with its undoing, and nothing passed between."""
    found = gap(result)
    if found is None:
        return False
    stopped, again = found
    begins = times.written - _TOLERANCE < stopped <= times.returned + _TOLERANCE
    return begins and times.undone - _TOLERANCE < again <= times.back + _TOLERANCE


def lost_beside(report: Report, result: StreamResult) -> int:
    """Return how many packets of the other streams were lost, without those that full receive buffers dropped."""
    return max(0, sum(one.lost for one in report.streams if one is not result) - report.buffer_drops)


def lines_of(report: Report, result: StreamResult, times: Times) -> list[str]:
    """Return what the streams saw of the change, for people. `result` is that of the refused stream."""
    found = gap(result)
    if found is None:
        places = len(result.missing_ranges)
        till = f"{result.lost} of {result.sent} packets did not pass, at {places} places: not as promised"
    else:
        stopped, again = (1000 * max(0.0, at - begun) for at, begun in zip(found, (times.written, times.undone)))
        till = f"stopped {stopped:.0f} ms after the write, passed again {again:.0f} ms after that of the rollback"
    others = [one for one in report.streams if one is not result]
    sent, lost = sum(one.sent for one in others), lost_beside(report, result)
    lines = [
        f"  till      {till}",
        f"  between   {result.lost} packets of till were sent, and none passed" if found else "",
        f"  others    {sent} packets of desk and between all nodes: {lost} lost; {len(report.transfers)} connections: "
        f"{report.resets} reset",
    ]
    return [line for line in lines if line]
