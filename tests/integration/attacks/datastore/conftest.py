# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster of tests/integration/datastore."""

from __future__ import annotations

from tests.integration.datastore.conftest import cluster as cluster
from tests.integration.datastore.conftest import mended as mended
from tests.integration.datastore.conftest import pytest_generate_tests as pytest_generate_tests
