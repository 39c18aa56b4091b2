# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions. Ansible imports this folder when it reads a task of the collection, before it forks for each host."""

from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import guarded_action

guarded_action.prepare()
