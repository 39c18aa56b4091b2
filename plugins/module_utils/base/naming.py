# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names derived from other names, as Calico derives them: devices, MAC addresses, IPAM handles, BIRD symbols.

All functions are pure. `check_device_name` and `tunnel_handle_id` raise NamingError for a value from which no valid
name can be made.
"""

from __future__ import annotations

import functools
import hashlib
import ipaddress
import re
import typing as t

INTERFACE_PREFIX = "cali"
#: The host end of a node's probe endpoint. A workload's name has hexadecimal digits after the prefix.
PROBE_INTERFACE = f"{INTERFACE_PREFIX}probe"
#: The most bytes in a network device's name: IFNAMSIZ of linux/if.h, less the final zero byte.
DEVICE_NAME_LIMIT = 15

#: The label that holds the namespace's name on endpoints and network sets in a namespace.
NAMESPACE_LABEL = "projectcalico.org/namespace"
#: The prefixes that endpoints have before the labels of their namespace and of their service account.
NAMESPACE_PREFIX, SERVICE_ACCOUNT_PREFIX = "pcns.", "pcsa."

TUNNELS = ("ipip", "vxlan", "vxlan-v6", "wireguard", "wireguard-v6")

#: Bytes of an MTU: the least of RFC 791, and the greatest that a veth accepts.
MTU = (68, 65535)

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_DEVICE_NAME = re.compile(rf"[^\s/:]{{1,{DEVICE_NAME_LIMIT}}}", re.ASCII)


class NamingError(ValueError):
    """A value from which no valid name can be made.

    `field` is where the value came from, `value` the value, `rule` what is wrong with it, `remedy` how to go on.
    """

    def __init__(self, field: str, value: str, rule: str, remedy: str) -> None:
        self.field = field
        self.value = value
        self.rule = rule
        self.remedy = remedy
        super().__init__(field, value, rule, remedy)

    def __str__(self) -> str:
        return f"{self.field} {self.value!r} {self.rule} {self.remedy}"


# --- devices --------------------------------------------------------------------------------------------------------


def check_device_name(name: str, field: str = "device name") -> str:
    """Return `name` unchanged if it can be the name of a network device.

    Raise NamingError for `field` if the name is empty, longer than 15 bytes of UTF-8, "." or "..", or contains ASCII
    white space, "/", ":" or a zero byte, or has the byte 0xA0 in its UTF-8 form, which the kernel takes for white
    space (dev_valid_name in net/core/dev.c).
    """
    encoded = name.encode("utf-8", "surrogatepass")
    if not _DEVICE_NAME.fullmatch(name) or len(encoded) > DEVICE_NAME_LIMIT or b"\xa0" in encoded:
        raise NamingError(
            field,
            name,
            "cannot be the name of a device.",
            f"Use 1 to {DEVICE_NAME_LIMIT} characters without white space, '/' and ':'.",
        )
    if name in (".", "..") or "\0" in name:
        raise NamingError(field, name, "cannot be the name of a device.", "Use letters and digits.")
    return name


def interface_name(namespace: str, name: str) -> str:
    """Return the name of the host side of a workload's veth pair.

    It is INTERFACE_PREFIX and the first 11 hex digits of the SHA-1 of "namespace.name".
    """
    digits = hashlib.sha1(f"{namespace}.{name}".encode(), usedforsecurity=False).hexdigest()[:11]
    return INTERFACE_PREFIX + digits


def handed_over_name(interface: str) -> str:
    """Return the name, on the host, of a workload's inner end that a container engine moves into its container.

    No host end, such as `interface`, has this name: a "t" follows the prefix, which is no hex digit.
    """
    return f"{INTERFACE_PREFIX}t{interface[len(INTERFACE_PREFIX) :]}"[:DEVICE_NAME_LIMIT]


def is_mac(text: str) -> bool:
    """Return whether `text` is the MAC address of one device as the kernel writes it: not multicast, not all zeros."""
    return bool(_MAC.fullmatch(text)) and not int(text[:2], 16) & 1 and text != "00:00:00:00:00:00"


def is_mtu(value: t.Any) -> bool:
    # True and False are not MTUs, but bool is a subclass of int.
    return isinstance(value, int) and not isinstance(value, bool) and MTU[0] <= value <= MTU[1]


def vtep_mac(node: str) -> str:
    """Return the MAC address of a node's VXLAN device as text: 66: and the first five bytes of the name's SHA-1.

    0x66 makes it a locally administered unicast address (RFC 7042, section 2.1). Felix derives the same address.
    """
    digest = hashlib.sha1(node.encode(), usedforsecurity=False).digest()
    return "66:" + ":".join(f"{byte:02x}" for byte in digest[:5])


@functools.lru_cache(maxsize=8192)
def vtep_link_local(node: str) -> str:
    return link_local(vtep_mac(node))


def link_local(mac: str) -> str:
    """Return the IPv6 link-local address that the kernel forms from a MAC address such as "66:0a:...".

    The kernel uses modified EUI-64 (RFC 4291, appendix A). Raise ValueError or IndexError if `mac` is not six bytes.
    """
    octets = bytes.fromhex(mac.replace(":", ""))
    identifier = bytes((octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]))
    return str(ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + identifier))


# --- BGP ------------------------------------------------------------------------------------------------------------


def router_id(node: str) -> str:
    """Return a BGP router ID for the node: the first four bytes of the SHA-256 of its name, written as an IPv4 address.

    The first byte is reduced by 32 if it is 224 or more. The ID is for nodes without an IPv4 address, as with Calico's
    CALICO_ROUTER_ID=hash.
    """
    first, *others = hashlib.sha256(node.encode()).digest()[:4]
    # Multicast and reserved addresses are no valid router IDs.
    return ".".join(str(byte) for byte in (first - 32 if first > 223 else first, *others))


def bird_peer_name(kind: str, address: str, port: t.Optional[int] = None) -> str:
    """Return the symbol of a BGP session in bird.cfg, for example `Mesh_10_0_0_1` or `Node_10_0_0_1_port_1179`.

    `kind` is Mesh, Global, Node or Local_Workload, or "" for the part that follows it.
    """
    name = f"{kind}_{re.sub('[.:]', '_', address)}"
    return name if port is None else f"{name}_port_{port}"


#: The most characters of a BGPFilter's name that `bird_filter_name` leaves whole. BIRD symbols have at most 64
#: characters, and the text around the name takes the rest.
_FILTER_NAME_LIMIT = 45


def bird_filter_name(name: str, direction: str, version: int) -> str:
    """Return the symbol, with its quotes, of the BIRD function of the BGPFilter `name`: 'bgp_NAME_importFilterV4'.

    `direction` is "import" or "export", `version` the IP version 4 or 6. A name of more than 45 characters is cut to
    28 and followed by "_" and 16 upper-case hex digits of its SHA-256.
    """
    if len(name) > _FILTER_NAME_LIMIT:
        digest = hashlib.sha256(name.encode()).hexdigest().upper()
        name = f"{name[:28]}_{digest[:16]}"
    return f"'bgp_{name}_{direction}FilterV{version}'"


# --- IPAM -----------------------------------------------------------------------------------------------------------


def tunnel_handle_id(tunnel: str, node: str) -> str:
    """Return the IPAM handle of a node's tunnel address, "TUNNEL-tunnel-addr-NODE", for one of TUNNELS."""
    if tunnel not in TUNNELS:
        raise NamingError("tunnel", tunnel, "is not a kind of tunnel.", f"Use one of {', '.join(TUNNELS)}.")
    return f"{tunnel}-tunnel-addr-{node}"
