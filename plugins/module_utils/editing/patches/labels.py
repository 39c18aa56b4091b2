# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of a resource as `calicoctl label` changes them."""

from __future__ import annotations

import typing as t


class LabelRefused(Exception):
    """The error for a label that cannot be set or removed so; the message is Calico's."""


class LabelChange(t.NamedTuple):
    """What `calicoctl label` was asked: to set a label, to set it although it is there, or to remove it."""

    key: str
    value: str
    remove: bool = False
    overwrite: bool = False


def read(word: str, remove: bool, overwrite: bool) -> LabelChange:
    """Return the change that a word of the command line asks for: KEY=VALUE, or with `remove` a KEY.

    Raise LabelRefused, with Calico's words, for another word.
    """
    key, equals, value = (word, "", "") if remove else word.partition("=")
    if not remove and not equals:
        raise LabelRefused(f"invalid label {word}")
    return LabelChange(key, value, remove, overwrite)


def labelled(document: t.Mapping[str, t.Any], change: LabelChange, shown: str) -> tuple[dict[str, t.Any], str]:
    """Return the changed document and the sentence about it. `shown` names it, such as "nodes rack-a".

    Raise LabelRefused, with Calico's words, to set a label that is there with another value without `overwrite`, and to
    remove a label that is not there.
    """
    metadata = dict(document.get("metadata") or {})
    labels = dict(metadata.get("labels") or {})
    if change.remove:
        if change.key not in labels:
            raise LabelRefused(f"cannot remove label of {shown}, key {change.key} does not exist")
        del labels[change.key]
        said = f"Successfully removed label {change.key} from {shown}"
    elif change.key not in labels:
        labels[change.key] = change.value
        said = f"Successfully set label {change.key} on {shown}"
    elif not change.overwrite and labels[change.key] != change.value:
        raise LabelRefused(
            f"failed to update label of {shown}, key {change.key} is already present. "
            "please use '--overwrite' to set a new value"
        )
    else:
        labels[change.key] = change.value
        said = f"Successfully updated label {change.key} on {shown}"
    metadata.pop("labels", None)
    return {**document, "metadata": {**metadata, "labels": labels} if labels else metadata}, said
