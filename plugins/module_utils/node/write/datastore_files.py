# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which a node reaches the datastore. Only root may read them.

No state and no generation holds them, because they have a key and a password: a node that returns to an older state
keeps the files that it has. The agent notices a new file of settings by itself, so it is written last and removed
first.
"""

from __future__ import annotations

import base64
import json
import typing as t

from ...base.typed_json import parse, secret, table
from ...dataplane.change import Change
from ...dataplane.drivers import file

if t.TYPE_CHECKING:
    from ..machine import Machine

#: The files by name, in the order in which they are written.
PATHS: t.Mapping[str, str] = {
    "ca": "/etc/calico/etcd/ca.pem",
    "certificate": "/etc/calico/etcd/client.pem",
    "key": "/etc/calico/etcd/client.key",
    "settings": "/etc/calico/datastore.json",
}
MODE = 0o600
#: What `pack` returns for no files.
NONE = "none"
#: The most characters of one file.
_LIMIT = 1 << 20
_CONTENTS = table({}, {name: secret(_LIMIT) for name in PATHS})


class DatastoreFiles(t.Mapping[str, str]):
    """The contents of files by their names in PATHS. The repr has the names alone."""

    def __init__(self, contents: t.Mapping[str, str]) -> None:
        self._contents = dict(contents)

    def __getitem__(self, name: str) -> str:
        return self._contents[name]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._contents)

    def __len__(self) -> int:
        return len(self._contents)

    def __repr__(self) -> str:
        return f"DatastoreFiles({', '.join(self)})"


def pack(contents: t.Mapping[str, str]) -> str:
    """Return the files as one opaque base64 text, in which a module receives them; NONE for no files."""
    if not contents:
        return NONE
    return base64.b64encode(json.dumps(dict(contents), sort_keys=True).encode()).decode()


def unpack(packed: t.Optional[str]) -> t.Optional[DatastoreFiles]:
    """Return the files that `pack` packed, none for NONE, and None for None or "": the node's files stay as they are.

    Raise ValueError, whose text does not contain `packed`, if `packed` is not such a text.
    """
    if not packed:
        return None
    if packed == NONE:
        return DatastoreFiles({})
    try:
        return DatastoreFiles(_CONTENTS(parse(base64.b64decode(packed, validate=True))))
    except ValueError:
        raise ValueError(
            "the files of the datastore that arrived cannot be read. The module's action fills them in."
        ) from None


def plan(machine: Machine, wanted: t.Optional[t.Mapping[str, str]]) -> list[Change]:
    """Return the changes, without contents, that give the node these files and no others of PATHS; none for None."""
    if wanted is None:
        return []
    here = {name: machine.placed(path) for name, path in PATHS.items()}
    gone = [file.WantedFile(here[name], None, secret=True) for name in reversed(list(PATHS)) if name not in wanted]
    files = [file.WantedFile(here[name], wanted[name], MODE, secret=True) for name in PATHS if name in wanted]
    changes = file.changes([*gone, *files])
    return [change._replace(note="another content") if change.before == change.after else change for change in changes]


def removal(machine: Machine) -> list[file.WantedFile]:
    """Return the files as the driver of files has to remove them, the settings first."""
    return [file.WantedFile(machine.placed(path), None, secret=True) for path in reversed(list(PATHS.values()))]
