# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tasks register stays in the variables of hosts: no such name may be taken for a variable of the inventory."""

from __future__ import annotations

import re

from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables

from tests.conftest import ROOT


def test_no_registered_name_is_or_resembles_a_variable_of_the_inventory() -> None:
    files = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("playbooks/*.yml")]
    names = {
        name for path in files for name in re.findall(r"^ +register: (\w+)$", path.read_text("utf-8"), re.MULTILINE)
    }
    assert len(names) > 30
    assert list(variables.misspelt(names)) == []
    assert names.isdisjoint(variables.BY_NAME)
