# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fleet that gets a datastore and gives it up again, by the playbooks as users run them, with Debian's etcd and TLS.

The tests run in their order: each goes on with the fleet that the one before has left.
"""

from __future__ import annotations

import html
import ipaddress
import json
import pathlib
import re
import subprocess
import sys
import time
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import heartbeats, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Delete, Put, WrongPassword
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings

from bench.site.simulated_hosts import SimulatedHosts
from tests.integration.ansible_playbook import SIMULATED, play
from tests.integration.playbooks.one_etcd import NODE_SECRET, PASSWORD, OneEtcd
from tests.integration.playbooks.test_bgp_passwords import Processes

pytestmark = pytest.mark.root

HOSTS = ("host1", "host2")
FILES = {"/etc/calico/datastore.json", "/etc/calico/etcd/ca.pem", "/etc/calico/etcd/client.pem"}
FILES.add("/etc/calico/etcd/client.key")


class Fleet:
    """Two nodes, and a member of etcd that the inventory has in the group calico_etcd."""

    def __init__(self, hosts: SimulatedHosts, folder: pathlib.Path) -> None:
        self.hosts, self.folder = hosts, folder
        folder.mkdir()
        (folder.parent / "etcd").mkdir()
        self.etcd = OneEtcd("trixie", folder.parent / "etcd", folder / ".calico.etcd")
        self.members: dict[str, dict[str, t.Any]] = {"etcd1": {"calico_etcd_address": self.etcd.address}}
        self.variables: dict[str, t.Any] = {
            "ansible_connection": "namespace",
            "ansible_python_interpreter": sys.executable,
            "calico_node_agent": False,
            "calico_node_install_packages": False,
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
        }

    def run(self, playbook: str, *options: str, failed: bool = False, **variables: t.Any) -> str:
        """Run a playbook with more `variables` of the fleet and return what it printed, without the secrets there.

        Raise AssertionError if a secret is printed, or if the run fails; with `failed`, if it succeeds.
        """
        entries = {
            name: {"calico_node_address": self.hosts.addresses[name], "simulated_host_pid": space.pid}
            for name, space in self.hosts.spaces.items()
        }
        inventory = {
            "calico_nodes": {"hosts": entries, "vars": {**self.variables, **variables}},
            "calico_etcd": {"hosts": self.members},
        }
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        done = play(
            f"playbooks/{playbook}.yml",
            self.folder / "hosts.yml",
            "-vvv",
            *options,
            environment=SIMULATED,
            timeout=300,
        )
        printed = done.stdout + done.stderr
        assert (done.returncode != 0) == failed, printed[-6000:]
        for secret in self.secrets():
            assert secret not in printed
        return re.sub(r"\s+", " ", printed)

    def secrets(self) -> list[str]:
        key = (self.folder / ".calico.etcd" / "client.key").read_text().splitlines()[1]
        return [PASSWORD, NODE_SECRET, key, *(self.password(host) for host in HOSTS)]

    @staticmethod
    def password(host: str) -> str:
        return rights.password(bytes.fromhex(NODE_SECRET), host)

    def inside(self, host: str, *command: str) -> str:
        enter = ["nsenter", f"--target={self.hosts.spaces[host].pid}", "--mount", "--net", "--pid", "--", *command]
        return subprocess.run(enter, check=True, capture_output=True, text=True).stdout

    def files(self, host: str) -> set[str]:
        found = self.inside(
            host, "sh", "-c", "find /etc/calico/etcd /etc/calico/datastore.json -type f 2>/dev/null || :"
        )
        return set(found.split())

    def stored(self) -> set[str]:
        async def read(client: t.Any) -> set[str]:
            return {entry.key async for page in client.pages(keys.EVERYTHING) for entry in page.entries}

        return t.cast("set[str]", self.etcd.ask(read))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("datastore")
    (folder / "private").mkdir()
    with SimulatedHosts(len(HOSTS), folder / "private") as hosts:
        made = Fleet(hosts, folder / "inventory")
        yield made
        made.etcd.stop()


def changed(printed: str) -> dict[str, int]:
    return {host: int(count) for host, count in re.findall(r"(host\d) : ok=\d+ changed=(\d+)", printed)}


def test_a_datastore_that_never_answered_stops_the_run(fleet: Fleet) -> None:
    """No node is touched: it would be configured for a cluster that was not checked."""
    printed = fleet.run("site", failed=True)
    assert (
        "The datastore does not answer, and no node of this run uses it yet: no member of the etcd cluster answers "
        f"(https://{fleet.etcd.address}:2379:"
    ) in printed
    assert "or leave it out with calico_etcd_endpoints: []. No node was changed." in printed
    assert fleet.files("host1") == set() and "/var/lib/calico" not in fleet.inside("host1", "ls", "/var/lib")


def test_check_mode_shows_what_would_change_and_changes_nothing(fleet: Fleet) -> None:
    fleet.etcd.start()
    fleet.etcd.wait(user="")
    fleet.etcd.demand_passwords()
    printed = fleet.run("site", "--check", "--diff")
    assert "datastore 9 changes etcd 3.5" in printed
    for line in (
        "+ role host1 reads blocks/..endpoints/ heartbeats/, writes endpoints/host1/ heartbeats/host1/",
        "+ user host2 role host2",
        "+ blocks host1 blocks=10.244.",
        "+ pool pool allowedUses=Workload,Tunnel",
        "new files (-e files=true shows their contents)",
        "/etc/calico/etcd/client.key ",
        "/etc/calico/datastore.json",
    ):
        assert line in printed, line
    assert fleet.stored() == set() and fleet.files("host1") == set()


def test_a_run_publishes_the_fleet_and_gives_nodes_their_files(fleet: Fleet) -> None:
    processes = Processes()
    processes.start()
    printed = fleet.run("site", "--diff")
    processes.done.set()
    processes.join()
    assert "converged 2/2 nodes" in printed
    for secret in fleet.secrets():
        assert not any(secret.encode() in words for words in processes.seen)
    assert fleet.stored() == {
        *(keys.blocks_key(host) for host in HOSTS),
        *(keys.node_key(host) for host in HOSTS),
        keys.pool_key("pool"),
    }
    for host in HOSTS:
        assert fleet.files(host) == FILES
        assert fleet.inside(host, "stat", "-c", "%a %U", *FILES).split() == ["600", "root"] * len(FILES)
        found = DatastoreSettings.from_dict(json.loads(fleet.inside(host, "cat", "/etc/calico/datastore.json")))
        assert (found.user, found.password, found.progress_seconds) == (host, fleet.password(host), 2.0)
        assert found.endpoints == (f"https://{fleet.etcd.address}:2378",)
        stored = fleet.inside(host, "sh", "-c", "cat /var/lib/calico/*.json /var/lib/calico/generations/*")
        assert not any(secret in stored for secret in fleet.secrets())


def test_the_next_run_has_nothing_to_do(fleet: Fleet) -> None:
    assert changed(fleet.run("site")) == dict.fromkeys(HOSTS, 0)


def test_a_return_to_stored_states_leaves_the_files(fleet: Fleet) -> None:
    stored = json.loads(fleet.inside("host1", "cat", "/var/lib/calico/generations/1.json"))
    printed = fleet.run("rollback", "-e", f"plan={stored['plan']}")
    assert changed(printed) == dict.fromkeys(HOSTS, 0) and fleet.files("host1") == FILES == fleet.files("host2")


def test_the_status_is_that_of_the_heartbeats(fleet: Fleet) -> None:
    """Each node writes its own; one of them is rubbish with control characters. No node is asked."""
    good = Heartbeat("host1", time.time(), "0.2.0", "", "converge", True, 0, "", 0, 1, 1, (), 4, 77, 7, True, 0.1)
    for host, value in (
        ("host1", heartbeats.encode(good)),
        ("host2", b'{"version": "\x1b[31m\\u001b[2J\\n", "written":1}'),
    ):
        put = Put(keys.heartbeat_key(host), value)
        fleet.etcd.ask(lambda client, put=put: client.write([put]), host, fleet.password(host))
    printed = fleet.run("status")
    assert "0.2.0 1/1 4 ok 0 77 0" in printed and "EXEC nsenter" not in printed
    assert "! host2: its heartbeat is left out: it is not JSON." in printed and "\x1b[31m" not in printed
    assert "degraded 1/2 nodes good" in printed
    asked = fleet.run("status", "-e", "source=nodes")
    assert "NODE BGP BLOCKS WORKLOADS ROUTES DRIFT(24h) AGENT" in asked and "(by heartbeats)" not in asked
    assert "1/1 members of etcd answer" in asked and "1/1 members of etcd answer" in printed


def test_an_exchange_of_workloads_only_reports(fleet: Fleet) -> None:
    printed = fleet.run("sync_workloads")
    assert "nothing was sent: nodes of this fleet learn of each other's workloads by its datastore" in printed
    assert "to sync 2/2 nodes" in printed


def test_a_check_asks_the_nodes_and_the_datastore(fleet: Fleet) -> None:
    """host1 has published a workload that it does not have, and an address of host2."""
    blocks = {
        host: json.loads(fleet.inside(host, "cat", "/var/lib/calico/state.json"))["state"]["ipam"]["blocks"][0]["cidr"]
        for host in HOSTS
    }
    stored, stolen = (str(ipaddress.ip_network(blocks[host])[9]) for host in HOSTS)
    documents_of = {
        "cali1": f'{{"name": "default/gone", "namespace": "default", "addresses": ["{stored}"]}}',
        "cali2": f'{{"name": "default/thief", "namespace": "default", "addresses": ["{stolen}"]}}',
        "@complete": "{}",
    }
    puts = [Put(f"{keys.endpoints_of('host1')}{name}", value.encode()) for name, value in documents_of.items()]
    fleet.etcd.ask(lambda client: client.write(puts), "host1", fleet.password("host1"))
    printed = fleet.run("ipam_check")
    assert f"{stored} of default/gone in etcd, not on host1" in printed
    assert "endpoints/host1/cali2 of the datastore is left out: one of its addresses lies in none" in printed
    assert "not all workloads are published yet by host2." in printed
    assert "Found 2 nodes that answer, with 0 IPs" in printed
    assert "Check of the fleet complete; found 3 problems." in printed
    assert changed(printed) == dict.fromkeys(HOSTS, 0)
    for put in puts:
        fleet.etcd.ask(lambda client, key=put.key: client.write([Delete(key)]), "host1", fleet.password("host1"))


def test_live_policy_and_its_operators_come_and_go(fleet: Fleet) -> None:
    """The operator's files are made on the controller; no output has its password or its key."""
    live: dict[str, t.Any] = {
        "calico_live_policy": True,
        "calico_policies": [{"kind": "Tier", "name": "security", "order": 100}],
        "calico_etcd_operators": [{"name": "ada", "addresses": ["127.0.0.1"]}],
    }
    folder = fleet.etcd.files / "operators" / "ada"
    printed = fleet.run("site", **{**live, "calico_policies": [], "calico_policy_enabled": True})
    earlier = json.loads(fleet.inside("host1", "cat", "/var/lib/calico/state.json"))["state"]["plan"]
    assert "Operators have no certificate yet, so they get no files: ada. Run playbooks/etcd.yml" in printed
    folder.mkdir(parents=True, mode=0o700)
    (folder / "issued.pem").touch(0o600)
    (folder / "issued.pem").write_bytes(
        b"".join((fleet.etcd.files / name).read_bytes() for name in ("client.pem", "client.key"))
    )
    printed = fleet.run("site", "--diff", **live)
    assert "+ files .calico.etcd/operators/ada calicoctl.cfg ca.pem client.pem client.key" in printed
    password = rights.password(bytes.fromhex(NODE_SECRET), "operator/ada/0")
    config = (folder / "calicoctl.cfg").read_text()
    assert password in config and password not in printed and f'"https://{fleet.etcd.address}:2379"' in config
    assert changed(fleet.run("site", **live)) == dict.fromkeys(HOSTS, 0)
    published = {f"{keys.INVENTORY}tiers/{name}" for name in ("default", "security")} | {keys.FLEET_SETTINGS}
    assert published <= fleet.stored()
    for host in HOSTS:
        state = json.loads(fleet.inside(host, "cat", "/var/lib/calico/state.json"))["state"]
        assert state["policy"]["settings"]["live"] is True
    document = keys.document_key(keys.DocumentKey("GlobalNetworkPolicy", "", "web"))
    put = Put(document, b'{"kind": "GlobalNetworkPolicy", "spec": {"tier": "security"}}')
    fleet.etcd.ask(lambda client: client.write([put]), "ada", password)
    refused = fleet.run("site", failed=True, **{**live, "calico_policies": [], "calico_policy_enabled": True})
    assert (
        "The inventory no longer has the Tier security, and live documents are in it: GlobalNetworkPolicy web. Keep it"
    ) in refused and "No node was changed." in refused
    refused = fleet.run("rollback", "-e", f"plan={earlier}", failed=True, **live)
    lacks = "The generation does not have the Tier security, and live documents are in it: GlobalNetworkPolicy web."
    assert lacks in refused and "No node was changed." in refused and published <= fleet.stored()
    said = fleet.run("explain", "-e", "from=host1 to=host2 to_port=22/tcp", **live)
    assert "note without GlobalNetworkPolicy web, which nodes do not take up: it is not valid" in said
    fleet.etcd.ask(lambda client: client.write([Delete(document)]))
    part = fleet.run("rollback", "--check", "--limit", "host1", "-e", f"plan={earlier}", **live)
    assert "The datastore keeps the newer inventory's policy, because not all nodes return. Operators plan" in part
    printed = fleet.run("rollback", "--diff", "-e", f"plan={earlier}", **live)
    assert "- policy tiers/security" in printed and "converged 2/2 nodes" in printed
    assert published - fleet.stored() == {f"{keys.INVENTORY}tiers/security"}
    fleet.etcd.ask(lambda client: client.write([put]), "ada", password)
    printed = fleet.run("site", "--diff")
    assert "- live 1 live document has no effect any more" in printed
    assert "- user ada role ada" in printed and "- files .calico.etcd/operators/ada ca.pem calicoctl.cfg" in printed
    assert "were deleted: ada. Run playbooks/etcd.yml: it restarts the members" in printed
    assert not (published & fleet.stored()) and document in fleet.stored()
    assert [path.name for path in folder.iterdir()] == ["issued.pem"]
    with pytest.raises(WrongPassword):
        fleet.etcd.ask(lambda client: client.get(document), "ada", password)
    fleet.etcd.ask(lambda client: client.write([Delete(document)]))


def test_a_run_goes_on_without_the_datastore(fleet: Fleet) -> None:
    fleet.etcd.stop()
    printed = fleet.run("site")
    assert "converged 2/2 nodes" in printed and changed(printed) == dict.fromkeys(HOSTS, 0)
    assert printed.count("The datastore was not updated: no member of the etcd cluster answers") == 1
    assert "The run goes on without it, and nodes keep what they know of each other." in printed
    assert "without live documents" not in printed and "CVE" not in printed
    live = {"calico_live_policy": True, "calico_policy_enabled": True, "calico_etcd_endpoints": [fleet.etcd.url]}
    page = fleet.folder.parent / "plan.html"
    planned = fleet.run("site", "--check", "-e", f"report={page}", **live)
    for said in (planned, re.sub(r"\s+", " ", html.unescape(page.read_text()))):
        assert (
            "The next run publishes what this one could not. The plan is without live documents: the datastore does "
            "not answer, ask `calicoctl policy explain` on a node."
        ) in said
        assert (
            "The release of etcd was not checked, on which live policy without gates depends (CVE-2026-33343). Each "
            "node checks it before it takes a live document."
        ) in said


def test_a_return_to_stored_states_goes_on_without_the_datastore(fleet: Fleet) -> None:
    live = {"calico_live_policy": True, "calico_policy_enabled": True}
    planned = fleet.run("rollback", "--check", "-e", "plan=previous", **live)
    assert (
        "The datastore keeps the newer inventory's policy, because it was not updated (no member of the etcd cluster "
        "answers"
    ) in planned
    assert "Bring the inventory to what is in force, and run playbooks/site.yml." in planned
    assert "The plan is without live documents: the datastore is not read, ask `calicoctl policy explain`" in planned


def test_a_node_that_is_removed_leaves_no_key_and_no_user(fleet: Fleet) -> None:
    """All gates that can be reached refuse its certificate at once.

    Members on other hosts than the first one are away: one cannot be reached, one has no folder for the list. Both are
    named, and the run ends with an error after the node has been removed.
    """
    fleet.etcd.start()
    fleet.etcd.wait()
    assert any("host2" in key for key in fleet.stored())
    own = fleet.etcd.files / "nodes" / "host2.pem"
    own.parent.mkdir(mode=0o700)
    own.touch(0o600)
    own.write_bytes(b"".join((fleet.etcd.files / name).read_bytes() for name in ("client.pem", "client.key")))
    fleet.inside("host1", "mkdir", "/etc/calico-etcd")
    namespace = {
        "ansible_connection": "namespace",
        "ansible_python_interpreter": sys.executable,
        "simulated_host_pid": fleet.hosts.spaces["host1"].pid,
    }
    away = {"ansible_connection": "ssh", "ansible_host": "192.0.2.1", "ansible_timeout": 1}
    fleet.members = {
        "etcd1": {"calico_etcd_address": fleet.etcd.address, **namespace},
        "etcd2": {"calico_etcd_address": "127.119.7.22", **away},
        "etcd3": {
            "calico_etcd_address": "127.119.7.23",
            **namespace,
            "simulated_host_pid": fleet.hosts.spaces["host2"].pid,
        },
    }
    printed = fleet.run("remove_node", "--diff", *("-e", "node=host2 confirm=true unreachable=true"), failed=True)
    fleet.members = {"etcd1": fleet.members["etcd1"]}
    assert "- heartbeat heartbeats/host2/* 1 key" in printed and "- user host2 role host2" in printed
    assert "revoked.txt: 1 of host2 more" in printed and not own.exists()
    content = (fleet.etcd.files / "revoked.txt").read_text()
    listed = content.splitlines()
    assert listed[0] == "# host2" and [len(line) for line in listed[1:]] == [64]
    assert fleet.inside("host1", "cat", "/etc/calico-etcd/revoked.txt") == content
    for host, state in (("etcd2", "be reached"), ("etcd3", "be written to")):
        assert (
            f"{host} cannot {state}, so its gate does not have the list of revoked certificates, and lets host2 "
            "connect. Run playbooks/etcd.yml when the host is back."
        ) in printed
    assert (
        "host2 left the fleet, but these hosts do not have the list of revoked certificates, so that their gates let "
        "it connect: etcd2, etcd3. Run playbooks/etcd.yml when they are back."
    ) in printed
    assert printed.index("host2 left the fleet. Delete it from the inventory") < printed.index(
        "host2 left the fleet, but"
    )
    assert not any("host2" in key for key in fleet.stored()) and keys.heartbeat_key("host1") in fleet.stored()
    with pytest.raises(WrongPassword):
        fleet.etcd.ask(lambda client: client.status(), "host2", fleet.password("host2"))


def test_a_fleet_gives_its_datastore_up(fleet: Fleet) -> None:
    printed = fleet.run("site", "--diff", calico_etcd_endpoints=[])
    assert "- file /etc/calico/datastore.json" in printed and "converged 2/2 nodes" in printed
    assert fleet.files("host1") == set() == fleet.files("host2")
