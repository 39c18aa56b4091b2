# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Live policy as an operator changes it, on the controller: documents in the datastore, their history, and the wait.

Nodes do not get this room: none of them may write documents.
"""
