# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A network namespace that stands for a host, on the real kernel."""

from __future__ import annotations

import contextlib
import pathlib
import re
import subprocess
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel

HOST = "host-under-test"


class HostKernel(LinuxKernel):
    """The kernel of a host's namespace; `netns_list` leaves that namespace out, and so lists those of workloads."""

    def netns_list(self) -> list[str]:
        return [name for name in super().netns_list() if name != HOST]


_Kernel = t.TypeVar("_Kernel", bound=HostKernel)


def monitor_listens(sockets: str, pid: int) -> bool:
    """Return whether process `pid`, an `ip monitor`, receives events; `sockets` is the text of /proc/net/netlink.

    Its first socket has the process's id as port, too, but no groups of events.
    """
    return re.search(rf" 0 +{pid} +(?!0+ )[0-9a-f]+ ", sockets) is not None


@contextlib.contextmanager
def host_under_test(folder: pathlib.Path, kind: type[_Kernel]) -> t.Iterator[_Kernel]:
    """Create a namespace that stands for a host, and yield its kernel, of the class `kind`.

    All namespaces are below `folder`, and are removed at the end, with those that the test made. Raise KernelError if
    one cannot be created.
    """
    folders = {"netns_folder": str(folder / "netns"), "marker_folder": str(folder / "markers")}
    maker = LinuxKernel(**folders)
    maker.netns_add(HOST, "test")
    (folder / "markers" / HOST).unlink()
    kernel = kind(HOST, **folders)
    try:
        yield kernel
    finally:
        kernel.close()
        for name in maker.netns_list():
            maker.netns_delete(name)
        maker.close()
        # Some tests have the folder mounted on itself, as `ip netns add` does: pytest could not remove it.
        subprocess.run(["umount", "--lazy", folders["netns_folder"]], check=False, capture_output=True)
