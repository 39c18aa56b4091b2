# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands setup and teardown: one container's interface on one network."""

from __future__ import annotations

import ipaddress
import typing as t

from ...base import naming
from ...base.addresses import GATEWAY, GATEWAY6, family_of, host
from ...base.published_port import LIMIT, InvalidPort, PublishedPort, published
from ...base.typed_json import items, maybe, maybe_table, sparse_table, whole
from ...state.attachment import AttachedWorkload
from ...wire.request import AddRequest
from ..attachment import CONTAINER_RULE, Attachment, AttachmentBackend, attach, detach, is_container_id, is_netns_path
from ..json_input import shown
from . import network, options
from .fields import ENTRIES_LIMIT, TEXT, TEXT_MAP, TEXTS, Document, NetavarkError, read
from .options import Options

#: The namespace of podman's workloads, which have none of their own.
_NAMESPACE = "default"
#: The reader of the fields that setup and teardown need.
_ATTACHMENT = maybe_table(
    {
        "container_id": TEXT,
        "network": maybe_table({"name": TEXT}),
        "network_options": maybe_table({"interface_name": TEXT}),
    }
)
_PORT = sparse_table(
    {"container_port": whole(), "host_port": whole(), "range": maybe(whole(), 0), "protocol": TEXT, "host_ip": TEXT}
)
#: The reader of the fields that setup alone needs.
_SETUP = maybe_table(
    {
        "container_name": TEXT,
        "network": network.NETWORK,
        "network_options": maybe_table({"options": TEXT_MAP, "static_ips": TEXTS, "static_mac": TEXT}),
        "port_mappings": maybe(items(_PORT, ENTRIES_LIMIT), []),
    }
)


def attachment(document: Document, netns: str = "") -> Attachment:
    """Return the attachment of a request. Raise NetavarkError if a part of them is wrong."""
    fields = read(_ATTACHMENT, document)
    name, container = fields["network"]["name"], fields["container_id"]
    network.check_name(name)
    if not is_container_id(container):
        raise NetavarkError(f"container_id {shown(container)} is not the id of a container", CONTAINER_RULE)
    ifname, where = fields["network_options"]["interface_name"], "network_options.interface_name"
    try:
        naming.check_device_name(ifname)
    except naming.NamingError as error:
        raise NetavarkError(f"{where} {shown(ifname)} cannot be the name of a device", error.remedy) from error
    if ifname == "lo":
        raise NetavarkError(f"{where} is lo, the container's own loopback", "Use another name, as eth0.")
    return Attachment(name, container, ifname, netns)


async def setup(agent: AttachmentBackend, where: Attachment, document: Document) -> dict[str, t.Any]:
    """Attach a container's interface and return the status block, a JSON object. `where` is of the same request.

    See `attachment.attach`. Raise NetavarkError if the request is wrong, and AgentError if the agent refuses or fails.
    """
    if not is_netns_path(where.netns):
        raise NetavarkError(
            f"the namespace {shown(where.netns)} is not an absolute path",
            "netavark passes it, as /run/netns/NAME: call podman.",
        )
    fields = read(_SETUP, document)
    asked = network.checked(fields["network"])
    ports = _published(fields["port_mappings"])
    given = fields["network_options"]
    own = options.read(given["options"], "network_options.options", others_are_labels=True)
    settings = asked.options.overridden_by(own)
    addresses = _addresses(given["static_ips"])
    request = AddRequest(
        id=where.id,
        name=where.workload_name(fields["container_name"]),
        namespace=_NAMESPACE,
        netns=where.netns,
        peer_interface=where.ifname,
        address=addresses.get(4),
        address6=addresses.get(6),
        families=asked.families,
        pools=settings.pools,
        labels=settings.labels,
        mac=_mac(given["static_mac"]),
        mtu=settings.mtu,
        network=where.network,
        container=where.container,
        runtime="podman",
        container_name=fields["container_name"],
        # podman sends the ports with each network of a container; they lead to the first one.
        ports=None if ports and _publishes(agent, where) else ports,
    )
    workload, dummy = await attach(agent, request)
    return _status(workload, settings)


async def teardown(agent: AttachmentBackend, document: Document) -> None:
    """Delete the workload of an attachment; one that is gone is no error. Raise NetavarkError or AgentError."""
    await detach(agent, attachment(document))


def _published(mappings: t.Iterable[Document]) -> tuple[PublishedPort, ...]:
    found: list[PublishedPort] = []
    for index, sent in enumerate(mappings):
        outside, inside, count = sent["host_port"], sent["container_port"], sent["range"] or 1
        if count > LIMIT - len(found):
            raise NetavarkError(f"-p asks for more than {LIMIT} ports", "Publish fewer of them.")
        try:
            for protocol in (sent["protocol"] or "tcp").split(","):
                found += [
                    published(protocol, sent["host_ip"], outside + more if outside else 0, inside + more)
                    for more in range(count)
                ]
        except InvalidPort as error:
            what, dummy, remedy = str(error).partition(". ")
            raise NetavarkError(f"port_mappings[{index}].container_port: {what}", remedy) from error
    return tuple(found)


def _publishes(agent: AttachmentBackend, where: Attachment) -> bool:
    """Return whether the container publishes its ports by another interface already."""
    return any(
        one.ports and one.container == where.container and one.peer_interface != where.ifname for one in agent.list()
    )


def _addresses(texts: t.Iterable[str]) -> dict[int, str]:
    """Return a mapping from IP version to the requested address, {} if none is requested."""
    where = "network_options.static_ips"
    found: dict[int, str] = {}
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise NetavarkError(
                f"{where}: {shown(text)} is not an IP address", "Write it as --ip 10.244.0.5 or --ip6 fd00:10:244::5."
            ) from None
        # podman network reload asks for the address of before, and once more for one that `--ip` asked for.
        if found.setdefault(address.version, str(address)) != str(address):
            raise NetavarkError(
                f"{where} asks for several IPv{address.version} addresses",
                "A container has one address of each IP version on a network: ask for one.",
            )
    return found


def _mac(asked: str) -> t.Optional[str]:
    if not asked:
        return None
    mac = asked.lower()
    if not naming.is_mac(mac):
        raise NetavarkError(
            f"network_options.static_mac {shown(asked)} is not the MAC address of one device",
            "Write it as --mac-address 02:00:00:00:00:01.",
        )
    return mac


def _status(workload: AttachedWorkload, settings: Options) -> dict[str, t.Any]:
    """Return netavark's status block: what podman shows and writes into the container's resolv.conf and hosts."""
    subnets = []
    for text in workload.addresses:
        subnets.append({"ipnet": host(text), "gateway": GATEWAY if family_of(text) == 4 else GATEWAY6})
    return {
        "dns_search_domains": list(settings.dns_search),
        "dns_server_ips": list(settings.dns),
        "interfaces": {workload.peer_interface: {"mac_address": workload.mac or "", "subnets": subnets}},
    }
