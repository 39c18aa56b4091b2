# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of a node's answer. Each is far above what a correct node sends, and far below what harms the controller."""

from __future__ import annotations

#: The most workloads that one node may report. A host runs some hundreds; the benchmarks have 1,000 on one.
ENDPOINTS = 16_384
#: The most addresses of one workload: Calico gives one of each IP version, multi-homed ones have a few more.
ADDRESSES = 16
#: The most labels of one workload. Each is at most 317 + 63 characters by Kubernetes' rules, so 64 of them take 24 KB.
LABELS = 64
#: The most profiles that one workload lists; a cluster's workloads list two.
PROFILES = 16
#: The most named ports of one workload.
PORTS = 64
#: The most characters of a workload's name with its namespace: a link's alias has to hold it, which has 255 at most
#: (wire/request.py).
NAME = 231

#: The most blocks that a node may report. A pool of /12 cut into /26 has 16,384 in all.
BLOCKS = 16_384
#: The most addresses that a node's agent may report as assigned to workloads.
ALLOCATED = 65_536
#: The most pools in a node's stored state.
POOLS = 1_024
#: The most stored generations that a node may report; it keeps calico_node_generations_kept, 10 by default.
GENERATIONS = 10_000
#: The most BGP sessions that a node may report.
PEERS = 16_384
#: The most interfaces with addresses that a node may report, and the most addresses of each.
HELD = 4_096
#: The most names of passwords that a node may report: it has one or two for each session.
PASSWORDS = 16_384

#: The most characters of a message's first line that are shown. The important part is at its beginning.
LINE = 1_000
#: The most left out parts of one node's answer that are named; the others are counted.
NAMED = 8
