# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and results of this room are values: a plan that was shown cannot be changed before it is carried out."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node import change, host


def values() -> list[type]:
    """Return the dataclasses that the modules in node/change and node/host define."""
    modules = [
        importlib.import_module(f"{package.__name__}.{one.name}")
        for package in (change, host)
        for one in pkgutil.iter_modules(package.__path__)
    ]
    return [
        found
        for module in modules
        for _name, found in inspect.getmembers(module, dataclasses.is_dataclass)
        if found.__module__ == module.__name__
    ]


@pytest.mark.parametrize("value", values(), ids=lambda value: value.__name__)
def test_a_value_cannot_be_changed(value: type) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(object.__new__(value), dataclasses.fields(value)[0].name, None)
