# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of the gate's program, which role calico_etcd brings to members: they need not be nodes of a fleet.

A member runs `python3 -I -B /usr/local/lib/calico-etcd/<digest>`. That file is a zip archive, which Python runs as it
is. It has __main__.py, and a folder module_utils with the modules that it imports.
"""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import zipfile

from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import replacement

_COLLECTION = pathlib.Path(__file__).absolute().parents[3]
_ENGINE = _COLLECTION / "plugins" / "module_utils"
_MAIN = _COLLECTION / "roles" / "calico_etcd" / "files" / "gate" / "__main__.py"
_GATE = ("buckets", "connections", "lists", "member", "places", "program", "quotas", "replays", "requests", "server")
#: The modules that the program imports, itself included.
_MODULES = (
    *("__init__", "base/__init__", "base/typed_json"),
    *(f"datastore/{name}" for name in ("__init__", "gateway", "keys", "transport", "gate/__init__")),
    *(f"datastore/gate/{name}" for name in (*_GATE, "stream", "tokens", "turns")),
)


def sources() -> dict[str, pathlib.Path]:
    """Return the paths of the sources on the controller, by their names in the archive."""
    return {"__main__.py": _MAIN, **{f"module_utils/{name}.py": _ENGINE / f"{name}.py" for name in _MODULES}}


def archive() -> bytes:
    """Return the program as a zip archive, the same for the same sources. Raise OSError if one cannot be read."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as program:
        for name, path in sources().items():
            entry = zipfile.ZipInfo(name)  # its time is always 1980
            entry.create_system = 3  # Unix, whatever the controller is
            program.writestr(entry, path.read_bytes())
    return packed.getvalue()


def packed() -> dict[str, str]:
    """Write the archive to the run's temporary folder on the controller, and return {"digest", "archive"} for JSON.

    The digest is 16 hex digits, the archive is a path. Raise OSError if that fails.
    """
    content = archive()
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = os.path.join(str(constants.DEFAULT_LOCAL_TMP), f"gate-{digest}")
    replacement.replace(path, content, 0o644, sync=False)
    return {"digest": digest, "archive": path}
