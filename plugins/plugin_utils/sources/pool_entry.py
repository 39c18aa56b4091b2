# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An edit of a file's text that changes the mode of one pool and nothing else: of a variable, or of a document."""

from __future__ import annotations

import re
import typing as t

import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.document_limits import check_yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing import text_edit, text_nodes
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.changed_texts import place_of
from ansible_collections.baremetal.host_routing.plugins.module_utils.editing.change.resource_key import ResourceKey

#: The fields of an IPPool for each mode: (ipipMode, vxlanMode).
FIELDS = {
    "ipip": ("Always", "Never"),
    "ipip-crosssubnet": ("CrossSubnet", "Never"),
    "vxlan": ("Never", "Always"),
    "vxlan-crosssubnet": ("Never", "CrossSubnet"),
    "direct": ("Never", "Never"),
}


class CannotEdit(Exception):
    """The error that a pool's entry cannot be edited line by line; the message says why."""


def lines_to_set(mode: str) -> list[str]:
    """Return the lines of YAML that set a pool's mode, without indentation. Raise KeyError for an unknown mode."""
    ipip, vxlan = FIELDS[mode]
    return [f"ipipMode: {ipip}", f"vxlanMode: {vxlan}"]


def with_mode(text: str, pool: str, mode: str) -> str:
    """Return the file's text with the mode of `pool` changed. Raise CannotEdit if that cannot be done line by line.

    Raise CannotEdit also for other text than plain YAML and an unknown pool, KeyError for an unknown mode.
    """
    before = _pools(text)
    wanted = [_changed(entry, pool, mode) for entry in before]
    if wanted == before and not any(_name(entry) == pool for entry in before):
        raise CannotEdit(f"pool {pool} is not written in this file")
    lines = text.splitlines(keepends=True)
    start, end, indent = _entry_lines(lines, pool)
    body = [line for line in lines[start:end] if not re.match(r"\s*(ipipMode|vxlanMode|encapsulation)\s*:", line)]
    if len(body) == 0 or re.match(r"\s*-\s+(ipipMode|vxlanMode|encapsulation)\s*:", body[0]):
        raise CannotEdit("its first line holds its mode")
    position = len(body)
    while position > 1 and not body[position - 1].strip():
        position -= 1
    if not body[position - 1].endswith("\n"):
        body[position - 1] += "\n"
    body[position:position] = [f"{indent}{line}\n" for line in lines_to_set(mode)]
    changed = "".join(lines[:start] + body + lines[end:])
    if _pools(changed) != wanted:
        raise CannotEdit("it is not written line by line")
    return changed


def document_with_mode(text: str, pool: str, mode: str, is_json: bool) -> str:
    """Return the text of a file of resources with the mode of the IPPool `pool` changed; comments in it go.

    Raise CannotEdit if it is not there as a document of its own, KeyError for an unknown mode.
    """
    try:
        place = place_of(text, ResourceKey("IPPool", "", pool), is_json)
        document = text_nodes.values(text, is_json)[place.document]
        for step in place.path:
            document = document[step]
        ipip, vxlan = FIELDS[mode]
        spec = {**document["spec"], "ipipMode": ipip, "vxlanMode": vxlan}
        return text_edit.replace(text, place, {**document, "spec": spec}, is_json)
    except text_nodes.EditRefused as error:
        raise CannotEdit(str(error)) from error


def _pools(text: str) -> list[t.Any]:
    try:
        check_yaml(text, yaml.SafeLoader)
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CannotEdit("it cannot be read as plain YAML") from error
    pools = document.get("calico_ip_pools") if isinstance(document, dict) else None
    if not isinstance(pools, list) or not all(isinstance(entry, dict) for entry in pools):
        raise CannotEdit("calico_ip_pools is not a list of dictionaries in it")
    return pools


def _name(entry: t.Mapping[str, t.Any]) -> t.Any:
    return entry.get("name")


def _changed(entry: dict[str, t.Any], pool: str, mode: str) -> dict[str, t.Any]:
    if _name(entry) != pool:
        return entry
    ipip, vxlan = FIELDS[mode]
    rest = {key: value for key, value in entry.items() if key not in ("ipipMode", "vxlanMode", "encapsulation")}
    return {**rest, "ipipMode": ipip, "vxlanMode": vxlan}


def _entry_lines(lines: t.Sequence[str], pool: str) -> tuple[int, int, str]:
    """Return (index of the first line, index after the last, indentation of the fields) of a list entry.

    It begins with the nearest dash at or above the first line that has the pool's name as `name` and such a dash.
    """
    name = re.compile(r"(\s*)(-\s+)?name:\s*[\"']?" + re.escape(pool) + r"[\"']?\s*(#.*)?$")
    for index, line in enumerate(lines):
        match = name.match(line.rstrip("\n"))
        if not match:
            continue
        start = index
        while start >= 0 and not re.match(r"\s*-\s", lines[start]):
            start -= 1
        dash = re.match(r"(\s*)(-\s+)", lines[start]) if start >= 0 else None
        if dash is None:
            continue
        indent = " " * len(dash.group(0))
        end = index + 1
        while end < len(lines) and (lines[end].startswith(indent) or not lines[end].strip()):
            end += 1
        while end > index + 1 and not lines[end - 1].strip():
            end -= 1
        return start, end, indent
    raise CannotEdit(f"pool {pool} has no line `name: {pool}` of its own in it")
