# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""calicoctl for one node: commands that Calico's users know, and a few of our own.

Most ask the node's agent, or read its disk. Some read files or, on a controller, an inventory instead.

`command.main` is the program. Each command is a function (parsed arguments, `Sources`) -> exit status, in a module of
`commands`. The verbs of `commands.refused.refusal` are none: they are parsed only for their help.
"""
