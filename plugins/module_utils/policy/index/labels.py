# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The labels that selectors see: an endpoint's own, those of its namespace, and those inherited from profiles."""

from __future__ import annotations

import typing as t

from ...base.naming import NAMESPACE_LABEL, NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX
from ..model import PolicyProfile

Labels = t.Mapping[str, str]
#: Labels as (name, value) pairs, sorted by name.
LabelPairs = tuple[tuple[str, str], ...]

SERVICE_ACCOUNT_LABEL = "projectcalico.org/serviceaccount"
#: The label of a namespace, or of a service account, whose value is its name.
NAME_LABEL = "projectcalico.org/name"


def namespaced_labels(own: t.Mapping[str, str], namespace: str, service_account: str = "") -> LabelPairs:
    """Return the labels of an endpoint or set in a namespace, sorted: its own and those for its namespace.

    Labels for `service_account` are added unless it is "". Own labels with such names or prefixes are dropped, so that
    an endpoint cannot claim another namespace.
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


def labels_by_profile(profiles: t.Iterable[PolicyProfile]) -> dict[str, Labels]:
    """Return a mapping from profile name to the labels that endpoints inherit from it."""
    return {profile.name: dict(profile.labels) for profile in profiles}


def effective_labels(
    own: t.Iterable[tuple[str, str]], profiles: t.Sequence[str], given: t.Mapping[str, Labels]
) -> dict[str, str]:
    """Return a mapping with `own` labels and those inherited from `profiles`, whose labels are in `given`.

    An own label overrides an inherited one, and an earlier profile overrides a later one (Felix, labelindex). A profile
    that is not in `given` adds nothing.
    """
    labels: dict[str, str] = {}
    for profile in reversed(profiles):
        labels.update(given.get(profile, {}))
    labels.update(own)
    return labels
