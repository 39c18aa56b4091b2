# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of the answers of nodes, which are not trusted.

Root on a node can write anything into the answers of its modules and into its files. So each answer goes through a
reader before the controller or another node uses it. A reader accepts only values of the right type and size, and only
statements of a node about itself. For an invalid answer it raises `base.typed_json.Unreadable`, or leaves the invalid
part out and uses the rest. Parts that are left out may be reported with their node (`state.answers.left_out.LeftOut`).
The readers are pure. `state/answers/` has the limits and the reader of workloads, which also runs on nodes.
"""
