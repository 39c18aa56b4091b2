# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place in the inventory from which Ansible has a value: a file and line, or the plugin or script that made it."""

from __future__ import annotations

import ast
import functools
import re
import typing as t

try:  # Origin has the file and line of a value. This part of ansible-core is private, so it may be missing.
    from ansible._internal._datatag._tags import Origin
except ImportError:
    Origin = None

#: Ansible's descriptions of values that have no line: what an inventory script printed, and what a plugin set.
_SCRIPT = re.compile(r"<inventory script output from (?P<path>'.+'|\".+\")>")
_PLUGIN = re.compile(r"<inventory plugin .+>|<unknown>")
#: The line of an inventory source that says which plugin reads it.
_PLUGIN_KEY = re.compile(r"^plugin:[ \t]*['\"]?([\w.]+)", re.MULTILINE)


def value_origin(value: t.Any, source: t.Any = None) -> str:
    """Return where the inventory has a value: "" if it is not known.

    That is "file:line", or the file alone where Ansible knows no line, as in a JSON file. For a value that an inventory
    script or plugin provided, it is "/prod/hosts.sh (script)" or "/prod/hosts.yml (plugin netbox.netbox.nb_inventory)".
    `source` is the inventory_file of the host, and a value that some plugin set is taken to be of the plugin that
    `source` names. The plugin in Ansible's own description is "auto", or one of an earlier source.
    """
    origin = Origin.get_tag(value) if Origin is not None else None
    if origin is None:
        return ""
    if origin.path:
        return f"{origin.path}:{origin.line_num}" if origin.line_num else str(origin.path)
    script = _SCRIPT.fullmatch(origin.description)
    if script:
        return f"{ast.literal_eval(script.group('path'))} (script)"
    plugin = _plugin_of(str(source)) if isinstance(source, str) and _PLUGIN.fullmatch(origin.description) else ""
    return f"{source} (plugin {plugin})" if plugin else ""


@functools.lru_cache
def _plugin_of(source: str) -> str:
    """Return the plugin that the file `source` names, or "" if there is no such file or it names none."""
    try:
        with open(source, encoding="utf-8", errors="replace") as file:
            found = _PLUGIN_KEY.search(file.read())
    except OSError:
        return ""
    return found.group(1) if found else ""
