# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node's files in folders of others, such as /etc/cni/net.d: missing ones are written again from the stored state.

Other software removes them: `podman network prune` deletes networks that no container uses, on Debian 12 that of CNI.
calico-files.service runs this. calico-files.path starts it when a folder of networks changes, calico-files.timer every
minute. A file with another content or mode stays: the operator may have changed it. The status names it, and the next
run writes it.

    /var/lib/calico/files    the paths, one per line, by which the unit sees cheaply whether a file is missing
"""

from __future__ import annotations

import os
import time
import typing as t

from ...dataplane.change import ApplyError, Change
from ...dataplane.drivers import file
from ..host import units
from ..machine import Machine
from ..store import atomic_file, lock
from ..store.store import File, Store, Stored
from ..store.unconfirmed import UnconfirmedStore
from ..write import own_folders

_NAME = "files"
DOCKER_UNIT, DOCKER_SOCKET = "calico-docker.socket", "/run/docker/plugins/calico.sock"
PATH_UNIT, TIMER_UNIT, _SERVICE = "calico-files.path", "calico-files.timer", "calico-files.service"
#: Seconds to wait: podman deletes several networks one after the other.
PAUSE = 1.0


def wanted_files(machine: Machine, files: t.Iterable[File]) -> list[file.WantedFile]:
    """Return a node's files as the driver of files takes them. Raise ValueError for a mode that is not octal."""
    return [file.WantedFile(machine.placed(entry.path), entry.content, int(entry.mode, 8)) for entry in files]


def restore(machine: Machine, *, pause: float = PAUSE, lock_timeout: float = 60.0) -> list[Change]:
    """Write the node's missing files again, and return what was written. Do nothing if nothing is stored.

    Also open Docker's socket again whose file is gone, and start the watching of folders if it does not run. A file
    that announces the node as ready is not written while a change is not complete. Raise LockError if a run changes the
    node for longer than `lock_timeout` seconds, another error of `errors.ERRORS`, or OSError.
    """
    time.sleep(pause)
    with lock.held("calico-files", lock_timeout, machine.lock):
        stored = Store(machine.store).load()
        if stored is None:
            return []
        ready = stored.complete or UnconfirmedStore(machine.store).any()
        wanted = [entry for entry in stored.files or () if ready or not entry.last]
        # A dangling symbolic link is not missing.
        missing = [entry for entry in wanted_files(machine, wanted) if not os.path.lexists(entry.path)]
        changes = file.diff(missing, {})
        own_folders.record(machine, wanted)
        file.apply(changes)
        if any("/etc/systemd/" in change.subject for change in changes):
            units.apply((), True, machine.systemctl)
        changes += _open_docker_socket(machine)
        return changes


def watch(machine: Machine) -> str:
    """Start the unit that watches the folders, if it does not run; return "", or the sentence that it cannot."""
    wanted = [units.WantedUnit(PATH_UNIT, started=True)]
    changes = units.diff(wanted, units.observe(wanted, machine.systemctl))
    try:
        units.apply(changes, False, machine.systemctl)
    except ApplyError:
        return unwatched_sentence()
    return ""


def unwatched(machine: Machine, stored: Stored) -> str:
    """Return the sentence that folders are not watched, "" if they are, or if `stored` has no units for that."""
    if not any(entry.path.endswith(f"/{TIMER_UNIT}") for entry in stored.files or ()):
        return ""
    wanted = [units.WantedUnit(PATH_UNIT), units.WantedUnit(TIMER_UNIT)]
    found = units.observe(wanted, machine.systemctl)
    return unwatched_sentence() if found[TIMER_UNIT].started and not found[PATH_UNIT].started else ""


def unwatched_sentence() -> str:
    return (
        f"{PATH_UNIT} does not run, so that {TIMER_UNIT} restores missing files, within a minute. The host may have no "
        "inotify instances left ('Too many open files' in journalctl -u calico-files.path). Raise "
        "fs.inotify.max_user_instances and fs.inotify.max_user_watches by sysctl; the node then starts it by itself."
    )


def list_paths(machine: Machine, files: t.Sequence[File]) -> None:
    """Write the list of paths by which calico-files.service sees whether a file is missing, unless it is up to date."""
    path = os.path.join(machine.store, _NAME)
    text = "".join(f"{entry.path}\n" for entry in files)
    try:
        with open(path, encoding="utf-8") as stream:
            if stream.read(len(text) + 1) == text:
                return
    except (OSError, ValueError):
        pass
    atomic_file.make_folder(machine.store)
    atomic_file.write(path, text, 0o600)


def drift(machine: Machine, stored: Stored) -> str:
    """Return a sentence with the files and folders that are not as the last run left them; "" if all are."""
    if not stored.complete:
        return ""
    files = stored.files or ()
    changes = [*own_folders.changes(machine, files), *file.changes(wanted_files(machine, files))]
    if not changes:
        return ""
    named = ", ".join(f"{change.subject} ({_reason(change)})" for change in changes[:5])
    more = f" and {len(changes) - 5} more" if len(changes) > 5 else ""
    return (
        f"files of the node are not as the last run left them: {named}{more}. {_SERVICE} restores missing ones within "
        "a minute. Run playbooks/site.yml for the others; --check --diff shows what it would change."
    )


def _reason(change: Change) -> str:
    if change.action == "+":
        return "missing"
    if change.detail and not isinstance(change.new, file.WantedFolder):
        return "another content"
    return f"another mode: {change.old if isinstance(change.old, int) else change.old.mode:04o}"


def _open_docker_socket(machine: Machine) -> list[Change]:
    """Open the socket of Docker's driver again if its unit runs and its file is gone. Return the change, if any."""
    if os.path.lexists(machine.placed(DOCKER_SOCKET)):
        return []
    wanted = [units.WantedUnit(DOCKER_UNIT, restart=f"{DOCKER_SOCKET} is gone")]
    changes = units.diff(wanted, units.observe(wanted, machine.systemctl))
    units.apply(changes, False, machine.systemctl)
    return changes
