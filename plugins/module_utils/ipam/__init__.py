# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""IP address management without a datastore: which node owns which block, planned for the whole inventory at once.

    lockfile.load(text, name) -> AllocationPlan            the plan of the last run
    rebuild.reconcile(that or None, nodes' copies, ...)    corrected by the nodes' copies
        -> Reconciled(plan or None, notices)
    plan.plan(pools, nodes, previous, workloads=, tunnels=, ...) -> AllocationPlan
    lockfile.dump(plan) -> str                             written before any host changes; people commit it

| module | what it does |
|---|---|
| `block_walk` | addresses and blocks as whole numbers; the host-seeded walk over a pool's blocks |
| `allocation_plan` | the plan as a value: AllocationPlan, NodeAllocations, BlockGrant, QuarantinedBlock, PlannedPool |
| `inputs` | the inputs of a plan: PoolRange, NodeEntry, WorkloadRequest |
| `plan` | makes the next plan from the inputs and the last plan |
| `carry_over`, `grants`, `holdings` | parts of `plan`: what stays, what is new, and the planner's working state |
| `lockfile` | AllocationPlan <-> YAML document and its text |
| `rebuild`, `claims` | the last plan from lockfile and nodes' copies; which claims of a copy are accepted |
| `allocations` | on a node: who has which address of its blocks, and which address is next |
| `consistency` | on a node: whether the allocated addresses are those in use (`calicoctl ipam check`) |
| `errors` | IpamError (variable, value, rule, remedy) and its kinds: PlanError, LockfileError, RebuildError |

Planning is pure and deterministic: the order of pools, nodes and workloads does not matter, planning twice changes
nothing, and `generation` increases only when the content changes.
"""
