# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The observation of a host as plain data for `judge`: a few files of /proc, netlink dumps and short processes.

It needs nothing but Python on the host, changes nothing, and does not know the state that the host is to have.
"""

from __future__ import annotations

import itertools
import os
import socket
import struct
import typing as t

from ..base.addresses import GATEWAY
from ..base.ports import BGP_PORT, VXLAN_PORT
from ..base.typed_json import open_table, parse, text
from ..dataplane.kernel.port import SCOPE_LINK, Kernel
from . import features, firewall, packages, processes, runtime_networks
from .files import CNI_CONF_DIR, Files

Facts = dict[str, t.Any]

#: Local ports whose owners are looked up, which costs a walk through /proc. Other ports are reported by number only.
NAMED_PORTS = {"tcp": (BGP_PORT,), "udp": (VXLAN_PORT,)}
#: Route protocols of manual routes: boot (3), which `ip route add` sets, and static (4) (rtnetlink(7)).
_MANUAL_PROTOCOLS = (3, 4)
_ADVERTISED = 9  # RTPROT_RA: routes from routers' advertisements
TUNNELS = ("tunl0", "vxlan.calico", "vxlan-v6.calico")
#: {name of a process, which the kernel cuts to 15 characters: what it belongs to}.
DAEMONS = {
    "calico-felix": "calico",
    "calico-node": "calico",
    "dockerd": "docker",
    "firewalld": "firewalld",
    "NetworkManager": "NetworkManager",
    "systemd-network": "systemd-networkd",
}
#: Where runtimes search for networks by default (libcni), and the endings of the files that they read there.
_CNI_ENDINGS = (".conf", ".conflist", ".json")
#: Runtimes whose containers get the network in the first of these files; to others a network is named.
_TAKE_THE_FIRST = ("containerd", "crio")
#: The folder of podman's networks, and the most files of it that are read, and bytes of each.
PODMAN_NETWORKS = "/etc/containers/networks"
_NETWORKS_LIMIT = 1024
_NETWORK_BYTES = 64 << 10
#: Fields of files that others write: a network of podman's, and this collection's own state.
_NETWORK = open_table({"driver": text()})
_STORED = open_table({"state": open_table({"node": text()})})
_PROGRAMS = ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin")
_LINK_LOCAL_GATEWAY = struct.unpack("!I", socket.inet_aton(GATEWAY))[0]
_REJECT = 0x0200  # RTF_REJECT in linux/route.h


def observe(
    kernel: Kernel,
    root: str = "/",
    run: t.Optional[t.Callable[..., t.Any]] = None,
    uid: t.Optional[int] = None,
    release: t.Optional[str] = None,
    cni_conf_dir: str = CNI_CONF_DIR,
) -> Facts:
    """Return the facts about this host that `judge` needs, by name, as plain data.

    `root` is the folder in place of /, `run` starts programs (by default `kernel.run`), `uid` is the user id of the
    process, `release` the kernel's (uname -r), and `cni_conf_dir` the folder of runtimes' networks. Absent files and
    programs are no error. Raise KernelError if the kernel cannot be read, and the errors of `run`.
    """
    files = Files(root)
    run = run or kernel.run
    names = processes.names_here(files)
    found = packages.of_node(files)
    bird = next((found[name] for name in packages.BIRD if found.get(name)), None)
    return {
        "uid": os.geteuid() if uid is None else uid,
        "os": _system(files),
        "packages": found,
        "missing_packages": packages.missing(found),
        "bird_installed": bird,
        "bird_candidate": None if bird else packages.candidate(run),
        "daemons": _daemons(names),
        "ufw": "ENABLED=yes" in files.read("/etc/ufw/ufw.conf").replace('"', ""),
        "ports": {protocol: _ports(files, protocol, names) for protocol in NAMED_PORTS},
        "firewall": firewall.observe(files, run),
        "features": features.observe(files, release),
        "link_local_route": _link_local_route(files),
        "stored_node": _stored_node(files),
        "cni": _cni(files, cni_conf_dir),
        "podman": {"plugins": packages.takes_netavark_plugins(found), "networks": _podman_networks(files)},
        "runtimes": runtime_networks.observe(files, cni_conf_dir, _has(files, "dockerd"), _has(files, "podman")),
        "docker": _has(files, "dockerd"),
        "ipv6": _ipv6(files, kernel),
        "rp_filter_of_all": files.read("/proc/sys/net/ipv4/conf/all/rp_filter").strip(),
        "firewalld_ipv6_rpfilter": _firewalld_setting(files, "IPv6_rpfilter"),
        **_devices(kernel),
        "strict_sources": _strict_sources(files),
    }


def _system(files: Files) -> dict[str, str]:
    fields = {}
    for line in files.read("/etc/os-release").splitlines():
        name, value = line.split("=", 1) if "=" in line else (line, "")
        fields[name] = value.strip("\"'")
    return {
        "id": fields.get("ID", ""),
        "version": fields.get("VERSION_ID", ""),
        "name": fields.get("PRETTY_NAME", ""),
        "codename": fields.get("VERSION_CODENAME", ""),
    }


def _daemons(names: t.Mapping[int, str]) -> dict[str, list[str]]:
    """Return {"calico", "docker"...: sorted names of its processes} for the daemons of DAEMONS among `names`."""
    found: dict[str, set[str]] = {}
    for name in names.values():
        if name in DAEMONS:
            found.setdefault(DAEMONS[name], set()).add(name)
    return {what: sorted(processes_) for what, processes_ in sorted(found.items())}


def _ports(files: Files, protocol: str, names: t.Mapping[int, str]) -> dict[str, list[dict[str, t.Any]]]:
    return {
        str(port): [process._asdict() for process in processes.owners(files, inodes, names)]
        if port in NAMED_PORTS[protocol]
        else []
        for port, inodes in sorted(processes.sockets(files, protocol).items())
    }


def _devices(kernel: Kernel) -> Facts:
    """Return facts about devices, without those of workloads.

    `links`: {device: its attributes by name}; `addresses`, `addresses6`: {device: CIDRs}, without IPv6 link-local ones;
    `manual_routes`: {tunnel device: destinations}, those of the protocols boot and static.
    """
    links = {link.name: link for link in kernel.links() if not link.name.startswith("cali")}
    held: dict[int, dict[str, list[str]]] = {4: {}, 6: {}}
    for family, addresses in held.items():
        for address in kernel.addresses(family=family):
            if address.device in links and not (family == 6 and address.scope == SCOPE_LINK):
                addresses.setdefault(address.device, []).append(f"{address.address}/{address.prefix_length}")
    into_tunnels: dict[str, list[str]] = {}
    if any(name in links for name in TUNNELS):
        for family, protocol in itertools.product(held, _MANUAL_PROTOCOLS):
            for destination, attributes in kernel.routes(protocol=protocol, family=family):
                if attributes.device in TUNNELS:
                    into_tunnels.setdefault(attributes.device or "", []).append(destination)
    shown = ("kind", "mtu", "mac", "up", "alias", "vni", "port", "local", "external")
    return {
        "links": {name: {field: getattr(link, field) for field in shown} for name, link in links.items()},
        "addresses": held[4],
        "addresses6": held[6],
        "manual_routes": into_tunnels,
    }


def _ipv6(files: Files, kernel: Kernel) -> Facts:
    """Return whether the kernel has IPv6, and the devices whose default route is lost as soon as the host forwards.

    The keys are `present` and `advertised_default` (sorted names). These devices, not ours, have accept_ra 1: the
    kernel accepts routers' advertisements only while the host does not forward.
    """
    conf = "/proc/sys/net/ipv6/conf"
    advertised = []
    if files.read(f"{conf}/all/forwarding").strip() == "0":
        for destination, attributes in kernel.routes(protocol=_ADVERTISED, family=6):
            device = attributes.device or ""
            # Only an attacker sends router advertisements on our devices. The node removes the routes that they make.
            if device.startswith("cali") or device in TUNNELS:
                continue
            if destination == "::/0" and files.read(f"{conf}/{device}/accept_ra").strip() == "1":
                advertised.append(device)
    return {"present": files.exists(f"{conf}/all"), "advertised_default": sorted(set(advertised))}


def _link_local_route(files: Files) -> t.Optional[str]:
    """Return the device of the host's route to 169.254.1.1, or None if it has none. Workloads' devices do not count.

    The longest prefix and then the lowest metric wins. Unreachable and prohibited routes do not count either.
    """
    best: tuple[int, int] = (-1, 0)
    device = None
    for line in files.read("/proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[0].startswith("cali") or int(fields[3], 16) & _REJECT:
            continue
        network, mask = (socket.ntohl(int(fields[index], 16)) for index in (1, 7))
        if _LINK_LOCAL_GATEWAY & mask == network:
            rank = (mask, -int(fields[6]))
            if rank > best:
                best, device = rank, fields[0]
    return device


def _strict_sources(files: Files) -> dict[str, bool]:
    """Return {device: whether it has a default route of IPv4} for devices, not ours, that check sources strictly.

    The kernel applies the greater value of rp_filter for all devices and for the device.
    """
    conf = "/proc/sys/net/ipv4/conf"
    of_all = files.read(f"{conf}/all/rp_filter").strip()
    by_default = {
        fields[0]
        for fields in (line.split() for line in files.read("/proc/net/route").splitlines()[1:])
        if len(fields) >= 8 and int(fields[1], 16) == 0 == int(fields[7], 16) and not int(fields[3], 16) & _REJECT
    }
    found = {}
    for device in files.listing(conf):
        if device in ("all", "default", "lo", *TUNNELS) or device.startswith("cali"):
            continue
        if max(of_all, files.read(f"{conf}/{device}/rp_filter").strip()) == "1":
            found[device] = device in by_default
    return dict(sorted(found.items()))


def _firewalld_setting(files: Files, name: str) -> str:
    """Return a setting of firewalld, in lower case, "" if its file does not say it."""
    for line in files.read("/etc/firewalld/firewalld.conf").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() == name:
            return value.strip().lower()
    return ""


def _has(files: Files, program: str) -> bool:
    return any(files.exists(f"{place}/{program}") for place in _PROGRAMS)


def _cni(files: Files, folder: str) -> Facts:
    """Return the network files in `folder` in the order of runtimes, and the runtimes that take the first of them."""
    return {
        "folder": folder,
        "networks": sorted(name for name in files.listing(folder) if name.endswith(_CNI_ENDINGS)),
        "runtimes": [name for name in _TAKE_THE_FIRST if _has(files, name)],
    }


def _podman_networks(files: Files) -> dict[str, str]:
    """Return {name of its file without .json: driver} of podman's networks, "" for a driver that cannot be read."""
    found = {}
    for name in sorted(files.listing(PODMAN_NETWORKS))[:_NETWORKS_LIMIT]:
        if not name.endswith(".json"):
            continue
        content = files.read(f"{PODMAN_NETWORKS}/{name}", _NETWORK_BYTES)
        try:
            found[name[: -len(".json")]] = _NETWORK(parse(content))["driver"]
        except ValueError:
            found[name[: -len(".json")]] = ""
    return found


def _stored_node(files: Files) -> t.Optional[str]:
    try:
        return str(_STORED(parse(files.read("/var/lib/calico/state.json")))["state"]["node"])
    except ValueError:
        return None
