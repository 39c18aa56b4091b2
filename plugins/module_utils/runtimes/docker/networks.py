# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of Docker's networks, a file for each: dockerd passes them once, when the network is made.

    /var/lib/calico/docker/8ffb05...json    {"labels": {"tier": "back"}, "mtu": 1400}

Labels decide what policy applies to a container. So a network whose file is gone gets no containers: its options are
not known, which is not the same as none.
"""

from __future__ import annotations

import contextlib
import json
import os

from ...base.naming import is_mtu
from ...files import bounded, folders, replacement
from ...resources.errors import Refused
from ...resources.metadata import LABELS
from ..options import ContainerOptions
from .refusal import RefusedRequest

FOLDER = "/var/lib/calico/docker"
_SIZE_LIMIT = 1 << 20  # bytes of a file: dockerd's request had no more


class Networks:
    """The networks of the driver, by their ids of 64 hex digits, in `folder`."""

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder

    def save(self, id: str, options: ContainerOptions) -> None:
        """Store the options of a network on the disk. Raise RefusedRequest if the disk refuses."""
        data = json.dumps({"labels": dict(options.labels), "mtu": options.mtu}).encode("ascii")
        path = self._path(id)
        try:
            folders.make(self._folder, folders.PRIVATE, folders.PRIVATE)
            replacement.replace(path, data, 0o600)
        except OSError as error:
            raise RefusedRequest(
                f"The options of the network cannot be written to {path}: {error.strerror}. Make room there, or make"
                " the file system writable, and try again."
            ) from error

    def load(self, id: str) -> ContainerOptions:
        """Return the options of a network. Raise RefusedRequest if they are not known."""
        path = self._path(id)
        try:
            found = bounded.read_json(path, _SIZE_LIMIT)
            if not isinstance(found, dict) or not (found["mtu"] is None or is_mtu(found["mtu"])):
                raise ValueError("it is not one of the driver's")
            return ContainerOptions(LABELS.read(found["labels"]), found["mtu"])
        except OSError as error:
            reason = error.strerror or str(error)
        except (ValueError, KeyError, RecursionError, Refused):
            reason = "it is damaged"
        raise RefusedRequest(
            f"The options of this network are not known: {path}: {reason}. Without them its containers would lack"
            " labels that policy selects by. Remove the network and make it anew."
        )

    def remove(self, id: str) -> None:
        """Remove the options of a network, if they are there. Raise RefusedRequest if the disk refuses."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path(id))
        except OSError as error:
            raise RefusedRequest(
                f"{self._path(id)} cannot be removed: {error.strerror}. Make the file system writable, and try again."
            ) from error

    def _path(self, id: str) -> str:
        return os.path.join(self._folder, f"{id}.json")
