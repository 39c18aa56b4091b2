# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that Calico's users know and that do not exist here, with what does their work here."""

from __future__ import annotations

import typing as t

#: The verbs that change resources in Calico: `refusal` answers them.
VERBS = ("apply", "create", "replace", "delete", "patch", "label")

_DIAGNOSTICS = "`calicoctl node diags` gathers what helps of one node, and playbooks/status.yml looks at all nodes"
_START = "playbooks/site.yml makes hosts nodes; on them systemd runs BIRD and the agent (calico-bird, calico-agent)"
_DATASTORE = (
    "the inventory and its lockfile are the data. Keep both in git, print them by `calicoctl export -i INVENTORY`, and "
    "make them from a Calico's documents by `calicoctl import FILE... --to FOLDER`"
)
#: {words of the command: what to use instead}. The longest that a command line begins with counts.
_INSTEAD = {
    ("node", "run"): _START,
    ("node", "init"): _START,
    ("run",): _START,
    ("ipam", "configure"): (
        "blocks are always strict here, as `calicoctl ipam show --show-configuration` shows. The inventory sets the "
        "rest: calico_spare_blocks (group_vars) and calico_node_agent_address_cooldown"
    ),
    ("ipam", "split"): (
        "give calico_ip_pools (group_vars) another pool, and disable the old one there until its addresses are free"
    ),
    ("cluster",): _DIAGNOSTICS,
    ("diags",): _DIAGNOSTICS,
    ("datastore",): _DATASTORE,
    ("config",): "`calicoctl get bgpconfigurations` shows the settings, and group_vars of the inventory have them",
    ("convert",): (
        "documents are projectcalico.org/v3, here as in Calico. `calicoctl import FILE... --to FOLDER` also reads "
        "those that Kubernetes stores, crd.projectcalico.org/v1"
    ),
    ("checksystem",): "it is `calicoctl node checksystem`",
    ("describe",): "`calicoctl get KIND NAME -o yaml` shows a resource",
    ("edit",): "edit the inventory, and run playbooks/site.yml. `calicoctl apply KIND` names the variable",
    ("explain",): "it is `calicoctl policy explain`",
}


def instead(words: t.Sequence[str]) -> t.Optional[str]:
    """Return an error for a command line with one of these commands, None for any other."""
    named = tuple(word for word in words if not word.startswith("-"))
    for length in (2, 1):
        command = named[:length]
        if command in _INSTEAD:
            return f"there is no command `{' '.join(command)}` here: {_INSTEAD[command]}."
    return None
