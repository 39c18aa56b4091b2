# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that find what is valid in an inventory but does not work, breaks easily or is probably a mistake.

They are pure. A rule is a function from a LintedFleet to its issues; `rules` lists them all. Unless they say otherwise,
rules about BGP find nothing if BGP is disabled, and nodes of pools are those in group calico_nodes.
"""
