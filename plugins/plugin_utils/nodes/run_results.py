# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results that earlier tasks of a run registered, for all of its hosts."""

from __future__ import annotations

import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import typed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.node_answers import results
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import controller_variables


def of_hosts(
    task_vars: t.Mapping[str, t.Any],
    name: str,
    hosts: t.Iterable[str],
    reader: t.Optional[typed_json.Reader] = None,
) -> dict[str, t.Mapping[str, t.Any]]:
    """Return a mapping from host to the result registered as `name`, without the hosts that have none.

    A value that is no mapping counts as none. With a `reader`, a result is that of `results.of_result`; without one it
    is returned as it is. Templates in results are not evaluated: they are data, and searching the answers of a whole
    fleet for templates takes longer than everything else that is done with them. Only a variable `name` that is itself
    a template is evaluated. Raise AnsibleTemplateError if that fails.
    """
    hostvars = task_vars["hostvars"]
    raw = controller_variables.raw(hostvars)
    found = {}
    for host in hosts:
        result = raw(host).get(name)
        if isinstance(result, str):  # the variable's value is a template, which hostvars[host] evaluates
            result = hostvars[host].get(name)
        if isinstance(result, t.Mapping):
            found[str(host)] = result if reader is None else results.of_result(result, reader)
    return found
