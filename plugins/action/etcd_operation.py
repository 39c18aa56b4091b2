# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.etcd_action import EtcdAction


class ActionModule(EtcdAction):
    """The action of etcd_operation and etcd_member_info: it adds the operator's user and filters the answer."""
