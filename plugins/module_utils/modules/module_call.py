# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module as both starts see it: what it accepts, and one call of it."""

from __future__ import annotations

import dataclasses
import typing as t

#: A rule about options that belong together or exclude each other, as Ansible writes it.
Rule = t.Sequence[tuple[str, ...]]


@dataclasses.dataclass(frozen=True)
class ModuleSpec:
    """What a module accepts, with the names of AnsibleModule's parameters. All modules have check mode."""

    argument_spec: t.Mapping[str, t.Any]
    mutually_exclusive: Rule = ()
    required_together: Rule = ()
    required_one_of: Rule = ()
    required_if: t.Sequence[tuple[t.Any, ...]] = ()

    def rules(self) -> dict[str, t.Any]:
        """Return the fields as keyword arguments of Ansible's validator of arguments."""
        return {
            "argument_spec": dict(self.argument_spec),
            "mutually_exclusive": list(self.mutually_exclusive),
            "required_together": list(self.required_together),
            "required_one_of": list(self.required_one_of),
            "required_if": list(self.required_if),
        }

    def options(self) -> dict[str, t.Any]:
        """Return the keyword arguments of AnsibleModule: those of `rules`, and `supports_check_mode` True."""
        return {**self.rules(), "supports_check_mode": True}


class ModuleCall(t.Protocol):
    """One call of a module, as the part of AnsibleModule that modules use; the engine does not import Ansible."""

    params: t.Any
    check_mode: bool
    _diff: bool

    def warn(self, warning: str) -> None: ...

    def exit_json(self, **answer: t.Any) -> t.NoReturn: ...

    def fail_json(self, msg: str, **answer: t.Any) -> t.NoReturn: ...
