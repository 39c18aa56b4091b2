# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way in which a module reports an error to its user and ends."""

from __future__ import annotations

import contextlib
import typing as t

from ..node.machine import Machine
from .module_call import ModuleCall


@contextlib.contextmanager
def errors_reported(module: ModuleCall, here: Machine, *errors: type[Exception]) -> t.Iterator[None]:
    """Call `fail_json` if one of `errors` is raised inside. Close the connection to the kernel in any case."""
    try:
        yield
    except errors as error:
        module.fail_json(msg=str(error))
    finally:
        here.kernel.close()
