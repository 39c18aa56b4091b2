# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of what the module etcd_member_info refuses on a host."""

from __future__ import annotations

import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.baremetal.host_routing.plugins.modules import etcd_member_info


def test_without_roots_rights(capsys: pytest.CaptureFixture[str]) -> None:
    os.seteuid(65534)
    try:
        with patch_module_args({"url": "https://192.0.2.1:2379"}), pytest.raises(SystemExit) as ended:
            etcd_member_info.main()
    finally:
        os.seteuid(0)
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["msg"] == (
        "etcd_member_info runs as user id 65534, and root alone can read the keys below /etc/calico-etcd. "
        "Set ansible_become: true for this host."
    )
