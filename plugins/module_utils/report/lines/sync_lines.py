# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines about an exchange of workloads: which nodes failed, and what is new."""

from __future__ import annotations

import typing as t

from ...fleet import endpoint_sync
from ...fleet.node_answers import outcome

Results = t.Mapping[str, t.Mapping[str, t.Any]]


def answered(host: str, answer: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    """Return whether the host's answer to remote_endpoints_info can be used; False for None."""
    return answer is not None and outcome.usable(answer) and not endpoint_sync.refusal(host, answer)


def _why_not(host: str, answer: t.Optional[t.Mapping[str, t.Any]]) -> str:
    if answer is None or not outcome.usable(answer):
        return outcome.reason(answer).rstrip(".")
    # The playbook does not count a failure of this task (failed_when: false), which leaves its message alone.
    message = outcome.first_line(answer.get("msg")) if "endpoints" not in answer else ""
    if message:
        return message.rstrip(".")
    return endpoint_sync.refusal(host, answer)


def problems(hosts: t.Sequence[str], asked: Results, taken: Results) -> list[str]:
    """Return a sentence for each host without a usable answer, or that could not be sent the others' workloads."""
    found = []
    for host in hosts:
        if not answered(host, asked.get(host)):
            why = _why_not(host, asked.get(host))
            found.append(f"{host} could not be asked ({why}). The others keep what they knew of its workloads.")
        elif not outcome.usable(taken.get(host)):
            found.append(f"{host} could not be told: {outcome.reason(taken.get(host))}")
    return found


def lines(hosts: t.Sequence[str], asked: Results, taken: Results, check: bool, datastore: bool = False) -> list[str]:
    """Return a line for each of `problems`, then one line for the fleet.

    The last one begins with `to sync` if nothing was written: with `check`, and with a `datastore`, which has a line.
    """
    wrong = problems(hosts, asked, taken)
    workloads = sum(len(answer["endpoints"]) for host, answer in asked.items() if answered(host, answer))
    # Several nodes report the same change, so equal ones are counted once.
    changes = {
        (change["action"], change["subject"])
        for answer in taken.values()
        if outcome.usable(answer)
        for change in answer.get("changes", ())
    }
    counts = [(word, sum(found == action for found, dummy in changes)) for action, word in _WORDS.items()]
    news = ", ".join(f"{count} {word}" for word, count in counts if count) or "nothing new"
    parts = [
        f"{len(hosts) - len(wrong)}/{len(hosts)} nodes",
        f"{workloads} workload{'' if workloads == 1 else 's'} that came between runs",
        news,
    ]
    word = "to sync" if check or datastore else "incomplete" if wrong else "synced"
    told = (
        [
            "nothing was sent: nodes of this fleet learn of each other's workloads by its datastore"
            " (docs/how-to/datastore.md)"
        ]
        if datastore
        else []
    )
    return [*(f"! {text}" for text in wrong), *told, f"{word}  {' · '.join(parts)}"]


_WORDS = {"+": "added", "~": "changed", "-": "gone"}
