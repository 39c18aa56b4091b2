# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The differences between a wanted state and this node, by kind of object. Reads only."""

from __future__ import annotations

import hashlib
import os
import typing as t

from ...bird import configuration
from ...dataplane.change import Change
from ...dataplane.drivers import file
from ..engine import bundle
from ..engine.carried_start import PackedEngine
from ..host.units import AGENT_UNIT
from ..machine import Machine
from ..store.store import Stored
from ..write import own_folders
from ..write.writer import Direct, Through
from .missing_files import wanted_files

AGENT_SETTINGS = "/etc/calico/agent.json"


class Engine(t.NamedTuple):
    """The engine that the node must have: its digest, and `packed`, None if it was not sent."""

    digest: str
    packed: t.Optional[PackedEngine] = None


def file_changes(machine: Machine, target: Stored, stored: t.Optional[Stored]) -> list[Change]:
    """Return the removals of files that only `stored` has, its last one first, then the changes of `target`'s files.

    Changes of folders' modes come before all of them. `files` None counts as no files in either.
    """
    wanted = wanted_files(machine, target.files or ())
    paths = {entry.path for entry in wanted}
    gone = [machine.placed(entry.path) for entry in reversed((stored.files if stored else None) or ())]
    wanted[:0] = [file.WantedFile(path, None) for path in gone if path not in paths]
    modes = own_folders.changes(machine, target.files or ())
    return [*modes, *file.changes(wanted)]


def engine_changes(machine: Machine, engine: t.Optional[Engine]) -> t.Iterator[Change]:
    """Yield one change if no engine, another one or a damaged one is installed; nothing if `engine` is None."""
    if engine is None:
        return
    subject = os.path.join(machine.engine, "current")
    before = bundle.installed_digest(machine.engine)
    if before == engine.digest:
        damage = bundle.damage(machine.engine)
        if not damage:
            return
        before = f"damaged: {', '.join(damage[:3])}"
    yield Change("file", "~" if before else "+", subject, before, engine.digest, "engine of the boot unit")


def state_changes(machine: Machine, target: Stored, stored: t.Optional[Stored]) -> t.Iterator[Change]:
    """Yield the change of state.json, or nothing if the stored state has the digest and the phase of `target`.

    The digest leaves the plan out, for example: a state that differs in its plan alone is no change for people.
    """
    subject = machine.state
    if stored is not None and stored.state == target.state:
        return
    after = f"{target.state.phase} {target.state.digest[:12]}"
    if stored is None:
        yield Change("file", "+", subject, None, after, "state to restore at boot")
    elif (stored.state.digest, stored.state.phase) != (target.state.digest, target.state.phase):
        before = f"{stored.state.phase} {stored.state.digest[:12]}"
        yield Change("file", "~", subject, before, after, "state to restore at boot")


def bird_changes(machine: Machine, target: Stored) -> t.Iterator[Change]:
    """Yield the change of bird.cfg, or nothing if it is as `target` has it or `target` has none: it stays then."""
    if target.bird_config is None:
        return
    before = configuration.current(machine.bird_config)
    if before == target.bird_config:
        return
    detail = file.unified_diff(machine.bird_config, before, target.bird_config, bool(before))
    lines = f"{len(target.bird_config.splitlines())} lines"
    if not before:
        yield Change("bird", "+", machine.bird_config, None, lines, detail=detail)
        return
    note = "soft reload" if machine.bird_answers(machine.bird_socket) else "read when BIRD starts"
    yield Change("bird", "~", machine.bird_config, f"{len(before.splitlines())} lines", lines, note, detail=detail)


def bird_to_read(machine: Machine) -> t.Iterator[Change]:
    """Yield a change if BIRD runs with an older bird.cfg, older passwords or older snippets than those on the disk.

    Yield nothing if no BIRD runs, there is no bird.cfg, or BIRD does not say when it read its files.
    """
    if configuration.unread(machine.bird_config, machine.bird_socket):
        yield Change("bird", "~", machine.bird_config, "read before", "and its snippets as they are now", "soft reload")


def left_sessions(target: Stored, stored: t.Optional[Stored]) -> t.Iterator[Change]:
    """Yield a change for each session of `target` that a stopped run may have left with its earlier partner.

    A session that this run has restarted is restarted again. Yield nothing without a stored state.
    """
    if stored is None or target.state.bird is None:
        return
    for peer in target.state.bird.peers:
        if peer.name in stored.restart:
            yield Change("session", "~", peer.name, None, "started anew", f"the peer is {peer.node} now")


def agent_restart(
    by: t.Union[Direct, Through], engine: t.Optional[Engine], target: Stored, files: t.Sequence[Change]
) -> str:
    """Return why the running agent must restart before it gets `target`; "" if it need not, or if none runs.

    `by` is the writer of the kernel, which knows the agent. `engine` None: any engine will do. `files` are the changes
    of files, among them that of the agent's unit.
    """
    agent = by.agent
    if agent is None:
        return ""
    if engine is not None and agent.engine != engine.digest:
        return "it runs another engine"
    settings = next((entry.content for entry in target.files or () if entry.path == AGENT_SETTINGS), None)
    if settings is not None and agent.settings != hashlib.sha256(settings.encode()).hexdigest()[:16]:
        return "it runs with other settings"
    if any(change.subject.endswith(f"/{AGENT_UNIT}") for change in files):
        return "its unit is another one"
    return ""
