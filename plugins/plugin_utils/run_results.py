# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that earlier tasks of a run registered, for all of its hosts."""

from __future__ import annotations

import typing as t


def of_hosts(task_vars: t.Mapping[str, t.Any], name: str, hosts: t.Iterable[str]) -> dict[str, t.Mapping[str, t.Any]]:
    """{host: result registered as `name`}, without the hosts that have none.

    As registered: a result is data in which no templates are, and looking for them in what whole fleets answered takes
    longer than anything that is done with it.
    """
    hostvars = task_vars["hostvars"]
    raw = getattr(hostvars, "raw_get", hostvars.__getitem__)
    found = {}
    for host in hosts:
        result = raw(host).get(name)
        if isinstance(result, str):  # the name of a variable that is written as a template
            result = hostvars[host].get(name)
        if isinstance(result, t.Mapping):
            found[str(host)] = result
    return found


def usable(result: t.Optional[t.Mapping[str, t.Any]]) -> bool:
    return (
        result is not None and not result.get("unreachable") and not result.get("failed") and not result.get("skipped")
    )


def reason(result: t.Optional[t.Mapping[str, t.Any]]) -> str:
    """Why a host's part is not usable, in words."""
    if result is None:
        return "unreachable, or failed earlier in this run (its error stands above)"
    if result.get("unreachable"):
        return f"unreachable: {first_line(result.get('msg'))}"
    return first_line(result.get("msg")) or "failed"


def first_line(message: t.Any) -> str:
    text = str(message or "").strip()
    return text.splitlines()[0] if text else ""
