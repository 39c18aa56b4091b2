# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver of interface and host sysctls: only those desired are written, in the order given.

The order is part of what is desired: `proxy_arp` before `proxy_delay = 0` has crashed kernels. Writing
`net/ipv4/ip_forward` resets the forwarding and redirect settings of every interface (Documentation/networking/
ip-sysctl), and `net/ipv6/conf/all/forwarding` the forwarding settings. So the desired settings that follow such a write
and that it resets are corrected right after it.
"""

from __future__ import annotations

import errno
import re
import typing as t

from ...base.not_encodable import NotEncodable
from ...state.attachment import LOOSE, STRICT, UNCHECKED
from ...state.node_state import Sysctl
from ..change import Action, Change, apply_each
from ..driver import DriverStep
from ..encoding import sysctl_encoding
from ..kernel.port import Kernel, KernelError

#: {a sysctl that resets others: (the folder of these, their names)}
_RESETS = {
    "net/ipv4/ip_forward": ("net/ipv4/conf/", ("forwarding", "accept_redirects", "send_redirects")),
    "net/ipv6/conf/all/forwarding": ("net/ipv6/conf/", ("forwarding",)),
}
_SOURCE_CHECK = re.compile(r"net/ipv4/conf/(.+)/rp_filter")
_OF_DEVICE = re.compile(r"net/ipv[46]/(?:conf|neigh)/(.+)/[^/]+")
#: The source check of all interfaces: the kernel takes the greater value of this and an interface's own.
OF_ALL = "net/ipv4/conf/all/rp_filter"
_LOOSENED = (
    "loose, or packets would be lost whenever a pool changes its mode; rules in table raw drop what comes here with the"
    " source of a workload of this node"
)


def observe(kernel: Kernel, desired: t.Iterable[Sysctl]) -> dict[str, t.Optional[str]]:
    """Return a mapping from key to value, for each desired sysctl.

    The value is None if the key does not exist (yet), because its interface is missing or the kernel lacks it, and if
    the sysctl cannot be encoded.
    """
    return {wanted.key: None if _problem(wanted) else kernel.sysctl_read(wanted.key) for wanted in desired}


def diff(desired: t.Iterable[Sysctl], observed: t.Mapping[str, t.Optional[str]]) -> list[Change]:
    wanted = list(desired)
    changes: list[Change] = []
    for position, sysctl in enumerate(wanted):
        have = observed.get(sysctl.key)
        if have is not None and have.split() == sysctl.value.split():
            continue
        problem = _problem(sysctl)
        if problem:
            changes.append(Change("sysctl", "!", _dotted(sysctl.key), have, None, problem, have, (sysctl, ())))
            continue
        followers: tuple[Sysctl, ...] = ()
        if sysctl.key in _RESETS:
            folder, names = _RESETS[sysctl.key]
            followers = tuple(
                other
                for other in wanted[position + 1 :]
                if other.key.startswith(folder) and other.key.rpartition("/")[2] in names
            )
        action: Action = "+" if have is None else "~"
        note = _LOOSENED if _loosens(sysctl, have) else ""
        subject = _dotted(sysctl.key)
        changes.append(Change("sysctl", action, subject, have, sysctl.value, note, have, (sysctl, followers)))
    return changes


def _problem(sysctl: Sysctl) -> str:
    """Return why a sysctl's key or value cannot be encoded, "" if both can."""
    try:
        sysctl_encoding.path(sysctl.key)
        sysctl_encoding.value(sysctl.value)
    except NotEncodable as error:
        return f"{error} It is left as it is. Correct it, then run again."
    return ""


def _loosens(sysctl: Sysctl, have: t.Optional[str]) -> bool:
    """Return whether this changes a source check (rp_filter) from strict to loose; `have` is the present value."""
    return (have, sysctl.value) == (STRICT, LOOSE) and bool(_SOURCE_CHECK.fullmatch(sysctl.key))


def greatest_source_check(desired: t.Iterable[Sysctl]) -> t.Optional[str]:
    """Return the greatest rp_filter desired of workloads' interfaces, None if none is.

    Interfaces that are to be LOOSE are the host's own, and do not count.
    """
    wanted = {sysctl.value for sysctl in desired if _SOURCE_CHECK.fullmatch(sysctl.key)} - {LOOSE}
    return max(wanted, default=None)


def overruled(kernel: Kernel, desired: t.Iterable[Sysctl]) -> list[Change]:
    """Return one conflict if rp_filter of `all` is above the greatest one desired of workloads' interfaces, else [].

    The kernel takes the greater value of `all` and the interface.
    """
    value = greatest_source_check(desired)
    if value is None:
        return []
    have = kernel.sysctl_read(OF_ALL)
    if have is None or have <= value:
        return []
    note = _OVERRULED.format(have=have, effect=_EFFECTS[value], right="0 or 1" if value == STRICT else "0")
    after = f"at most {value}"
    return [Change("sysctl", "!", _dotted(OF_ALL), have, after, note, have, (Sysctl(OF_ALL, value), ()))]


_OVERRULED = (
    "net.ipv4.conf.all.rp_filter is {have}, and the kernel takes the greater value of that and an interface's own:"
    " {effect}. It was not touched. Set it to {right} where it is set (grep -r rp_filter /etc/sysctl.d"
    " /etc/sysctl.conf) and by sysctl -w, give interfaces that need {have} that value of their own, then run again."
)
_EFFECTS = {
    STRICT: "the sources of workloads' packets would be checked loosely, not strictly",
    UNCHECKED: "what guests route would be dropped, although calico_workload_source_spoofing is set for this node",
}


def _dotted(key: str) -> str:
    """Return a key as sysctl(8) writes it: `net.ipv4.conf.eth0/100.forwarding` for an interface eth0.100."""
    return key.translate({ord("/"): ".", ord("."): "/"})


def apply(kernel: Kernel, changes: t.Iterable[Change]) -> None:
    apply_each(changes, lambda change: _write(kernel, change), _reason)


def _write(kernel: Kernel, change: Change) -> None:
    if change.action not in ("+", "~"):
        return
    sysctl, followers = change.new
    kernel.sysctl_write(sysctl.key, sysctl.value)
    for follower in followers:
        have = kernel.sysctl_read(follower.key)
        if have is not None and have.split() != follower.value.split():
            kernel.sysctl_write(follower.key, follower.value)


def _reason(change: Change, error: KernelError) -> str:
    sysctl: Sysctl = change.new[0]
    if error.errno == errno.ENOENT:
        return (
            f"There is no /proc/sys/{sysctl.key} to write {sysctl.value} to."
            " Its interface is missing or the kernel was built without it; see which, then run again."
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return (
            f"/proc/sys/{sysctl.key} cannot be written here. The kernel said: {error.said}."
            " In a container, mount /proc/sys writable or set the value outside of it."
        )
    return f"Writing {sysctl.value} to /proc/sys/{sysctl.key} was refused. The kernel said: {error.said}."


def _device(change: Change) -> str:
    found = _OF_DEVICE.fullmatch(change.new[0].key)
    return found.group(1) if found else ""


def _without(observed: t.Mapping[str, t.Optional[str]], devices: t.Collection[str]) -> dict[str, t.Optional[str]]:
    """Return what was observed, with the sysctls of these devices as missing (None)."""
    gone = set(devices)
    return {key: value if gone.isdisjoint(key.split("/")) else None for key, value in observed.items()}


STEP: DriverStep[t.Sequence[Sysctl], dict[str, t.Optional[str]]] = DriverStep(
    name="sysctl",
    kinds=("sysctl",),
    stage="workloads",
    desired=lambda state: state.sysctls,
    device=_device,
    without=_without,
    besides=overruled,
)
