# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a report comes from: the time, the inventory, and the command without anything that may be a secret."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import time
import typing as t

from ansible import context
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import release
from ansible_collections.baremetal.host_routing.plugins.module_utils.report import switch_loss
from ansible_collections.baremetal.host_routing.plugins.module_utils.report.model import Origin

from ..lines.shown_path import shown_path

#: The options of the playbooks that a command shows with their values. Others may be secrets, and are left out.
_SHOWN = ("report", "source", "strict", "output", "pool", "mode", "topology", "approve", "write_inventory")


def origin(title: str, task_vars: t.Mapping[str, t.Any], source: str = "") -> Origin:
    """Return the origin of a report that is made now."""
    sources = [shown_path(path) for path in _sources(task_vars)]
    return Origin(
        title,
        command(task_vars, sources),
        ", ".join(sources),
        local_time(time.time(), switch_loss.MOMENT),
        release.VERSION,
        f"{getpass.getuser()}@{socket.gethostname()}",
        source,
    )


def local_time(at: float, form: str) -> str:
    """Return a time in seconds since 1970 as local time, in a form of strftime."""
    return time.strftime(form, time.localtime(at))


def _sources(task_vars: t.Mapping[str, t.Any]) -> list[str]:
    given = task_vars.get("ansible_inventory_sources")
    if isinstance(given, (list, tuple)) and given:
        return [str(path) for path in given]
    return [str(task_vars["inventory_file"])] if task_vars.get("inventory_file") else []


def command(task_vars: t.Mapping[str, t.Any], sources: t.Sequence[str]) -> str:
    """Return the command of this run as text, with the options known to be public; "" unless it is ansible-playbook."""
    given = getattr(context, "CLIARGS", None) or {}
    playbooks = [str(path) for path in given.get("args") or ()]
    if not playbooks:
        return ""
    words = ["ansible-playbook", *playbooks]
    for path in sources:
        words += ["-i", path]
    words += [option for option, name in (("--check", "check"), ("--diff", "diff")) if given.get(name)]
    if given.get("subset"):
        words += ["--limit", str(given["subset"])]
    written = " ".join(map(shlex.quote, words))
    extra = _extra_names(given)
    for name in _SHOWN:
        if name in extra and isinstance(task_vars.get(name), (str, bool, int)) and "{" not in str(task_vars[name]):
            value = task_vars[name]
            written += f" -e {shlex.quote(f'{name}={str(value).lower() if isinstance(value, bool) else value}')}"
    return written + (" ..." if extra.difference(_SHOWN) else "")


def _extra_names(given: t.Mapping[str, t.Any]) -> set[str]:
    """Return the names of -e variables written as NAME=VALUE; others, such as files, count as one unknown name."""
    found: set[str] = set()
    for entry in given.get("extra_vars") or ():
        text = str(entry)
        try:
            parts = shlex.split(text)
        except ValueError:
            parts = [text]
        for part in parts:
            name, separator, dummy = part.partition("=")
            found.add(name if separator and name.isidentifier() else os.pardir)
    return found
