# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl for one node: commands that Calico's users know, answered by the node's agent or from its disk.

`command.main` is the program. Each command is a module with a function (parsed arguments, `Sources`) -> exit status.
"""
