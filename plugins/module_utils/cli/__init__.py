# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl: the commands that Calico's users know, for one node. Reads what the node has and asks its agent.

`command.main` is the program. Each command is a file: from its parsed arguments and `Sources` to an exit status.
"""
