# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The networks that container runtimes of a host have, or may make, by their files; and netavark's firewall driver.

Every file is input: at most LIMIT bytes of it are read, and what is not understood counts as absent. A file that cannot
be read as its runtime reads it is named, because the runtime may fail for it, too.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ..base.typed_json import NotJson, parse_table
from .files import Files

#: The most bytes of a file that are read, and the most files of a folder.
LIMIT = 64 << 10
FILES = 256
_SUBNETS = 1024  # the most subnets that are reported

DOCKER_SETTINGS = "/etc/docker/daemon.json"
PODMAN_NETWORKS = "/etc/containers/networks"
#: podman reads these in this order; a later one overrides an earlier one.
PODMAN_SETTINGS = ("/usr/share/containers/containers.conf", "/etc/containers/containers.conf")
PODMAN_SETTINGS_FOLDER = "/etc/containers/containers.conf.d"
#: The subnets that Docker chooses from without `default-address-pools` (moby, ipamutils), and podman first without
#: `default_subnet` and `default_subnet_pools` (containers.conf(5)).
_DOCKERS = (
    *("172.17.0.0/16", "172.18.0.0/16", "172.19.0.0/16", "172.20.0.0/14", "172.24.0.0/14", "172.28.0.0/14"),
    "192.168.0.0/16",
)
_PODMANS = ("10.88.0.0/16", "10.89.0.0/16")

_SETTING = re.compile(r'^\s*(firewall_driver|default_subnet)\s*=\s*"([^"\n]{0,64})"', re.MULTILINE)
_POOLS = re.compile(r"^\s*default_subnet_pools\s*=\s*\[(.{0,4096}?)\]\s*$", re.MULTILINE | re.DOTALL)
_BASES = re.compile(r'base\s*"?\s*=\s*"([^"\n]{0,64})"')

Facts = dict[str, t.Any]


def observe(files: Files, folder: str, docker: bool, podman: bool) -> Facts:
    """Return what the runtimes' files say, as plain data.

    `subnets` are objects with `cidr`, `of` (whose it is, for people), `file` ("" for a default) and `sure` (whether a
    network has it, and not only may get it). `firewall_driver` is netavark's, "" for its choice; `unreadable` are files
    that are not what they should be. `folder` has the networks of CNI; `docker`, `podman`: whether it is installed.
    """
    found = _Found()
    if docker:
        _docker(files, found)
    driver = _podman(files, found) if podman else ""
    _cni(files, folder, found)
    return {"subnets": found.subnets[:_SUBNETS], "firewall_driver": driver, "unreadable": sorted(found.unreadable)}


class _Found:
    def __init__(self) -> None:
        self.subnets: list[Facts] = []
        self.unreadable: set[str] = set()

    def add(self, cidr: t.Any, of: str, file: str, sure: bool) -> None:
        try:
            network = ipaddress.ip_network(cidr, strict=False) if isinstance(cidr, str) and len(cidr) <= 64 else None
        except ValueError:
            network = None
        if network is not None:
            self.subnets.append({"cidr": str(network), "of": of, "file": file, "sure": sure})
        else:
            self.unreadable.add(file)


def _json(files: Files, path: str, found: _Found) -> t.Mapping[str, t.Any]:
    """Return the JSON object in a regular file, {} for an absent one; note the file if it is anything else."""
    if not files.exists(path):
        return {}
    try:
        if not files.is_regular(path):
            raise NotJson("it is no file")
        return parse_table(files.read(path, LIMIT))
    except NotJson:
        found.unreadable.add(path)
        return {}


def _docker(files: Files, found: _Found) -> None:
    settings = _json(files, DOCKER_SETTINGS, found)
    for name in ("bip", "fixed-cidr"):
        if name in settings:
            found.add(settings[name], "Docker's bridge docker0", DOCKER_SETTINGS, True)
    pools = settings.get("default-address-pools")
    if isinstance(pools, list):
        for pool in pools[:FILES]:
            base = pool.get("base") if isinstance(pool, dict) else None
            found.add(base, "new networks of Docker", DOCKER_SETTINGS, False)
    else:
        for cidr in _DOCKERS:
            found.add(cidr, "new networks of Docker", "", False)


def _podman(files: Files, found: _Found) -> str:
    driver, subnet, pools = "", None, None
    folder = sorted(name for name in files.listing(PODMAN_SETTINGS_FOLDER) if name.endswith(".conf"))[:FILES]
    for path in (*PODMAN_SETTINGS, *(f"{PODMAN_SETTINGS_FOLDER}/{name}" for name in folder)):
        text = files.read(path, LIMIT) if files.is_regular(path) else ""
        for name, value in _SETTING.findall(text):
            if name == "firewall_driver":
                driver = value
            else:
                subnet = value, path
        listed = _POOLS.search(text)
        if listed is not None:
            pools = _BASES.findall(listed[1]), path
    if subnet is not None:
        found.add(subnet[0], "podman's default network", subnet[1], True)
    for cidr in pools[0] if pools is not None else _PODMANS[0 if subnet is None else 1 :]:
        found.add(cidr, "new networks of podman", pools[1] if pools is not None else "", False)
    for name in sorted(files.listing(PODMAN_NETWORKS))[:FILES]:
        path = f"{PODMAN_NETWORKS}/{name}"
        if name.endswith(".json"):
            network = _json(files, path, found)
            subnets = network.get("subnets") if network.get("driver") != "calico" else None
            for entry in subnets[:FILES] if isinstance(subnets, list) else ():
                one = entry.get("subnet") if isinstance(entry, dict) else None
                found.add(one, f"podman's network {name[:-5]}", path, True)
    return driver


def _cni(files: Files, folder: str, found: _Found) -> None:
    for name in sorted(files.listing(folder))[:FILES]:
        if not name.endswith((".conf", ".conflist", ".json")):
            continue
        path = f"{folder}/{name}"
        document = _json(files, path, found)
        plugins = document.get("plugins", [document])
        for plugin in plugins[:FILES] if isinstance(plugins, list) else ():
            ipam = plugin.get("ipam") if isinstance(plugin, dict) else None
            if not isinstance(ipam, dict) or ipam.get("type") != "host-local":
                continue
            ranges = ipam.get("ranges", [])
            listed = (
                [entry for group in ranges if isinstance(group, list) for entry in group]
                if isinstance(ranges, list)
                else []
            )
            for entry in [ipam, *listed][:FILES]:
                if isinstance(entry, dict) and "subnet" in entry:
                    found.add(entry["subnet"], f"the CNI network in {name}", path, True)
