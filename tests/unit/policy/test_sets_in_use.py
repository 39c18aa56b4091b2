# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets in use, beside a selector that cannot be read."""

from __future__ import annotations

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.selectors import SelectorError
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.sets_in_use import SetsInUse


@pytest.mark.parametrize("times", [1, 2])
def test_a_set_with_an_invalid_selector_is_never_there(times: int) -> None:
    """Each use of an invalid selector is refused, and nothing of it is left: no set, and no count of users.

    A valid selector before it in the same call is in use, once for each call (`times`).
    """
    sets = SetsInUse()
    for _ in range(times):
        with pytest.raises(SelectorError):
            sets.use(["role == 'web'", "role =="])
    assert sets.take_changes() == (frozenset({"role == 'web'"}), frozenset(), {})
    sets.release(["role == 'web'"] * times)
    assert sets.take_changes() == (frozenset(), frozenset({"role == 'web'"}), {})
