# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's Prometheus scrapes a running agent: every query of the dashboard has data, every alert is valid."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import pathlib
import re
import socket
import subprocess
import sys
import time
import typing as t
import urllib.parse

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import documents, keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import firewall
from ansible_collections.baremetal.host_routing.plugins.module_utils.state import attachment
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.fleet_list import FleetMember
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState

from tests.conftest import ROOT
from tests.etcd_cluster import EtcdCluster, programs
from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.agent.metrics.debian_prometheus import debian_prometheus
from tests.integration.agent.policy.policed_daemon import CLOSED, open_for, policed
from tests.integration.bird.network import DIES_WITH_ITS_PARENT
from tests.integration.host_under_test import HOST
from tests.integration.policy.documents import global_policy
from tests.unit.agent.api.live_server import everything
from tests.unit.agent.node_under_test import STATE
from tests.unit.bird.conftest import FakeBird

MONITORING = ROOT / "roles" / "calico_node" / "files" / "monitoring"
ALERTS = MONITORING / "alerts.yml"
AGENT, PROMETHEUS = 9091, 9090  # ports in the namespace

# The program of `Watched.get`: reads all URLs in one process, because each start inside the namespace takes time.
ASK = """\
import json, sys, urllib.error, urllib.request
answers = []
for url in json.load(sys.stdin):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            answers.append([answer.status, answer.read().decode()])
    except urllib.error.HTTPError as error:
        answers.append([error.code, error.read().decode()])
    except OSError as error:
        answers.append([0, str(error)])
json.dump(answers, sys.stdout)
"""

CONFIGURATION = f"""\
global: {{scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}}
rule_files: [{ALERTS}]
scrape_configs:
  - job_name: calico-agent
    static_configs: [{{targets: ["127.0.0.1:{AGENT}"]}}]
"""

#: A policy that logs and denies all packets to workloads.
WATCHED = global_policy("watched", types=["Ingress"], ingress=[{"action": "Log"}, {"action": "Deny"}])

STATUS = b"1011-Router ID is 10.10.1.11\n0013 Daemon is up and running\n"
PROTOCOLS = b"""\
1002-bgp_node2  BGP        ---        up     2026-11-21    Established
1006-  BGP state:          Established
0000 .
"""


#: The addresses of the probe endpoints of this node and of another one.
ENDPOINT, OTHER_ENDPOINT = "10.244.1.7", "10.244.2.7"


def watching() -> NodeState:
    """Return STATE with a probe endpoint and a path to another node."""
    pool = dataclasses.replace(STATE.pools[0], workload_mtu=1500)
    state = dataclasses.replace(
        STATE,
        pools=(pool,),
        ipam=dataclasses.replace(STATE.ipam, probes={pool.name: ENDPOINT}),
        nodes=(
            FleetMember(STATE.node, STATE.address, 64512, probes=(ENDPOINT,)),
            FleetMember("node2", "10.10.1.12/24", 64512, probes=(OTHER_ENDPOINT,)),
        ),
    )
    state = dataclasses.replace(state, ipsets=firewall.probes(state.nodes, (4,)))
    return attachment.with_probe_endpoint(state, attachment.probe_endpoint([ENDPOINT], state.pools))


def answer_probes(daemon: Daemon) -> None:
    """Give the other node's probe endpoint an answer: its address is in a namespace beside the host."""
    there = daemon.netns("beside")
    for command in (
        f"ip link add beside0 type veth peer name eth0 netns {there}; ip link set beside0 up",
        f"ip route add {OTHER_ENDPOINT} dev beside0; sysctl -q -w net.ipv4.conf.beside0.proxy_arp=1",
        # Proxy ARP answers for the gateway of workloads only where a route by another device leads to it.
        "ip route add 169.254.1.1/32 dev beside0",
    ):
        subprocess.run(["nsenter", f"--net={daemon.folder / 'netns' / HOST}", "sh", "-c", command], check=True)
    inside = f"ip address add {OTHER_ENDPOINT}/32 dev eth0; ip link set eth0 up; ip route add {ENDPOINT} dev eth0"
    subprocess.run(["nsenter", f"--net={there}", "sh", "-c", inside], check=True)


class Watched(t.NamedTuple):
    daemon: Daemon
    inside: list[str]  # the words before a command that run it in the host's namespace
    log: pathlib.Path  # Prometheus writes it

    def get(self, *urls: str) -> list[tuple[int, str]]:
        """Return (status, body) of each URL, asked in the host's namespace; (0, reason) if the connection fails.

        Each wait for a server is limited to 10 seconds. Raise subprocess.TimeoutExpired after 60 seconds for all.
        """
        command = [*self.inside, sys.executable, "-I", "-c", ASK]
        done = subprocess.run(command, input=json.dumps(urls), capture_output=True, text=True, check=True, timeout=60)
        return [(status, body) for status, body in json.loads(done.stdout)]

    def agent(self, path: str) -> tuple[int, str]:
        return self.get(f"http://127.0.0.1:{AGENT}{path}")[0]

    def query(self, *expressions: str) -> list[tuple[int, t.Any]]:
        """Return (HTTP status, result) of each PromQL expression.

        The result is data.result of Prometheus's answer, usually a list of series. If the status is not 200, it is the
        body as text, or the reason if the connection failed (status 0). Raise subprocess.TimeoutExpired as `get` does.
        """
        base = f"http://127.0.0.1:{PROMETHEUS}/api/v1/query?query="
        answers = self.get(*(base + urllib.parse.quote(expression) for expression in expressions))
        return [(status, json.loads(body)["data"]["result"] if status == 200 else body) for status, body in answers]


@pytest.fixture(scope="module")
def watched(engine: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Watched]:
    """An agent with values in its metrics, and a Prometheus that scrapes it; both are stopped at the module's end.

    The agent follows a datastore of one member.
    """
    folder = tmp_path_factory.mktemp("watched")
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(EtcdCluster(programs("trixie"), folder / "etcd", 1, gates=True))
        daemon = stack.enter_context(daemon_under_test(engine, folder))
        with cluster.inside():
            cluster.begin()
            asyncio.run(add_node(cluster))
        cluster.join(str(folder / "netns" / HOST), 101, "etcd0")
        daemon.follow(cluster.settings(STATE.node))
        inside = ["nsenter", f"--net={folder / 'netns' / HOST}", *DIES_WITH_ITS_PARENT]
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        bird = FakeBird(str(folder / "run" / "bird.ctl"))
        bird.answers = {"show status": [[STATUS]], "show protocols all": [[PROTOCOLS]]}
        daemon.settings(metrics_port=AGENT)
        answer_probes(daemon)
        daemon.desire(policed(WATCHED, base=watching()))
        daemon.start()
        configuration = folder / "prometheus.yml"
        configuration.write_text(CONFIGURATION)
        command = [
            *inside, str(debian_prometheus() / "prometheus"), f"--config.file={configuration}",
            f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{PROMETHEUS}",
        ]  # fmt: skip
        with open(folder / "prometheus.log", "wb") as log:
            prometheus = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            watched = Watched(daemon, inside, folder / "prometheus.log")
            be_busy(daemon)
            wait_until(lambda: scrapes(watched) >= 3, "Prometheus has scraped the agent", watched.log)
            yield watched
        finally:
            prometheus.kill()
            prometheus.wait(60)
            bird.close()


async def add_node(cluster: EtcdCluster) -> None:
    """Add the node's user to the datastore, and its blocks."""
    await cluster.add_node(STATE.node)
    operator = cluster.operator()
    blocks = documents.encode_blocks([block.cidr for block in STATE.ipam.blocks])
    await operator.write([Put(keys.blocks_key(STATE.node), blocks)])
    await operator.close()


def be_busy(daemon: Daemon) -> None:
    """Cause events that the metrics count: adds, a deletion, a resync, a logged and denied packet, a plugin's requests.

    Raise AssertionError if the packet arrives, the agent does not know of it within two minutes, or a request of the
    plugins for CNI and netavark fails. Raise AgentError if the agent refuses a call.
    """
    daemon.add("web")
    daemon.add("gone")
    daemon.delete("gone")
    daemon.call("resync")
    daemon.add("client")
    daemon.until(lambda: daemon.call("policy.drops")["group"], "the agent hears what policy drops")
    assert not open_for(daemon, "client", "web", CLOSED)
    daemon.until(lambda: len(daemon.call("policy.drops")["drops"]) == 2, "what was logged and dropped is known")
    for request in (
        b'CNI 1\nCNI_COMMAND=VERSION\n\n{"cniVersion":"1.0.0"}',
        b"NETAVARK 1\nNETAVARK_COMMAND=info\nNETAVARK_NETNS=\n\n",
    ):
        with socket.socket(socket.AF_UNIX) as plugin:
            plugin.connect(daemon.socket)
            plugin.sendall(request)
            plugin.shutdown(socket.SHUT_WR)
            assert everything(plugin).startswith(b"0\n")


def scrapes(watched: Watched) -> int:
    status, result = watched.query("count_over_time(up[1m]) and up == 1")[0]
    return int(result[0]["value"][1]) if status == 200 and result else 0


def wait_until(holds: t.Callable[[], bool], what: str, log: pathlib.Path) -> None:
    """Wait until `holds` returns True; raise AssertionError with the log after 120 seconds.

    On a busy machine a scrape may take too long, and only the next one has values.
    """
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end, f"not within 120 s: {what}\n{log.read_text()}"
        time.sleep(0.2)


def queries() -> list[tuple[str, str]]:
    """Return (title, expression) of each query of the dashboard's panels, for all nodes and rates of one minute.

    The title is "<panel>: <legend>", with the query's letter if its legend is empty.
    """
    board = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
    return [
        (
            f"{panel['title']}: {target['legendFormat'] or target['refId']}",
            target["expr"].replace("$instance", ".*").replace("$__rate_interval", "1m"),
        )
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def test_every_query_of_the_dashboard_has_data(watched: Watched) -> None:
    """Each query of the dashboard finds data, all of them at the same time, within 120 seconds.

    A busy machine may delay a scrape too long. Then the queries find no data until the next scrape.
    """
    # No path is down here.
    asked = [(title, expression) for title, expression in queries() if not title.startswith("Paths that are down: ")]
    assert len(asked) > 30
    end = time.monotonic() + 120
    while True:
        answers = watched.query(*(expression for dummy, expression in asked))
        without = [name for (name, dummy), (status, result) in zip(asked, answers) if status != 200 or not result]
        if not without or time.monotonic() > end:
            break
        time.sleep(0.5)
    assert without == []


def test_the_dashboards_list_of_nodes(watched: Watched) -> None:
    board = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
    found = re.fullmatch(r"label_values\((\w+), (\w+)\)", board["templating"]["list"][1]["definition"])
    assert found
    dummy, result = watched.query(found[1])[0]
    assert [series["metric"][found[2]] for series in result] == [f"127.0.0.1:{AGENT}"]
    assert result[0]["metric"]["node"] == "node1"


def test_every_alert_is_understood_and_none_fires(watched: Watched) -> None:
    def alerts() -> list[dict[str, t.Any]]:
        status, body = watched.get(f"http://127.0.0.1:{PROMETHEUS}/api/v1/rules")[0]
        assert status == 200
        return [rule for group in json.loads(body)["data"]["groups"] for rule in group["rules"]]

    wait_until(lambda: all(rule["state"] != "pending" for rule in alerts()), "no alert is pending", watched.log)
    rules = alerts()
    assert len(rules) > 10
    assert [(rule["name"], rule["health"], rule["state"]) for rule in rules] == [
        (rule["name"], "ok", "inactive") for rule in rules
    ]
    answers = watched.query(*(rule["query"] for rule in rules))
    assert [(rule["name"], answer) for rule, answer in zip(rules, answers)] == [
        (rule["name"], (200, [])) for rule in rules
    ]


def test_every_metric_of_the_alerts_is_there(watched: Watched) -> None:
    names = sorted(set(re.findall(r"\b(?:calico|process)_\w+", re.sub(r'"[^"]*"', "", ALERTS.read_text()))))
    # A path that is down has the second one.
    names = [name for name in names if not name.startswith(("calico_spare_", "calico_agent_path_down_"))]
    answers = watched.query(*names)
    assert [name for name, (dummy, result) in zip(names, answers) if not result] == []


def test_promtool_accepts_the_format_of_metrics(watched: Watched) -> None:
    """The page /metrics has a valid format, and promtool finds no fault with its style."""
    status, text = watched.agent("/metrics")
    assert status == 200
    promtool = [str(debian_prometheus() / "promtool"), "check", "metrics"]
    done = subprocess.run(promtool, input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_liveness_and_readiness_answer_ok(watched: Watched) -> None:
    assert watched.agent("/liveness") == (200, "ok\n")
    assert watched.agent("/readiness") == (200, "ok\n")


@pytest.mark.parametrize("what", [["check", "rules", str(ALERTS)], ["test", "rules", "alerts_test.yml"]], ids=" ".join)
def test_promtool_accepts_the_alerts(what: list[str]) -> None:
    promtool = str(debian_prometheus() / "promtool")
    here = pathlib.Path(__file__).parent
    done = subprocess.run([promtool, *what], cwd=here, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
