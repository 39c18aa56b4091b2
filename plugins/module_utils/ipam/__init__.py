# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP address management without a datastore: which node owns which block, planned for the whole inventory at once.

    lockfile.load(text, name) -> AllocationPlan            the plan of the last run
    rebuild.reconcile(that or None, nodes' copies, ...)    corrected by the nodes' copies
        -> Reconciled(plan or None, notices)
    plan.plan(pools, nodes, previous, workloads=, tunnels=, ...) -> AllocationPlan
    lockfile.dump(plan) -> str                             written before any host changes; people commit it

`allocations` and `consistency` work on a node; `carry_over`, `grants` and `holdings` are parts of `plan`, `claims` of
`rebuild`. Planning is pure and deterministic: the order of pools, nodes and workloads does not matter, planning twice
changes nothing, and `generation` increases only when the content changes.
"""
