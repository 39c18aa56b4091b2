# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of an etcd cluster, for a host of the lab: a key every 50 ms, by another member after a failure.

    python3 etcd_writer.py USER URL... < PASSWORD

It writes until its stdin ends, which comes after the first line, and then prints JSON: the number of `written` keys, of
those that took a second member or attempt (`retried`), and of those that failed for PATIENCE seconds (`failed`), with
the `longest` time of a write. The standard library alone is used, so that no code of the collection is tried by itself.
"""

from __future__ import annotations

import base64
import http.client
import json
import select
import ssl
import sys
import time
import urllib.parse
from typing import Any

PATIENCE = 10.0
INTERVAL = 0.05
FOLDER = "/etc/calico-etcd"


class Refused(Exception):
    pass


class Member:
    """One member, by a connection that is kept. The files of TLS are read again for each connection."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url = urllib.parse.urlsplit(url)
        self.user, self.password = user, password
        self.connection: http.client.HTTPSConnection | None = None
        self.token = ""

    def put(self, key: str, value: str) -> None:
        if self.connection is None:
            tls = ssl.create_default_context(cafile=f"{FOLDER}/ca.pem")
            tls.load_cert_chain(f"{FOLDER}/client.pem")
            self.connection = http.client.HTTPSConnection(
                self.url.hostname or "", self.url.port, timeout=2, context=tls
            )
            self.token = self.ask("/v3/auth/authenticate", {"name": self.user, "password": self.password})["token"]
        body = {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}
        self.ask("/v3/kv/put", body)

    def ask(self, path: str, body: dict[str, str]) -> dict[str, Any]:
        assert self.connection is not None
        headers = {"Authorization": self.token} if self.token else {}
        self.connection.request("POST", path, json.dumps(body), headers)
        response = self.connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise Refused(f"{response.status} {data[:200]!r}")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def forget(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection, self.token = None, ""


def main() -> None:
    password = sys.stdin.readline().rstrip("\n")
    members = [Member(url, sys.argv[1], password) for url in sys.argv[2:]]
    found: dict[str, Any] = {"written": 0, "retried": 0, "failed": 0, "longest": 0.0, "reasons": []}
    number = 0
    while not select.select([sys.stdin], [], [], INTERVAL)[0]:
        number += 1
        began, attempts = time.monotonic(), 0
        while True:
            try:
                attempts += 1
                members[0].put(f"/test/{number % 500}", str(number))
                found["written"] += 1
                found["retried"] += attempts > 1
                break
            except (OSError, http.client.HTTPException, Refused) as error:
                found["reasons"] = [*found["reasons"], f"{members[0].url.hostname}: {error}"][-20:]
                members[0].forget()
                members.append(members.pop(0))
                if time.monotonic() - began > PATIENCE:
                    found["failed"] += 1
                    break
                time.sleep(0.05)
        found["longest"] = max(found["longest"], time.monotonic() - began)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
