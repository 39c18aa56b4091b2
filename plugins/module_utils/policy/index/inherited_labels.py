# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels with those inherited from profiles."""

from __future__ import annotations

import typing as t

from ..model import Profile

Labels = t.Mapping[str, str]


def labels_by_profile(profiles: t.Iterable[Profile]) -> dict[str, Labels]:
    """What each profile gives to those that list it."""
    return {profile.name: dict(profile.labels) for profile in profiles}


def effective_labels(
    own: t.Iterable[tuple[str, str]], profiles: t.Sequence[str], given: t.Mapping[str, Labels]
) -> dict[str, str]:
    """`own` labels and those that `given` says its `profiles` have.

    The own label wins over an inherited one, and of profiles the one listed first (Felix, labelindex). A profile that
    does not exist gives nothing.
    """
    labels: dict[str, str] = {}
    for profile in reversed(profiles):
        labels.update(given.get(profile, {}))
    labels.update(own)
    return labels
