# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of this release, for controllers and for nodes, which have no galaxy.yml, and that of documents."""

from __future__ import annotations

VERSION = "0.2.0"
#: The version of resources, which is Calico's.
API_VERSION = "projectcalico.org/v3"
