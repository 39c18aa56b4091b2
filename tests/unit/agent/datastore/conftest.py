# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures: a datastore in memory, which all agents of a test use."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings

from tests.fakes.etcd import FakeEtcd


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> FakeEtcd:
    found = FakeEtcd()
    monkeypatch.setattr(DatastoreSettings, "client", lambda given, *more: EtcdClient(found.members))
    found.put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.1.0/29"]))
    return found
