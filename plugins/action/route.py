# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions.guarded_action import PlainAction


class ActionModule(PlainAction):
    """The action of route, and of the modules that meta/runtime.yml sends here: they need nothing from the controller.

    It passes on the keys of the answer that the module documents, and those that report how the task went.
    """
