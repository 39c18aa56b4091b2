# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a module's answer that actions pass on.

Root on a node writes the answer of every module that runs there. Ansible's strategy obeys some keys of an answer:
`ansible_facts` sets variables, `add_host` and `add_group` change the inventory, `ansible_stats` the statistics. So only
three kinds of keys pass: those that the module documents, those that report how the task went, and those that the
controller itself has set.
"""

from __future__ import annotations

import typing as t

#: Keys with which a task reports how it went. Ansible reads them as data and sets no variable by them.
OF_ANSIBLE = frozenset(
    {
        "changed",
        "deprecations",
        "diff",
        "exception",
        "failed",
        "invocation",
        "module_stderr",
        "module_stdout",
        "msg",
        "rc",
        "skipped",
        "skip_reason",
        "stderr",
        "stderr_lines",
        "stdout",
        "stdout_lines",
        "unreachable",
        "warnings",
        # keys of a task with `async`
        "ansible_job_id",
        "finished",
        "results_file",
        "started",
        # a key that the controller's own parser of answers sets
        "_ansible_parsed",
    }
)

FACTS = "ansible_facts"

#: The keys in RETURN of each module that runs on nodes; tests/unit/plugin_utils/actions/test_module_answer.py
#: compares them.
DOCUMENTED: t.Mapping[str, frozenset[str]] = {
    name: frozenset(keys.split())
    for name, keys in {
        "bgp_session_info": "error router_id running sessions version",
        "convergence_info": "converged missing routes sessions",
        "drain": "workloads",
        "etcd_member_info": "gate host member",
        "etcd_operation": "deleted_keys size",
        "interface_sysctl": "plan",
        "interface_sysctl_info": "settings",
        "iptables_table": "plan",
        "iptables_table_info": "tables",
        "node": (
            "changes confirmed cut foreseen generation kept new phases plan remarks routes_withdrawn sessions_begun "
            "sessions_reset settled unconfirmed units_changed"
        ),
        "node_confirm": "generation news outcome",
        "node_info": (
            "bgp blocks complete datastore devices engine_digest generation generations ipam missing_packages "
            "passwords_changed preflight routes state workloads"
        ),
        "node_status_info": "agent bgp blocks complete node phase plan problems routes workloads",
        "probe": "clock lost sent targets watch",
        "remote_endpoints": "changes plan",
        "remote_endpoints_info": "digest endpoints known node",
        "route": "plan",
        "route_info": "routes",
        "soak": "clock converged lost missing routes sent sessions targets watch",
        "teardown": "containers kept plan refusal",
        "tunnel_device": "plan",
        "tunnel_device_info": "devices",
        "workload": "code plan workload",
        "workload_endpoint": "interface plan",
        "workload_endpoint_info": "workloads",
        "workload_info": "agent_running workloads",
    }.items()
}


def passed_on(
    module: str, answer: t.Mapping[str, t.Any], discovered: t.Optional[str], interpreter: t.Any
) -> dict[str, t.Any]:
    """Return the part of `answer` that an action of `module` (a name without the collection's) passes on.

    It keeps the keys in OF_ANSIBLE and in DOCUMENTED, with unchanged values; GuardedAction.run escapes their texts.
    `discovered` is the name of the fact by which Ansible remembers the `interpreter` that it discovered on the node for
    this very answer, None if it discovered none. With a name, `ansible_facts` has that fact alone; with None it is
    missing. Raise KeyError for a module that DOCUMENTED does not have.
    """
    wanted = OF_ANSIBLE | DOCUMENTED[module]
    kept = {key: value for key, value in answer.items() if key in wanted}
    if discovered is not None:
        kept[FACTS] = {discovered: interpreter}
    return kept
