# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers of a run's nodes to node_info, read node by node: an unreadable one is named and left out."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import terminal_text
from ...base.typed_json import Unreadable
from ...state.answers.left_out import LeftOut
from ...state.errors import FleetError
from ...state.node_state import NodeState
from ..garbage import uncollected
from . import node_info, outcome

_Answer = t.TypeVar("_Answer")


class DeniedSession(t.NamedTuple):
    """A session, such as `ssh from 10.10.1.1 to 10.10.1.11 port 22`, and the rule or default that denies it."""

    session: str
    by: str


@dataclasses.dataclass(frozen=True)
class ObservedNodes:
    """The answers of nodes, by host.

    `states` has their stored states (None: the host has none yet), `journals` what they assigned by themselves, and
    `passwords` the names of the secrets whose value changes. `refused` are hosts that are left out, with the reason;
    the three before do not contain these. `claims` has the name of the node whose state a refused host has, for a host
    that has another node's. `addresses` has the IPv4 addresses that the hosts have, if they were asked for them.
    `left_out` are the parts of answers that are not used. `denied` has the sessions that nodes say they would deny by
    their states in this run, if they were asked.
    """

    states: dict[str, t.Optional[NodeState]] = dataclasses.field(default_factory=dict)
    journals: dict[str, node_info.Journal] = dataclasses.field(default_factory=dict)
    passwords: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    refused: dict[str, FleetError] = dataclasses.field(default_factory=dict)
    claims: dict[str, str] = dataclasses.field(default_factory=dict)
    left_out: list[LeftOut] = dataclasses.field(default_factory=list)
    addresses: dict[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    denied: dict[str, tuple[DeniedSession, ...]] = dataclasses.field(default_factory=dict)

    def without(self, errors: t.Mapping[str, FleetError]) -> ObservedNodes:
        """Return these answers with more hosts in `refused`, by host; `claims` and `left_out` are the same."""

        def others(part: t.Mapping[str, _Answer]) -> dict[str, _Answer]:
            return {host: answer for host, answer in part.items() if host not in errors}

        return dataclasses.replace(
            self,
            states=others(self.states),
            journals=others(self.journals),
            passwords=others(self.passwords),
            addresses=others(self.addresses),
            denied=others(self.denied),
            refused={**self.refused, **errors},
        )


def read(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> ObservedNodes:
    """Return the answers of the hosts, from the results of their tasks by host.

    The host of an unreadable answer is in `refused` alone. Hosts that failed or were skipped are left out.
    """
    found = ObservedNodes()
    with uncollected():
        for host, answer in results.items():
            if not outcome.usable(answer):
                continue
            try:
                found.states[host] = state(host, answer)
            except FleetError as error:
                found.refused[host] = error
                if isinstance(error.__cause__, node_info.Foreign):
                    found.claims[host] = error.__cause__.node
                continue
            found.journals[host], left_out = node_info.journal(host, answer)
            found.passwords[host] = node_info.changed_passwords(answer)
            found.addresses[host] = node_info.held_addresses(answer)
            found.left_out.extend(left_out)
    return found


def denied(results: t.Mapping[str, t.Mapping[str, t.Any]]) -> dict[str, tuple[DeniedSession, ...]]:
    """Return the sessions that hosts say they would deny, from results that `results.FORESEEN` has read.

    Hosts that would deny none, failed or were skipped are left out.
    """
    return {
        host: tuple(
            DeniedSession(terminal_text.line(entry["session"]), terminal_text.line(entry["by"]))
            for entry in answer["foreseen"]
        )
        for host, answer in results.items()
        if outcome.usable(answer) and answer.get("foreseen")
    }


def state(host: str, answer: t.Any) -> t.Optional[NodeState]:
    """Return the state without policy in a node_info result, None for a fresh node. Raise FleetError if unusable."""
    return _state(host, answer, unreadable)


def kept_state(host: str, generation: t.Any) -> t.Optional[NodeState]:
    """Return the state without policy in a stored generation, None without one. Raise FleetError if unusable."""
    return _state(host, generation, _unreadable_generation)


def _state(host: str, answer: t.Any, refusal: t.Callable[[str, Unreadable], FleetError]) -> t.Optional[NodeState]:
    """Return the state in an answer of node_info, None without one; raise the `refusal` of one that cannot be read."""
    try:
        return node_info.state(host, answer)
    except node_info.Foreign as error:
        raise foreign(host, error.node) from error
    except Unreadable as error:
        raise refusal(host, error) from error


def _unreadable_generation(host: str, error: Unreadable) -> FleetError:
    return FleetError(
        f"generation that is stored on {host}",
        None,
        _why(error),
        "If another release of this collection stored it, return with the playbooks of that release; else choose "
        "another one (playbooks/rollback.yml without a plan lists them). Nothing was changed.",
    )


def _why(error: Unreadable) -> str:
    return f"cannot be read: {error.place and f'{error.place} is '}{error.why}."


def unreadable(host: str, error: Unreadable) -> FleetError:
    """Return, not raise, the error that says that a host's stored state cannot be read, and how to go on."""
    return FleetError(
        f"stored state of {host}",
        None,
        _why(error),
        "It was written by another release of this collection: use that release, or remove "
        "/var/lib/calico/state.json on the node if its workloads may be planned anew.",
    )


def foreign(host: str, other: str) -> FleetError:
    """Return, not raise, the error that says that a host has the state of the node `other`."""
    return FleetError(
        f"stored state of {host}",
        None,
        f"is that of another node, {other}: the host was cloned or renamed, or is not what it says.",
        f"If {other} lives on elsewhere or under the new name, remove /var/lib/calico on this host and run again; else "
        "correct the inventory.",
    )
