# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of Docker's API by its socket, which podman speaks too. It only reads, and what it reads is bounded."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import typing as t
import urllib.parse

from ...base.typed_json import Unreadable, by_name, items, matching, maybe, maybe_table, open_table, parse, text

#: Seconds for an answer. A container that is being started answers once it runs.
PATIENCE = 60.0
#: The most bytes of the answer about one container, of the list of all, and of one event.
CONTAINER_LIMIT, LIST_LIMIT, EVENT_LIMIT = 4 << 20, 64 << 20, 1 << 20
_CHUNK = 64 << 10

_ID = matching(re.compile(r"[0-9a-f]{64}"), "an id of 64 hex digits")
#: Labels may be of any size: they are chosen later.
_ANY = text(CONTAINER_LIMIT)
_NETWORK = maybe_table({"EndpointID": maybe(text(), "")})
_CONTAINER = open_table(
    {"Name": text(), "Config": maybe_table({"Labels": maybe(by_name(_ANY, name=_ANY), {})})},
    {"NetworkSettings": maybe_table({"Networks": maybe(by_name(_NETWORK), {})})},
)
_LISTED = items(open_table({"Id": _ID}))
_EVENT = open_table(
    {"Type": text(), "Actor": maybe_table({"ID": text(), "Attributes": maybe(by_name(_ANY, name=_ANY), {})})}
)
_FILTERS = {"type": ["container", "network"], "event": ["connect", "rename"]}


class EngineError(Exception):
    """The error that a runtime does not answer as it should."""


class Inspected(t.NamedTuple):
    """A container as its runtime knows it: its name, its labels, and Docker's ids of its interfaces."""

    name: str
    labels: t.Mapping[str, str]
    endpoints: t.Sequence[str]


class EngineApi:
    """The API at the Unix socket `path`. Each request has a connection of its own."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self._path = path
        self._patience = patience

    def containers(self) -> list[str]:
        """Return the ids of the running containers. Raise EngineError, or OSError if nobody listens."""
        return [entry["Id"] for entry in _read(_LISTED, self._get("/containers/json", LIST_LIMIT))]

    def inspect(self, id: str) -> t.Optional[Inspected]:
        """Return the container of this id, None if there is none. Raise EngineError, or OSError if nobody listens."""
        content = self._get(f"/containers/{id}/json", CONTAINER_LIMIT)
        if content is None:
            return None
        return container_in(content)

    def changed(self) -> t.Iterator[str]:
        """Yield "" once events are received, then the id of each container that joins a network or is renamed.

        It ends when the runtime closes the connection. An event that cannot be read is skipped. Raise EngineError, or
        OSError if nobody listens.
        """
        filters = urllib.parse.quote(json.dumps(_FILTERS))
        with self._answer(f"/events?filters={filters}", None) as answer:
            yield ""
            for line in _lines(answer):
                id = changed_in(line)
                if id:
                    yield id

    def _get(self, path: str, limit: int) -> t.Optional[bytes]:
        with self._answer(path, self._patience) as answer:
            if answer.status == http.HTTPStatus.NOT_FOUND:
                return None
            content = answer.read(limit + 1)
            if len(content) > limit:
                raise EngineError(f"{self._path} answers {path} with more than {limit} bytes")
            return content

    @contextlib.contextmanager
    def _answer(self, path: str, patience: t.Optional[float]) -> t.Iterator[http.client.HTTPResponse]:
        connection = _Connection(self._path, self._patience)
        try:
            connection.connect()
            connection.request("GET", path)
            answer = connection.getresponse()
            if answer.status not in (http.HTTPStatus.OK, http.HTTPStatus.NOT_FOUND):
                raise EngineError(f"{self._path} answers {path} with the status {answer.status}")
            connection.own.settimeout(patience)
            with contextlib.closing(answer):
                yield answer
        except http.client.HTTPException as error:
            raise EngineError(f"{self._path} answers {path} with no HTTP: {type(error).__name__}") from error
        finally:
            connection.close()


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path
        # The connection forgets its socket when an answer ends with it.
        self.own = self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def connect(self) -> None:
        self.own.settimeout(self.timeout)
        self.own.connect(self._path)


def _read(reader: t.Callable[[t.Any], t.Any], content: t.Optional[bytes]) -> t.Any:
    try:
        return reader(parse(content or b"null"))
    except (Unreadable, ValueError) as error:
        raise EngineError(f"its answer cannot be read: {error}") from None


def container_in(content: bytes) -> Inspected:
    """Return the container in an answer of the API. Raise EngineError if it is none."""
    found = _read(_CONTAINER, content)
    networks = found.get("NetworkSettings", {"Networks": {}})["Networks"]
    endpoints = [network["EndpointID"] for network in networks.values() if network["EndpointID"]]
    return Inspected(found["Name"].lstrip("/"), found["Config"]["Labels"], endpoints)


def changed_in(line: bytes) -> str:
    """Return the id of the container that an event is about, "" if it cannot be read."""
    try:
        event = _EVENT(parse(line, once=False))
        actor = event["Actor"]
        return _ID(actor["ID"] if event["Type"] == "container" else actor["Attributes"].get("container"))
    except (Unreadable, ValueError):
        return ""


def _lines(answer: http.client.HTTPResponse) -> t.Iterator[bytes]:
    """Yield the lines of an answer that does not end. One that is too long is left out."""
    while line := answer.readline(EVENT_LIMIT):
        whole = line.endswith(b"\n")
        while line and not line.endswith(b"\n"):
            line = answer.readline(_CHUNK)
            whole = False
        if whole:
            yield line
