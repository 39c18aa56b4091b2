# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The error of a patch."""

from __future__ import annotations


class PatchError(ValueError):
    """A patch that is wrong or does not fit its document. `where` names the part of the patch, "" for all of it."""

    def __init__(self, where: str, rule: str, remedy: str) -> None:
        self.where, self.rule, self.remedy = where, rule, remedy
        super().__init__(f"{f'{where} of the patch' if where else 'the patch'} {rule} {remedy}")
