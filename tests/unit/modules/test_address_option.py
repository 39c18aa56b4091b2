# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests read addresses as the modules for single objects do."""

from __future__ import annotations

import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.modules.objects.address_option import kernel_text


@pytest.mark.parametrize(
    ("text", "version", "written"),
    [
        ("10.0.0.1", 4, "10.0.0.1"),
        ("fd00:0:0:0::1", 6, "fd00::1"),
        ("::FFFF:a00:1", 6, "::ffff:10.0.0.1"),
        ("::10.0.0.1", 6, "::10.0.0.1"),
    ],
)
def test_the_kernels_spelling(text: str, version: int, written: str) -> None:
    assert kernel_text(text, version) == written


@pytest.mark.parametrize(
    ("text", "version"), [("fd00::1", 4), ("10.0.0.1", 6), ("fe80::1%eth0", 6), ("010.0.0.1", 4), ("", 4), ("", 6)]
)
def test_an_address_of_the_other_version_or_with_a_zone_is_refused(text: str, version: int) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        kernel_text(text, version)
