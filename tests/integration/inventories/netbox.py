# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection netbox.netbox, and an HTTP server on loopback that answers like the API of a NetBox.

The answers, by path and query, are in netbox_answers.json. They have the form that NetBox 4.4 documents.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import typing as t
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
ANSWERS = pathlib.Path(__file__).with_name("netbox_answers.json")
TOKEN = "0123456789abcdef0123456789abcdef01234567"
DEVICES = "/api/dcim/devices/?limit=0&status=active&has_primary_ip=true&tag=calico&exclude=config_context"

#: Collections are not on PyPI, but the package that bundles them is. This release is for ansible-core 2.19.
BUNDLE = "ansible==12.3.0"
PYTZ = "pytz==2026.6"  # which the inventory plugin imports

Answers = t.Dict[str, t.Any]


def collection() -> dict[str, str]:
    """Return the environment variables with which Ansible finds netbox.netbox and pytz beside this clone.

    Both are fetched at the first use, one process at a time. Raise CalledProcessError if pip fails.
    """
    tree = ROOT / ".build" / "netbox"
    tree.mkdir(parents=True, exist_ok=True)
    with open(f"{tree}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = tree / "complete"
        if not (complete.exists() and complete.read_text("utf-8") == BUNDLE + PYTZ):
            _fetch(tree)
            complete.write_text(BUNDLE + PYTZ, "utf-8")
    ours = ROOT / ".build" / "collections"
    return {"ANSIBLE_COLLECTIONS_PATH": f"{ours}:{tree}", "PYTHONPATH": str(tree / "python")}


def _fetch(tree: pathlib.Path) -> None:
    shutil.rmtree(tree)
    pip = (sys.executable, "-m", "pip", "--quiet", "--no-input")
    bundle = ("download", "--no-deps", "--only-binary=:all:", "--dest", str(tree / "wheel"), BUNDLE)
    subprocess.run([*pip, *bundle], check=True)
    subprocess.run([*pip, "install", "--no-deps", "--target", str(tree / "python"), PYTZ], check=True)
    with zipfile.ZipFile(next((tree / "wheel").glob("*.whl"))) as wheel:
        ours = [name for name in wheel.namelist() if name.startswith("ansible_collections/netbox/")]
        wheel.extractall(tree, ours)
    shutil.rmtree(tree / "wheel")


def answers() -> Answers:
    """Return the recorded answers by path and query."""
    return t.cast(Answers, json.loads(ANSWERS.read_text("utf-8")))


@contextlib.contextmanager
def serving(recorded: Answers) -> t.Iterator[str]:
    """Serve the answers on loopback within the context, which gets the URL.

    A request without TOKEN is answered with 401, and one that is not in `recorded` with 404: the plugin fails for both.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.headers.get("Authorization") == f"Token {TOKEN}"
            status = 401 if not known else 200 if self.path in recorded else 404
            body = json.dumps(recorded[self.path] if status == 200 else {"detail": f"{status} for {self.path}"})
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *dummy: t.Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
