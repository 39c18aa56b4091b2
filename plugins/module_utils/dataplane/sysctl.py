# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interface and host sysctls: only those named, written in the order given.

The order is part of what is desired: `proxy_arp` before `proxy_delay = 0` has brought kernels down, and writing
`net/ipv4/ip_forward` resets the forwarding and redirect settings of every interface (Documentation/networking/
ip-sysctl), as `net/ipv6/conf/all/forwarding` does with forwarding, so what they reset is put right again behind them.
"""

from __future__ import annotations

import errno
import typing as t

from ..fleet.node_state import Sysctl
from .change import Change, apply_each
from .kernel import Kernel, KernelError

#: {what resets others: (where those stand, their names)}
_RESETS = {
    "net/ipv4/ip_forward": ("net/ipv4/conf/", ("forwarding", "accept_redirects", "send_redirects")),
    "net/ipv6/conf/all/forwarding": ("net/ipv6/conf/", ("forwarding",)),
}


def observe(kernel: Kernel, desired: t.Iterable[Sysctl]) -> dict[str, t.Optional[str]]:
    """None for a key that is not there (yet): its interface is missing, or the kernel lacks it."""
    return {wanted.key: kernel.sysctl_read(wanted.key) for wanted in desired}


def diff(desired: t.Iterable[Sysctl], observed: t.Mapping[str, t.Optional[str]]) -> list[Change]:
    wanted = list(desired)
    changes: list[Change] = []
    for position, sysctl in enumerate(wanted):
        have = observed.get(sysctl.key)
        if have is not None and have.split() == sysctl.value.split():
            continue
        followers: tuple[Sysctl, ...] = ()
        if sysctl.key in _RESETS:
            folder, names = _RESETS[sysctl.key]
            followers = tuple(
                other
                for other in wanted[position + 1 :]
                if other.key.startswith(folder) and other.key.rpartition("/")[2] in names
            )
        action = "+" if have is None else "~"
        changes.append(Change("sysctl", action, _dotted(sysctl.key), have, sysctl.value, "", have, (sysctl, followers)))
    return changes


def _dotted(key: str) -> str:
    """As sysctl(8) writes it: `net.ipv4.conf.eth0/100.forwarding` for an interface eth0.100."""
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
