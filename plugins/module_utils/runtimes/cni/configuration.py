# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network configuration on the plugin's stdin (CNI specification 1.1.0, section 3).

It may contain secrets of other plugins and of Calico's own fields. Errors therefore repeat only values of fields that
are read here. Calico's fields have Calico's meaning, so that its configurations can be used. Its fields for a datastore
and for logs have no meaning here and are ignored.
"""

from __future__ import annotations

import ipaddress
import typing as t

from ...base.naming import is_mac, is_mtu
from ...resources.errors import Refused
from ...resources.metadata import LABELS
from ...wire.plugin_errors import INVALID_CONFIGURATION, INVALID_ENVIRONMENT, NOT_DECODED, UNSUPPORTED_FIELD, CniError
from ...wire.request import AddRequest
from ..attachment import NETWORK_RULE, Attachment, is_network_name, readable
from ..json_input import NotAnObject, read_object, shown
from ..options import MTU_RULE
from . import versions
from .environment import Arguments

#: A mapping from a field to its values that are refused, because they request an unsupported feature.
_REFUSED: dict[str, tuple[t.Any, ...]] = {"device_type": ("netkit",)}
_IPAM_TYPES = (None, "", "calico-ipam")

Document = t.Mapping[str, t.Any]


class Configuration:
    """A network configuration whose fields are checked when they are read: each may raise CniError.

    A DEL needs the network's name only, and must not fail because of a field that only an ADD needs. Fields have rules
    of Calico and CNI beyond a type, such as a truth value as a text, so base/typed_json.py does not read them. Making
    one raises CniError if the version is not supported or does not have `command`, or `runtimeConfig` is not an object.
    """

    def __init__(self, document: Document, command: str) -> None:
        self._document = document
        self.version = versions.checked(document.get("cniVersion"), command)
        self._capabilities = self._object("runtimeConfig")

    @classmethod
    def read(cls, stdin: bytes, command: str) -> Configuration:
        """Return the configuration on `stdin` of a CNI command."""
        return cls(decode(stdin), command)

    @property
    def name(self) -> str:
        """The network's name: 1 to 64 ASCII letters, digits, "_", "." and "-". It begins with a letter or digit."""
        name = self._document.get("name")
        if not isinstance(name, str) or not is_network_name(name):
            if name in (None, ""):
                raise _invalid("name is missing", "Give the network one.")
            raise _invalid(f"name {shown(name)} is not the name of a network", NETWORK_RULE)
        return name

    @property
    def dns(self) -> Document:
        """The DNS object for the result: the configuration's `dns` without empty fields, {} if nothing is left.

        Values of `servers`, `searches` and `options` in the runtime's `dns` capability that are not empty override the
        fields `nameservers`, `search` and `options`. A capability that is no object is ignored.
        """
        dns = dict(self._object("dns"))
        asked = self._capabilities.get("dns")
        if isinstance(asked, dict):
            names = {"servers": "nameservers", "searches": "search", "options": "options"}
            dns.update({names[key]: value for key, value in asked.items() if key in names and value})
        return {key: value for key, value in dns.items() if value}

    @property
    def previous(self) -> t.Optional[Document]:
        """The object `prevResult`, or None if there is none."""
        if self._document.get("prevResult") is None:
            return None
        return self._object("prevResult")

    @property
    def valid_attachments(self) -> set[tuple[str, str]]:
        """The pairs (container id, interface name) of the attachments that a GC keeps."""
        key = "cni.dev/valid-attachments"
        remedy = (
            'It is a list of {"containerID": "...", "ifname": "..."}; an empty one removes all. Nothing was removed.'
        )
        entries = self._document.get(key)
        if not isinstance(entries, list):
            raise _invalid(f"{key} is {'missing' if entries is None else shown(entries)}", remedy)
        found = set()
        for index, entry in enumerate(entries):
            pair = (entry.get("containerID"), entry.get("ifname")) if isinstance(entry, dict) else ()
            if len(pair) != 2 or not all(isinstance(text, str) and text for text in pair):
                raise _invalid(f"{key}[{index}] is not an attachment", remedy)
            found.add(t.cast("tuple[str, str]", pair))
        return found

    def request(self, attachment: Attachment, arguments: Arguments) -> AddRequest:
        """Return the request of ADD for a workload."""
        for field, values in _REFUSED.items():
            self._refuse(field, self._document.get(field), values)
        ipam = self._object("ipam")
        if ipam.get("type") not in _IPAM_TYPES:
            raise _unsupported("ipam.type", ipam.get("type"), "The agent gives addresses itself: leave ipam.type out.")
        addresses = self._addresses(arguments)
        return AddRequest(
            id=attachment.id,
            name=attachment.workload_name(arguments.name),
            namespace=readable(arguments.namespace) or "default",
            netns=attachment.netns,
            peer_interface=attachment.ifname,
            address=addresses.get(4),
            address6=addresses.get(6),
            families=self._families(ipam),
            mac=self._mac(arguments),
            mtu=self._mtu(),
            pools=self._pools(ipam),
            labels=self._labels(arguments),
            network=attachment.network,
            container=attachment.container,
            container_name=arguments.name,
        )

    # --- the requested values

    @staticmethod
    def _families(ipam: Document) -> tuple[int, ...]:
        """Return the requested IP versions, 4 before 6, or () if none is requested.

        The fields are `assign_ipv4` and `assign_ipv6`. If only `assign_ipv6` is set, `assign_ipv4` counts as true; if
        only `assign_ipv4` is set, `assign_ipv6` counts as false. As in Calico, the values are booleans or their texts
        in upper or lower case; null and "" count as not set.
        """
        said: dict[int, bool] = {}
        for version in (4, 6):
            value = ipam.get(f"assign_ipv{version}")
            text = str(value).lower() if isinstance(value, (str, bool)) else value
            if text not in (None, "", "true", "false"):
                raise _invalid(
                    f"ipam.assign_ipv{version} {shown(value)} is not a truth value", 'Write "true" or "false".'
                )
            if text:
                said[version] = text == "true"
        if not said:
            return ()
        families = tuple(version for version in (4, 6) if said.get(version, version == 4))
        if not families:
            raise _invalid(
                "ipam.assign_ipv4 and ipam.assign_ipv6 leave no address for a workload",
                'Set one of them to "true"; left out, assign_ipv4 is true as soon as assign_ipv6 is said.',
            )
        return families

    def _addresses(self, arguments: Arguments) -> dict[int, str]:
        """Return a mapping from IP version to the requested address, {} if none is requested.

        The first of runtimeConfig.ips, args.cni.ips and IP in CNI_ARGS that is not empty counts. The first two are
        lists of texts, the last one is a text with commas; prefix lengths are ignored.
        """
        conventional = self._conventional("ips")
        if self._capabilities.get("ips"):
            where, asked, code = "runtimeConfig.ips", self._capabilities["ips"], INVALID_CONFIGURATION
        elif conventional:
            where, asked, code = "args.cni.ips", conventional, INVALID_CONFIGURATION
        elif arguments.address:
            where, asked, code = "IP in CNI_ARGS", arguments.address.split(","), INVALID_ENVIRONMENT
        else:
            return {}
        if not isinstance(asked, list):
            raise _invalid(f"{where} is not a list", 'Write it as ["10.244.0.5"].')
        found: dict[int, str] = {}
        for one in asked:
            address = _address(one)
            if address is None:
                raise CniError(code, f"{where}: {shown(one)} is not an IP address", "Write it as 10.244.0.5.")
            if address.version in found:
                raise CniError(
                    UNSUPPORTED_FIELD,
                    f"{where} asks for several IPv{address.version} addresses",
                    "A workload has one address of each IP version here: ask for one.",
                )
            found[address.version] = str(address)
        return found

    def _mac(self, arguments: Arguments) -> t.Optional[str]:
        asked = self._capabilities.get("mac")
        where, code = "runtimeConfig.mac", INVALID_CONFIGURATION
        if asked in (None, ""):
            asked, where, code = arguments.mac, "MAC in CNI_ARGS", INVALID_ENVIRONMENT
        if asked == "":
            return None
        mac = asked.lower() if isinstance(asked, str) else ""
        if not is_mac(mac):
            raise CniError(
                code, f"{where}: {shown(asked)} is not the MAC address of one device", "Write it as 02:00:00:00:00:01."
            )
        return mac

    def _mtu(self) -> t.Optional[int]:
        mtu = self._document.get("mtu")
        if mtu in (None, 0):
            return None
        if not is_mtu(mtu):
            raise _invalid(f"mtu {shown(mtu)} is not possible", f"It is {MTU_RULE}")
        return t.cast(int, mtu)

    @staticmethod
    def _pools(ipam: Document) -> tuple[str, ...]:
        found: list[str] = []
        for field in ("ipv4_pools", "ipv6_pools"):
            pools = ipam.get(field)
            if pools is None:
                continue
            if not isinstance(pools, list) or not all(isinstance(pool, str) and pool for pool in pools):
                raise _invalid(f"ipam.{field} is not a list of texts", "Name IP pools in it, or give their CIDRs.")
            found += pools
        return tuple(found)

    def _labels(self, arguments: Arguments) -> t.Mapping[str, str]:
        """Return the workload's labels: the network's, overridden by those that the runtime gives for the container.

        The network's are the field `labels`, the others are `arguments.others`, args.cni.labels and
        runtimeConfig.labels; a later one of these overrides an earlier one. If IgnoreUnknown is true, invalid
        `arguments.others` are ignored.
        """
        labels = _checked_labels("labels", self._document.get("labels"))
        others = arguments.others
        if arguments.ignore_unknown:
            others = {key: value for key, value in others.items() if _is_label(key, value)}
        try:
            labels.update(LABELS.read(others))
        except Refused as error:
            raise CniError(
                INVALID_ENVIRONMENT, f"a label in CNI_ARGS is wrong: {_rule_broken(error)}", error.remedy
            ) from error
        labels.update(_checked_labels("args.cni.labels", self._conventional("labels")))
        labels.update(_checked_labels("runtimeConfig.labels", self._capabilities.get("labels")))
        return labels

    # --- pieces of the document

    def _object(self, field: str) -> Document:
        value = self._document.get(field)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _invalid(f"{field} is not an object", "See the CNI specification, section 3.")
        return value

    def _conventional(self, field: str) -> t.Any:
        """Return the value of `args.cni.<field>` (CNI's CONVENTIONS.md), or None if there is none."""
        found: t.Any = self._document.get("args")
        for key in ("cni", field):
            found = found.get(key) if isinstance(found, dict) else None
        return found

    @staticmethod
    def _refuse(field: str, value: t.Any, refused: tuple[t.Any, ...]) -> None:
        if any(value is entry or (isinstance(entry, str) and value == entry) for entry in refused):
            raise _unsupported(field, value, "Leave it out.")


def decode(stdin: bytes) -> Document:
    """Return the JSON object on `stdin`, as `read_object` does. Raise CniError, which repeats nothing of it."""
    try:
        return read_object(stdin)
    except NotAnObject as error:
        raise CniError(
            NOT_DECODED,
            f"the network configuration on stdin is {error}",
            "The runtime sends one JSON object, see section 3 of the CNI specification.",
        ) from None


def version_of(stdin: bytes) -> str:
    """Return the CNI version in which to answer an error: that of the configuration on `stdin`, if it is supported.

    It is 0.2.0 for a configuration without a version, else the newest. Raise nothing.
    """
    try:
        return versions.checked(decode(stdin).get("cniVersion"))
    except CniError:
        return versions.NEWEST


def _address(asked: t.Any) -> t.Union[ipaddress.IPv4Address, ipaddress.IPv6Address, None]:
    """Return the IP address in a text, without a prefix length (workloads have /32 and /128), or None."""
    try:
        return ipaddress.ip_interface(asked).ip if isinstance(asked, str) else None
    except ValueError:
        return None


def _checked_labels(where: str, value: t.Any) -> dict[str, str]:
    """Return the labels in an object of texts or in CNI's list of {"key": ..., "value": ...}; {} for None.

    A label's value of null is "", and the last of several with one key counts. Errors say `where` the value is.
    """
    if value is None:
        return {}
    if isinstance(value, list):
        try:
            value = {entry["key"]: entry["value"] for entry in value}
        except (TypeError, KeyError):
            raise _invalid(
                f"{where} is not a list of labels", 'Write each as {"key": "app", "value": "web"}.'
            ) from None
    try:
        return LABELS.read(value)
    except Refused as error:
        raise _invalid(f"{where} has one that is wrong: {_rule_broken(error)}", error.remedy) from error


def _is_label(key: str, value: str) -> bool:
    try:
        LABELS.read({key: value})
    except Refused:
        return False
    return True


def _rule_broken(error: Refused) -> str:
    return f"{shown(error.value)} {error.rule}".rstrip(".")


def _invalid(message: str, details: str) -> CniError:
    return CniError(INVALID_CONFIGURATION, message, details)


def _unsupported(field: str, value: t.Any, details: str) -> CniError:
    return CniError(UNSUPPORTED_FIELD, f"{field} {shown(value)} is not supported", details)
