# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The sources of the gate's program, which role calico_etcd brings to members: they need not be nodes of a fleet.

A member runs `python3 -I -B /usr/local/lib/calico-etcd/<digest>`. That folder has __main__.py, and a folder
module_utils with the modules that it imports.
"""

from __future__ import annotations

import hashlib
import pathlib
import typing as t

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
    """Return the paths of the sources on the controller, by their names in the program's folder."""
    return {"__main__.py": _MAIN, **{f"module_utils/{name}.py": _ENGINE / f"{name}.py" for name in _MODULES}}


def listed() -> dict[str, t.Any]:
    """Return {"digest": 16 hex digits, "files": [{"name", "source"}]} for JSON. Raise OSError if that fails."""
    found, digest = sources(), hashlib.sha256()
    for name, path in found.items():
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    files = [{"name": name, "source": str(path)} for name, path in found.items()]
    return {"digest": digest.hexdigest()[:16], "files": files}
