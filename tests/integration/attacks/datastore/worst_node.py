# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stolen node at its worst, as a process of its own: python worst_node.py SETTINGS SECONDS.

SETTINGS is JSON with the node's user and password, the files of TLS and the members or gates. Each thread repeats one
thing as fast as it is answered, at each member in turn. What is refused is tried again. It prints how often each thread
was answered with status 200, and how many bytes of history each thread that watches was sent.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.client
import itertools
import json
import ssl
import sys
import threading
import time
import typing as t

Json = t.Any
#: Bytes that are read at once of a watch, and seconds without any until it is taken for whole.
PART, QUIET = 64 << 10, 3.0
ENDPOINTS, HEARTBEATS = "/host-routing/v1/endpoints/", "/host-routing/v1/heartbeats/"


def text(data: str) -> str:
    return base64.b64encode(data.encode()).decode()


class Attacker:
    """The node's requests; `counts` are the answers with status 200, by what was done."""

    def __init__(self, settings: Json, seconds: float) -> None:
        self._settings, self._end = settings, time.monotonic() + seconds
        self.counts: dict[str, int] = {}
        self._tokens: dict[str, str] = {}
        self._asking = threading.Lock()
        node = settings["user"]
        self._own, self._beats = f"{ENDPOINTS}{node}/", f"{HEARTBEATS}{node}/"

    def run(self) -> None:
        """Do everything at once until the time is over."""
        document = json.dumps({"name": "x", "labels": {f"l{number}": "v" * 63 for number in range(64)}})
        things: dict[str, t.Iterator[tuple[str, Json]]] = {
            "one": itertools.repeat(self._put(f"{self._own}cali1", document)),
            "beats": itertools.repeat(self._put(f"{self._beats}agent", "x" * 8_000)),
            "large": (self._put(f"{self._own}cali{number}", "x" * 60_000) for number in itertools.count()),
            "huge": (self._put(f"{self._own}huge{number}", "x" * 700_000) for number in itertools.count()),
            "junk": (self._put(f"{self._beats}junk{number}", "x" * 500_000) for number in itertools.count()),
            "many": (
                ("/v3/kv/txn", {"success": [self._operation(f"{self._own}c{part}x{n}", "{}") for n in range(100)]})
                for part in itertools.count()
            ),
            "ranges": itertools.repeat(("/v3/kv/range", self._everything())),
            "sorted": itertools.repeat(
                ("/v3/kv/range", {**self._everything(), "limit": 1, "sort_order": "DESCEND", "sort_target": "MOD"})
            ),
            "transactions": itertools.repeat(
                ("/v3/kv/txn", {"success": [{"request_range": self._everything()} for dummy in range(128)]})
            ),
            "names": itertools.repeat(
                ("/v3/kv/txn", {"success": [{"request_range": {"key": text(f"{self._own}cali1")}}] * 64})
            ),
        }
        ways = {name: functools.partial(self._at, name, asked) for name, asked in things.items()}
        for name, pause in (("replays", 0.0), ("stalled", 1.0), ("slow", 0.05)):
            ways[name] = functools.partial(self._watch, name, [1 << 20], pause)
        threads = [threading.Thread(target=self._repeat, args=way) for way in ways.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @staticmethod
    def _everything() -> Json:
        return {"key": text("/host-routing/v1/blocks/"), "range_end": text("/host-routing/v1/endpoints0")}

    @staticmethod
    def _operation(key: str, value: str) -> Json:
        return {"request_put": {"key": text(key), "value": text(value)}}

    def _put(self, key: str, value: str) -> tuple[str, Json]:
        return "/v3/kv/txn", {"success": [self._operation(key, value)]}

    def _repeat(self, name: str, way: t.Callable[[str], None]) -> None:
        self.counts[name] = 0
        for url in itertools.cycle(self._settings["endpoints"]):
            if time.monotonic() > self._end:
                return
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                way(url)
            time.sleep(0.05)

    @contextlib.contextmanager
    def _connected(self, url: str) -> t.Iterator[tuple[http.client.HTTPSConnection, str]]:
        """Yield a connection to a member, and the token that it gave."""
        tls = ssl.create_default_context(cafile=self._settings["ca"])
        tls.load_cert_chain(self._settings["certificate"], self._settings["key"])
        host, port = url[8:].split(":")
        connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=20)
        with contextlib.closing(connection):
            with self._asking:
                if url not in self._tokens:
                    body = {"name": self._settings["user"], "password": self._settings["password"]}
                    self._tokens[url] = self._call(connection, "/v3/auth/authenticate", body, "")[1]["token"]
            yield connection, self._tokens[url]

    def _at(self, name: str, asked: t.Iterator[tuple[str, Json]], url: str) -> None:
        """Ask one member until it refuses the connection or the token, or the time is over."""
        with self._connected(url) as (connection, token):
            for number, (path, body) in enumerate(asked):
                status = self._call(connection, path, body, token)[0]
                self.counts[name] += status == 200
                if status == 401:
                    self._tokens.pop(url, None)
                if time.monotonic() > self._end or status == 401 or number == 1_000:
                    return
                if status != 200:
                    time.sleep(0.01)

    def _watch(self, name: str, back: list[int], pause: float, url: str) -> None:
        """Watch from as many revisions `back` as are not refused, and read a part of what is sent in each `pause`."""
        with self._connected(url) as (connection, token):
            body = {"key": text(f"{self._own}cali1"), "count_only": True}
            newest = int(self._call(connection, "/v3/kv/range", body, token)[1]["header"]["revision"])
            begin = {**self._everything(), "start_revision": str(max(1, newest - back[0]))}
            connection.request("POST", "/v3/watch", json.dumps({"create_request": begin}), {"Authorization": token})
            assert connection.sock is not None
            connection.sock.settimeout(QUIET)
            answer, found = connection.getresponse(), 0
            if answer.status != 200:
                time.sleep(1.0)
                return
            with contextlib.suppress(OSError):
                while time.monotonic() < self._end and (part := answer.read1(PART)):
                    if not found and b"canceled" in part:
                        back[0] //= 2
                        return
                    found += len(part)
                    time.sleep(pause)
            self.counts[name] += found
            back[0] = min(1 << 20, back[0] * 2 + 1)

    @staticmethod
    def _call(connection: http.client.HTTPSConnection, path: str, body: Json, token: str) -> tuple[int, Json]:
        connection.request("POST", path, json.dumps(body), {"Authorization": token} if token else {})
        answer = connection.getresponse()
        data = answer.read()
        return answer.status, json.loads(data) if path.endswith("authenticate") or "count_only" in body else None


if __name__ == "__main__":
    attacker = Attacker(json.loads(sys.argv[1]), float(sys.argv[2]))
    attacker.run()
    print(json.dumps(attacker.counts))
