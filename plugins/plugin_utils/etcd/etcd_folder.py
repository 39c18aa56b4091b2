# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder .calico.etcd beside the inventory: the authorities of an etcd cluster, its certificates and passwords.

Only its owner may read it. It has a .gitignore, so that its keys are not committed by accident.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import matching, open_table, parse
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded, folders, replacement
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

NAME = ".calico.etcd"
#: The certificates that a client trusts.
TRUSTED = "ca.pem"
CLIENT_CERTIFICATE = "client.pem"
CLIENT_KEY = "client.key"
#: The fingerprints of certificates that gates refuse, one in a line.
REVOKED = "revoked.txt"
SECRETS = "secrets.json"
#: The folder with a folder of each operator.
OPERATORS = "operators"
#: The most bytes of a file.
_SIZE_LIMIT = 1 << 20
#: The most characters of a user or password, as of etcd's own users.
_TEXT_LIMIT = 256
_FILLED = matching(re.compile(f".{{1,{_TEXT_LIMIT}}}", re.DOTALL), "a text")
#: The reader of secrets.json, whose other fields others read.
_SECRETS = open_table({"username": _FILLED, "password": _FILLED})
_IGNORED = "# Keys and passwords: keep them out of version control.\n*\n"
_READABLE = "See that it is a file that you can read, or restore it from a backup."


def of_node(node: str) -> str:
    """Return the name of the file with a node's certificate, its key, and its certificates before that."""
    return f"nodes/{node}.pem"


def of_operator(name: str, file: str = "issued.pem") -> str:
    """Return the name of a file of an operator: without `file`, its certificate, its key, and certificates before."""
    return f"{OPERATORS}/{name}/{file}"


class EtcdFolder:
    """The folder at `path`. Its files have mode 0600.

    A member's are in members/NAME, those of nodes in nodes, and an operator's in operators/NAME.
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def where(self, name: str) -> str:
        """Return the path of a file."""
        return os.path.join(self.path, name)

    def read(self, name: str) -> t.Optional[bytes]:
        """Return a file's content, None without one. Raise FleetError if it is unreadable, too large or not private."""
        path = self.where(name)
        try:
            content, mode = bounded.read_with_mode(path, _SIZE_LIMIT)
        except FileNotFoundError:
            return None
        except bounded.TooLarge:
            raise FleetError("etcd's file", path, f"has more than {_SIZE_LIMIT} bytes.", _READABLE) from None
        except OSError as error:
            raise FleetError("etcd's file", path, f"cannot be read: {error.strerror}.", _READABLE) from error
        if mode & 0o077:
            raise FleetError(
                "etcd's file",
                path,
                f"may be read by others: its mode is {mode:04o}.",
                f"If nobody else knows it, run chmod 600 {path}. Otherwise remove it, and the next run makes "
                "another one.",
            )
        return content

    def write(self, name: str, content: bytes) -> None:
        """Replace a file as a whole, on the disk, and make its folder. Raise FleetError if that fails.

        The old file then stays, unless only the folder could not be synced.
        """
        path = self.where(name)
        try:
            self._make(os.path.dirname(path))
            replacement.replace(path, content, 0o600)
        except OSError as error:
            raise FleetError(
                "etcd's file",
                path,
                f"cannot be written: {error.strerror}.",
                f"No host was touched. Make the folder {self.path} writable.",
            ) from error

    def remove(self, name: str) -> None:
        """Remove a file if it exists. Raise FleetError if that fails."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.where(name))
        except OSError as error:
            raise FleetError(
                "etcd's file",
                self.where(name),
                f"cannot be removed: {error.strerror}.",
                f"No host was touched. Make the folder {self.path} writable.",
            ) from error

    def operators(self) -> list[str]:
        """Return the sorted names of the folders of operators. Raise FleetError if they cannot be listed."""
        try:
            with os.scandir(self.where(OPERATORS)) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise FleetError(
                "etcd's folder", self.where(OPERATORS), f"cannot be read: {error.strerror}.", _READABLE
            ) from error

    def remove_operator(self, name: str, files: t.Iterable[str]) -> None:
        """Remove these files of an operator, and its folder if that is empty then. Raise FleetError if that fails."""
        for file in files:
            self.remove(of_operator(name, file))
        with contextlib.suppress(OSError):  # The folder has other files, or does not exist.
            os.rmdir(os.path.dirname(self.where(of_operator(name))))

    def _make(self, folder: str) -> None:
        """Make the folder with its .gitignore, and `folder` in it. Raise OSError."""
        folders.make(self.path, folders.PRIVATE)
        os.chmod(self.path, 0o700)
        below = self.path
        for part in os.path.relpath(folder, self.path).split(os.sep):
            below = os.path.join(below, part)
            folders.make(below, folders.PRIVATE)
        ignored = self.where(".gitignore")
        if not os.path.exists(ignored):
            replacement.replace(ignored, _IGNORED.encode(), 0o644)


def folder_of(task_vars: t.Mapping[str, t.Any]) -> EtcdFolder:
    """Return the folder beside the inventory. Raise FleetError if the inventory has no folder."""
    folder = task_vars.get("inventory_dir")
    if not folder:
        raise FleetError(
            "the inventory",
            None,
            f"has no folder to keep {NAME} in, with the keys of the etcd cluster.",
            "Use an inventory that is a file or a folder.",
        )
    return EtcdFolder(os.path.join(str(folder), NAME))


def make_empty(path: str) -> None:
    """Make an empty file, and its folder, that its owner alone may read. Raise FleetError if that fails."""
    try:
        folders.make(os.path.dirname(path), folders.PRIVATE)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    except OSError as error:
        raise FleetError(
            "the snapshot's file", path, f"cannot be written: {error.strerror}.", "Name another one: -e to=PATH."
        ) from error


def new_secrets() -> bytes:
    """Return the content of secrets.json for a new cluster: the user root, and what nodes' passwords derive from."""
    made = {"username": "root", "password": secrets.token_urlsafe(32), "node_secret": secrets.token_hex(32)}
    return f"{json.dumps(made, indent=2)}\n".encode()


def credentials_in(content: bytes, path: str) -> Credentials:
    """Return the operator's user in the content of secrets.json. Raise FleetError if there is none."""
    try:
        found = _SECRETS(parse(content))
        return Credentials(found["username"], found["password"])
    except ValueError:
        raise FleetError(
            "etcd's file",
            path,
            "has no username and password.",
            "Restore it from a backup. Without the password the users of the cluster cannot be changed.",
        ) from None


def credentials(
    folder: EtcdFolder, variables: t.Mapping[str, t.Any], evaluate: t.Callable[[t.Any], t.Any]
) -> t.Optional[Credentials]:
    """Return the operator's user: calico_etcd_username and calico_etcd_password, or those of secrets.json.

    Return None if there is neither. Raise FleetError if the file or a variable cannot be used.
    """
    password = evaluate(variables.get("calico_etcd_password") or "")
    user = evaluate(variables.get("calico_etcd_username") or "root")
    if password:
        for name, value in (("calico_etcd_username", user), ("calico_etcd_password", password)):
            if not isinstance(value, str) or len(value) > _TEXT_LIMIT:
                raise FleetError(name, None, f"is no text of 1 to {_TEXT_LIMIT} characters.", "Correct it.")
        return Credentials(str(user), str(password))
    content = folder.read(SECRETS)
    return credentials_in(content, folder.where(SECRETS)) if content is not None else None
