# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels by which what is in a namespace is told from what is in others (libcalico-go, updateprocessors/rules.go)."""

from __future__ import annotations

import typing as t

from ...base.naming import NAMESPACE_LABEL

#: (name, value) of each, in the order of their names.
Labels = tuple[tuple[str, str], ...]

NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX = "pcns.", "pcsa."
SERVICE_ACCOUNT_LABEL = "projectcalico.org/serviceaccount"
#: The label of a namespace that is its name.
NAME_LABEL = "projectcalico.org/name"


def namespaced_labels(own: t.Mapping[str, str], namespace: str, service_account: str = "") -> Labels:
    """The labels of something in a namespace: its own, and those that say where it is.

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
