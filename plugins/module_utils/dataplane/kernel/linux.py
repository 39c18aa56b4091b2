# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LinuxKernel: the Kernel port on a running Linux.

Reads and routes use rtnetlink.py, other writes for workloads links_packed.py. New tunnel devices, neighbours and rules
by mark are encoded by pyroute2, which is imported at the first such write, and sent through the same channel. The
encoders are the only part of pyroute2 that is alike in the versions of Debian 12 (0.7.2), Debian 13 (0.7.7) and PyPI
(0.9), and with our own channel the kernel's error texts can be shown.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import socket
import stat
import subprocess
import threading
import typing as t

from ...base.addresses import family_of
from ...base.not_encodable import NotEncodable
from ...base.typed_json import open_table, text, whole
from ...files import bounded, folders
from ..encoding import netns_encoding, sysctl_encoding
from . import conntrack, ipset_contents, ipset_writes, marks, namespaces, port, ruleset_changes
from . import links_packed as packed
from . import rtnetlink as rt

_T = t.TypeVar("_T")

_CLONE_FS, _CLONE_NEWNS = 0x200, 0x20000
_MS_BIND, _MS_REC, _MS_SHARED = 4096, 16384, 1 << 20
_MNT_DETACH = 2
_TABLE_MAIN = 254
_SEEN = 4096  # namespaces whose identities are kept, at most; before one more is added, all are discarded
#: A marker of a network namespace. Earlier releases wrote none with an identity.
_MARKER = open_table({"inode": whole(0, (1 << 64) - 1), "owner": text()}, {"identity": text()})
_FEW = 16  # devices; up to this number, looking up each is cheaper than reading all

NETNS_FOLDER = "/run/netns"
MARKER_FOLDER = "/run/calico/netns"

#: The first of 2**24 device groups (`ip link set group`). Each call of
#: `links_delete` chooses one of them at random.
_PRIVATE_GROUPS = 0x43000000


@contextlib.contextmanager
def _refusals(operation: str) -> t.Iterator[None]:
    """Raise every OSError of the `with` block as a KernelError of this operation."""
    try:
        yield
    except port.KernelError:
        raise
    except OSError as error:
        raise port.KernelError(error.errno or errno.EIO, operation) from error


def _in_thread(work: t.Callable[[], _T]) -> _T:
    """Return the result of `work`, run in a thread of its own, so that this thread's namespace does not change."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001  re-raised in the calling thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _encoded(encode: t.Callable[[str], _T], value: str, operation: str) -> _T:
    """Return the result of `encode(value)`. Raise KernelError (EINVAL) if the value cannot be encoded."""
    try:
        return encode(value)
    except NotEncodable as error:
        raise port.KernelError(errno.EINVAL, operation, str(error)) from error


def _enter_mounts(path: str, operation: str) -> None:
    """Move the calling thread, which must end afterwards, into the mount namespace at `path`.

    Its root and working folder are no longer those of the process.
    """
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise port.KernelError(error.errno or errno.EIO, f"{operation}: open mount namespace {path}") from error
    try:
        namespaces.call(operation, "unshare", _CLONE_FS)
        namespaces.call(operation, "setns", there, _CLONE_NEWNS)
    finally:
        os.close(there)


class LinuxKernel:
    """The Kernel port for one network namespace of this host.

    `netns` names the namespace below `netns_folder`, or is its absolute path. `mounts` is the path of the mount
    namespace in which network namespaces are mounted, for a process that lives in one of its own: no other process
    would see its mounts. For either, None means that of the calling process.
    """

    def __init__(
        self,
        netns: t.Optional[str] = None,
        *,
        netns_folder: str = NETNS_FOLDER,
        marker_folder: str = MARKER_FOLDER,
        mounts: t.Optional[str] = None,
    ) -> None:
        self._netns = netns
        self._mounts = mounts
        self._netns_folder = netns_folder
        self._marker_folder = marker_folder
        self._channel = rt.Channel(self._open_socket)
        self._tracker = rt.Channel(self._open_tracker)
        self._changes = ruleset_changes.RulesetChanges(self._open_changes, self.ruleset_mark)
        self._headers: dict[bytes, tuple[str, port.SetHeader]] = {}  # of IP sets, by the messages last read
        self._revisions: ipset_writes.Revisions = {}
        self._inner: dict[str, LinuxKernel] = {}
        self._handle = -1  # file descriptor of the namespace, in an object of `_entered`; -1 in others
        self._identity = ""
        # {name or path: ((inode number, change time), identity)} of namespaces as they were seen last
        self._seen: dict[str, tuple[tuple[int, int], str]] = {}

    def close(self) -> None:
        for kernel in self._inner.values():
            kernel.close()
        self._inner.clear()
        self._channel.close()
        self._tracker.close()
        self._changes.close()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    @property
    def netlink_port(self) -> int:
        return self._channel.netlink_port

    # ---- namespaces

    def _there(self, work: t.Callable[[], _T]) -> _T:
        """Return the result of `work`, run in this kernel's network namespace."""
        if self._netns is None:
            return work()
        if self._handle >= 0:
            with namespaces.Visit(self._handle, self._netns):
                return work()
        handle = namespaces.opened(self._path(self._netns), self._netns)
        try:
            with namespaces.Visit(handle, self._netns):
                return work()
        finally:
            os.close(handle)

    def _path(self, netns: str) -> str:
        return os.path.join(self._netns_folder, netns)

    def _open_socket(self) -> socket.socket:
        return self._there(rt.open_socket)  # A socket always belongs to the namespace that it was opened in.

    def _open_tracker(self) -> socket.socket:
        return self._there(conntrack.open_socket)

    def _open_changes(self) -> socket.socket:
        return self._there(ruleset_changes.open_socket)

    def inside(self, netns: str, identity: str = "") -> LinuxKernel:
        kernel = self._inner.get(netns)
        if kernel is None:
            kernel = self._inner[netns] = self._entered(netns, identity)
        namespaces.refuse_another(kernel._identity, identity, netns)
        return kernel

    def _entered(self, netns: str, identity: str) -> LinuxKernel:
        """Return a kernel that has the namespace `netns` open. Raise the errors of `inside`."""
        kernel = LinuxKernel(netns, netns_folder=self._netns_folder, marker_folder=self._marker_folder)
        kernel._handle = namespaces.opened(self._path(netns), netns)
        try:
            namespaces.refuse_own(kernel._handle, netns)
            kernel._identity = namespaces.identity(kernel._channel.socket(), kernel._handle)
            namespaces.refuse_another(kernel._identity, identity, netns)
        except BaseException:
            kernel.close()
            raise
        return kernel

    def in_namespace(self, work: t.Callable[[], _T]) -> _T:
        return self._there(work)

    @property
    def identity(self) -> str:
        return self._identity

    def leave(self, netns: str) -> None:
        kernel = self._inner.pop(netns, None)
        if kernel is not None:
            kernel.close()

    def observe_namespace(
        self,
        netns: str,
        families: t.Collection[int] = (4,),
        table: t.Optional[int] = None,
        *,
        identity: str = "",
    ) -> port.Interior:
        kernel = self._entered(netns, identity)
        try:
            links = kernel.links()
            names = {link.index: link.name for link in links}
            addresses: list[port.InterfaceAddress] = []
            routes: list[port.KernelRoute] = []
            rules: list[port.RuleEntry] = []
            for family in families:
                addresses += rt.dump_addresses(kernel._channel, names, family=family)
                routes += rt.dump_routes(kernel._channel, names, _TABLE_MAIN, family=family)
                if table is not None:
                    routes += rt.dump_routes(kernel._channel, names, table, family=family)
                    rules += rt.dump_rules(kernel._channel, family)
            return port.Interior(links, addresses, routes, tuple(rules))
        finally:
            kernel.close()

    def netns_exists(self, netns: str) -> bool:
        try:
            return os.stat(self._path(netns)).st_dev == namespaces.device()
        except OSError:
            return False

    def netns_is(self, netns: str, identity: str) -> bool:
        try:
            found = os.stat(self._path(netns))
            if found.st_dev != namespaces.device():
                return False
            known = self._seen.get(netns)
            # An inode number is reused, but not within one tick of the clock.
            if known is None or known[0] != (found.st_ino, found.st_ctime_ns):
                if len(self._seen) >= _SEEN:
                    self._seen.clear()
                known = self._seen[netns] = namespaces.looked_at(self._path(netns), netns)
        except OSError:  # KernelError, which `looked_at` raises, is an OSError, too.
            return False
        return known[1] == identity

    def netns_list(self) -> list[str]:
        with _refusals("list network namespaces"):
            try:
                return sorted(name for name in os.listdir(self._netns_folder) if not self._left_over(name))
            except FileNotFoundError:
                return []

    def _left_over(self, name: str) -> bool:
        """Return whether a killed `netns_add` or `netns_delete` has left `name`: an empty file with a marker."""
        try:
            found = os.stat(os.path.join(self._netns_folder, name))
        except OSError:
            return False
        if found.st_dev == namespaces.device() or found.st_size != 0 or not stat.S_ISREG(found.st_mode):
            return False
        return os.path.exists(os.path.join(self._marker_folder, name))

    def netns_add(self, name: str, owner: str) -> None:
        operation = f"make network namespace {name}"
        _encoded(netns_encoding.name, name, operation)
        path = os.path.join(self._netns_folder, name)

        def make() -> None:
            if self._mounts is not None:
                _enter_mounts(self._mounts, operation)
            self._share_folder(operation)
            if self._left_over(name):
                os.unlink(path)
            if os.path.exists(path):
                raise port.KernelError(errno.EEXIST, operation)
            namespaces.call(operation, "unshare", namespaces.CLONE_NEWNET)
            # The marker comes before the name: if this process is killed in between, no unmarked namespace is left.
            self._mark(name, owner)
            try:
                os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
            except OSError as error:
                self._unmark(name)
                raise port.KernelError(error.errno or errno.EIO, operation) from error
            try:
                namespaces.call(operation, "mount", b"/proc/thread-self/ns/net", path.encode(), b"none", _MS_BIND, None)
            except port.KernelError:
                os.unlink(path)
                self._unmark(name)
                raise

        with _refusals(operation):
            _in_thread(make)

    def _mark(self, name: str, owner: str) -> None:
        """Write marker file `name`: JSON with `inode` and `identity` of the calling thread's namespace, and `owner`.

        An older one is replaced. Do nothing if `owner` is "".
        """
        if not owner:
            return
        handle = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inside:
                identity = namespaces.identity(inside, handle)
            inode = os.fstat(handle).st_ino
        finally:
            os.close(handle)
        folders.make(self._marker_folder)
        # No temporary file is needed: until all of it is written, no namespace has the name, so a part marks nothing.
        with open(os.path.join(self._marker_folder, name), "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o644)  # whatever the umask
            json.dump({"inode": inode, "owner": owner, "identity": identity}, stream)

    def _share_folder(self, operation: str) -> None:
        folder = self._netns_folder
        folders.make(folder)
        here = folder.encode()
        # The usual folder becomes a shared mount, as `ip netns add` makes it: mounts and unmounts of namespaces in it
        # then reach the other mount namespaces that share it.
        if folder == NETNS_FOLDER and namespaces.libc().mount(b"", here, b"none", _MS_SHARED | _MS_REC, None) != 0:
            namespaces.call(operation, "mount", here, here, b"none", _MS_BIND | _MS_REC, None)
            namespaces.call(operation, "mount", b"", here, b"none", _MS_SHARED | _MS_REC, None)

    def netns_delete(self, name: str) -> None:
        operation = f"delete network namespace {name}"
        _encoded(netns_encoding.name, name, operation)
        path = os.path.join(self._netns_folder, name)
        inner = self._inner.pop(name, None)
        if inner is not None:
            inner.close()

        def delete() -> None:
            # Unmount where it was mounted: a sandbox may see a mount twice, and a file under a mount cannot be removed.
            if self._mounts is not None:
                _enter_mounts(self._mounts, operation)
            self._unmount(path, operation)

        if self._mounts is None:
            delete()
        else:
            _in_thread(delete)
        with _refusals(operation):
            self._unmark(name)

    def _unmark(self, name: str) -> None:
        try:
            os.unlink(os.path.join(self._marker_folder, name))
        except FileNotFoundError:
            pass

    def _unmount(self, path: str, operation: str) -> None:
        gone = errno.EINVAL, errno.ENOENT
        if namespaces.libc().umount2(path.encode(), _MNT_DETACH) != 0 and ctypes.get_errno() not in gone:
            raise port.KernelError(ctypes.get_errno(), operation)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise port.KernelError(error.errno or errno.EIO, operation) from error

    def netns_owners(self) -> dict[str, str]:
        owners: dict[str, str] = {}
        with _refusals("list the markers of network namespaces"):
            try:
                names = sorted(os.listdir(self._marker_folder))
            except FileNotFoundError:
                return {}
        for name in names:
            try:
                marker = _MARKER(bounded.read_json(os.path.join(self._marker_folder, name)))
                # Another process may have made a new namespace of this name, which often has the same inode number.
                same = os.stat(os.path.join(self._netns_folder, name)).st_ino == marker["inode"]
                if "identity" in marker:  # Markers that earlier releases wrote have no identity.
                    same = same and self.netns_is(name, marker["identity"])
                if same or self._left_over(name):
                    owners[name] = marker["owner"]
            except (OSError, ValueError):
                continue
        return owners

    # ---- These methods observe, and they change tracked connections and members of sets

    def _names(self) -> rt.DeviceNames:
        return rt.DeviceNames(self._channel)

    def links(self, kind: t.Optional[str] = None) -> list[port.Link]:
        return rt.dump_links(self._channel, kind)

    def link(self, name: str) -> t.Optional[port.Link]:
        return rt.get_link(self._channel, name)

    def addresses(self, device: t.Optional[str] = None, family: int = 4) -> list[port.InterfaceAddress]:
        if device is None:
            return rt.dump_addresses(self._channel, self._names(), family=family)
        link = self.link(device)
        return rt.dump_addresses(self._channel, {link.index: device}, link.index, family) if link else []

    def routes(
        self, table: t.Optional[int] = None, protocol: t.Optional[int] = None, family: int = 4
    ) -> list[port.KernelRoute]:
        return rt.dump_routes(self._channel, self._names(), table, protocol, family)

    def route_to(self, address: str) -> t.Optional[port.RouteAttributes]:
        return rt.get_route(self._channel, self._names(), address)

    def neighbors(self, device: str) -> list[port.NeighborEntry]:
        link = self.link(device)
        return rt.dump_neighbors(self._channel, device, link.index) if link else []

    def fdb(self, device: str) -> list[port.ForwardingEntry]:
        link = self.link(device)
        return rt.dump_fdb(self._channel, device, link.index) if link else []

    def rules(self, family: int = 4) -> list[port.RuleEntry]:
        return rt.dump_rules(self._channel, family)

    def sysctl_read(self, key: str) -> t.Optional[str]:
        path = _encoded(sysctl_encoding.path, key, "read sysctl")

        def read() -> t.Optional[str]:
            try:
                handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                raise port.KernelError(error.errno or errno.EIO, f"read sysctl {key}") from error
            try:
                return os.read(handle, 4096).decode("ascii").strip()
            except OSError as error:
                raise port.KernelError(error.errno or errno.EIO, f"read sysctl {key}") from error
            finally:
                os.close(handle)

        return self._there(read)

    def sockets_using(self, address: str) -> int:
        packed = rt.packed_address(address)
        # /proc/net shows an address as numbers of 32 bits in the processor's byte order, here taken for little endian.
        plain = "".join(packed[start : start + 4][::-1].hex() for start in range(0, len(packed), 4)).upper()
        mapped = "0000000000000000FFFF0000" + plain
        # {file: the states of sockets that do not count}: TCP_TIME_WAIT (06) and TCP_CLOSE (07) need no address.
        done = {"tcp": ("06", "07"), "tcp6": ("06", "07"), "udp": (), "udp6": ()}

        def count() -> int:
            found = 0
            for name, idle in done.items():
                try:
                    with open(f"/proc/thread-self/net/{name}", encoding="ascii") as stream:
                        next(stream, None)
                        for line in stream:
                            fields = line.split(None, 4)
                            local = fields[1].partition(":")[0]
                            if local in (plain, mapped) and fields[3] not in idle:
                                found += 1
                except FileNotFoundError:
                    continue
            return found

        return self._there(count)

    def conntrack_flush(self, addresses: t.Collection[str]) -> int:
        return conntrack.flush(self._tracker, addresses)

    def connections(self, wanted: t.Optional[port.ConnectionFilter] = None) -> t.Iterator[port.Connection]:
        return conntrack.connections(self._tracker, wanted)

    def connections_delete(self, connections: t.Collection[port.Connection]) -> int:
        return conntrack.delete(self._tracker, connections)

    def connections_mark(self, connections: t.Collection[port.Connection], bits: int, marked: bool) -> int:
        return conntrack.set_mark(self._tracker, connections, bits, marked)

    def ruleset_mark(self) -> t.Optional[int]:
        return marks.ruleset(self._tracker)

    def ruleset_changes(self, since: int, until: int) -> t.Optional[frozenset[port.ChangedChain]]:
        return self._changes.between(since, until)

    def legacy_mark(self) -> t.Hashable:
        return self._there(marks.legacy_tables)

    def programs_mark(self, names: t.Sequence[str]) -> t.Hashable:
        return tuple(_file_of(name, _search_path()) for name in names)

    def ipset_mark(self, name: str) -> int:
        return ipset_contents.checksum(self._tracker, name)

    def ipset_headers(self) -> dict[str, port.SetHeader]:
        self._headers = ipset_contents.headers(self._tracker, self._headers)
        return dict(self._headers.values())

    def ipset_members(self, name: str) -> t.Optional[frozenset[str]]:
        return ipset_contents.members(self._tracker, name)

    def ipset_write(self, writes: t.Sequence[port.SetWrite]) -> None:
        ipset_writes.write(self._tracker, writes, self._revisions)

    def routes_mark(self, protocol: int) -> int:
        return marks.routes(self._channel, protocol)

    def links_mark(self, names: t.Container[str]) -> int:
        return marks.links(self._channel, names)

    # ---- write

    def ready_to_write(self) -> None:
        _codec("ifinfmsg")

    def _send(self, encoded: packed.Packed, operation: str) -> None:
        self._channel.request(encoded.type, encoded.flags, encoded.body, operation)

    def _index(self, device: str, operation: str) -> int:
        index = rt.get_index(self._channel, device)
        if index is None:
            raise port.KernelError(errno.ENODEV, operation, f"there is no device {device}")
        return index

    def link_add(self, link: port.NewLink) -> None:
        operation = f"make device {link.name}"
        if link.kind == "veth":
            self._veth_add(link, operation)
            return
        attributes: list[tuple[str, t.Any]] = [("IFLA_IFNAME", link.name)]
        if link.mtu is not None:
            attributes.append(("IFLA_MTU", link.mtu))
        if link.mac is not None:
            attributes.append(("IFLA_ADDRESS", link.mac))
        data: list[tuple[str, t.Any]] = []
        if link.kind == "vxlan":
            data += [("IFLA_VXLAN_ID", link.vni), ("IFLA_VXLAN_LEARNING", int(link.learning))]
            if link.port is not None:
                data.append(("IFLA_VXLAN_PORT", link.port))
            if link.local is not None:
                data.append(("IFLA_VXLAN_LOCAL6" if family_of(link.local) == 6 else "IFLA_VXLAN_LOCAL", link.local))
        elif link.kind == "ipip" and link.local is not None:
            data.append(("IFLA_IPIP_LOCAL", link.local))
        info: list[tuple[str, t.Any]] = [("IFLA_INFO_KIND", link.kind)]
        if data:
            info.append(("IFLA_INFO_DATA", {"attrs": data}))
        attributes.append(("IFLA_LINKINFO", {"attrs": info}))
        flags = rt.NLM_F_CREATE | rt.NLM_F_EXCL
        self._send(_encode("ifinfmsg", rt.RTM_NEWLINK, flags, {"family": socket.AF_UNSPEC}, attributes), operation)

    def _veth_add(self, link: port.NewLink, operation: str) -> None:
        if not link.peer_netns:
            self._send(packed.veth_add(link), operation)
            return
        inner = self._inner.get(link.peer_netns)
        if inner is not None:
            self._send(packed.veth_add(link, inner._handle), operation)
            return
        try:
            handle = namespaces.opened(self._path(link.peer_netns), link.peer_netns)
        except port.NamespaceRefused:
            raise
        except port.KernelError as error:
            words = f"there is no network namespace {link.peer_netns}"
            raise port.KernelError(error.errno or errno.EIO, operation, words) from error
        try:
            namespaces.refuse_own(handle, link.peer_netns)
            self._send(packed.veth_add(link, handle), operation)
        finally:
            os.close(handle)

    def link_set(
        self,
        name: str,
        *,
        up: t.Optional[bool] = None,
        mtu: t.Optional[int] = None,
        mac: t.Optional[str] = None,
        alias: t.Optional[str] = None,
        local: t.Optional[str] = None,
    ) -> None:
        self.write([port.LinkChange(name, up, mtu, mac, alias, local)])

    def link_delete(self, name: str) -> None:
        with port.passing_over(errno.ENODEV):
            self._send(packed.link_delete(name), f"delete device {name}")

    def links_delete(self, names: t.Sequence[str]) -> None:
        operation = f"delete {len(names)} devices"
        # The group must have no other devices, because deleting it deletes all that are in it.
        group = _PRIVATE_GROUPS | int.from_bytes(os.urandom(3), "big")
        gathered = len(names)
        for _position, number, extack in self._batch([packed.link_group(name, group) for name in names], operation):
            if number != errno.ENODEV:
                raise port.KernelError(number, operation, extack)
            gathered -= 1
        if gathered:
            self._send(packed.group_delete(group), operation)

    def _indexes(self, devices: t.Collection[str]) -> dict[str, int]:
        """Return a mapping from name to index that has those of `devices` that exist, and maybe other devices."""
        if len(devices) > _FEW:
            return rt.dump_indexes(self._channel)
        found = ((name, rt.get_index(self._channel, name)) for name in devices)
        return {name: index for name, index in found if index is not None}

    def _batch(self, messages: t.Sequence[packed.Packed], operation: str) -> list[tuple[int, int, str]]:
        parts = [rt.parts(message.type, message.flags, message.body) for message in messages]
        return self._channel.batch(parts, operation)

    def write(self, writes: t.Sequence[port.Write]) -> None:
        named = {item.device for item in writes if isinstance(item, port.InterfaceAddress)}
        named |= _devices(item.attributes for item in writes if isinstance(item, port.RouteOperation))
        indexes = self._indexes(named)
        messages = []
        for item in writes:
            if isinstance(item, port.LinkChange):
                messages.append(packed.link_change(item))
            elif isinstance(item, port.RuleEntry):
                messages.append(packed.rule_add(item))
            else:
                needed = {item.device} if isinstance(item, port.InterfaceAddress) else _devices([item.attributes])
                for device in sorted(needed - indexes.keys()):
                    raise port.KernelError(errno.ENODEV, _doing(item), f"there is no device {device}")
                if isinstance(item, port.InterfaceAddress):
                    messages.append(packed.address_add(item, indexes[item.device]))
                else:
                    messages.append(packed.Packed(*rt.route_message(item, indexes)))
        for position, number, extack in self._batch(messages, "write links, addresses and routes"):
            if number == errno.EEXIST and isinstance(writes[position], port.RuleEntry):
                continue
            error = port.KernelError(number, _doing(writes[position]), extack)
            change = writes[position]
            raise _about(error, change.name) if isinstance(change, port.LinkChange) else error

    def address_add(self, address: port.InterfaceAddress) -> None:
        self.write([address])

    def address_delete(self, address: port.InterfaceAddress) -> None:
        operation = f"delete address {address.address}/{address.prefix_length} from {address.device}"
        self._send(packed.address_delete(address, self._index(address.device, operation)), operation)

    def route_batch(self, operations: t.Sequence[port.RouteOperation]) -> list[port.RouteFailure]:
        if not operations:
            return []
        indexes = self._indexes(_devices(operation.attributes for operation in operations))
        return rt.write_routes(self._channel, indexes, operations)

    def _neighbor(self, kind: int, flags: int, header: dict[str, t.Any], data: list[t.Any], operation: str) -> None:
        self._send(_encode("ndmsg", kind, flags, {"state": rt.NUD_PERMANENT, **header}, data), operation)

    def neighbor_replace(self, entry: port.NeighborEntry) -> None:
        operation = f"set neighbour {entry.address} on {entry.device}"
        header = {"family": rt.af_of(entry.address), "ifindex": self._index(entry.device, operation)}
        data = [("NDA_DST", entry.address), ("NDA_LLADDR", entry.mac)]
        self._neighbor(rt.RTM_NEWNEIGH, rt.NLM_F_CREATE | rt.NLM_F_REPLACE, header, data, operation)

    def neighbor_delete(self, entry: port.NeighborEntry) -> None:
        operation = f"delete neighbour {entry.address} from {entry.device}"
        header = {"family": rt.af_of(entry.address), "ifindex": self._index(entry.device, operation)}
        self._neighbor(rt.RTM_DELNEIGH, 0, header, [("NDA_DST", entry.address)], operation)

    def _forwarding(self, kind: int, flags: int, entry: port.ForwardingEntry, operation: str) -> None:
        index = self._index(entry.device, operation)
        header = {"family": rt.AF_BRIDGE, "ifindex": index, "flags": rt.NTF_SELF}
        data: list[tuple[str, t.Any]] = [("NDA_LLADDR", entry.mac)]
        if entry.destination:
            data.append(("NDA_DST", entry.destination))
        if entry.via:
            data.append(("NDA_IFINDEX", entry.via))
        self._neighbor(kind, flags, header, data, operation)

    def fdb_replace(self, entry: port.ForwardingEntry) -> None:
        operation = f"set forwarding entry {entry.mac} on {entry.device}"
        self._forwarding(rt.RTM_NEWNEIGH, rt.NLM_F_CREATE | rt.NLM_F_REPLACE, entry, operation)

    def fdb_delete(self, entry: port.ForwardingEntry) -> None:
        operation = f"delete forwarding entry {entry.mac} from {entry.device}"
        self._forwarding(rt.RTM_DELNEIGH, 0, entry, operation)

    def _rule(self, kind: int, flags: int, rule: port.RuleEntry, operation: str) -> None:
        family = socket.AF_INET6 if rule.family == 6 else socket.AF_INET
        header = {
            "family": family,
            "tos": rule.tos,
            "table": rule.table if rule.table < 256 else 0,
            "action": 1,
        }
        data: list[tuple[str, t.Any]] = [
            ("FRA_PRIORITY", rule.priority),
            ("FRA_FWMARK", rule.fwmark),
            ("FRA_FWMASK", rule.fwmask),
            ("FRA_TABLE", rule.table),
            ("FRA_PROTOCOL", rule.protocol),
        ]
        if rule.interface:
            data.append(("FRA_IIFNAME", rule.interface))
        self._send(_encode("fibmsg", kind, flags, header, data), operation)

    def rule_add(self, rule: port.RuleEntry) -> None:
        operation = f"add rule {rule.priority} ({rule.selector})"
        self._rule(rt.RTM_NEWRULE, rt.NLM_F_CREATE | rt.NLM_F_EXCL, rule, operation)

    def rule_delete(self, rule: port.RuleEntry) -> None:
        self._rule(rt.RTM_DELRULE, 0, rule, f"delete rule {rule.priority} ({rule.selector})")

    def sysctl_write(self, key: str, value: str) -> None:
        path = _encoded(sysctl_encoding.path, key, "write sysctl")
        encoded = _encoded(sysctl_encoding.value, value, f"write sysctl {key}")

        def write() -> None:
            try:
                handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(handle, encoded)
                finally:
                    os.close(handle)
            except OSError as error:
                raise port.KernelError(error.errno or errno.EIO, f"write sysctl {key}") from error

        self._there(write)

    # ---- programs

    def run(self, argv: t.Sequence[str], stdin: str = "", timeout: float = 60.0) -> port.Completed:
        environment = dict(os.environ, LC_ALL="C.UTF-8", PATH=_search_path())

        def run() -> port.Completed:
            try:
                done = subprocess.run(
                    list(argv),
                    input=stdin,
                    capture_output=True,
                    timeout=timeout,
                    env=environment,
                    encoding="utf-8",
                    errors="replace",
                    check=False,
                )
            except FileNotFoundError:
                return port.Completed(127, "", f"there is no program {argv[0]}")
            except OSError as error:
                return port.Completed(126, "", f"{argv[0]} cannot be started: {error.strerror}")
            except subprocess.TimeoutExpired:
                return port.Completed(124, "", f"{argv[0]} did not end within {timeout:.0f} s")
            return port.Completed(done.returncode, done.stdout, done.stderr)

        return self._there(run)


def _search_path() -> str:
    """Return the folders in which `LinuxKernel.run` looks for programs, as the variable PATH has them."""
    # Non-interactive shells of root often lack the sbin folders, where iptables and ipset live.
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/sbin:/usr/sbin:/sbin"


def _file_of(name: str, folders: str) -> t.Optional[tuple[int, int]]:
    """Return the device and the inode of the program `name` in the first of these folders that has it, or None."""
    for folder in folders.split(":"):
        try:
            found = os.stat(os.path.join(folder, name))
        except OSError:
            continue
        return found.st_dev, found.st_ino
    return None


def _devices(routes: t.Iterable[port.RouteAttributes]) -> set[str]:
    """Return the names of the devices of all next hops."""
    named: set[t.Optional[str]] = set()
    for attributes in routes:
        named.add(attributes.device)
        if attributes.multipath:  # rare, and a bulk has many routes
            named.update(hop.device for hop in attributes.multipath)
    return {name for name in named if name}


def _doing(item: port.Write) -> str:
    """Return the words for a write that an error names, such as `change device eth0`."""
    if isinstance(item, port.LinkChange):
        return f"change device {item.name}"
    if isinstance(item, port.InterfaceAddress):
        return f"add address {item.address}/{item.prefix_length} to {item.device}"
    if isinstance(item, port.RuleEntry):
        return f"add rule {item.priority} ({item.selector})"
    return f"{item.action} route {item.destination}"


def _about(error: port.KernelError, device: str) -> port.KernelError:
    """Return an error that names the missing device, which the kernel does not, if `error` is ENODEV, else `error`."""
    if error.errno != errno.ENODEV:
        return error
    return port.KernelError(errno.ENODEV, error.operation, f"there is no device {device}")


def _encode(
    codec: str, kind: int, flags: int, header: t.Mapping[str, t.Any], attributes: t.Sequence[tuple[str, t.Any]]
) -> packed.Packed:
    """Return the message of type `kind` whose body pyroute2's class `codec` (ifinfmsg, ndmsg or fibmsg) encodes."""
    message = _codec(codec)()
    for name, value in header.items():
        message[name] = value
    message["attrs"] = list(attributes)
    message.encode()
    return packed.Packed(kind, flags, bytes(message.data[16:]))


def _codec(name: str) -> t.Any:
    try:
        if name == "ifinfmsg":
            from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg

            return ifinfmsg
        if name == "ndmsg":
            from pyroute2.netlink.rtnl.ndmsg import ndmsg

            return ndmsg
        from pyroute2.netlink.rtnl.fibmsg import fibmsg

        return fibmsg
    except ImportError as error:
        raise port.MissingLibrary(
            "The Python library pyroute2, which writes tunnel devices, neighbours and rules, is not installed"
            " for this interpreter. Install it with `apt-get install python3-pyroute2` (Debian), then run again."
        ) from error
