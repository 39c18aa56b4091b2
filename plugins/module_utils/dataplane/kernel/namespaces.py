# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces: opened by path without side effects, told from each other, visited.

A path says little about a namespace: a process id is used again, a symbolic link is changed. So a path is opened once,
what it led to is checked, and the open file is what everything else uses.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import functools
import os
import socket
import sys
import typing as t

from . import port

CLONE_NEWNET = 0x40000000
_NS_GET_NSTYPE = 0xB703
_SO_NETNS_COOKIE = 71  # Linux 5.14 and newer

_NOT_A_NAMESPACE = "it is no network namespace"
_OF_THE_HOST = "it is that of the host itself"
_ANOTHER_ONE = "it is another one than the workload was attached to"


@functools.cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def device() -> int:
    """Return the device number of the kernel's own file system on which all namespaces lie."""
    return os.stat("/proc/self/ns/net").st_dev


@functools.cache
def _of_init() -> int:
    """Return the inode of the namespace of process 1, which lives as long as the system does; 0 where it is hidden."""
    try:
        return os.stat("/proc/1/ns/net").st_ino
    except OSError:
        return 0


def call(operation: str, function: str, *arguments: t.Any) -> None:
    """Call a function of libc that returns 0. Raises KernelError."""
    if getattr(libc(), function)(*arguments) != 0:
        raise port.KernelError(ctypes.get_errno(), operation)


def opened(path: str, name: str) -> int:
    """Return a file descriptor of the network namespace at `path`. Raises KernelError.

    O_PATH has no effect on what it opens: a FIFO blocks nobody, a watchdog does not start. Only what lies on the file
    system of namespaces is opened for reading.
    """
    operation = f"open network namespace {name}"
    try:
        seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if os.fstat(seen).st_dev != device():
                raise port.NamespaceRefused(errno.EINVAL, operation, _NOT_A_NAMESPACE)
            handle = os.open(f"/proc/self/fd/{seen}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(seen)
    except port.KernelError:
        raise
    except OSError as error:
        raise port.KernelError(error.errno or errno.EIO, operation) from error
    if not _is_of_network(handle):
        os.close(handle)
        raise port.NamespaceRefused(errno.EINVAL, operation, _NOT_A_NAMESPACE)
    return handle


def _is_of_network(handle: int) -> bool:
    try:
        return fcntl.ioctl(handle, _NS_GET_NSTYPE) == CLONE_NEWNET
    except OSError:
        return False


def refuse_own(handle: int, name: str) -> None:
    """Raise NamespaceRefused if this is the namespace of the calling thread or of process 1.

    Both live, so that equal inodes mean the same namespace.
    """
    if os.fstat(handle).st_ino in (os.stat("/proc/thread-self/ns/net").st_ino, _of_init()):
        raise port.NamespaceRefused(errno.EPERM, f"enter network namespace {name}", _OF_THE_HOST)


def refuse_another(found: str, identity: str, name: str) -> None:
    """Raise NamespaceRefused if the identity `found` is not the expected one; "" expects none."""
    if identity and found != identity:
        raise port.NamespaceRefused(errno.ESTALE, f"enter network namespace {name}", _ANOTHER_ONE)


def identity(inside: socket.socket, handle: int) -> str:
    """Return what tells a namespace from all others: its cookie, which no other one gets before the next boot.

    `inside` is a socket that was opened in it. A kernel before 5.14 has no cookies: there it is the inode, which is
    used again once the namespace has ended.
    """
    try:
        cookie = inside.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    except OSError:
        return f"inode:{os.fstat(handle).st_ino}"
    return f"{port.COOKIE}{int.from_bytes(cookie, sys.byteorder)}"


def looked_at(path: str, name: str) -> tuple[tuple[int, int], str]:
    """Return (inode and time of its making, identity) of the namespace at `path`. Raises KernelError."""
    handle = opened(path, name)
    try:
        refuse_own(handle, name)
        found = os.fstat(handle)
        with Visit(handle, name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inside:
            return (found.st_ino, found.st_ctime_ns), identity(inside, handle)
    finally:
        os.close(handle)


class Visit:
    """The calling thread in another network namespace for the time of a few system calls.

    A thread of its own would cost ten times as much. The way back is tried before it is needed: who may leave his
    namespace but not return (in a user namespace) is refused here.
    """

    def __init__(self, there: int, name: str) -> None:
        self._there = there
        self._name = name
        self._home = -1

    def __enter__(self) -> None:
        operation = f"enter network namespace {self._name}"
        try:
            self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            call(operation, "setns", self._home, CLONE_NEWNET)
            call(operation, "setns", self._there, CLONE_NEWNET)
        except BaseException:
            if self._home >= 0:
                os.close(self._home)
            raise

    def __exit__(self, *_exception: object) -> None:
        if libc().setns(self._home, CLONE_NEWNET) != 0:
            os.abort()  # whatever this thread did next it would do to somebody else's network
        os.close(self._home)
