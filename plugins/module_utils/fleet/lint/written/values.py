# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about variables: names that this collection does not have, and values of another type than is meant."""

from __future__ import annotations

import typing as t

from ....state.errors import within
from ...host import Host, origin
from ..finding import Issue
from ..written_inventory import WrittenInventory


def misspelt(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a variable whose name is nearly that of a variable of this collection.

    A run refuses such a name only if it is nearly one of the fleet's or of a node's.
    """
    for unknown in written.unknown:
        if unknown.meant:
            yield Issue(
                unknown.name,
                "is not a variable of this collection: nothing reads it.",
                f"Did you mean {unknown.meant}?",
                unknown.origin,
            )


def unknown(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a variable calico_* that this collection does not have, and whose name is like no other."""
    for one in written.unknown:
        if not one.meant:
            yield Issue(
                one.name,
                "is not a variable of this collection: nothing here reads it.",
                "Remove it; docs/reference/variables.md has the names. If another program reads it, name this rule in "
                "calico_lint_ignore.",
                one.origin,
            )


def of_role(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a variable of a role whose value has a wrong type or is none of its choices."""
    for error in written.role_errors:
        yield Issue(error.variable, error.rule, error.remedy, value=error.value, origin=error.origin)


def label_is_boolean(written: WrittenInventory) -> t.Iterator[Issue]:
    """Report a label whose value YAML reads as true or false, such as no and on without quotes."""
    seen: set[str] = set()
    for host in written.hosts:
        for label, value in _labels(host):
            place = origin(label, [host])
            # Without a known line, a value that several hosts share is one issue as well: its variable is the fleet's.
            key = f"{place} {label.partition(' of ')[0]}" if place else label
            if isinstance(value, bool) and key not in seen:
                seen.add(key)
                yield Issue(
                    label,
                    "is a boolean to YAML, as yes, no, on and off without quotes are: selectors compare it with the "
                    f"text {str(value).lower()}.",
                    "Write the value in quotes.",
                    value=value,
                )


def _labels(host: Host) -> t.Iterator[tuple[str, t.Any]]:
    """Yield the labels in the variables of `host`: (the path of its value as errors name it, value)."""
    own = host.variables.get("calico_node_labels")
    places: list[tuple[str, t.Any]] = [(f"calico_node_labels of {host.name}", own)]
    for name, suffix in (("calico_workloads", ""), ("calico_node_workloads", f" of {host.name}")):
        entries = host.variables.get(name)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict):
                places.append((within(f"{name}[{index}]{suffix}", "labels"), entry.get("labels")))
    for label, labels in places:
        if isinstance(labels, dict):
            for key, value in labels.items():
                yield within(label, str(key)), value
