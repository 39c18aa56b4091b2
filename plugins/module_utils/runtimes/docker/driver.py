# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The methods of Docker's remote network driver and remote IPAM driver, version 1 of the protocol.

    docker network create   RequestPool, CreateNetwork
    docker run              RequestAddress, CreateEndpoint, Join; dockerd then moves and configures the inner end;
                            ProgramExternalConnectivity for the network that has the default route
    docker stop             RevokeExternalConnectivity, Leave, DeleteEndpoint, ReleaseAddress
    docker network rm       ReleasePool, DeleteNetwork

The driver keeps the options of networks (networks.py) and nothing else: what is attached is the agent's, and each
request may be repeated. An address belongs to the agent's reservations from RequestAddress to ReleaseAddress, but while
an endpoint has it. What is asked to be removed and is not there is no error.
"""

from __future__ import annotations

import logging
import time
import typing as t

from ...base.addresses import GATEWAY, GATEWAY6, family_of, host, inside
from ...wire.client import NotRunning
from ...wire.protocol import AgentError
from . import messages
from .messages import Body
from .networks import Networks
from .refusal import RefusedRequest, shown

_log = logging.getLogger("calico.docker")

Answer = dict[str, t.Any]

#: The kind of route that needs no next hop.
_CONNECTED = 1
#: The prefix of interfaces in containers.
_PREFIX = "eth"
_ANY = {4: "0.0.0.0/0", 6: "::/0"}
#: Seconds for which an agent that does not run is waited for, and between two attempts. It restarts in two.
PATIENCE, _PAUSE = 25.0, 0.2


#: The answers to requests for which there is nothing to do or to find out, by their paths.
_FIXED: t.Mapping[str, Answer] = {
    "/NetworkDriver.GetCapabilities": {"Scope": "local", "ConnectivityScope": "global", "GwAllocChecker": True},
    "/NetworkDriver.GwAllocCheck": {"SkipIPv4": True, "SkipIPv6": True},
    "/NetworkDriver.EndpointOperInfo": {"Value": {}},
    "/IpamDriver.GetCapabilities": {"RequiresMACAddress": False, "RequiresRequestReplay": False},
    "/IpamDriver.GetDefaultAddressSpaces": {
        "LocalDefaultAddressSpace": messages.ADDRESS_SPACE,
        "GlobalDefaultAddressSpace": messages.ADDRESS_SPACE,
    },
    "/NetworkDriver.Leave": {},
    "/NetworkDriver.AllocateNetwork": {},
    "/NetworkDriver.FreeNetwork": {},
    "/NetworkDriver.DiscoverNew": {},
    "/NetworkDriver.DiscoverDelete": {},
    "/IpamDriver.ReleasePool": {},
}
#: The paths of requests that may come without a body.
_BODILESS = _FIXED.keys() - {"/NetworkDriver.EndpointOperInfo"} | {"/Plugin.Activate"}


class AgentPort(t.Protocol):
    """The agent as the driver asks it; AgentClient is one."""

    def call(self, method: str, /, **params: t.Any) -> dict[str, t.Any]: ...


class DockerDriver:
    """The driver. `methods` maps the path of a request to its method; other requests have fixed answers.

    `agent` returns the agent for the calling thread. `clock` and `sleep` are those of the module time.
    """

    def __init__(
        self,
        agent: t.Callable[[], AgentPort],
        networks: Networks,
        patience: float = PATIENCE,
        clock: t.Callable[[], float] = time.monotonic,
        sleep: t.Callable[[float], None] = time.sleep,
    ) -> None:
        self._agent = agent
        self._networks = networks
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self.methods: t.Mapping[str, t.Callable[[Body], Answer]] = {
            "/Plugin.Activate": self._activate,
            "/NetworkDriver.CreateNetwork": self._create_network,
            "/NetworkDriver.DeleteNetwork": self._delete_network,
            "/NetworkDriver.CreateEndpoint": self._create_endpoint,
            "/NetworkDriver.DeleteEndpoint": self._delete_endpoint,
            "/NetworkDriver.Join": self._join,
            "/NetworkDriver.ProgramExternalConnectivity": self._publish,
            "/NetworkDriver.RevokeExternalConnectivity": self._withdraw,
            "/IpamDriver.RequestPool": self._request_pool,
            "/IpamDriver.RequestAddress": self._request_address,
            "/IpamDriver.ReleaseAddress": self._release_address,
        }

    def answer(self, path: str, data: bytes) -> tuple[int, Answer]:
        """Return the HTTP status and the answer to a request with this path and body. Raise nothing.

        A refusal has the form of the driver that is asked: the key `Error` for IPAM, `Err` for all others.
        """
        method = self.methods.get(path)
        key = "Error" if path.startswith("/IpamDriver.") else "Err"
        if method is None and path not in _FIXED:
            return 404, {key: f"the driver calico has no method {shown(path)}."}
        try:
            if not data.strip() and path not in _BODILESS:
                raise RefusedRequest(messages.WITHOUT_BODY)
            body = messages.decode(data)
            return 200, _FIXED[path] if method is None else method(body)
        except RefusedRequest as error:
            return 200, {key: str(error)}
        except AgentError as error:
            return 200, {key: error.message}
        except Exception:  # noqa: BLE001 - dockerd would repeat the request without its body
            _log.exception("%s failed because of an error in the driver's code.", shown(path))
            return 500, {
                key: "The driver calico failed because of an error in its code: journalctl -u calico-docker has it."
                " Please report it."
            }

    def _ask(self, method: str, **params: t.Any) -> dict[str, t.Any]:
        """Call a method of the agent, again if the answer was lost or no agent runs: each call may be repeated."""
        end = self._clock() + self._patience
        while True:
            try:
                return self._agent().call(method, **params)
            except NotRunning:
                if self._clock() >= end:
                    raise
            self._sleep(_PAUSE)

    # --- what dockerd asks at its start ---

    def _activate(self, body: Body) -> Answer:
        # dockerd asks this once. What it had asked for before, and does not know any more, need not wait any longer.
        try:
            self._agent().call("engine.started")
        except AgentError as error:
            _log.warning("The agent does not learn of dockerd's start: %s", error.message)
        return {"Implements": ["NetworkDriver", "IpamDriver"]}

    # --- networks ---

    def _request_pool(self, body: Body) -> Answer:
        request = messages.PoolRequest.from_body(body)
        pools = [pool for pool in self._ask("ipam.pools")["pools"] if not pool["disabled"]]
        known = {pool["name"]: pool["cidr"] for pool in pools}
        for name in request.pools:
            if name not in known:
                listed = ", ".join(sorted(known)) or "(none)"
                raise RefusedRequest(f"There is no IP pool {shown(name)}. Name one of these: {listed}.")
        own = {name: cidr for name, cidr in known.items() if (":" in cidr) == (request.family == 6)}
        if not own:
            remedy = "leave --ipv6 out" if request.family == 6 else "give the fleet one"
            raise RefusedRequest(
                f"The fleet has no IP pool for IPv{request.family}. Add one to calico_ip_pools and run site.yml, or"
                f" {remedy}."
            )
        chosen = [name for name in request.pools if name in own]
        if request.subnet:
            chosen = [name for name in chosen or own if inside(request.subnet, own[name])]
            if not chosen:
                listed = ", ".join(f"{name} {cidr}" for name, cidr in sorted(own.items()))
                raise RefusedRequest(
                    f"--subnet {request.subnet} lies in no IP pool ({listed}). Give a subnet inside one, or none."
                )
        gateway = {"com.docker.network.gateway": _ANY[request.family]}
        return {
            "PoolID": messages.pool_id(request.family, chosen),
            "Pool": request.subnet or _ANY[request.family],
            "Data": gateway,
        }

    def _create_network(self, body: Body) -> Answer:
        options = messages.network_options(body)
        self._networks.save(messages.network_id(body), options)
        return {}

    def _delete_network(self, body: Body) -> Answer:
        self._networks.remove(messages.network_id(body))
        return {}

    # --- addresses ---

    def _request_address(self, body: Body) -> Answer:
        request = messages.AddressRequest.from_body(body)
        if request.gateway:
            if request.address is not None:
                raise RefusedRequest(
                    f"--gateway {request.address} is not possible with the driver calico: the gateway of all containers"
                    f" is {GATEWAY}, and {GATEWAY6} for IPv6. Leave it out."
                )
            return {"Address": host(GATEWAY if request.family == 4 else GATEWAY6)}
        if request.address is None:
            found = self._ask("ipam.reserve", pools=list(request.pools), family=request.family)
        else:
            found = self._ask("ipam.reserve", address=request.address, pools=list(request.pools), family=request.family)
        return {"Address": host(found["address"])}

    def _release_address(self, body: Body) -> Answer:
        address = messages.address_of(messages.text_of(body, "Address"), "Address")
        if address is not None and address not in (GATEWAY, GATEWAY6):
            self._ask("ipam.unreserve", address=address)
        return {}

    # --- endpoints ---

    def _create_endpoint(self, body: Body) -> Answer:
        request = messages.EndpointRequest.from_body(body)
        options = self._networks.load(messages.network_id(body)).overridden_by(request.options)
        params: dict[str, t.Any] = {
            "id": _workload_id(request.id),
            "name": request.workload_name,
            "handed_over": True,
            "families": sorted(request.addresses),
            "labels": dict(options.labels),
        }
        for version, name in ((4, "address"), (6, "address6")):
            if version in request.addresses:
                params[name] = request.addresses[version]
        if request.mac is not None:
            params["mac"] = request.mac
        if options.mtu is not None:
            params["mtu"] = options.mtu
        workload = self._ask("workload.add", **params)["workload"]
        # dockerd refuses a MAC address in the answer if it has asked for one.
        return {"Interface": {} if request.mac is not None else {"MacAddress": workload["mac"]}}

    def _delete_endpoint(self, body: Body) -> Answer:
        self._ask("workload.delete", id=_workload_id(messages.endpoint_id(body)))
        return {}

    def _publish(self, body: Body) -> Answer:
        ports = messages.published_of(messages.options_of(body))
        if ports:
            self._ask("workload.publish", id=_workload_id(messages.endpoint_id(body)), ports=ports)
        return {}

    def _withdraw(self, body: Body) -> Answer:
        self._ask("workload.withdraw", id=_workload_id(messages.endpoint_id(body)))
        return {}

    def _join(self, body: Body) -> Answer:
        id = _workload_id(messages.endpoint_id(body))
        joined = self._ask("workload.join", id=id, netns=messages.text_of(body, "SandboxKey"))
        workload = joined["workload"]
        answer: Answer = {"InterfaceName": {"SrcName": workload["peer_interface"], "DstPrefix": _PREFIX}}
        if joined["siblings"]:
            # The kernel refuses a second route to the same gateway. The agent adds what this interface needs.
            return {**answer, "DisableGatewayService": True}
        routes = []
        for field, gateway, version in (("Gateway", GATEWAY, 4), ("GatewayIPv6", GATEWAY6, 6)):
            if any(family_of(address) == version for address in workload["addresses"]):
                answer[field] = gateway
                routes.append({"Destination": host(gateway), "RouteType": _CONNECTED, "NextHop": ""})
        return {**answer, "StaticRoutes": routes}


def _workload_id(endpoint: str) -> str:
    return f"docker/{endpoint}"
