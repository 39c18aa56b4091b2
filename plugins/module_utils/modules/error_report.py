# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a module in an error that is the user's to read."""

from __future__ import annotations

import contextlib
import typing as t

from ..node.machine import Machine
from .module_call import ModuleCall


@contextlib.contextmanager
def errors_reported(module: ModuleCall, here: Machine, *errors: type[Exception]) -> t.Iterator[None]:
    """Close the kernel's connection at the end. End in `fail_json` for one of `errors`; others are raised."""
    try:
        yield
    except errors as error:
        module.fail_json(msg=str(error))
    finally:
        here.kernel.close()
