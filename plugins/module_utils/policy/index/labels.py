# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels that selectors see: an endpoint's own, those of its namespace, and those inherited from profiles."""

from __future__ import annotations

import typing as t

from ...base.naming import NAMESPACE_LABEL
from ..model import Profile

Labels = t.Mapping[str, str]
#: (name, value) of each, in the order of their names.
LabelPairs = tuple[tuple[str, str], ...]

NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX = "pcns.", "pcsa."
SERVICE_ACCOUNT_LABEL = "projectcalico.org/serviceaccount"
#: The label of a namespace that is its name.
NAME_LABEL = "projectcalico.org/name"


def namespaced_labels(own: t.Mapping[str, str], namespace: str, service_account: str = "") -> LabelPairs:
    """Return the labels of an endpoint or set in a namespace: its own, and those that say where it is.

    It cannot give itself labels of a namespace or service account. Calico takes these from profiles (`kns.<namespace>`,
    `ksa...`), and so does a profile's labelsToApply here; the namespace's name is always there.
    """
    labels = {
        label: value
        for label, value in own.items()
        if not label.startswith((NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX)) and label != SERVICE_ACCOUNT_LABEL
    }
    labels[NAMESPACE_LABEL] = namespace
    labels[NAMESPACE_PREFIX + NAME_LABEL] = namespace
    if service_account:
        labels[SERVICE_ACCOUNT_LABEL] = service_account
        labels[SERVICE_ACCOUNT_PREFIX + NAME_LABEL] = service_account
    return tuple(sorted(labels.items()))


def labels_by_profile(profiles: t.Iterable[Profile]) -> dict[str, Labels]:
    """Return {profile: the labels that it gives to those that list it}."""
    return {profile.name: dict(profile.labels) for profile in profiles}


def effective_labels(
    own: t.Iterable[tuple[str, str]], profiles: t.Sequence[str], given: t.Mapping[str, Labels]
) -> dict[str, str]:
    """Return `own` labels and those inherited from `profiles`; `given` is what `labels_by_profile` returned.

    The own label wins over an inherited one, and of profiles the one listed first (Felix, labelindex). A profile that
    does not exist gives nothing.
    """
    labels: dict[str, str] = {}
    for profile in reversed(profiles):
        labels.update(given.get(profile, {}))
    labels.update(own)
    return labels
