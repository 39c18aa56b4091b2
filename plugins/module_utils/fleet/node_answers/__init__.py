# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The border between what a node says and what anybody else believes.

Root on a node writes whatever it likes into the answers of its modules and into its files. Each answer therefore goes
through a reader of this package before the controller uses it, or another node takes it: typed, bounded, and about
nothing but the node itself. A part that fails is left out and named with its node (`left_out.LeftOut`), and the rest
goes on. Pure; the same readers run on the controller and, for endpoints, on the node that receives them.

    limits      how much of each kind a node may say, and why that much
    left_out    what was left out, in words
    shapes      readers of plain values: texts, numbers, lists, tables
    endpoints   workloads, told by the node that has them
    node_info   the stored state, the journal and the generations of a node
    results     what modules answer about a change: plans, convergence, probes, status
"""
