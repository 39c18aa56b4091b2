# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment that a runtime gives the plugin (CNI specification 1.1.0, section 2, "Parameters")."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import naming
from ...wire.plugin_errors import INVALID_ENVIRONMENT, CniError
from ..attachment import CONTAINER_RULE, Attachment, is_container_id, is_netns_path
from ..json_input import shown

COMMANDS = ("ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION")

_TRUE = ("1", "true", "yes", "on")


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The parsed CNI_ARGS, `K=V;K=V`; values that are not given are "". No value is checked.

    The fields are the values of IP (one address or several with commas), MAC, K8S_POD_NAME, K8S_POD_NAMESPACE, and
    whether IgnoreUnknown is true. `others` are the remaining ones by key, except those that begin with K8S_.
    """

    address: str = ""
    mac: str = ""
    name: str = ""
    namespace: str = ""
    others: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    ignore_unknown: bool = False


def check_command(command: str) -> None:
    """Raise CniError if `command`, the value of CNI_COMMAND, is missing or not a command."""
    if not command:
        raise _missing("CNI_COMMAND")
    if command not in COMMANDS:
        raise CniError(
            INVALID_ENVIRONMENT, f"CNI_COMMAND {shown(command)} is not known", f"It is one of {', '.join(COMMANDS)}."
        )


def attachment(environment: t.Mapping[str, str], network: str, *, netns: bool) -> Attachment:
    """Return the attachment to a network that the variables describe. CNI_NETNS is read only with `netns`.

    Raise CniError that names all missing variables, or the first one that is invalid.
    """
    wanted = ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME") if netns else ("CNI_CONTAINERID", "CNI_IFNAME")
    missing = [name for name in wanted if not environment.get(name)]
    if missing:
        raise _missing(*missing)
    container, ifname = environment["CNI_CONTAINERID"], environment["CNI_IFNAME"]
    if not is_container_id(container):
        raise _wrong("CNI_CONTAINERID", container, CONTAINER_RULE)
    try:
        naming.check_device_name(ifname)
    except naming.NamingError as error:
        raise _wrong("CNI_IFNAME", ifname, error.remedy) from error
    if ifname == "lo":
        raise _wrong("CNI_IFNAME", ifname, "That is the container's own loopback. Use another, as eth0.")
    path = environment.get("CNI_NETNS", "")
    if netns and not is_netns_path(path):
        raise _wrong("CNI_NETNS", path, "It is the absolute path of a network namespace, as /run/netns/NAME.")
    return Attachment(network, container, ifname, path)


def arguments(environment: t.Mapping[str, str]) -> Arguments:
    """Return the parsed CNI_ARGS, which may be missing. Raise CniError if a part between ";" is not KEY=VALUE.

    Blank parts are ignored, keys and values are stripped, and the last of several equal keys counts.
    """
    values: dict[str, str] = {}
    for pair in environment.get("CNI_ARGS", "").split(";"):
        if not pair.strip():
            continue
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise _wrong("CNI_ARGS", pair, "It is KEY=VALUE;KEY=VALUE.")
        values[key.strip()] = value.strip()
    ignore = values.pop("IgnoreUnknown", "").lower() in _TRUE
    found = {field: values.pop(key, "") for field, key in _KNOWN.items()}
    others = {key: value for key, value in values.items() if not key.startswith("K8S_")}
    return Arguments(**found, others=others, ignore_unknown=ignore)


_KNOWN = {"address": "IP", "mac": "MAC", "name": "K8S_POD_NAME", "namespace": "K8S_POD_NAMESPACE"}


def _missing(*names: str) -> CniError:
    return CniError(
        INVALID_ENVIRONMENT,
        f"required environment variable{'s' if len(names) > 1 else ''} missing: {', '.join(names)}",
        "The runtime sets them, see section 2 of the CNI specification.",
    )


def _wrong(name: str, value: str, rule: str) -> CniError:
    return CniError(INVALID_ENVIRONMENT, f"environment variable {name} has the value {shown(value)}", rule)
