# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import importlib
import typing as t

import jinja2
import pytest
from ansible_collections.baremetal.host_routing.plugins.action import node
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import BackupRoute, Bird, BirdPeer
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

BIRD = Bird(
    router_id="10.10.1.11",
    address="10.10.1.11",
    as_number=64512,
    subnet="10.10.1.0/24",
    peers=(BirdPeer("Mesh_10_10_1_12", "10.10.1.12", 64512, "mesh", node="node2"),),
    backups=(BackupRoute("10.244.9.0/26", "10.10.1.12"),),
)


def test_templates_are_read_by_the_import_and_not_by_each_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The import of the action node reads the templates, so that no host's process, forked afterwards, reads them."""
    read: list[str] = []
    compiled = jinja2.Environment.compile

    def compile_template(self: jinja2.Environment, source: t.Any, *args: t.Any, **options: t.Any) -> t.Any:
        read.append(str(args[:1]))
        return compiled(self, source, *args, **options)

    monkeypatch.setattr(jinja2.Environment, "compile", compile_template)
    bird_config._environment.cache_clear()
    importlib.reload(node)
    assert len(read) > 10
    read.clear()
    bird_config.render(NodeState("node1", "10.10.1.11/24", bird=BIRD).to_dict()["bird"])
    assert read == []
