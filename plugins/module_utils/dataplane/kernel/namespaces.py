# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network namespaces: opened by path without side effects, identified, and visited.

A path says little about a namespace: a process id is reused, a symbolic link is changed. So a path is opened once, the
result is checked, and everything else uses the open file.
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

_NOT_A_NAMESPACE = "it is not a network namespace"
_OF_THE_HOST = "it is that of the host itself"
_ANOTHER_ONE = "it is another one than the workload was attached to"


@functools.cache
def libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def device() -> int:
    """Return the device number of the kernel's file system that holds all namespaces."""
    return os.stat("/proc/self/ns/net").st_dev


@functools.cache
def _of_init() -> int:
    """Return the inode number of process 1's network namespace, 0 if unreadable. It lives as long as the system."""
    try:
        return os.stat("/proc/1/ns/net").st_ino
    except OSError:
        return 0


def call(operation: str, function: str, *arguments: t.Any) -> None:
    """Call a function of libc that returns 0 on success. Raise KernelError with its errno for anything else."""
    if getattr(libc(), function)(*arguments) != 0:
        raise port.KernelError(ctypes.get_errno(), operation)


def opened(path: str, name: str) -> int:
    """Return a file descriptor of the network namespace at `path`, which the caller closes.

    Raise NamespaceRefused if the path leads to something else, and KernelError if it cannot be opened. Opening with
    O_PATH has no effect on other kinds of files: a FIFO does not block, a watchdog does not start. Only files on the
    namespaces' file system are then opened for reading. `name` is for the error text.
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
    """Raise NamespaceRefused if `handle` is the network namespace of the calling thread or of process 1.

    Both are alive, so equal inode numbers mean the same namespace. That of process 1 is not recognized if unreadable.
    """
    if os.fstat(handle).st_ino in (os.stat("/proc/thread-self/ns/net").st_ino, _of_init()):
        raise port.NamespaceRefused(errno.EPERM, f"enter network namespace {name}", _OF_THE_HOST)


def refuse_another(found: str, identity: str, name: str) -> None:
    """Raise NamespaceRefused if the identity `found` is not `identity`; "" accepts any."""
    if identity and found != identity:
        raise port.NamespaceRefused(errno.ESTALE, f"enter network namespace {name}", _ANOTHER_ONE)


def identity(inside: socket.socket, handle: int) -> str:
    """Return the text that distinguishes a namespace from others: `cookie:` and a number, unique until the next boot.

    `inside` is a socket that was opened in the namespace, `handle` the namespace's file descriptor. A kernel before
    5.14 has no cookies: there it is `inode:` and the inode number, which may be reused once the namespace has ended.
    """
    try:
        cookie = inside.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    except OSError:
        return f"inode:{os.fstat(handle).st_ino}"
    return f"{port.COOKIE}{int.from_bytes(cookie, sys.byteorder)}"


def looked_at(path: str, name: str) -> tuple[tuple[int, int], str]:
    """Return ((inode number, change time in nanoseconds), identity) of the namespace at `path`.

    Raise KernelError, mostly as NamespaceRefused, if it is none that `Kernel.inside` would enter.
    """
    handle = opened(path, name)
    try:
        refuse_own(handle, name)
        found = os.fstat(handle)
        with Visit(handle, name), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inside:
            return (found.st_ino, found.st_ctime_ns), identity(inside, handle)
    finally:
        os.close(handle)


class Visit:
    """A context in which the calling thread is in another network namespace, for a few system calls.

    A separate thread would take ten times as long. Returning is tried before leaving: a process that may leave its
    namespace but not come back (in a user namespace) gets a KernelError at the beginning. If returning fails at the
    end, the process aborts.
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
            os.abort()  # All that this thread did next would change another namespace's network.
        os.close(self._home)
