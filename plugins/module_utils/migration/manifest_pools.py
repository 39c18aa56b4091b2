# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pools that a manifest of calico-node asks for by CALICO_IPV4POOL_* and CALICO_IPV6POOL_*, with Calico's defaults.

calico-node makes such a pool at its first start, if there is no pool (node/pkg/lifecycle/startup).
"""

from __future__ import annotations

import typing as t

_MODES = {
    "": "Never",
    "off": "Never",
    "never": "Never",
    "crosssubnet": "CrossSubnet",
    "cross-subnet": "CrossSubnet",
    "always": "Always",
}
_DEFAULT_CIDR = "192.168.0.0/16"
_FALSE, _TRUE = ("0", "f", "false"), ("1", "t", "true")
_BLOCK_SIZES = {4: 26, 6: 122}


class UnreadableManifest(Exception):
    """A variable whose value calico-node would not accept. The text is a sentence without its subject."""


def pools(document: t.Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return documents of the pools that a DaemonSet of calico-node asks for; [] for the manifest of another workload.

    Raise UnreadableManifest for a value that calico-node refuses.
    """
    variables = _variables(document)
    if variables is None or variables.get("NO_DEFAULT_POOLS", "").lower() == "true":
        return []
    found = []
    for family in (4, 6):
        beginning = f"CALICO_IPV{family}POOL_"
        cidr = variables.get(f"{beginning}CIDR", _DEFAULT_CIDR if family == 4 else "") or (
            _DEFAULT_CIDR if family == 4 else ""
        )
        if cidr in ("", "none"):
            continue
        own = {name.removeprefix(beginning): value for name, value in variables.items() if name.startswith(beginning)}
        spec = {
            "cidr": cidr,
            "blockSize": _size(own.get("BLOCK_SIZE", ""), family),
            "ipipMode": _mode("IPIP", own.get("IPIP", "")) if family == 4 else "Never",
            "vxlanMode": _mode("VXLAN", own.get("VXLAN", "")),
            "natOutgoing": _flag("NAT_OUTGOING", own.get("NAT_OUTGOING", ""), family == 4),
            "nodeSelector": own.get("NODE_SELECTOR", "") or "all()",
            "disableBGPExport": _flag("DISABLE_BGP_EXPORT", own.get("DISABLE_BGP_EXPORT", ""), False),
        }
        name = f"default-ipv{family}-ippool"
        found.append({"kind": "IPPool", "metadata": {"name": name}, "spec": spec})
    return found


def _variables(document: t.Mapping[str, t.Any]) -> t.Optional[dict[str, str]]:
    """Return the environment of the container calico-node, None if the document has none. References are left out."""
    found: t.Any = document
    for key in ("spec", "template", "spec", "containers"):
        found = found.get(key) if isinstance(found, dict) else None
    for container in found if isinstance(found, list) else ():
        if isinstance(container, dict) and container.get("name") == "calico-node":
            entries = container.get("env")
            return {
                entry["name"]: entry["value"]
                for entry in (entries if isinstance(entries, list) else ())
                if isinstance(entry, dict)
                and isinstance(entry.get("name"), str)
                and isinstance(entry.get("value"), str)
            }
    return None


def _mode(name: str, text: str) -> str:
    if text.lower() not in _MODES:
        raise UnreadableManifest(f"has {text!r} for the mode of {name}. Calico knows Always, CrossSubnet and Never.")
    return _MODES[text.lower()]


def _flag(name: str, text: str, default: bool) -> bool:
    if text.lower() in _FALSE:
        return False
    if text.lower() in _TRUE or not text:
        return True if text else default
    raise UnreadableManifest(f"has {text!r} for {name}, which is true or false.")


def _size(text: str, family: int) -> int:
    if not text:
        return _BLOCK_SIZES[family]
    if not (text.isascii() and text.isdecimal() and len(text) <= 3):
        raise UnreadableManifest(f"has {text!r} for the size of blocks.")
    return int(text)
