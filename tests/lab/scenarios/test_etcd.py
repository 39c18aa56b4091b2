# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An etcd cluster of three lab hosts by the commands of docs/how-to/etcd.md: made, repaired, upgraded, restored.

The hosts have Debian 12 with etcd 3.4. For the upgrade they get the package of Debian 13, which needs nothing newer.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lab.handle import BaseLab
from tests.lab.machines import downloads

from .conftest import LAB, ROOT, Fleet, inventory_of, new_lab

MEMBERS = {"node1": "10.10.1.11", "node3": "10.10.2.11", "node5": "10.10.1.13"}
#: The address of a node that is no member: node3 has it, too.
NODE = "10.10.2.50"
PACKAGES = ["etcd-server", "etcd-client"]


@pytest.fixture(scope="module")
def lab() -> Iterator[BaseLab]:
    with new_lab(f"{LAB}-etcd", tuple(MEMBERS)) as lab:
        packages = downloads.debs("bookworm", PACKAGES)
        for node in MEMBERS:
            downloads.give_repository(lab, node, packages)
        yield lab


@pytest.fixture(scope="module")
def fleet(lab: BaseLab, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    folder = tmp_path_factory.mktemp("etcd")
    inventory_of(("node1", "node3"), folder)
    path = folder / "hosts.yml"
    hosts = yaml.safe_load(path.read_text("utf-8"))
    hosts["all"]["children"]["calico_etcd"] = {
        "hosts": {name: {"calico_etcd_address": address} for name, address in MEMBERS.items()}
    }
    hosts["all"]["children"]["calico_nodes"]["hosts"]["node9"] = {"calico_node_address": f"{NODE}/24"}
    path.write_text(yaml.safe_dump(hosts), "utf-8")
    return Fleet(lab, str(folder))


@pytest.fixture(scope="module")
def cluster(fleet: Fleet) -> Fleet:
    fleet.play("etcd.yml").check()
    return fleet


def folder(fleet: Fleet) -> Path:
    return Path(fleet.inventory) / ".calico.etcd"


def password(fleet: Fleet) -> str:
    return str(json.loads((folder(fleet) / "secrets.json").read_text())["password"])


def ask(lab: BaseLab, fleet: Fleet, path: str, body: dict[str, Any], node: str = "node1") -> dict[str, Any]:
    """Return the answer of a member's gateway to root, asked from node1."""

    def call(path: str, body: dict[str, Any], token: str = "") -> dict[str, Any]:
        script = (
            "import json, ssl, sys, urllib.request\n"
            "path, body, token = json.load(sys.stdin)\n"
            "tls = ssl.create_default_context(cafile='/etc/calico-etcd/ca.pem')\n"
            "tls.load_cert_chain('/etc/calico-etcd/client.pem')\n"
            f"request = urllib.request.Request('https://{MEMBERS[node]}:2379' + path, json.dumps(body).encode(),\n"
            "    {'Authorization': token} if token else {})\n"
            "print(urllib.request.urlopen(request, timeout=10, context=tls).read().decode())\n"
        )
        said = lab.exec("node1", ["python3", "-c", script], input=json.dumps([path, body, token])).stdout
        answer: dict[str, Any] = json.loads(said)
        return answer

    token = call("/v3/auth/authenticate", {"name": "root", "password": password(fleet)})["token"]
    return call(path, body, token)


def revision(lab: BaseLab, fleet: Fleet) -> int:
    return int(ask(lab, fleet, "/v3/maintenance/status", {})["header"]["revision"])


@contextlib.contextmanager
def writing(lab: BaseLab, fleet: Fleet) -> Iterator[dict[str, Any]]:
    """Write a key every 50 ms while the block runs; the dict has the result afterwards."""
    lab.put("node1", str(ROOT / "tests/lab/scenarios/etcd_writer.py"), "/root/etcd_writer.py")
    urls = [f"https://{address}:2379" for address in MEMBERS.values()]
    process = lab.popen("node1", ["python3", "/root/etcd_writer.py", "root", *urls], text=True)
    found: dict[str, Any] = {}
    assert process.stdin is not None
    process.stdin.write(f"{password(fleet)}\n")
    process.stdin.flush()
    try:
        yield found
    finally:
        said, dummy = process.communicate(timeout=60)
        found.update(json.loads(said))


def test_a_check_run_says_what_would_be_done_and_does_nothing(lab: BaseLab, fleet: Fleet) -> None:
    run = fleet.play("etcd.yml", "--check", "--diff").check()
    assert re.search(r"^node1 +create the cluster with etcd 3\.4\.23$", run.output, re.MULTILINE)
    assert re.search(r"^node5 +add with etcd 3\.4\.23$", run.output, re.MULTILINE)
    assert not folder(fleet).exists()
    for node in MEMBERS:
        said = lab.exec(node, "ls -d /etc/calico-etcd /usr/bin/etcd /var/lib/calico-etcd 2>/dev/null; true").stdout
        assert said == ""


def test_the_cluster_is_made_and_a_second_run_changes_nothing(lab: BaseLab, cluster: Fleet) -> None:
    cluster.play("etcd.yml").unchanged(*MEMBERS)
    for node in MEMBERS:
        assert lab.exec(node, "systemctl is-enabled etcd", check=False).stdout == "masked\n"
        assert lab.exec(node, "systemctl is-active etcd calico-etcd", check=False).stdout == "inactive\nactive\n"
        assert lab.exec(node, "systemctl is-active calico-etcd-gate").stdout == "active\n"
        gate = lab.exec(node, "ps -o user= $(systemctl show -P MainPID calico-etcd-gate)").stdout
        assert gate.strip() == "calico-gate"
        assert lab.exec(node, "stat -c '%a %U' /var/lib/calico-etcd /etc/calico-etcd/server.pem").stdout == (
            "700 calico-etcd\n600 calico-etcd\n"
        )
        # The password stays on the controller: neither in a file, a process nor the log of a member.
        lab.exec(node, "! grep -rqsFf - /etc /var/log /root /proc/[0-9]*/cmdline", input=password(cluster))
    status = cluster.play("etcd_status.yml", "-estrict=true").check()
    assert "cluster  3 of 3 members answer" in status.output
    assert len(re.findall(r"^node\d +\S+ +3\.4\.23 +follower", status.output, re.MULTILINE)) == 2


def test_only_known_addresses_with_a_certificate_get_in(lab: BaseLab, cluster: Fleet) -> None:
    """The firewall closes the ports to other addresses, and TLS to clients without a certificate."""
    reach = "timeout 3 bash -c 'exec 3<>/dev/tcp/{}/{}' 2>&1; echo $?"
    for port in (2378, 2379, 2380):
        assert lab.exec("node3", reach.format(MEMBERS["node1"], port)).stdout == "0\n"
        outside = lab.outside_exec(["bash", "-c", reach.format(MEMBERS["node1"], port)], check=False).stdout
        assert outside.splitlines()[-1] == "124"
    # Nothing else is closed: UDP carries VXLAN and BFD, and ICMP says what does not arrive.
    lab.outside_exec(["ping", "-c3", "-W5", MEMBERS["node1"]])
    refused = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3);"
        f" s.connect(('{MEMBERS['node1']}', 9)); s.send(b'x'); s.recv(1)"
    )
    assert "ConnectionRefusedError" in lab.exec("node3", ["python3", "-c", refused], check=False).stderr
    said = lab.exec(
        "node3",
        "python3 -c \"import ssl, urllib.request as u; u.urlopen('https://{}:2379/version', timeout=5, "
        "context=ssl.create_default_context(cafile='/etc/calico-etcd/ca.pem'))\"".format(MEMBERS["node1"]),
        check=False,
    )
    assert said.returncode != 0 and "SSLV3_ALERT_BAD_CERTIFICATE" in said.stderr


def test_a_node_reaches_the_gate_alone(lab: BaseLab, cluster: Fleet) -> None:
    """The firewall closes etcd to a node that is no member. The gate passes its calls, but no nested transaction."""
    script = (
        "import http.client, json, ssl, sys\n"
        "port, certificate, path, body, token = json.load(sys.stdin)\n"
        "tls = ssl.create_default_context(cafile='/etc/calico-etcd/ca.pem')\n"
        "if certificate: tls.load_cert_chain('/etc/calico-etcd/client.pem')\n"
        f"asked = http.client.HTTPSConnection({MEMBERS['node1']!r}, port, timeout=3, source_address=({NODE!r}, 0),\n"
        "    context=tls)\n"
        "try:\n"
        "    asked.request('POST', path, json.dumps(body), {'Authorization': token} if token else {})\n"
        "    answer = asked.getresponse()\n"
        "    print(json.dumps([answer.status, json.load(answer)]))\n"
        "except OSError as error: print(json.dumps([0, str(error)]))\n"
    )

    def said(port: int, path: str, body: dict[str, Any], token: str = "", certificate: bool = True) -> list[Any]:
        asked = json.dumps([port, certificate, path, body, token])
        answer: list[Any] = json.loads(lab.exec("node3", ["python3", "-c", script], input=asked).stdout)
        return answer

    lab.exec("node3", f"ip address add {NODE}/32 dev lo")
    try:
        login = {"name": "root", "password": password(cluster)}
        assert said(2379, "/v3/auth/authenticate", login) == [0, "timed out"]
        assert "CERTIFICATE_REQUIRED" in str(said(2378, "/v3/auth/authenticate", login, certificate=False)[1])
        status, answer = said(2378, "/v3/auth/authenticate", login)
        assert status == 200, answer
        written = {"request_put": {"key": "L2E=", "value": "MQ=="}}
        assert said(2378, "/v3/kv/range", {"key": "L2E="}, answer["token"])[0] == 200
        assert said(2378, "/v3/kv/txn", {"success": [written]}, answer["token"]) == [
            403, {"code": 7, "message": "the gate: a write beside the user's own keys is not passed"},
        ]  # fmt: skip
        nested = {"success": [{"request_txn": {"success": [written]}}]}
        assert said(2378, "/v3/kv/txn", nested, answer["token"]) == [
            403,
            {
                "code": 7,
                "message": "the gate: success[0].request_txn is not known. "
                "There are: request_range, request_put, request_delete_range",
            },
        ]
    finally:
        lab.exec("node3", f"ip address delete {NODE}/32 dev lo")


@pytest.mark.soak
def test_a_member_that_was_rebuilt_is_replaced(lab: BaseLab, cluster: Fleet) -> None:
    with writing(lab, cluster) as seen:
        lab.exec("node5", "systemctl kill -s KILL calico-etcd")
        lab.exec("node5", "systemctl disable --now calico-etcd calico-etcd-firewall")
        lab.exec("node5", "apt-get purge -y -qq etcd-server; rm -rf /var/lib/calico-etcd /etc/calico-etcd")
        lab.exec("node5", "rm -rf /etc/systemd/system/calico-etcd* && systemctl daemon-reload")
        down = cluster.play("etcd_status.yml").check()
        assert "! node5: calico-etcd.service does not run." in down.output
        run = cluster.play("etcd.yml").check()
        assert re.search(r"^node5 +remove the member [0-9a-f]+: its host has no data$", run.output, re.MULTILINE)
        assert re.search(r"^node5 +add with etcd 3\.4\.23$", run.output, re.MULTILINE)
    assert (seen["failed"], seen["written"] > 100) == (0, True), seen
    cluster.play("etcd_status.yml", "-estrict=true").check()


@pytest.mark.soak
def test_certificates_and_authorities_are_renewed_without_an_outage(lab: BaseLab, cluster: Fleet) -> None:
    """No write fails while all certificates are renewed, and while both authorities are succeeded."""
    old = (folder(cluster) / "client.pem").read_bytes()
    for option in ("ca=", "ca=begin", "ca=finish"):
        with writing(lab, cluster) as seen:
            run = cluster.play("etcd_certificates.yml", "-e", option).check()
            assert [line.split()[0] for line in run.output.splitlines() if " restart: its files changed" in line] != []
        assert (seen["failed"], seen["written"] > 100) == (0, True), (option, seen)
    assert (folder(cluster) / "client.pem").read_bytes() != old
    cluster.play("etcd_status.yml", "-estrict=true").check()
    cluster.play("etcd.yml").unchanged(*MEMBERS)


@pytest.mark.soak
def test_a_snapshot_is_restored(lab: BaseLab, cluster: Fleet, tmp_path: Path) -> None:
    """A member of etcd 3.4 goes back to the revision of the snapshot, and says so if a bump is asked for."""
    put = {"key": "L2E=", "value": "MQ=="}
    ask(lab, cluster, "/v3/kv/put", put)
    before = revision(lab, cluster)
    path = tmp_path / "etcd.db"
    cluster.play("etcd_snapshot.yml", "-e", f"to={path}").check()
    assert path.stat().st_mode & 0o777 == 0o600
    ask(lab, cluster, "/v3/kv/put", {**put, "value": "Mg=="})
    refused = cluster.play("etcd_restore.yml", "-e", f"snapshot={path}")
    assert refused.code != 0 and "Add -e confirm=true to do it. Nothing was changed." in refused.output
    refused = cluster.play("etcd_restore.yml", "-e", f"snapshot={path}", "-e", "confirm=true", "-e", "bump=5")
    assert refused.code != 0 and "a snapshot is restored with a higher revision from 3.5 on only" in refused.output
    cluster.play("etcd_restore.yml", "-e", f"snapshot={path}", "-e", "confirm=true").check()
    assert revision(lab, cluster) == before
    assert ask(lab, cluster, "/v3/kv/range", {"key": "L2E="})["kvs"][0]["value"] == "MQ=="
    cluster.play("etcd.yml").unchanged(*MEMBERS)


@pytest.mark.soak
def test_a_node_is_revoked(lab: BaseLab, cluster: Fleet) -> None:
    """Its user, its keys and the space of their values go, and all members get its certificate's fingerprint."""

    def text(data: str) -> str:
        return base64.b64encode(data.encode()).decode()

    ask(lab, cluster, "/v3/auth/user/add", {"name": "node9", "password": "x"})
    ask(lab, cluster, "/v3/auth/role/add", {"name": "node9"})
    for number in range(8):
        key = text(f"/host-routing/v1/endpoints/node9/cali{number}")
        ask(lab, cluster, "/v3/kv/put", {"key": key, "value": text("x" * 60_000)})
    before = int(ask(lab, cluster, "/v3/maintenance/status", {})["dbSize"])
    assert (folder(cluster) / "nodes" / "node9.pem").exists()
    run = cluster.play("etcd_revoke.yml", "-e", "node=node9").check()
    output = re.sub(r"\s+", " ", run.output)
    said = re.search(
        r"node9 has no user any more, and 8 of its keys were deleted\. Its last watch ended (\d+) s after that", output
    )
    assert said and 1 <= int(said[1]) <= 600, run.output
    assert ask(lab, cluster, "/v3/auth/user/list", {})["users"] == ["root"]
    everything = {
        "key": text("/host-routing/v1/endpoints/node9/"),
        "range_end": text("/host-routing/v1/endpoints/node90"),
    }
    assert "kvs" not in ask(lab, cluster, "/v3/kv/range", everything)
    assert int(ask(lab, cluster, "/v3/maintenance/status", {})["dbSize"]) < before
    listed = (folder(cluster) / "revoked.txt").read_text()
    assert listed.startswith("# node9\n") and not (folder(cluster) / "nodes" / "node9.pem").exists()
    for node in MEMBERS:
        assert lab.exec(node, "cat /etc/calico-etcd/revoked.txt").stdout == listed
    again = cluster.play("etcd_revoke.yml", "-e", "node=node9").check()
    assert "node9 had no user, and 0 of its keys were deleted." in re.sub(r"\s+", " ", again.output)
    assert "has no certificate of its own" not in re.sub(r"\s+", " ", again.output)  # all of them are on the list


@pytest.mark.soak
def test_an_operator_comes_and_goes(lab: BaseLab, cluster: Fleet) -> None:
    """Its addresses reach etcd itself; afterwards they do not, its user is gone, and so are its open watches."""
    path = Path(cluster.inventory) / "group_vars" / "all" / "operators.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    reach = f"timeout 3 bash -c 'exec 3<>/dev/tcp/{MEMBERS['node1']}/2379' 2>&1; echo $?"
    address = lab.outside_exec(["bash", "-c", f"ip -o route get {MEMBERS['node1']}"]).stdout.split("src ")[1].split()[0]
    assert lab.outside_exec(["bash", "-c", reach], check=False).stdout.splitlines()[-1] == "124"
    path.write_text(f"calico_etcd_operators: [{{name: ada, addresses: [{address}]}}]\n")
    run = cluster.play("etcd.yml").check()
    assert "operators/: new certificates for ada" in run.output and "restart" not in run.output
    assert lab.outside_exec(["bash", "-c", reach], check=False).stdout.splitlines()[-1] == "0"
    issued = folder(cluster) / "operators" / "ada" / "issued.pem"
    assert issued.stat().st_mode & 0o777 == 0o600
    ask(lab, cluster, "/v3/auth/user/add", {"name": "ada", "password": "x"})
    ask(lab, cluster, "/v3/auth/role/add", {"name": "ada"})
    began = {node: lab.exec(node, "systemctl show -P MainPID calico-etcd").stdout for node in MEMBERS}
    path.write_text("calico_etcd_operators: []\n")
    run = cluster.play("etcd.yml").check()
    assert len(re.findall(r"^node\d +restart: it ends watches of ada$", run.output, re.MULTILINE)) == 3, run.output
    assert ask(lab, cluster, "/v3/auth/user/list", {})["users"] == ["root"]
    assert lab.outside_exec(["bash", "-c", reach], check=False).stdout.splitlines()[-1] == "124"
    listed = (folder(cluster) / "revoked.txt").read_text()
    assert "# ada\n" in listed and not issued.exists()
    for node in MEMBERS:
        assert lab.exec(node, "systemctl show -P MainPID calico-etcd").stdout != began[node]
        assert lab.exec(node, "cat /etc/calico-etcd/revoked.txt").stdout == listed
    cluster.play("etcd.yml").unchanged(*MEMBERS)
    path.unlink()


@pytest.mark.soak
def test_an_alarm_is_named_and_ended(lab: BaseLab, cluster: Fleet) -> None:
    identity = ask(lab, cluster, "/v3/maintenance/status", {})["header"]["member_id"]
    ask(lab, cluster, "/v3/maintenance/alarm", {"action": "ACTIVATE", "memberID": identity, "alarm": "NOSPACE"})
    status = cluster.play("etcd_status.yml").check()
    assert "! node1: alarm NOSPACE. Run playbooks/etcd.yml -e clear_alarms=true." in status.output
    named = cluster.play("etcd.yml").check()
    assert "The cluster has alarms: NOSPACE of node1." in named.output
    cluster.play("etcd.yml", "-e", "clear_alarms=true").check()
    cluster.play("etcd_status.yml", "-estrict=true").check()
    cluster.play("etcd_defragment.yml").check()


@pytest.mark.soak
def test_the_cluster_is_upgraded_and_restored_with_a_bump(lab: BaseLab, cluster: Fleet, tmp_path: Path) -> None:
    packages = downloads.debs("trixie", PACKAGES)
    for node in MEMBERS:
        lab.exec(node, "rm -rf /srv/more")
        downloads.give_repository(lab, node, packages)
    with writing(lab, cluster) as seen:
        run = cluster.play("etcd.yml", "-e", "upgrade=true").check()
        steps = re.findall(r"^node\d +restart: etcd 3\.4\.23 becomes 3\.5\.16$", run.output, re.MULTILINE)
        assert len(steps) == 3, run.output
    assert (seen["failed"], seen["written"] > 100) == (0, True), seen
    cluster.play("etcd.yml").unchanged(*MEMBERS)
    path = tmp_path / "etcd.db"
    cluster.play("etcd_snapshot.yml", "-e", f"to={path}").check()
    before = revision(lab, cluster)
    cluster.play("etcd_restore.yml", "-e", f"snapshot={path}", "-e", "confirm=true").check()
    assert revision(lab, cluster) >= before + 1_000_000_000
    cluster.play("etcd_status.yml", "-estrict=true").check()
