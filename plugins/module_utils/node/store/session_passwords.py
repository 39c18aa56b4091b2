# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which passwords a node's BIRD is to have, out of those that came with the run and those that the node has.

No state and no generation holds a password: whichever is returned to, the passwords are those of now. A node that goes
back by itself has no others than what its file has, so names that the state before needs stay until the change is
confirmed. While sessions are held as they were, in the first phases of a change, known passwords stay as they are:
another one restarts its sessions.
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

#: Phases in which sessions are as they were.


class PasswordMissing(BirdError):
    """A session needs a password that neither the run nor the node has."""

    def __init__(self, names: t.Sequence[str], path: str) -> None:
        one = len(names) == 1
        super().__init__(
            f"BIRD's sessions need the password{'' if one else 's'} {', '.join(names)}, and neither calico_bgp_secrets "
            f"nor {path} of this node has {'it' if one else 'them'}. Nothing was changed for BIRD. "
            f"Put {'it' if one else 'them'} into calico_bgp_secrets, then run again."
        )


@dataclasses.dataclass(frozen=True)
class PasswordPlan:
    """`wanted` is what the file shall hold, None where it is left alone; `changed` are the secrets that have another
    value there now, `missing` those that nobody has. A repr of it has names alone."""

    wanted: t.Optional[Passwords] = None
    changes: tuple[Change, ...] = ()
    changed: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()
    path: str = ""

    def check(self) -> None:
        """Raises PasswordMissing."""
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
    """For the sessions of `state`. `has_config`: whether bird.cfg is seen to in this run.

    The node may still go back by itself to the state `waiting`, from an earlier run, or will be able to go back to
    `before`, from this one: what these need stays. That the latter is not needed any more is told now all the same.
    """
    bird = state.bird
    if bird is not None and not has_config:
        return PasswordPlan()
    known = secrets_file.current(machine.bird_config)
    names = bird.secrets if bird is not None else ()
    first, then = (known, given) if state.phase in SESSIONS_HELD else (given, known)
    needed = {name: first[name] if name in first else then[name] for name in names if name in first or name in then}
    # Between the phases of a change the fleet may return to what it was.
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
    """Of `given`, the names of those that this node has with another value: their sessions will restart."""
    known = secrets_file.current(machine.bird_config)
    return sorted(name for name in given if name in known and known[name] != given[name])


def prune(machine: Machine, state: NodeState) -> None:
    """When a node cannot go back any more: what only the state before needed goes. Raises OSError."""
    if state.bird is not None:
        secrets_file.prune(machine.bird_config, _of(state, secrets_file.current(machine.bird_config)))


def _file(machine: Machine, known: t.Mapping[str, str], wanted: t.Mapping[str, str]) -> t.Iterator[Change]:
    """`+ bird     /etc/calico/bird.secrets.conf  2 passwords`, by names alone."""
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
    """Yield `~ bird  password of 10.10.1.1  tor-a:password is another one`; see node/probe/sessions.py for restarts."""
    for name in changed:
        peers = [peer for peer in (bird.peers if bird else ()) if peer.password == name]
        shown = [f"{peer.node} ({peer.address})" if peer.node else peer.address for peer in peers]
        whom = ", ".join(shown) if len(shown) <= 3 else f"{len(shown)} peers"
        yield Change("bird", "~", f"password of {whom or 'nobody'}", None, None, f"{name} is another one")


def _count(passwords: t.Sized) -> str:
    return f"{len(passwords)} password{'' if len(passwords) == 1 else 's'}"
