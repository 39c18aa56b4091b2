# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of variables that the process of each host tells from those of the fleet."""

from __future__ import annotations

import pytest
from ansible.module_utils._internal._datatag import AnsibleTagHelper
from ansible.module_utils._internal._datatag._tags import Deprecated
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.actions import controller_variables


@pytest.mark.parametrize("name", ["calico_node_generations_kept", "calico_node_files", "calico_node_result"])
def test_names_of_the_collection_are_searched_for_once_before_the_fork(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default, a variable and a registered name of a role are known after `prepare`, also with Ansible's tags."""
    controller_variables.prepare()
    monkeypatch.setattr(variables, "misspelt", lambda names: pytest.fail(f"{names} is searched for again"))
    tagged = AnsibleTagHelper.tag(name, Deprecated(msg="x"))
    assert type(tagged) is not str
    assert not controller_variables.is_of_fleet(name)
    assert not controller_variables.is_of_fleet(tagged)
