# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A systemctl for tests, which keeps the state of units as files in a folder: <unit>.enabled and so on.

As with the real one, a masked unit can be neither enabled nor started, a stale one does not start, and a change of
links is known to the running systemd only after it has read all units again.
"""

from __future__ import annotations

import pathlib

_SCRIPT = """\
#!/bin/sh
cd '{folder}' || exit 9
verb=$1
shift
is() {{ if test -e "$1"; then echo "$2"; else echo "$3"; fi; }}
case $verb in
show)
    shift 2
    for unit; do
        test "$unit" = "$1" || echo
        echo "LoadState=$(is "$unit.masked" masked loaded)"
        echo "ActiveState=$(is "$unit.started" active inactive)"
        if test -e "$unit.masked"; then echo UnitFileState=masked; else
            echo "UnitFileState=$(is "$unit.enabled" enabled disabled)"
        fi
        echo "NeedDaemonReload=$(is "$unit.stale" yes no)"
    done ;;
list-units)
    if test -e list-units.broken; then echo 'Failed to list units: Connection refused' >&2; exit 1; fi
    while test "$1" != --; do shift; done
    for mark in $2.started; do
        test ! -e "$mark" || echo "${{mark%.started}} loaded active exited Network namespace"
    done ;;
daemon-reload)
    if test -e daemon-reload.broken; then echo 'Failed to reload daemon: Connection timed out' >&2; exit 1; fi
    rm -f ./*.stale ./*.unread
    echo >>reads ;;
*)
    unread=
    while test "$1" != --; do
        case $1 in
        --no-reload) unread=yes ;;
        *) exit 7 ;;
        esac
        shift
    done
    shift
    if test -e "$1.masked"; then echo "Failed to $verb unit: Unit $1 is masked." >&2; exit 1; fi
    if test -e "$1.broken"; then printf 'Job for %s failed.\\nmore\\n' "$1" >&2; exit 1; fi
    case $verb in
    enable) touch "$1.enabled" ;;
    disable) rm -f "$1.enabled" ;;
    start)
        if test -e "$1.stale" || test -e "$1.unread"; then echo 'Unit has changed on disk.' >&2; exit 1; fi
        touch "$1.started" ;;
    restart) echo >>"$1.restarted" ;;
    stop) rm -f "$1.started" ;;
    mask) touch "$1.masked" ;;
    *) exit 8 ;;
    esac
    case $verb in
    mask | enable | disable) if test -n "$unread"; then touch "$1.unread"; else echo >>reads; fi ;;
    esac ;;
esac
"""


class Systemctl:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.program = folder / "systemctl"
        self.program.write_text(_SCRIPT.format(folder=folder))
        self.program.chmod(0o755)

    def have(self, *marks: str) -> None:
        """Set marks of units: `bird.service.started` means that the unit runs.

        Others end in .enabled, .masked, .stale or .broken; every command but show fails for a broken unit.
        systemd cannot list units while it has the mark `list-units.broken`, and cannot read them again while it has
        the mark `daemon-reload.broken`.
        """
        for mark in marks:
            (self.folder / mark).touch()

    @property
    def marks(self) -> set[str]:
        """The marks of units; also .restarted, and .unread if systemd has not read a unit since its links changed."""
        return {path.name for path in self.folder.iterdir()} - {"systemctl", "reads"}

    @property
    def reads(self) -> int:
        """The number of times that systemd has read all units again."""
        path = self.folder / "reads"
        return path.read_text().count("\n") if path.exists() else 0
