# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is allowed in an inventory and does not work, breaks easily or is hardly meant. Pure.

Each file has the rules of one subject, functions from a LintedFleet to its issues; `rules` names them all.
"""
