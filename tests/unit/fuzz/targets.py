# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of bytes that others send, each as a function of any bytes that raises nothing.

What a reader documents that it raises is an answer. Any other exception is a fault of the reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base import container_labels, packed_json
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import status
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.render.document_text import (
    NotReadable,
    documents_of,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel import (
    conntrack,
    ipset_contents,
    nflog,
    packet_headers,
    rtnetlink,
    ruleset_changes,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, gateway, heartbeats
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import requests, server
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import DocumentKey, EndpointKey
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    change_answer,
    history,
    live_documents,
    open_change,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import (
    live_policy,
    stored_policy,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.transport import (
    MemberConnection,
    TransportError,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.documents.merging import merged
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_sources import Document
from ansible_collections.baremetal.host_routing.plugins.module_utils.ipam import lockfile
from ansible_collections.baremetal.host_routing.plugins.module_utils.pathwatch import payload
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import policy_set
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.cni.dispatch import CniPlugin
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.driver import DockerDriver
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.networks import Networks
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.netavark.dispatch import NetavarkPlugin
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.reporter import engine_api
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_state import PolicySettings
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire import (
    container_description,
    protocol,
    shim_framing,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.plugin_errors import CniError
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.request import read_params

#: What the plugins and the driver say of their own faults.
_FAULT = b"error in its code"


class _Told(rtnetlink.Channel):
    """A netlink channel whose kernel answers each dump with these messages, each with any number of bytes."""

    def __init__(self, data: bytes) -> None:
        ours, self._kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(lambda: ours)
        self._data = data
        self._said = False

    def _send(self, data: bytes, operation: str) -> None:
        self._open()
        self._said = False

    def _receive(self, operation: str) -> bytes:
        if self._said:
            return struct.pack("=IHHIIi", 20, 3, 0, self._sequence, 0, 0)  # NLMSG_DONE
        self._said = True
        return struct.pack("=IHHII", 16 + len(self._data), 16, 2, self._sequence, 0) + self._data

    def end(self) -> None:
        self._open().close()
        self._kernel.close()


def _netlink(read: t.Callable[[rtnetlink.Channel], t.Any]) -> t.Callable[[bytes], None]:
    def target(data: bytes) -> None:
        channel = _Told(data)
        try:
            with contextlib.suppress(KernelError):
                read(channel)
        finally:
            channel.end()

    return target


def _each(read: t.Callable[[bytes], t.Iterable[t.Any]]) -> t.Callable[[bytes], None]:
    def target(data: bytes) -> None:
        for dummy in read(data):
            pass

    return target


def _but_for(read: t.Callable[[bytes], t.Any], *refusals: type[Exception]) -> t.Callable[[bytes], None]:
    def target(data: bytes) -> None:
        with contextlib.suppress(*refusals):
            read(data)

    return target


def _notifications(data: bytes) -> None:
    """Read notifications of nftables from a socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    changes = ruleset_changes.RulesetChanges(lambda: ours, lambda: 1)
    with ours, theirs:
        changes.between(1, 1)
        theirs.send(data[:60_000] or b"\0")
        changes.between(1, 2)


class _Refusing:
    """An agent that refuses whatever it is asked for."""

    def __getattr__(self, name: str) -> t.Any:
        raise protocol.AgentError(protocol.CONFLICT, "it refuses everything. Ask another one.")

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]:
        raise protocol.AgentError(protocol.CONFLICT, "it refuses everything. Ask another one.")


def _shim(plugin: t.Any) -> t.Callable[[bytes], None]:
    """Return the reader of a request without its greeting: the environment, an empty line, what the runtime wrote."""

    def target(data: bytes) -> None:
        try:
            environment, stdin = shim_framing.parse(data)
        except CniError:
            return
        code, output = asyncio.run(plugin.handle(environment, stdin))
        assert _FAULT not in output, output
        if code:
            json.loads(output)

    return target


def _docker(data: bytes) -> None:
    """Read the path of a request, a newline and its body."""
    path, dummy, body = data.partition(b"\n")
    driver = DockerDriver(_Refusing, Networks("/proc/nowhere"), patience=0.0)
    code, answer = driver.answer(path.decode("latin-1"), body)
    assert code != 500, answer
    json.dumps(answer)


def _etcd_answer(data: bytes) -> None:
    """Read whatever a member may answer to a request."""
    for read in (
        gateway.page_of,
        gateway.history_of,
        gateway.deleted_of,
        gateway.succeeded,
        gateway.status_of,
        gateway.release_of,
        gateway.token_of,
        gateway.header_of,
        lambda body: gateway.counts_of(body, 2),
        lambda body: gateway.values_of(body, ["/host-routing/v1/a"]),
    ):
        with contextlib.suppress(gateway.EtcdError):
            read(gateway.decode(data))
    assert isinstance(gateway.error_of(500, data), gateway.EtcdError)


def _watch_answer(data: bytes) -> None:
    with contextlib.suppress(gateway.EtcdError):
        answer = gateway.watch_answer_of(data)
        gateway.cancellation_of(answer)


def _http_answer(data: bytes) -> None:
    """Read the head and the body of what a member answers."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(data)
        reader.feed_eof()
        connection = MemberConnection(reader, t.cast(asyncio.StreamWriter, None))
        with contextlib.suppress(TransportError):
            dummy, header = await connection._head()
            await connection.body(header)

    asyncio.run(read())


def _gate_request(data: bytes) -> None:
    """Read the path of a call, a newline and its body, as the gate before a member does."""
    path, dummy, body = data.partition(b"\n")
    with contextlib.suppress(requests.RequestNotPassed):
        passed = requests.passed(path.decode("latin-1"), body)
        if path == b"/v3/kv/txn":
            requests.check_writes(requests.writes(passed), "node1")
        if path == b"/v3/watch":
            requests.starts_at(passed)


def _lockfile(data: bytes) -> None:
    with contextlib.suppress(lockfile.LockfileError):
        lockfile.load(data.decode("utf-8", "replace"))


def _resource_file(data: bytes) -> None:
    with contextlib.suppress(NotReadable):
        found = [
            Document(content, "r.yml", line) for content, line in documents_of(data.decode("utf-8", "replace"), "r")
        ]
        hosts = merged([Host("node1", {"calico_node_address": "10.10.1.11/24"})], found)
        with contextlib.suppress(FleetError):
            inventory.read(hosts.hosts, hosts.policies)


_KEY = EndpointKey("node2", "cali1")


#: {name of a folder of the corpus: the function that reads any bytes}
def _live_document(data: bytes) -> None:
    """Read bytes as the value of a live policy: as nodes do, and as a run does for its plan."""
    live_policy.review(_PUBLISHED.values, _PUBLISHED, {_DOCUMENT: data})
    with contextlib.suppress(documents.RefusedDocument):
        resource = live_documents.decode(_DOCUMENT, data)
        assert live_documents.decode(_DOCUMENT, live_documents.encode(resource.to_document())) == resource
        live_documents.value_of(resource)


_DOCUMENT = DocumentKey("GlobalNetworkPolicy", "", "web")
_PUBLISHED = live_policy.of_inventory(policy_set(), PolicySettings(live=True))


def _container(data: bytes) -> None:
    """Read bytes as a runtime's answer, as its event, and as what the reporter says of it."""
    engine_api.changed_in(data)
    with contextlib.suppress(engine_api.EngineError):
        found = engine_api.container_in(data)
        labels, dummy = container_labels.chosen(found.labels, ("example.org/",))
        assert all(container_labels.is_label(*label) for label in labels.items())
    with contextlib.suppress(ValueError, protocol.AgentError):
        params = read_params("containers.describe", container_description.READS, json.loads(data))
        container_description.ContainerDescription.from_params(params, ("example.org/",))


def _stored_policy(data: bytes) -> None:
    """Read bytes as the policy in a state that a node says that it has stored."""
    packed = packed_json.pack_text(data.decode("utf-8", "replace"))
    stored_policy.read({"node1": "a"}, {"node1": packed}, True)


TARGETS: dict[str, t.Callable[[bytes], None]] = {
    "birdc": lambda data: _but_for(status.parse_sessions)(data.decode("utf-8", "replace")),  # type: ignore[arg-type]
    "blocks": _but_for(documents.decode_blocks, documents.RefusedDocument),
    "cni": _shim(CniPlugin(_Refusing())),  # type: ignore[arg-type]
    "container": _container,
    "connections": _netlink(lambda channel: list(conntrack.connections(channel))),
    "docker": _docker,
    "endpoint": _but_for(lambda data: documents.decode_endpoint(_KEY, data, None, True), documents.RefusedDocument),
    "etcd_answer": _etcd_answer,
    "gate_head": _but_for(server._head, ValueError),
    "gate_request": _gate_request,
    "heartbeat": _but_for(lambda data: heartbeats.decode("node2", data), documents.RefusedDocument),
    "http_answer": _http_answer,
    "live_answer": _but_for(lambda data: change_answer.decode("node2", "1f", data), documents.RefusedDocument),
    "live_change": _but_for(open_change.decode, documents.RefusedDocument),
    "live_document": _live_document,
    "live_heartbeat": _but_for(lambda data: policy_heartbeat.decode("node2", data), documents.RefusedDocument),
    "live_history": _but_for(history.decode, documents.RefusedDocument),
    "links": _netlink(rtnetlink.dump_links),
    "lockfile": _lockfile,
    "netavark": _shim(NetavarkPlugin(_Refusing())),  # type: ignore[arg-type]
    "nflog": _each(nflog.records),
    "nftables": _notifications,
    "packet": packet_headers.flow,
    "probe": payload.decode,
    "resource_file": _resource_file,
    "routes": _netlink(lambda channel: rtnetlink.dump_routes(channel, {})),  # type: ignore[arg-type]
    "rules": _netlink(rtnetlink.dump_rules),
    "set_headers": _netlink(lambda channel: ipset_contents.headers(channel, {})),
    "set_members": _netlink(lambda channel: ipset_contents.members(channel, "cali40s:web")),
    "stored_policy": _stored_policy,
    "watch_answer": _watch_answer,
}
