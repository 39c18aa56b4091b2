# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Versions of the CNI specification, and which of them know what."""

from __future__ import annotations

import typing as t

from .errors import INCOMPATIBLE_VERSION, CniError

#: What is said of oneself where the caller's version is not known.
NEWEST = "1.1.0"
#: As Calico takes a configuration that names no version.
UNNAMED = "0.2.0"
SUPPORTED = ("0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

_CHECK, _GC = SUPPORTED.index("0.4.0"), SUPPORTED.index("1.1.0")
_SINCE = {"CHECK": _CHECK, "GC": _GC, "STATUS": _GC}


def checked(version: t.Any, command: str = "") -> str:
    """The version, if it is one that is spoken here and that has `command`. Raises CniError."""
    if version in (None, ""):
        version = UNNAMED
    if version not in SUPPORTED:
        told = repr(version[:40]) if isinstance(version, str) else "that is not a text"
        raise CniError(
            INCOMPATIBLE_VERSION,
            f"cniVersion {told} is not supported",
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
    """Before 0.3.0 a result is one address of each family and no more."""
    return SUPPORTED.index(version) >= SUPPORTED.index("0.3.0")


def with_family(version: str) -> bool:
    """Before 1.0.0 an address says of which family it is."""
    return SUPPORTED.index(version) < SUPPORTED.index("1.0.0")


def with_mtu(version: str) -> bool:
    """1.1.0 tells the MTU of an interface and the scope of a route."""
    return SUPPORTED.index(version) >= SUPPORTED.index("1.1.0")
