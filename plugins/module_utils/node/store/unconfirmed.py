# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An unconfirmed change: the state to which the node reverts, and the deadline.

    /var/lib/calico/unconfirmed.json  from before a change is made until it is confirmed or reverted
    /var/lib/calico/went-back.json    the last revert, kept until `clear` is called

Both are on the disk, because a reboot is no confirmation. They are readable for root only (0600) and hold no value of a
secret: bird.cfg names the file with the sessions' passwords, which is not in here. Writers hold the node's lock;
readers need not, because files are replaced atomically. A detached process waits for the deadline
(change/auto_revert.py); after a reboot the boot unit reverts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import typing as t

from ...base.typed_json import Unreadable, flag, items, number, open_table, table, text
from ...state.fleet_list import has_moved
from ...state.node_state import NodeState
from . import atomic_file, short_wait, stored_file
from .clock import boot_id, boottime, now
from .store import CONFIG, File, Stored
from .stored_file import PARTS, StoreError

#: The engine's command that waits for a confirmation; see command.py.
WAIT = "wait"

_PLAIN = ("changes", "plan", "boot", "deadline", "within", "bgp", "session", "cut")
_NAME, _WENT_BACK = short_wait.NAME, "went-back.json"
_REMEDY = "See that the node is as it should be, remove the file, then run again."

# Later releases may add fields to a change that waits.
_UNCONFIRMED = open_table(
    {
        "changes": items(text(), least=1),
        "plan": text(),
        "boot": text(),
        "deadline": number(),
        "within": number(),
        "bgp": flag,
        "session": text(),
        "cut": items(text()),
        "previous": open_table({"state": PARTS, "bird_config": CONFIG, "who": text(), "when": text()}),
    }
)
_REVERT = table(
    {
        "changes": items(text()),
        "when": text(),
        "from_plan": text(),
        "plan": text(),
        "reason": text(),
        "cut": items(text()),
    },
    {"problem": text(), "told": flag},
)


class Uptime(t.NamedTuple):
    """A boot of this machine, and the seconds since it, sleep included. Setting the wall clock does not change them."""

    boot: str
    seconds: float


def uptime() -> Uptime:
    """Return the kernel's id of this boot, and the seconds since it. Raise OSError if the id cannot be read."""
    return Uptime(boot_id(), boottime())


@dataclasses.dataclass(frozen=True)
class Confirm:
    """A request that a change must be confirmed.

    `change` names the change, `within` is the time to confirm it in seconds. `session` is the SSH connection by which
    the change came ("10.10.1.1 51444 10.10.1.11 22"), "" for none: a confirmation must come by another connection.
    `previous` is the node's stored state with the addresses that the change gives nodes, and the bird.cfg of that; None
    if all addresses stay.
    """

    change: str
    within: float
    session: str = ""
    previous: t.Optional[Stored] = None


@dataclasses.dataclass(frozen=True)
class Unconfirmed:
    """The changes that wait for a confirmation, and what the node reverts to without one.

    `changes` are the names of the changes that are reverted together, the latest last and 20 at most. `previous` is
    what `before` returned for the first of them; its files are not kept. `plan` is the plan of the latest change, and
    `bgp` says whether the node has BGP with it. `deadline` is in seconds since the boot `boot`, `within` the seconds
    that the latest change allows. `session` is the SSH connection by which the latest change came, "" for none. `cut`
    are sentences about connections that a new policy was going to deny.
    """

    changes: tuple[str, ...]
    previous: Stored
    plan: str
    boot: str
    deadline: float
    within: float
    bgp: bool
    session: str = ""
    cut: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        return self.changes[-1]

    def left(self, uptime: Uptime) -> float:
        """Return the seconds until the node reverts: 0 or less after the deadline, and 0 after a reboot."""
        return self.deadline - uptime.seconds if self.boot == uptime.boot else 0.0

    def as_stored(self, files: t.Optional[tuple[File, ...]]) -> Stored:
        """Return the state to store when the node reverts, with these `files`, marked as not completely applied."""
        return dataclasses.replace(self.previous, files=files, complete=False)

    def reverted(self, reason: str, problem: str = "") -> Revert:
        """Return the record of a revert that happens now. `problem` is as in Revert."""
        return Revert(self.changes, now(), self.plan, self.previous.state.plan, reason, self.cut, problem)


class Revert(t.NamedTuple):
    """A revert that a node made by itself.

    `changes` are the names of the reverted changes, `when` the time in ISO 8601. `from_plan` is the plan that was
    reverted, `plan` the one that the node returned to. `reason` says why. `cut` is as in Unconfirmed. `problem` says
    what could not be restored, "" if everything was. `told` is True once a run has shown the revert.
    """

    changes: tuple[str, ...]
    when: str
    from_plan: str
    plan: str
    reason: str
    cut: tuple[str, ...] = ()
    problem: str = ""
    told: bool = False

    @property
    def sentence(self) -> str:
        """The revert in words, to follow the name of the node."""
        cut = f" Cut by the change: {'; '.join(self.cut)}." if self.cut else ""
        problem = f" Not everything could be restored: {self.problem}" if self.problem else ""
        plans = f"from plan {self.from_plan[:12] or '-'} to plan {self.plan[:12] or '-'}"
        return f"went back by itself at {self.when} {plans}: {self.reason}.{cut}{problem}"


class UnconfirmedStore:
    """The two files about unconfirmed changes in `folder`, the node's store.

    Reading a file raises StoreError. Writing one raises atomic_file.FileError, whose text says whether the old file is
    still there, and removing one OSError; a missing one is no failure.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def load(self) -> t.Optional[Unconfirmed]:
        """Return the change that waits for a confirmation, None if none does."""
        data = stored_file.read(self._path(_NAME), _REMEDY)
        if data is None:
            return None
        try:
            found = _UNCONFIRMED(data)
            previous = found["previous"]
            before = Stored(**{**previous, "state": NodeState.from_dict(previous["state"])})
            return Unconfirmed(
                **{**found, "changes": tuple(found["changes"]), "cut": tuple(found["cut"]), "previous": before}
            )
        except ValueError as error:
            raise stored_file.unreadable(self._path(_NAME), error, _REMEDY) from error

    def overdue(self, uptime: t.Callable[[], Uptime]) -> t.Optional[Unconfirmed]:
        """Return the change that must be reverted now, None if there is none.

        It is None also if the file cannot be read, because that must not keep a node from starting. `uptime` is called
        only if a change waits; what it raises is raised.
        """
        try:
            pending = self.load()
        except StoreError:
            return None
        return pending if pending is not None and pending.left(uptime()) <= 0 else None

    def any(self) -> bool:
        """Return whether a change waits for a confirmation. The file is not read."""
        return os.path.exists(self._path(_NAME))

    def save(self, waiting: Unconfirmed) -> None:
        """Store the change that waits for a confirmation."""
        previous = waiting.previous
        data = {
            **{name: getattr(waiting, name) for name in _PLAIN},
            "previous": {
                "state": previous.state.to_dict(),
                "bird_config": previous.bird_config,
                "who": previous.who,
                "when": previous.when,
            },
        }
        self._write(_NAME, data)

    def replace(self, waiting: t.Optional[Unconfirmed]) -> None:
        """Store the change that waits for a confirmation, or with None that none waits; keep the last revert."""
        if waiting is not None:
            self.save(waiting)
        else:
            self._remove(_NAME)

    def clear(self) -> None:
        """Remove the change that waits, so that it is not reverted, and the record of an earlier revert."""
        self._remove(_NAME)
        self._remove(_WENT_BACK)

    def record_revert(self, revert: Revert) -> None:
        """Store that the change was reverted, and that none waits any more. After a FileError it still waits."""
        self._write(_WENT_BACK, revert._asdict())
        self.replace(None)

    def mark_shown(self) -> None:
        """Store that a run has shown the last revert, if there is one."""
        revert = self.last_revert()
        if revert is not None and not revert.told:
            self._write(_WENT_BACK, revert._replace(told=True)._asdict())

    def unseen_revert(self) -> t.Optional[Revert]:
        """Return the last revert if no run has shown it yet, else None."""
        found = self.last_revert()
        return None if found is None or found.told else found

    def last_revert(self) -> t.Optional[Revert]:
        """Return the last revert; None if there was none or `clear` was called since."""
        data = stored_file.read(self._path(_WENT_BACK), _REMEDY)
        if data is None:
            return None
        try:
            found = _REVERT(data)
        except Unreadable as error:
            raise stored_file.unreadable(self._path(_WENT_BACK), error, _REMEDY) from error
        return Revert(**{**found, "changes": tuple(found["changes"]), "cut": tuple(found["cut"])})

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _write(self, name: str, data: t.Mapping[str, t.Any]) -> None:
        atomic_file.make_folder(self._folder)
        atomic_file.write(self._path(name), json.dumps(data), 0o600)


def before(target: Stored, stored: t.Optional[Stored]) -> t.Optional[Stored]:
    """Return what the node reverts to from `target` if it has `stored` now.

    Return None if the two have the same state and bird.cfg. A node without a stored state reverts to `target` without
    policy, so that workloads keep their network; the result is None if `target` has no policy.
    """
    if stored is None:
        if target.state.policy is None:
            return None
        return dataclasses.replace(target, state=dataclasses.replace(target.state, policy=None))
    same = (stored.state, stored.bird_config) == (target.state, target.bird_config)
    return None if same else stored


def with_address(previous: t.Optional[Stored], target: Stored, renumbered: t.Optional[Stored]) -> t.Optional[Stored]:
    """Return what the node reverts to from `target`: `previous`, or `renumbered` with its policy.

    The latter is returned, if there is one, in place of a `previous` in which a node has another address than in
    `target`, which its host may no longer have.
    """
    if previous is None or renumbered is None or not _other_addresses(previous.state, target.state):
        return previous
    state = dataclasses.replace(renumbered.state, policy=previous.state.policy)
    return dataclasses.replace(previous, state=state, bird_config=renumbered.bird_config)


def _other_addresses(before: NodeState, target: NodeState) -> bool:
    now = {member.name: member for member in target.nodes}
    others = any(member.name in now and has_moved(member, now[member.name]) for member in before.nodes)
    return others or has_moved(before, target)
