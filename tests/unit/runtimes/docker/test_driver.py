# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker's messages, as dockerd 20.10 and 26.1 send them, and the driver's answers."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.driver import DockerDriver
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.docker.networks import Networks
from ansible_collections.baremetal.host_routing.plugins.module_utils.runtimes.options import ContainerOptions
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.client import NotRunning
from ansible_collections.baremetal.host_routing.plugins.module_utils.wire.protocol import AgentError

from tests.unit.runtimes.docker.fake_agent import FakeAgent

PORTMAP = "com.docker.network.portmap"
ENDPOINT, OTHER, NETWORK = "2d54" * 16, "ab01" * 16, "4379" * 16
SANDBOX = "/var/run/docker/netns/a6aa6f52effe"
#: What dockerd adds to the options of an endpoint by itself.
DOCKERS = {
    "com.docker.network.endpoint.exposedports": [{"Proto": 6, "Port": 80}],
    "com.docker.network.portmap": [],
    "com.docker.network.endpoint.dnsservers": ["9.9.9.9"],
    "com.docker.network.endpoint.macaddress": "AkKquMwH",
}


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def networks(tmp_path: pathlib.Path) -> Networks:
    """The store of networks, which knows NETWORK and no options of it."""
    found = Networks(str(tmp_path / "networks"))
    found.save(NETWORK, ContainerOptions())
    return found


@pytest.fixture
def driver(agent: FakeAgent, networks: Networks) -> DockerDriver:
    return DockerDriver(lambda: agent, networks)


def ask(driver: DockerDriver, method: str, body: t.Any = None) -> dict[str, t.Any]:
    """Return the answer to a request with this body; it must have the status 200."""
    status, answer = driver.answer(f"/{method}", b"" if body is None else json.dumps(body).encode())
    assert status == 200
    return answer


def create_endpoint(
    driver: DockerDriver, id: str = ENDPOINT, options: t.Any = None, **interface: str
) -> dict[str, t.Any]:
    interface = {"Address": "10.244.3.5/32", "AddressIPv6": "", "MacAddress": "", **interface}
    body = {"NetworkID": NETWORK, "EndpointID": id, "Interface": interface, "Options": {**DOCKERS, **(options or {})}}
    return ask(driver, "NetworkDriver.CreateEndpoint", body)


def test_the_handshake(driver: DockerDriver, agent: FakeAgent) -> None:
    assert ask(driver, "Plugin.Activate", {}) == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert agent.asked == [("engine.started", {})]
    agent.down = 1
    assert ask(driver, "Plugin.Activate", {}) == {"Implements": ["NetworkDriver", "IpamDriver"]}
    assert ask(driver, "NetworkDriver.GetCapabilities") == {
        "Scope": "local",
        "ConnectivityScope": "global",
        "GwAllocChecker": True,
    }
    assert ask(driver, "IpamDriver.GetCapabilities") == {"RequiresMACAddress": False, "RequiresRequestReplay": False}
    assert ask(driver, "IpamDriver.GetDefaultAddressSpaces") == {
        "LocalDefaultAddressSpace": "calico",
        "GlobalDefaultAddressSpace": "calico",
    }
    assert ask(driver, "NetworkDriver.GwAllocCheck", {"Options": None}) == {"SkipIPv4": True, "SkipIPv6": True}


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"Pool": ""}, {"PoolID": "v4:", "Pool": "0.0.0.0/0", "Data": {"com.docker.network.gateway": "0.0.0.0/0"}}),
        (
            {"Pool": "", "V6": True, "Options": None},
            {"PoolID": "v6:", "Pool": "::/0", "Data": {"com.docker.network.gateway": "::/0"}},
        ),
        (
            {"Pool": "10.244.8.0/24"},
            {
                "PoolID": "v4:default",
                "Pool": "10.244.8.0/24",
                "Data": {"com.docker.network.gateway": "0.0.0.0/0"},
            },
        ),
        (
            {"Pool": "fd00:10:244::/64", "V6": True},
            {"PoolID": "v6:six", "Pool": "fd00:10:244::/64", "Data": {"com.docker.network.gateway": "::/0"}},
        ),
        (
            {"Pool": "", "Options": {"pool": "default,six"}},
            {"PoolID": "v4:default", "Pool": "0.0.0.0/0", "Data": {"com.docker.network.gateway": "0.0.0.0/0"}},
        ),
    ],
)
def test_request_pool(driver: DockerDriver, asked: dict, answer: dict) -> None:
    body = {"AddressSpace": "calico", "SubPool": "", "Options": {}, "V6": False, **asked}
    assert ask(driver, "IpamDriver.RequestPool", body) == answer


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"SubPool": "10.244.1.0/24"},
            "--ip-range is not possible with the IPAM driver calico: each node gives addresses of its own blocks. Leave"
            " it out, or choose an IP pool (--ipam-opt pool=NAME).",
        ),
        ({"Options": {"pools": "a"}}, "--ipam-opt 'pools' is not known. There is: pool, names of IP pools."),
        ({"Options": {"pool": "none"}}, "There is no IP pool 'none'. Name one of these: default, six."),
        ({"Options": {"pool": "old"}}, "There is no IP pool 'old'. Name one of these: default, six."),
        ({"Options": {"pool": ["a"]}}, "pool is a list, not a text of at most 4096 characters."),
        ({"Options": ["a"]}, "Options is a list, not a table of at most 256."),
        (
            {"Pool": "10.9.0.0/16"},
            "--subnet 10.9.0.0/16 lies in no IP pool (default 10.244.0.0/16). Give a subnet inside one, or none.",
        ),
        (
            {"Pool": "10.244.0.0/8"},
            "--subnet '10.244.0.0/8' is not a CIDR without host bits, like 10.244.0.0/16.",
        ),
        ({"Pool": "a\nb"}, "--subnet 'a\\nb' is not a CIDR without host bits, like 10.244.0.0/16."),
        ({"Pool": 7}, "Pool is 7, not a text of at most 4096 characters."),
        ({"V6": "yes"}, "V6 is yes, not true or false."),
    ],
)
def test_pools_that_are_refused(driver: DockerDriver, asked: dict, words: str) -> None:
    body = {"AddressSpace": "calico", "Pool": "", "SubPool": "", "Options": {}, "V6": False, **asked}
    assert ask(driver, "IpamDriver.RequestPool", body) == {"Error": words}


def test_a_fleet_without_ipv6(driver: DockerDriver, agent: FakeAgent) -> None:
    agent.pools = agent.pools[:1]
    assert ask(driver, "IpamDriver.RequestPool", {"V6": True}) == {
        "Error": "The fleet has no IP pool for IPv6. Add one to calico_ip_pools and run site.yml, or leave --ipv6 out."
    }
    agent.pools = []
    assert ask(driver, "IpamDriver.RequestPool", {}) == {
        "Error": "The fleet has no IP pool for IPv4. Add one to calico_ip_pools and run site.yml, or give the fleet"
        " one."
    }


def test_a_network_makes_nothing(driver: DockerDriver, agent: FakeAgent) -> None:
    data = [{"AddressSpace": "calico", "Gateway": "0.0.0.0/0", "Pool": "10.244.0.0/16"}]
    body = {
        "NetworkID": NETWORK,
        "Options": {"com.docker.network.enable_ipv6": False},
        "IPv4Data": data,
        "IPv6Data": [],
    }
    assert ask(driver, "NetworkDriver.CreateNetwork", body) == {}
    assert ask(driver, "NetworkDriver.DeleteNetwork", {"NetworkID": NETWORK}) == {}
    assert ask(driver, "IpamDriver.ReleasePool", {"PoolID": "v4:"}) == {}
    assert agent.asked == []


def made_network(driver: DockerDriver, **options: t.Any) -> dict[str, t.Any]:
    return ask(
        driver,
        "NetworkDriver.CreateNetwork",
        {"NetworkID": NETWORK, "Options": {"com.docker.network.generic": options}, "IPv4Data": [], "IPv6Data": []},
    )


def test_options_of_a_network_are_those_of_its_containers(driver: DockerDriver, agent: FakeAgent) -> None:
    """A container's own stand in their place, also in another process of the driver."""
    assert made_network(driver, **{"label.tier": "back", "label.app": "web", "mtu": "1400", "label.mtu": "x"}) == {}
    again = DockerDriver(lambda: agent, driver._networks)
    create_endpoint(again, ENDPOINT)
    asked = agent.asked[-1][1]
    assert (asked["labels"], asked["mtu"]) == ({"tier": "back", "app": "web", "mtu": "x"}, 1400)
    create_endpoint(again, OTHER, {"app": "db", "label.pool": "y", "mtu": "1300", "name": "db"})
    asked = agent.asked[-1][1]
    assert asked["labels"] == {"tier": "back", "app": "db", "mtu": "x", "pool": "y"}
    assert (asked["mtu"], asked["name"]) == (1300, "db.ab01ab01ab01")
    create_endpoint(again, "cd" * 32, {"mtu": "0"})
    assert agent.asked[-1][1]["mtu"] == 1400


_NO_MTU = "is not an MTU: a number of bytes from 68 to 65535; 0, or left out, is that of the IP pool."


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mtu": "67"}, f"mtu='67' {_NO_MTU}"),
        ({"mtu": "65536"}, f"mtu='65536' {_NO_MTU}"),
        ({"mtu": "\u0661\u0664\u0660\u0660"}, f"mtu='\u0661\u0664\u0660\u0660' {_NO_MTU}"),
        ({"mtu": "-1400"}, f"mtu='-1400' {_NO_MTU}"),
        ({"mtu": 1400}, f"mtu=1400 {_NO_MTU}"),
        (
            {"pool": "default"},
            "pool=... is not possible with the driver calico. Choose IP pools for the whole network: docker network"
            " create --ipam-opt pool=NAME. A label of this key is label.pool=VALUE.",
        ),
        (
            {"dns": "10.0.0.53"},
            "dns=... is not possible with the driver calico. Use --dns of docker run. A label of this key is"
            " label.dns=VALUE.",
        ),
        (
            {"dns_search": "a.b"},
            "dns_search=... is not possible with the driver calico. Use --dns-search of docker run. A label of this key"
            " is label.dns_search=VALUE.",
        ),
    ],
)
def test_options_that_are_not_possible(driver: DockerDriver, agent: FakeAgent, given: dict, words: str) -> None:
    assert made_network(driver, **given) == {"Err": f"-o {words}"}
    assert create_endpoint(driver, options=given) == {"Err": f"driver-opt {words}"}
    assert agent.asked == []


def test_options_that_no_network_has(driver: DockerDriver) -> None:
    assert made_network(driver, name="web") == {
        "Err": "-o name=... is not possible with the driver calico. It is an option of one container: --network"
        " name=NETWORK,driver-opt=name=NAME."
    }
    assert made_network(driver, **{"com.docker.network.driver.mtu": "1400"}) == {
        "Err": "-o 'com.docker.network.driver.mtu' is an option of Docker's own drivers. The driver calico has: mtu,"
        " and labels."
    }
    assert made_network(driver, **{"label.app": "a b"})["Err"].startswith("A -o is a label, and 'a b' ")


@pytest.mark.parametrize(
    ("option", "shown", "hint"),
    [
        ("mtuu", "'mtuu'", "Did you mean mtu?"),
        ("MTU", "'MTU'", "Did you mean mtu?"),
        ("labels.tier", "'labels.tier'", "Did you mean label.KEY?"),
        ("lable.tier", "'lable.tier'", "Did you mean label.KEY?"),
        ("app", "'app'", "A network has the options label.KEY or mtu."),
        ("parent", "'parent'", "A network has the options label.KEY or mtu."),
        ("example.org/role", "'example.org/role'", "Did you mean label.KEY?"),
        ("", "''", "A network has the options label.KEY or mtu."),
        ("a\x1b[2J\n", "'a\\x1b[2J\\n'", "A network has the options label.KEY or mtu."),
    ],
)
def test_unknown_options_of_a_network_are_refused(
    driver: DockerDriver, networks: Networks, option: str, shown: str, hint: str
) -> None:
    """A mistyped option is no label: its network would work differently from what was asked for."""
    assert made_network(driver, **{"label.a": "b", option: "1400"}) == {
        "Err": f"The driver calico has no option -o {shown}. {hint} A label of all containers of the network is"
        " label.KEY=VALUE."
    }
    assert networks.load(NETWORK) == ContainerOptions()


def test_a_network_whose_options_are_lost(driver: DockerDriver, agent: FakeAgent, networks: Networks) -> None:
    """Its containers would lack labels: none is made. A deleted network is one, too."""
    path = pathlib.Path(networks._folder) / f"{NETWORK}.json"

    def words(reason: str) -> dict[str, str]:
        return {
            "Err": f"The options of this network are not known: {path}: {reason}. Without them its containers would"
            " lack labels that policy selects by. Remove the network and make it anew."
        }

    for text in (
        "",
        "{}",
        "[]",
        '{"labels": {}}',
        '{"labels": {"a": 1}, "mtu": null}',
        '{"labels": {}, "mtu": 1}',
        "[" * 9999,
    ):
        path.write_text(text)
        assert create_endpoint(driver) == words("it is damaged"), text
    path.write_text('{"labels": {}, "mtu": null}' + " " * (1 << 20))
    assert create_endpoint(driver) == words("it is damaged")
    for _ in range(2):
        assert ask(driver, "NetworkDriver.DeleteNetwork", {"NetworkID": NETWORK}) == {}
    assert create_endpoint(driver) == words("No such file or directory")
    assert agent.asked == []
    for id, said in (("../" * 21 + "a", "../" * 21 + "a"), ("A" * 64, "A" * 64), ("", "''")):
        for method in ("CreateNetwork", "DeleteNetwork"):
            assert ask(driver, f"NetworkDriver.{method}", {"NetworkID": id}) == {
                "Err": f"NetworkID is {said}, not an id of Docker's: 64 hex digits."
            }


def test_a_disk_that_refuses(driver: DockerDriver, networks: Networks, tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").touch()
    networks._folder = str(tmp_path / "file")
    path = f"{tmp_path}/file/{NETWORK}.json"
    assert made_network(driver) == {
        "Err": f"The options of the network cannot be written to {path}: File exists. Make room there, or make the file"
        " system writable, and try again."
    }
    assert ask(driver, "NetworkDriver.DeleteNetwork", {"NetworkID": NETWORK}) == {
        "Err": f"{path} cannot be removed: Not a directory. Make the file system writable, and try again."
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"Options": {"com.docker.network.internal": True}},
            "--internal is not possible with the driver calico. Leave it out; a NetworkPolicy says what containers"
            " reach.",
        ),
        (
            {"IPv4Data": [{"AddressSpace": "LocalDefault", "Gateway": "172.18.0.1/16", "Pool": "172.18.0.0/16"}]},
            "The driver calico needs its own IPAM driver, because another one would give an address on two hosts. Make"
            " the network with: docker network create -d calico --ipam-driver calico NAME",
        ),
        (
            {"IPv4Data": [{"AddressSpace": "calico", "AuxAddresses": {"a": "10.244.0.1/16"}}]},
            "--aux-address is not possible with the driver calico. Reserve addresses for the whole fleet in"
            " calico_ip_reservations.",
        ),
        ({"IPv4Data": "x"}, "IPv4Data is x, not a list of at most 131072."),
        ({"IPv6Data": ["x"]}, "IPv6Data[0] is x, not a table."),
    ],
)
def test_networks_that_are_refused(driver: DockerDriver, changed: dict, words: str) -> None:
    body = {"NetworkID": NETWORK, "Options": {}, "IPv4Data": [], "IPv6Data": [], **changed}
    assert ask(driver, "NetworkDriver.CreateNetwork", body) == {"Err": words}


def test_the_ipam_driver_reserves_and_releases_addresses(driver: DockerDriver, agent: FakeAgent) -> None:
    def request(pool: str, address: str = "", options: t.Any = None) -> dict[str, t.Any]:
        return ask(driver, "IpamDriver.RequestAddress", {"PoolID": pool, "Address": address, "Options": options})

    assert request("v4:") == {"Address": "10.244.3.5/32"}
    assert agent.asked[-1] == ("ipam.reserve", {"pools": [], "family": 4})
    assert request("v6:six") == {"Address": "fd00:10:244::5/128"}
    assert agent.asked[-1] == ("ipam.reserve", {"pools": ["six"], "family": 6})
    assert request("v4:default", "10.244.3.9") == {"Address": "10.244.3.9/32"}
    assert agent.asked[-1] == ("ipam.reserve", {"pools": ["default"], "address": "10.244.3.9", "family": 4})
    for text in ("10.244.3.5", "10.244.3.5/32", "10.244.3.5"):
        assert ask(driver, "IpamDriver.ReleaseAddress", {"PoolID": "v4:", "Address": text}) == {}
    assert agent.reserved == {"fd00:10:244::5", "10.244.3.9"}
    before = len(agent.asked)
    for text in ("0.0.0.0", "::", "", "169.254.1.1"):
        assert ask(driver, "IpamDriver.ReleaseAddress", {"PoolID": "v4:", "Address": text}) == {}
    gateway = {"RequestAddressType": "com.docker.network.gateway"}
    assert request("v4:", "", gateway) == {"Address": "169.254.1.1/32"}
    assert request("v6:", "", gateway) == {"Address": "fe80::ecee:eeff:feee:eeee/128"}
    assert request("v4:", "10.244.0.1", gateway) == {
        "Error": "--gateway 10.244.0.1 is not possible with the driver calico: the gateway of all containers is"
        " 169.254.1.1, and fe80::ecee:eeff:feee:eeee for IPv6. Leave it out."
    }
    assert len(agent.asked) == before
    for pool in ("", "0.0.0.0/0", "v4", "v5:", "v4:../x", "v4:a,,b", "v4:a\n"):
        assert request(pool)["Error"] == (
            f"PoolID {pool!r} is not one that this driver gave. Remove the network and make it anew."
        )
    assert request("v4:", "web") == {"Error": "Address 'web' is not an IP address. Give one like 10.244.3.9."}


def test_a_refusal_of_the_agent_is_passed_on(driver: DockerDriver, agent: FakeAgent) -> None:
    agent.refuses = AgentError("no_address", "the only block is full. Run site.yml.")
    assert ask(driver, "IpamDriver.RequestAddress", {"PoolID": "v4:"}) == {
        "Error": "the only block is full. Run site.yml."
    }
    assert create_endpoint(driver) == {"Err": "the only block is full. Run site.yml."}


def test_a_container_comes_and_goes(driver: DockerDriver, agent: FakeAgent) -> None:
    assert create_endpoint(driver, options={"name": "web", "app": "web", "tier": "front"}) == {
        "Interface": {"MacAddress": "02:42:aa:bb:cc:07"}
    }
    assert agent.asked[-1] == (
        "workload.add",
        {
            "id": f"docker/{ENDPOINT}",
            "name": "web.2d542d542d54",
            "handed_over": True,
            "families": [4],
            "labels": {"app": "web", "tier": "front"},
            "address": "10.244.3.5",
        },
    )
    body = {"NetworkID": NETWORK, "EndpointID": ENDPOINT, "SandboxKey": SANDBOX, "Options": {}}
    assert ask(driver, "NetworkDriver.Join", body) == {
        "InterfaceName": {"SrcName": "calit0123456789", "DstPrefix": "eth"},
        "Gateway": "169.254.1.1",
        "StaticRoutes": [{"Destination": "169.254.1.1/32", "RouteType": 1, "NextHop": ""}],
    }
    assert agent.asked[-1] == ("workload.join", {"id": f"docker/{ENDPOINT}", "netns": SANDBOX})
    two = {"NetworkID": NETWORK, "EndpointID": ENDPOINT}
    assert ask(driver, "NetworkDriver.EndpointOperInfo", two) == {"Value": {}}
    for _ in range(2):
        for method in ("ProgramExternalConnectivity", "RevokeExternalConnectivity", "Leave", "DeleteEndpoint"):
            assert ask(driver, f"NetworkDriver.{method}", two) == {}
    assert agent.workloads == {} and agent.reserved == {"10.244.3.5"}


def test_a_container_without_a_name_has_its_endpoints_id(driver: DockerDriver, agent: FakeAgent) -> None:
    create_endpoint(driver)
    assert agent.asked[-1][1]["name"] == ENDPOINT


def test_both_ip_versions_and_a_mac(driver: DockerDriver, agent: FakeAgent) -> None:
    made = create_endpoint(driver, AddressIPv6="fd00:10:244::6/128", MacAddress="02:42:AC:00:00:05")
    assert made == {"Interface": {}}
    asked = agent.asked[-1][1]
    assert (asked["families"], asked["address6"], asked["mac"]) == ([4, 6], "fd00:10:244::6", "02:42:ac:00:00:05")
    joined = ask(driver, "NetworkDriver.Join", {"EndpointID": ENDPOINT, "SandboxKey": SANDBOX})
    assert (joined["Gateway"], joined["GatewayIPv6"]) == ("169.254.1.1", "fe80::ecee:eeff:feee:eeee")
    assert [route["Destination"] for route in joined["StaticRoutes"]] == [
        "169.254.1.1/32",
        "fe80::ecee:eeff:feee:eeee/128",
    ]


def test_a_second_network_has_no_gateway_of_its_own(driver: DockerDriver) -> None:
    for id in (ENDPOINT, OTHER):
        create_endpoint(driver, id)
    assert "Gateway" in ask(driver, "NetworkDriver.Join", {"EndpointID": ENDPOINT, "SandboxKey": SANDBOX})
    assert ask(driver, "NetworkDriver.Join", {"EndpointID": OTHER, "SandboxKey": SANDBOX}) == {
        "InterfaceName": {"SrcName": "calit0123456789", "DstPrefix": "eth"},
        "DisableGatewayService": True,
    }


def test_ports_are_published_when_the_network_has_the_default_route(driver: DockerDriver, agent: FakeAgent) -> None:
    """The ports come with each endpoint, and one of them is asked to publish them."""
    ports = [
        {"Proto": 6, "IP": "", "Port": 80, "HostIP": "", "HostPort": 8080, "HostPortEnd": 8080},
        {"Proto": 17, "IP": "", "Port": 53, "HostIP": "192.0.2.1", "HostPort": 0, "HostPortEnd": 0},
    ]
    create_endpoint(driver, options={PORTMAP: ports})
    assert "ports" not in agent.workloads[f"docker/{ENDPOINT}"]
    body = {"NetworkID": "8ffb", "EndpointID": ENDPOINT, "Options": {PORTMAP: ports}}
    assert ask(driver, "NetworkDriver.ProgramExternalConnectivity", body) == {}
    assert agent.workloads[f"docker/{ENDPOINT}"]["ports"] == [
        {"protocol": "tcp", "host_port": 8080, "port": 80, "host_address": ""},
        {"protocol": "udp", "host_port": 0, "port": 53, "host_address": "192.0.2.1"},
    ]
    assert ask(driver, "NetworkDriver.RevokeExternalConnectivity", {"EndpointID": ENDPOINT}) == {}
    assert agent.workloads[f"docker/{ENDPOINT}"]["ports"] == []
    assert ask(driver, "NetworkDriver.RevokeExternalConnectivity", {"EndpointID": OTHER}) == {}


def test_a_join_of_what_is_not_there(driver: DockerDriver) -> None:
    assert ask(driver, "NetworkDriver.Join", {"EndpointID": ENDPOINT, "SandboxKey": SANDBOX}) == {
        "Err": f"there is no workload docker/{ENDPOINT} on this node. See `calicoctl workload list`."
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {PORTMAP: [{"Proto": 6, "Port": 80, "HostPort": 8000, "HostPortEnd": 8009}]},
            "-p 8000-8009:80 leaves the choice among several ports. Give one port of the host, or none for any that is"
            " free.",
        ),
        (
            {PORTMAP: [{"Proto": 1, "Port": 80, "HostPort": 8080}]},
            "-p: the protocol 1 has no ports to publish. Use tcp, udp or sctp.",
        ),
        (
            {PORTMAP: [{"Proto": 6, "Port": 80, "HostPort": 65536}]},
            "-p: The port of the host 65536 is not a port. Use a number from 0 to 65535.",
        ),
        ({PORTMAP: [{}] * 1025}, "-p is a list of 1025, not a list of at most 1024."),
        ({PORTMAP: ["8080:80"]}, "-p[0] is 8080:80, not a table."),
        (
            {PORTMAP: [{"Proto": 6, "Port": 80, "HostPort": 80, "HostIP": "localhost"}]},
            "-p: 'localhost' is not an address of a host. Write one, or leave it out for all of them.",
        ),
        (
            {"name": "a\nb"},
            "driver-opt name='a\\nb' is not a name: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit at"
            " its ends.",
        ),
        (
            {"name": 7},
            "driver-opt name=7 is not a name: 1 to 100 letters, digits, '-', '_' and '.', a letter or digit at its"
            " ends.",
        ),
    ],
)
def test_endpoints_that_are_refused(driver: DockerDriver, agent: FakeAgent, changed: dict, words: str) -> None:
    assert create_endpoint(driver, options=changed) == {"Err": words}
    assert agent.asked == []


@pytest.mark.parametrize(
    "options",
    [{"app": "a\nb"}, {"a\nb": "x"}, {"app": "x" * 64}, {"app": {"a": 1}}, {"../x": "y"}, {"": "x"}, {"app": 1}],
)
def test_labels_that_are_none(driver: DockerDriver, agent: FakeAgent, options: dict) -> None:
    err = create_endpoint(driver, options=options)["Err"]
    assert err.startswith("A driver-opt is a label, and ") and "\n" not in err
    assert agent.asked == []


@pytest.mark.parametrize("id", ["", "../" * 20, "2D54" * 16, "a" * 63, "a" * 64 + "\n", 7, None, ["a"]])
def test_ids_that_are_none(driver: DockerDriver, agent: FakeAgent, id: t.Any) -> None:
    for method in ("CreateEndpoint", "Join", "DeleteEndpoint"):
        assert "EndpointID" in ask(driver, f"NetworkDriver.{method}", {"EndpointID": id})["Err"]
    assert agent.asked == []


@pytest.mark.parametrize(
    ("interface", "words"),
    [
        ({"Address": "web"}, "Address 'web' is not an IP address. Give one like 10.244.3.9."),
        ({"AddressIPv6": "fe80::1%eth0"}, "AddressIPv6 'fe80::1%eth0' is not an IP address. Give one like 10.244.3.9."),
        ({"Address": "fd00::1/128"}, "Address fd00::1 is not an IPv4 address."),
        ({"AddressIPv6": "10.0.0.1"}, "AddressIPv6 10.0.0.1 is not an IPv6 address."),
        ({"Address": ""}, "The endpoint has no address. Make its network with --ipam-driver calico."),
    ],
)
def test_interfaces_that_are_refused(driver: DockerDriver, interface: dict, words: str) -> None:
    assert create_endpoint(driver, **interface) == {"Err": words}


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"7",
        b"null",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": NaN}',
        b'{"EndpointID": "a", "EndpointID": "b"}',
        b'{"a": [{"b": 1, "b": 1}]}',
        b'{"a": ' + b"9" * 100_000 + b"}",
    ],
)
def test_bodies_that_are_no_objects(driver: DockerDriver, data: bytes) -> None:
    words = "The body of the request is not a JSON object. Only dockerd speaks to this socket."
    assert driver.answer("/NetworkDriver.Join", data) == (200, {"Err": words})
    assert driver.answer("/IpamDriver.RequestPool", data) == (200, {"Error": words})


@pytest.mark.parametrize("data", [b"", b"\r\n"])
def test_a_request_that_lost_its_body(driver: DockerDriver, agent: FakeAgent, data: bytes) -> None:
    """A request is repeated by dockerd, without its body, when the connection breaks before it has an answer."""
    words = (
        "The request came without its body, as dockerd repeats one when the driver ended in the middle of it. Nothing"
        " was done for it; try again."
    )
    for method in ("CreateNetwork", "CreateEndpoint", "Join", "DeleteEndpoint", "EndpointOperInfo"):
        assert driver.answer(f"/NetworkDriver.{method}", data) == (200, {"Err": words})
    for method in ("RequestPool", "RequestAddress", "ReleaseAddress"):
        assert driver.answer(f"/IpamDriver.{method}", data) == (200, {"Error": words})
    assert agent.asked == []


def test_methods_that_are_not_there(driver: DockerDriver) -> None:
    assert driver.answer("/NetworkDriver.Fly", b"{}") == (
        404,
        {"Err": "the driver calico has no method '/NetworkDriver.Fly'."},
    )
    assert driver.answer("/IpamDriver.Fly", b"{}")[1] == {"Error": "the driver calico has no method '/IpamDriver.Fly'."}


def test_an_error_in_the_code(driver: DockerDriver, agent: FakeAgent) -> None:
    agent.pools = None  # type: ignore[assignment]
    words = (
        "The driver calico failed because of an error in its code: journalctl -u calico-docker has it. Please report"
        " it."
    )
    assert driver.answer("/IpamDriver.RequestPool", b"{}") == (500, {"Error": words})


def test_an_agent_that_restarts_is_waited_for(agent: FakeAgent, networks: Networks) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    driver = DockerDriver(lambda: agent, networks, clock=lambda: now[0], sleep=sleep)
    agent.down = 20
    assert ask(driver, "IpamDriver.RequestAddress", {"PoolID": "v4:"}) == {"Address": "10.244.3.5/32"}
    assert 3 < now[0] < 5
    agent.down = 1_000_000
    assert ask(driver, "NetworkDriver.DeleteEndpoint", {"EndpointID": ENDPOINT}) == {
        "Err": NotRunning("/run/calico/agent.sock", "nobody listens").message
    }
    assert 25 < now[0] < 40
