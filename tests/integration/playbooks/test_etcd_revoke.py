# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/etcd_revoke.yml on three members of Debian's etcd, while one is away. One run is in `make test`.

The tests run in their order: each goes on with the cluster that the one before has left.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import shutil
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import issued_files
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.cluster_members import EtcdHost
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.etcd_folder import EtcdFolder
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.issued_files import WantedFiles

from bench.site.simulated_hosts import SimulatedHosts
from tests.etcd_cluster import programs
from tests.integration.ansible_playbook import SIMULATED, play
from tests.lab.shell import wait_until

pytestmark = pytest.mark.root

HOSTS = ("host1", "host2", "host3")
SETTINGS = "/etc/calico-etcd"
NODES = ("node7", "node8", "node9")
#: A host that nothing answers for.
AWAY = {"ansible_connection": "ssh", "ansible_host": "192.0.2.1", "ansible_timeout": 1}
LEFT_OUT = (
    "its gate does not get the list of revoked certificates, and its member is neither restarted nor defragmented."
)
AGAIN = "left out, see the warning. Afterwards run playbooks/etcd_revoke.yml -e node={} again."
# systemctl of a host whose only unit is the member's.
SYSTEMCTL = """\
#!/bin/sh
runs() { [ -e /run/etcd.pid ] && kill -0 "$(cat /run/etcd.pid)" 2> /dev/null; }
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in
is-active) runs && echo active || { echo inactive; exit 3; } ;;
is-enabled) echo enabled ;;
show) runs && state=active || state=inactive; printf 'LoadState=loaded\\nActiveState=%s\\n' $state ;;
stop) runs && kill -9 "$(cat /run/etcd.pid)"; while runs; do sleep 0.05; done ;;
start) setsid /usr/local/bin/etcd-member < /dev/null > /run/etcd.log 2>&1 & echo $! > /run/etcd.pid ;;
*) echo "a host of this test knows no systemctl $*" >&2; exit 1 ;;
esac
"""
MEMBER = """\
#!/bin/sh
exec {programs}/etcd --name {name} --data-dir /var/lib/calico-etcd --listen-client-urls {host.client_url} \\
    --advertise-client-urls {host.client_url} --listen-peer-urls {host.peer_url} --client-cert-auth \\
    --initial-advertise-peer-urls {host.peer_url} --initial-cluster {all} --bcrypt-cost 4 --peer-client-cert-auth \\
    --trusted-ca-file /etc/calico-etcd/ca.pem --peer-trusted-ca-file /etc/calico-etcd/peers.pem \\
    --cert-file /etc/calico-etcd/server.pem --key-file /etc/calico-etcd/server.pem \\
    --peer-cert-file /etc/calico-etcd/peer.pem --peer-key-file /etc/calico-etcd/peer.pem
"""


class Cluster:
    """A cluster of three members with users and keys of three nodes. The inventory and .calico.etcd are in `folder`."""

    def __init__(self, hosts: SimulatedHosts, folder: pathlib.Path) -> None:
        self.hosts, self.folder, self.etcd = hosts, folder, programs("trixie")
        self.members = [EtcdHost(name, hosts.addresses[name].partition("/")[0]) for name in HOSTS]
        (folder / "inventory").mkdir()
        self.files = EtcdFolder(str(folder / "inventory" / ".calico.etcd"))
        wanted = WantedFiles(self.members, nodes=NODES)
        issued_files.apply(
            self.files, issued_files.planned(self.files, wanted, datetime.datetime.now(datetime.timezone.utc))
        )
        self.password = json.loads((self.files.read("secrets.json") or b"").decode())["password"]
        everyone = ",".join(f"{host.name}={host.peer_url}" for host in self.members)
        for host in self.members:
            own = folder / host.name
            own.mkdir()
            (own / "systemctl").write_text(SYSTEMCTL)
            (own / "etcd-member").write_text(MEMBER.format(programs=self.etcd, name=host.name, host=host, all=everyone))
            for name in ("ca.pem", "peers.pem", f"members/{host.name}/server.pem", f"members/{host.name}/peer.pem"):
                shutil.copy(self.files.where(name), own)
            (own / "client.pem").write_bytes(
                b"".join(self.files.read(name) or b"" for name in ("client.pem", "client.key"))
            )
            programs_of_host = f"{own}/systemctl {own}/etcd-member"
            self.inside(
                host.name,
                f"install -m 755 {programs_of_host} /usr/local/bin/; mkdir /etc/calico-etcd;"
                f" cp {own}/*.pem /etc/calico-etcd; mount --bind /usr/local/bin/systemctl /usr/bin/systemctl;"
                " systemctl start calico-etcd.service",
            )
        wait_until("the cluster has a leader", lambda: self.try_ctl("endpoint", "health", user=False), timeout=60)
        for words in (
            *(("user", "add", f"{name}:{self.password}") for name in ("root", *NODES)),
            *(("role", "add", name) for name in ("root", *NODES)),
            *(("user", "grant-role", name, name) for name in ("root", *NODES)),
            *(("put", f"/host-routing/v1/endpoints/{name}/cali{number}", "x") for name in NODES for number in (1, 2)),
            ("auth", "enable"),
        ):
            assert self.try_ctl(*words, user=False), words

    def inside(self, host: str, command: str) -> str:
        enter = ["nsenter", f"--target={self.hosts.spaces[host].pid}", "--mount", "--net", "--pid", "--"]
        return subprocess.run([*enter, "sh", "-ec", command], check=True, capture_output=True, text=True).stdout

    def _etcdctl(self, *words: str, user: bool) -> subprocess.CompletedProcess[str]:
        """Run etcdctl at the first member."""
        command = [
            *("nsenter", f"--target={self.hosts.spaces['host1'].pid}", "--net", "--", self.etcd / "etcdctl"),
            *("--endpoints", self.members[0].client_url, "--cacert", self.files.where("ca.pem")),
            *("--cert", self.files.where("client.pem"), "--key", self.files.where("client.key")),
            *(("--user", f"root:{self.password}") if user else ()),
        ]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, check=False)

    def try_ctl(self, *words: str, user: bool = True) -> bool:
        return self._etcdctl(*words, user=user).returncode == 0

    def ctl(self, *words: str) -> list[str]:
        """Return what etcdctl prints as root. Raise AssertionError if it fails."""
        done = self._etcdctl(*words, user=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def users(self) -> set[str]:
        return set(self.ctl("user", "list"))

    def keys(self, node: str) -> list[str]:
        return self.ctl("get", "--prefix", "--keys-only", f"/host-routing/v1/endpoints/{node}/")

    def processes(self) -> dict[str, str]:
        """Return the process of each host's member."""
        return {host: self.inside(host, "cat /run/etcd.pid") for host in HOSTS}

    def listed(self, host: str) -> list[str]:
        """Return the nodes on the list of a host's gate."""
        found = self.inside(host, "cat /etc/calico-etcd/revoked.txt 2>/dev/null || :")
        return re.findall(r"^# (\S+)$", found, re.MULTILINE)

    def revoke(self, node: str, *options: str, away: t.Container[str] = ()) -> tuple[int, str]:
        """Run etcd_revoke.yml while Ansible cannot reach some hosts; return its status, and its output as one line."""
        entries = {
            host.name: {
                "calico_etcd_address": host.address,
                "ansible_python_interpreter": sys.executable,
                **(
                    AWAY
                    if host.name in away
                    else {
                        "ansible_connection": "namespace",
                        "simulated_host_pid": self.hosts.spaces[host.name].pid,
                    }
                ),
            }
            for host in self.members
        }
        path = self.folder / "inventory" / "hosts.yml"
        path.write_text(yaml.safe_dump({"calico_etcd": {"hosts": entries}}))
        done = play(
            "playbooks/etcd_revoke.yml", path, "-e", f"node={node}", *options, environment=SIMULATED, timeout=300
        )
        printed = done.stdout + done.stderr
        assert self.password not in printed and "Traceback" not in printed
        return done.returncode, re.sub(r"\s+", " ", printed)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("revoke")
    (folder / "private").mkdir()
    with SimulatedHosts(len(HOSTS), folder / "private") as hosts:
        yield Cluster(hosts, folder)


class Revocation(t.NamedTuple):
    """A run's exit status and output as one line, and the process of each host's member before it."""

    status: int
    said: str
    before: dict[str, str]


@pytest.fixture(scope="module")
def without_host3(cluster: Cluster) -> Revocation:
    """node9 is revoked while host3 cannot be reached."""
    before = cluster.processes()
    return Revocation(*cluster.revoke("node9", away="host3"), before)


def test_a_host_that_cannot_be_reached_keeps_no_node_in(cluster: Cluster, without_host3: Revocation) -> None:
    """The node is revoked at the two others. The third one is named, and the run ends with an error."""
    status, said, before = without_host3
    assert status == 2, said
    assert "host3 is left out (unreachable: " in said and LEFT_OUT in said
    assert "node9 has no user any more, and 2 of its keys were deleted. Its last watch ended " in said
    assert " s after that, when the last member was restarted, except at host3. Take it out of the inventory" in said
    assert f"host3 was {AGAIN.format('node9')}" in said
    assert cluster.users() == {"root", "node7", "node8"} and cluster.keys("node9") == []
    assert [cluster.listed(host) for host in HOSTS] == [["node9"], ["node9"], []]
    after = cluster.processes()
    assert [host for host in HOSTS if after[host] != before[host]] == ["host1", "host2"]


@pytest.mark.soak
@pytest.mark.usefixtures("without_host3")
def test_a_check_names_it_too_and_changes_nothing(cluster: Cluster) -> None:
    before = cluster.processes()
    status, said = cluster.revoke("node8", "--check", away="host3")
    assert status == 2 and "host3 is left out (unreachable: " in said and LEFT_OUT in said
    assert "node8" in cluster.users() and cluster.listed("host1") == ["node9"] and cluster.processes() == before


@pytest.mark.soak
@pytest.mark.usefixtures("without_host3")
def test_the_same_command_completes_it(cluster: Cluster) -> None:
    """A second run warns of no certificate, since the first one has put those of the node on the list."""
    before = cluster.processes()
    status, said = cluster.revoke("node9")
    assert status == 0 and "is left out" not in said and "has no certificate of its own" not in said, said
    assert "node9 had no user, and 0 of its keys were deleted." in said
    assert [cluster.listed(host) for host in HOSTS] == [["node9"]] * 3
    assert not set(cluster.processes().values()) & set(before.values())


@pytest.mark.soak
def test_a_host_that_cannot_write_the_list_keeps_no_node_in(cluster: Cluster) -> None:
    """The first host's folder is read-only, so another member deletes the user."""
    cluster.inside("host1", f"mount --bind {SETTINGS} {SETTINGS} && mount -o remount,ro,bind {SETTINGS}")
    status, said = cluster.revoke("node8")
    cluster.inside("host1", f"umount {SETTINGS}")
    assert status == 2, said
    assert f"host1 is left out (it is not in this run, or it failed and its error stands above): {LEFT_OUT}" in said
    assert "node8 has no user any more, and 2 of its keys were deleted." in said
    assert cluster.users() == {"root", "node7"} and cluster.keys("node8") == []
    assert [cluster.listed(host) for host in HOSTS] == [["node9"], ["node9", "node8"], ["node9", "node8"]]


@pytest.mark.soak
def test_without_a_quorum_the_gates_shut_the_node_out_and_the_rest_is_refused(cluster: Cluster) -> None:
    for host in ("host2", "host3"):
        cluster.inside(host, "systemctl stop calico-etcd.service")
    status, said = cluster.revoke("node7", away="host3")
    for host in ("host2", "host3"):
        cluster.inside(host, "systemctl start calico-etcd.service")
    assert status == 2, said
    assert re.search(
        r"No member of the cluster answers \(host1: [^;]+; host2: calico-etcd.service does not run; "
        r"host3: unreachable: .*?\)\. Start them with `systemctl start calico-etcd`, or restore the cluster from a "
        r"snapshot with playbooks/etcd_restore\.yml\. The gates of hosts that are reached get the list of revoked "
        r"certificates\. The node's user and keys are kept\.",
        said,
    ), said
    assert [cluster.listed(host)[-1] for host in HOSTS] == ["node7", "node7", "node8"]
    wait_until("the cluster has a leader again", lambda: cluster.try_ctl("endpoint", "health"), timeout=60)
    assert cluster.users() == {"root", "node7"}
    status, said = cluster.revoke("node7")
    assert status == 0 and "node7 has no user any more, and 2 of its keys were deleted." in said


@pytest.mark.soak
def test_with_no_host_at_all_it_is_refused(cluster: Cluster) -> None:
    status, said = cluster.revoke("node9", away=HOSTS)
    assert status == 2 and "No member of the cluster answers (host1: unreachable: " in said, said
