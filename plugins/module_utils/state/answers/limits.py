# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a node's answer. Each is far above what a correct node sends, and far below what harms the controller."""

from __future__ import annotations

#: Workloads that one node reports. A host runs some hundreds; the largest tests here have 2,000 on one node.
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

#: Blocks that a node reports. A pool of /12 cut into /26 has 16,384 in all.
BLOCKS = 16_384
#: Addresses that a node's agent assigned to workloads.
ALLOCATED = 65_536
#: Pools in a node's stored state.
POOLS = 1_024
#: Generations that a node keeps: calico_node_generations_kept, 10 by default.
GENERATIONS = 10_000
#: BGP sessions of a node.
PEERS = 16_384
#: Names of passwords: one or two for each session.
PASSWORDS = 16_384

#: Characters of one text in an answer: a message, a problem, a name. A longer message is cut, any other text refused.
TEXT = 4_096
#: Characters of a message's first line that are shown. The important part is at its beginning.
LINE = 1_000
#: Entries of one list or table in an answer: targets of a probe, sessions, changes of a plan with policy.
ENTRIES = 131_072
#: Levels of nested lists and tables; the deepest correct answer has 8.
DEPTH = 32
#: Values in one answer as a whole.
VALUES = 4_000_000

#: The number of left out parts of one node's answer that are named; the others are counted.
NAMED = 8
