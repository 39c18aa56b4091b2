# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of the CNI specification, and the features of each. An unknown version raises ValueError there."""

from __future__ import annotations

import typing as t

from ...wire.plugin_errors import INCOMPATIBLE_VERSION, CniError

#: The newest supported CNI version, also that of answers to a caller whose version is not known.
NEWEST = "1.1.0"
#: The CNI version of a network configuration that names none, as in Calico.
UNNAMED = "0.2.0"
SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

_CHECK, _GC = SUPPORTED.index("0.4.0"), SUPPORTED.index("1.1.0")
_SINCE = {"CHECK": _CHECK, "GC": _GC, "STATUS": _GC}


def checked(version: t.Any, command: str = "") -> str:
    """Return a configuration's version, 0.2.0 if it names none.

    Raise CniError if the version is not supported or does not have `command`; "" stands for a command of all versions.
    """
    if version in (None, ""):
        version = UNNAMED
    if version not in SUPPORTED:
        asked = repr(version[:40]) if isinstance(version, str) else "that is not a text"
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"cniVersion {asked} is not supported",
            f"Use one of {', '.join(SUPPORTED)} in the network configuration.",
        )
    if SUPPORTED.index(version) < _SINCE.get(command, 0):
        first = SUPPORTED[_SINCE[command]]
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"cniVersion {version} has no {command}",
            f"It came with {first}. Use that or a later one in the network configuration.",
        )
    return t.cast(str, version)


def with_interfaces(version: str) -> bool:
    """Return whether results have interfaces (from 0.3.0); before, they have at most one address of each IP version."""
    return SUPPORTED.index(version) >= SUPPORTED.index("0.3.0")


def with_family(version: str) -> bool:
    """Return whether an address names its IP version, which it does before 1.0.0."""
    return SUPPORTED.index(version) < SUPPORTED.index("1.0.0")


def with_mtu(version: str) -> bool:
    """Return whether results have the MTU of an interface and the scope and priority of a route (from 1.1.0)."""
    return SUPPORTED.index(version) >= SUPPORTED.index("1.1.0")
