# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The passwords that a node's BIRD must have, chosen from those of the run and those that the node has.

No state and no generation holds a password: a node that returns to an older state keeps its current passwords. A node
that reverts by itself has only the passwords in its file. So passwords that the previous state needs stay in the file
until the change is confirmed. In the first phases of a change, known passwords stay as they are, because a new one
restarts its session.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ...bgp.bird_state import Bird
from ...bgp.passwords import Passwords
from ...bird import secrets_file
from ...bird.errors import BirdError
from ...dataplane.change import Change
from ...state.node_state import NodeState
from ...state.phase import AT_REST, SESSIONS_HELD
from ..machine import Machine


class PasswordMissing(BirdError):
    """The error for sessions that need passwords which neither the run nor the file at `path` has."""

    def __init__(self, names: t.Sequence[str], path: str) -> None:
        one = len(names) == 1
        super().__init__(
            f"BIRD's sessions need the password{'' if one else 's'} {', '.join(names)}, and neither calico_bgp_secrets "
            f"nor {path} of this node has {'it' if one else 'them'}. Nothing was changed for BIRD. "
            f"Put {'it' if one else 'them'} into calico_bgp_secrets, then run again."
        )


@dataclasses.dataclass(frozen=True)
class PasswordPlan:
    """What to do with the passwords. Its repr has the names of secrets only.

    `wanted` is the new content of the file, None to leave it alone. `changes` are for people: the change of the file
    and one for each changed password. `changed` are the names of secrets whose value changes, `missing` those for which
    there is no password. `path` is that of the password file.
    """

    wanted: t.Optional[Passwords] = None
    changes: tuple[Change, ...] = ()
    changed: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    path: str = ""

    def check(self) -> None:
        if self.missing:
            raise PasswordMissing(self.missing, self.path)


def plan(
    machine: Machine,
    state: NodeState,
    has_config: bool,
    given: t.Mapping[str, str],
    waiting: t.Optional[NodeState] = None,
    before: t.Optional[NodeState] = None,
) -> PasswordPlan:
    """Return which passwords the file must have for the sessions of `state`, and what changes. Write nothing.

    `has_config` says whether the run has a bird.cfg: without one, the passwords of a node with BGP are left alone, and
    the plan is empty. A missing password is listed in the plan. `given` are the passwords of the run, by secret name.
    While the sessions are held as they were (SESSIONS_HELD), a known password is preferred to a given one; otherwise
    the given one is.

    `waiting` is the state to which the node may still revert because of an earlier run, `before` the one to which it
    can revert from this run. Known passwords that only these need are kept, and all known ones in a phase that is not
    AT_REST. The removal of those that only `before` needs is reported in `changes`, although it happens when the change
    is confirmed. Raise OSError if the password file cannot be read.
    """
    bird = state.bird
    if bird is not None and not has_config:
        return PasswordPlan()
    known = secrets_file.current(machine.bird_config)
    names = bird.secrets if bird is not None else ()
    first, then = (known, given) if state.phase in SESSIONS_HELD else (given, known)
    needed = {name: first[name] if name in first else then[name] for name in names if name in first or name in then}
    # Between the phases of a change all known passwords are kept, because the fleet may return to its former state.
    kept = {} if state.phase in AT_REST else known
    shown = {**kept, **_of(waiting, known), **needed}
    wanted = {**_of(before, known), **shown}
    changed = frozenset(name for name in shown if name in known and known[name] != shown[name])
    return PasswordPlan(
        Passwords(wanted),
        (*_file(machine, known, shown), *_sessions(bird, sorted(changed))),
        changed,
        tuple(name for name in names if name not in needed),
        secrets_file.beside(machine.bird_config),
    )


def _of(state: t.Optional[NodeState], known: t.Mapping[str, str]) -> dict[str, str]:
    names = state.bird.secrets if state is not None and state.bird is not None else ()
    return {name: known[name] for name in names if name in known}


def outdated(machine: Machine, given: t.Mapping[str, str]) -> list[str]:
    """Return the sorted names of the secrets in `given` (name to password) that have another value on this node."""
    known = secrets_file.current(machine.bird_config)
    return sorted(name for name in given if name in known and known[name] != given[name])


def prune(machine: Machine, state: NodeState) -> None:
    """Remove passwords that the sessions of `state` do not need from the node's file; do nothing without BGP."""
    if state.bird is not None:
        secrets_file.prune(machine.bird_config, _of(state, secrets_file.current(machine.bird_config)))


def _file(machine: Machine, known: t.Mapping[str, str], wanted: t.Mapping[str, str]) -> t.Iterator[Change]:
    """Yield the change of the password file, `+ bird     /etc/calico/bird.secrets.conf  2 passwords`, or nothing.

    Only the names count: other values are reported by `_sessions`. A mode other than secrets_file.MODE is changed, too.
    """
    path = secrets_file.beside(machine.bird_config)
    mode = secrets_file.open_to_others(machine.bird_config)
    if not known and wanted:
        yield Change("bird", "+", path, None, _count(wanted))
    elif known and not wanted:
        yield Change("bird", "-", path, _count(known), None)
    elif set(known) != set(wanted):
        gone, new = sorted(set(known) - set(wanted)), sorted(set(wanted) - set(known))
        note = ", ".join([*(f"{name} goes" for name in gone), *(f"{name} is new" for name in new)])
        yield Change("bird", "~", path, _count(known), _count(wanted), note)
    elif mode is not None and wanted:
        yield Change("bird", "~", path, f"mode {mode}", f"mode {secrets_file.MODE:04o}", "others could read it")


def _sessions(bird: t.Optional[Bird], changed: t.Sequence[str]) -> t.Iterator[Change]:
    """Yield `~ bird     password of 10.10.1.1    tor-a:password is another one` for each secret whose value changes."""
    for name in changed:
        peers = [peer for peer in (bird.peers if bird else ()) if peer.password == name]
        shown = [f"{peer.node} ({peer.address})" if peer.node else peer.address for peer in peers]
        whom = ", ".join(shown) if len(shown) <= 3 else f"{len(shown)} peers"
        yield Change("bird", "~", f"password of {whom or 'nobody'}", None, None, f"{name} is another one")


def _count(passwords: t.Sized) -> str:
    return f"{len(passwords)} password{'' if len(passwords) == 1 else 's'}"
