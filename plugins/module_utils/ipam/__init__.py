# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP address management without a datastore: which node owns which block, planned for the whole inventory at once.

    lockfile.load(text, name) -> AllocationPlan            what was planned the last time
    rebuild.reconcile(that or None, nodes' copies, ...)    corrected by what the nodes say; never fresh over live blocks
        -> Reconciled(plan or None, notices)
    plan.plan(pools, nodes, previous, workloads=, tunnels=, spare_blocks=, released=) -> AllocationPlan
    lockfile.dump(plan) -> str                             to be committed, before any host changes

| module | what it does |
|---|---|
| `block_walk` | addresses and blocks as whole numbers; the host-seeded walk over a pool's blocks |
| `allocation_plan` | the plan as a value: AllocationPlan, NodePlan, BlockGrant, QuarantinedBlock, PlannedPool |
| `inputs` | what is planned for: PoolRange, NodeEntry, WorkloadRequest |
| `plan` | inputs and the last plan in, the next plan out |
| `carry_over`, `grants`, `holdings` | parts of `plan`: what stays, what is new, who has what meanwhile |
| `lockfile` | AllocationPlan <-> YAML document and its text |
| `rebuild` | the last plan from lockfile and nodes' copies |
| `allocations` | on a node: which of its blocks' addresses are whose, and which one is next |
| `consistency` | on a node: whether those are the addresses that are used (`calicoctl ipam check`) |
| `errors` | IpamError (variable, value, rule, remedy) and its kinds: PlanError, LockfileError, RebuildError |

Everything is pure and deterministic: the order of the inputs does not matter, planning twice changes nothing, and
`generation` counts up only when the content does.
"""
