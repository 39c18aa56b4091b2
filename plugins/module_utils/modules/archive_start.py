# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The start of a module on a host to which Ansible has sent its archive; an installed engine needs none.

A module imports this file before its own code. Python 3.8 can parse and run it, so an old Python gets one sentence.
"""

from __future__ import annotations

import json
import sys
import typing as t

from ..node.engine import engine_start

if t.TYPE_CHECKING:
    from . import registry
    from .module_call import ModuleCall


def _refuse_an_old_python() -> None:
    """End the process with a failed answer if its Python is too old for the module that is imported next."""
    problem = engine_start.too_old()
    if problem:
        sys.stdout.write(json.dumps({"failed": True, "msg": problem}) + "\n")
        raise SystemExit(1)


_refuse_an_old_python()


def main_of(code: registry.LoadedModule, ansible_module: t.Callable[..., ModuleCall]) -> t.Callable[[], None]:
    """Return the function `main` of the module with this code; `ansible_module` is the class AnsibleModule.

    It prints the module's answer as JSON on stdout, and ends the process with status 1 if the module fails, else 0.
    """

    def main() -> None:
        from . import registry  # the specs of all modules, which an old Python need not parse

        code.run(ansible_module(**registry.spec(code.__name__.rpartition(".")[2]).options()))

    return main
