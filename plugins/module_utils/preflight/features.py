# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The features of the running kernel that a node needs, found without loading a module."""

from __future__ import annotations

import gzip
import os
import re
import typing as t
import zlib

from .files import Files


class Feature(t.NamedTuple):
    option: str  # kernel configuration symbol
    module: str
    symbol: str  # a function of the module, as /proc/kallsyms names it


FEATURES = {
    "ipip": Feature("CONFIG_NET_IPIP", "ipip", "ipip_newlink"),
    "vxlan": Feature("CONFIG_VXLAN", "vxlan", "vxlan_newlink"),
    "veth": Feature("CONFIG_VETH", "veth", "veth_newlink"),
    "ip_set": Feature("CONFIG_IP_SET", "ip_set", "ip_set_create"),
    "nf_tables": Feature("CONFIG_NF_TABLES", "nf_tables", "nf_tables_newtable"),
}


def observe(files: Files, release: t.Optional[str] = None) -> dict[str, t.Optional[bool]]:
    """Return {feature: whether the kernel has it, built in or as a module} for each of FEATURES.

    None means unknown: a container does not see the host's modules. `release` is by default the running kernel's.
    """
    release = release or os.uname().release
    folder = f"/lib/modules/{release}"
    available = files.read(f"{folder}/modules.builtin") + files.read(f"{folder}/modules.dep")
    known: dict[str, t.Optional[bool]] = {}
    for name, feature in FEATURES.items():
        if files.exists(f"/sys/module/{feature.module}"):
            known[name] = True
        elif available:
            known[name] = re.search(rf"/{feature.module}\.ko", available) is not None
    if len(known) < len(FEATURES):
        config = _config(files, release)
        for name, feature in FEATURES.items():
            if name not in known and config:
                known[name] = re.search(rf"^{feature.option}=[ym]$", config, re.MULTILINE) is not None
    if len(known) < len(FEATURES):
        _by_symbols(files, known)
    return {name: known.get(name) for name in FEATURES}


def _config(files: Files, release: str) -> str:
    try:
        packed = gzip.decompress(files.read_bytes("/proc/config.gz"))
    except (OSError, EOFError, zlib.error):
        packed = b""
    return packed.decode(errors="replace") or files.read(f"/boot/config-{release}")


def _by_symbols(files: Files, known: dict[str, t.Optional[bool]]) -> None:
    """Add to `known` all features that it lacks, by the kernel's symbols, as a last resort.

    One without a symbol may be a module: it is None if the kernel has modules or shows no symbols, else False.
    """
    symbols = files.read_bytes("/proc/kallsyms")
    has_modules = files.exists("/proc/modules")
    for name, feature in FEATURES.items():
        if name not in known:
            present = f" {feature.symbol}\n".encode() in symbols or f" {feature.symbol}\t".encode() in symbols
            known[name] = True if present else (None if has_modules or not symbols else False)
