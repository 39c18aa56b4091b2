# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much a node may say. Each bound is far above what an honest node has, and far below what hurts the controller."""

from __future__ import annotations

#: Workloads that one node tells of. A host runs some hundreds; the largest tests here have 2,000 on one node.
ENDPOINTS = 16_384
#: Addresses of one workload: Calico gives one of each IP version, multi-homed ones have a few more.
ADDRESSES = 16
#: Labels of one workload. Each is at most 317 + 63 characters by Kubernetes' rules, so 64 of them take 24 KB.
LABELS = 64
#: Profiles that one workload lists; a cluster's workloads list two.
PROFILES = 16
#: Named ports of one workload.
PORTS = 64
#: Characters of a workload's name with its namespace: the alias of a link, 255, has to hold it (agent/api/request.py).
NAME = 231

#: Blocks that a node says it has. A pool of /12 cut into /26 has 16,384 in all.
BLOCKS = 16_384
#: Addresses that a node gave to workloads by itself.
ALLOCATED = 65_536
#: Pools in a node's stored state.
POOLS = 1_024
#: Generations that a node keeps: calico_node_generations_kept, 10 unless it is set.
GENERATIONS = 10_000
#: Names of passwords: one or two for each session.
PASSWORDS = 16_384

#: Characters of one text in an answer: a message, a problem, a name. Longer ones are refused, messages cut.
TEXT = 4_096
#: Characters of a message's first line that are shown: what matters stands at its beginning.
LINE = 1_000
#: Entries of one list or table in an answer: targets of a probe, sessions, changes of a plan with policy.
ENTRIES = 131_072
#: Levels of lists and tables within each other; the deepest honest answer has 8.
DEPTH = 32
#: Values in one answer as a whole.
VALUES = 4_000_000

#: Parts of one node's answer that are named when they are left out; the others are counted.
NAMED = 8
