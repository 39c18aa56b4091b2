# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Patches of documents in the three forms that `calicoctl patch --type` knows."""

from __future__ import annotations

import typing as t

from ...base.document_limits import check_value
from . import json_patch
from .errors import PatchError
from .merge_patches import merge, strategic

#: The forms of patches, the default first.
TYPES = ("strategic", "json", "merge")


def patched(document: t.Mapping[str, t.Any], patch: t.Any, form: str) -> dict[str, t.Any]:
    """Return the document that a patch of the form `form` makes of `document`.

    Raise PatchError if the patch does not fit the document or leaves no mapping, BeyondLimits if the result is too
    large or too deep, and KeyError for an unknown form.
    """
    function = {"strategic": strategic, "json": json_patch.apply, "merge": merge}[form]
    check_value(patch)
    result = function(document, patch)
    if not isinstance(result, dict):
        raise PatchError("", "leaves no mapping.", "A resource is a mapping.")
    check_value(result)
    return result
