# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules started by the engine that a host has installed, by one that comes with the call, and by Ansible's archive.

All hosts are simulated ones. What tasks report, and what the hosts have afterwards, must be the same.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
import yaml
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle

from bench.site.simulated_hosts import SimulatedHosts
from tests import prepared_ansible
from tests.integration.ansible_playbook import BIN, ROOT

pytestmark = pytest.mark.root

WITH, WITHOUT, ARCHIVE = "host1", "host2", "host3"
SOURCE = pathlib.Path(bundle.__file__).resolve().parents[2]
SECRET = "correct-horse-4711"
ROUTE = {"destination": "172.19.2.0/24", "device": "eth0"}
BY_ENGINE, CARRIED, AS_ARCHIVE = (
    "ran by the host's engine",
    "ran by an engine that came with the call",
    "is sent as an archive",
)
CONNECTIONS = ROOT / "bench" / "site" / "connection"
#: Python on the hosts. It records its command line and those of the processes that started it, which other users of the
#: host can see, and its environment.
_INTERPRETER = """\
#!/bin/sh
pid=$$
while [ "$pid" -gt 1 ]; do
    tr '\\0' '\\n' < /proc/$pid/cmdline
    pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$pid/status)
done >> {folder}/seen
tr '\\0' '\\n' < /proc/self/environ >> {folder}/seen
exec {python} "$@"
"""
_INSTALL = (
    "import sys; sys.path.insert(0, {collections!r})\n"
    "from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle\n"
    "bundle.install(bundle.build({source!r}), {digest!r})"
)


class Hosts:
    """Three hosts: one with the engine, one without it, and one without it whose connection passes no input."""

    def __init__(self, simulated: SimulatedHosts, folder: pathlib.Path) -> None:
        self.simulated, self.folder = simulated, folder
        self.pid = {name: space.pid for name, space in simulated.spaces.items()}
        python = folder / "python"
        python.write_text(_INTERPRETER.format(folder=folder, python=sys.executable))
        python.chmod(0o755)
        variables = {"ansible_connection": "namespace", "ansible_python_interpreter": str(python)}
        hosts: dict[str, dict[str, t.Any]] = {name: {"simulated_host_pid": pid} for name, pid in self.pid.items()}
        hosts[ARCHIVE]["ansible_connection"] = "mute"
        (folder / "connection").mkdir()
        text = (CONNECTIONS / "namespace.py").read_text()
        mute = text.replace("has_pipelining = True", "has_pipelining = False").replace("namespace", "mute")
        (folder / "connection" / "mute.py").write_text(mute)
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": variables}}))
        collections, digest = str(ROOT / ".build" / "collections"), bundle.bundle_digest(str(SOURCE))
        code = _INSTALL.format(collections=collections, source=str(SOURCE), digest=digest)
        self.inside(WITH, sys.executable, "-c", code)

    def inside(self, host: str, *command: str) -> str:
        enter = ["nsenter", f"--target={self.pid[host]}", "--mount", "--net", "--pid", "--", *command]
        return subprocess.run(enter, capture_output=True, text=True, check=True).stdout

    def ansible(self, program: str, *words: str, **environment: str) -> str:
        """Run a program of Ansible with -vvv, and return its stdout and then its stderr; it need not succeed.

        `environment` has further variables for it. Raise subprocess.TimeoutExpired after 300 seconds.
        """
        done = prepared_ansible.run(
            [BIN / program, *words, "-i", self.folder / "hosts.yml", "-vvv"],
            ROOT,
            {
                "PATH": "/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin",
                "LC_ALL": "C.UTF-8",
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_CONNECTION_PLUGINS": f"{self.folder / 'connection'}:{CONNECTIONS}",
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_HOME": str(self.folder / "home"),
                **environment,
            },
            timeout=300,
        )
        return done.stdout + done.stderr

    def play(
        self, *tasks: t.Mapping[str, t.Any], hosts: str = "all", **environment: str
    ) -> tuple[str, dict[str, list[dict[str, t.Any]]]]:
        """Run the tasks; return what Ansible prints, and {host: its results in the order of the tasks}.

        `hosts` is the play's pattern of hosts. The play goes on after a failed task. Hosts that did not reach the end
        of the play are absent. `environment` and the time limit are those of `ansible`.
        """
        named = [{**task, "register": f"result{number}", "ignore_errors": True} for number, task in enumerate(tasks)]
        results = ", ".join(f"result{number}" for number in range(len(tasks)))
        told = {
            "name": "results",
            "ansible.builtin.copy": {
                "content": f"{{{{ [{results}] | to_json }}}}",
                "dest": f"{self.folder}/results-{{{{ inventory_hostname }}}}",
            },
            "diff": False,
        }
        playbook = self.folder / "play.yml"
        playbook.write_text(json.dumps([{"hosts": hosts, "gather_facts": False, "tasks": [*named, told]}]))
        for path in self.folder.glob("results-*"):
            path.unlink()
        printed = self.ansible("ansible-playbook", str(playbook), **environment)
        paths = self.folder.glob("results-*")
        return printed, {path.name.partition("-")[2]: json.loads(path.read_text()) for path in paths}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Hosts]:
    folder = tmp_path_factory.mktemp("engine-start")
    (folder / "private").mkdir()
    with SimulatedHosts(3, folder / "private") as simulated:
        yield Hosts(simulated, folder)


def task(module: str, args: t.Optional[t.Mapping[str, t.Any]] = None, **keywords: t.Any) -> dict[str, t.Any]:
    return {f"baremetal.host_routing.{module}": dict(args or {}), **keywords}


def test_results_are_the_same_by_each_start(hosts: Hosts) -> None:
    """Check mode, diffs, failures, warnings and errors in arguments are those of the archive, and so is the host."""
    tasks = [
        task("route", ROUTE, check_mode=True, diff=True),
        task("route", ROUTE, diff=True),
        task("route", ROUTE, diff=True),
        task("route_info", {"prefix": "172.16.0.0/12"}),
        task("route", {"destination": "172.19.3.0/24"}),
        task("route", {**ROUTE, "mtu": "many"}),
        task("route", {**ROUTE, "devise": "eth0"}),
        task("route", {"routes": [{"destination": "10.9.0.0/16", "type": "nowhere"}]}),
        task("interface_sysctl", {"interface": "eth0", "proxy_arp": True}, diff=True),
        task("interface_sysctl_info", {"interface": "eth0"}),
        task("tunnel_device_info"),
        task("iptables_table_info"),
        task("workload_info"),
        task("workload", {"name": "web"}),
        task("remote_endpoints_info"),
        task("node_info", {"gather": ["state", "generations", "blocks"]}),
        task("node_status_info"),
        task("drain", check_mode=True, diff=True),
        task("route", {**ROUTE, "state": "absent"}, diff=True),
    ]
    printed, results = hosts.play(*tasks)
    wrong_arguments = 3  # the number of tasks whose arguments are refused before a host is asked
    assert printed.count(BY_ENGINE) == printed.count(CARRIED) == len(tasks) - wrong_arguments, printed
    assert printed.count(AS_ARCHIVE) == len(tasks), printed
    for number, asked in enumerate(tasks):
        for result in results.values():
            result[number].pop("exception", None)
        assert results[WITH][number] == results[ARCHIVE][number], asked
        assert results[WITHOUT][number] == results[ARCHIVE][number], asked
    failed = {number for number, result in enumerate(results[WITH]) if result.get("failed")}
    assert failed == {4, 5, 6, 7, 12, 13}
    assert results[WITH][1]["diff"] and results[WITH][1]["changed"] and not results[WITH][2]["changed"]


@pytest.mark.parametrize(("host", "way"), [(WITH, BY_ENGINE), (WITHOUT, CARRIED)])
def test_nothing_secret_is_seen_by_others(hosts: Hosts, host: str, way: str) -> None:
    """Values of the keyword `environment` and of arguments are in no command line or environment for others to read."""
    (hosts.folder / "seen").write_text("")
    printed, results = hosts.play(
        task("route_info", {"prefix": "10.47.11.0/24"}, environment={"TOKEN": SECRET}),
        task("workload_info", {"name": SECRET}, no_log=True),
        hosts=host,
    )
    assert printed.count(way) == 2, printed
    seen = (hosts.folder / "seen").read_text()
    starts = re.findall(r"/usr/local/lib/calico/start\nmodule\n[0-9a-f]{16}\n(\w+)\n", seen)
    assert set(starts) == {"route_info", "workload_info"}
    for text in (SECRET, "10.47.11.0", "TOKEN"):
        assert text not in seen
    assert SECRET not in printed
    assert results[host][0]["routes"] == []


def test_environment_reaches_the_programs_of_a_module(hosts: Hosts) -> None:
    """Variables of the keyword `environment` reach the programs of a module, and PATH decides where they are found."""
    programs = hosts.folder / "programs"
    programs.mkdir()
    for name in ("iptables-save", "iptables", "ip6tables-save"):
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s" "$WHERE" > {hosts.folder}/called\nexit 1\n')
        (programs / name).chmod(0o755)
    path = f"{programs}:/usr/bin:/usr/sbin:/bin:/sbin"
    for host in (WITH, WITHOUT, ARCHIVE):
        (hosts.folder / "called").write_text("")
        hosts.play(task("iptables_table_info", environment={"PATH": path, "WHERE": host}), hosts=host)
        assert (hosts.folder / "called").read_text() == host


def test_timeouts_delegation_and_loops(hosts: Hosts) -> None:
    slow = {"targets": [{"address": "172.20.0.1"}], "seconds": 20}
    printed, results = hosts.play(
        task("probe", slow, timeout=2),
        task("route_info", {}, delegate_to=WITH),
        task("route_info", {"prefix": "{{ item }}"}, loop=["10.0.0.0/8", "172.16.0.0/12"]),
        hosts=WITHOUT,
    )
    timed_out, delegated, looped = results[WITHOUT]
    assert timed_out["failed"] and "timed out" in str(timed_out["msg"]).lower().replace("timeout", "timed out")
    assert printed.count(BY_ENGINE) == 1, printed
    assert {"default", "0.0.0.0/0"} & {route["destination"] for route in delegated["routes"]} or delegated[
        "routes"
    ] == []
    assert len(looped["results"]) == 2 and not looped.get("failed")


@pytest.mark.parametrize(
    ("keywords", "environment", "why"),
    [
        ({"async": 20, "poll": 1}, {}, "a task with async is started by Ansible's wrapper"),
        ({"become": True, "become_method": "ansible.builtin.su"}, {}, "su passes no input to a command"),
        ({}, {"ANSIBLE_KEEP_REMOTE_FILES": "1"}, "Ansible shall keep a module's files on the host"),
        ({"vars": {"ansible_connection": "mute"}}, {}, "the connection mute passes no input to a command"),
    ],
)
def test_tasks_that_cannot_use_the_installed_engine_get_the_archive(
    hosts: Hosts, keywords: dict[str, t.Any], environment: dict[str, str], why: str
) -> None:
    """Where a command gets no input, or Ansible has to keep files, the archive is sent, and the task works."""
    printed, results = hosts.play(task("route_info", **keywords), hosts=WITH, **environment)
    assert CARRIED not in printed and BY_ENGINE not in printed and why in printed, printed
    assert not results[WITH][0].get("failed") and "routes" in results[WITH][0]


def test_pipelining_off_is_no_reason(hosts: Hosts) -> None:
    printed, results = hosts.play(task("route_info"), hosts=WITH, ANSIBLE_PIPELINING="0")
    assert BY_ENGINE in printed and not results[WITH][0].get("failed"), printed


def test_an_ad_hoc_command_works_on_hosts_of_each_kind(hosts: Hosts) -> None:
    printed = hosts.ansible("ansible", "all", "-m", "baremetal.host_routing.route_info", "-a", "prefix=172.16.0.0/12")
    assert printed.count(BY_ENGINE) == printed.count(CARRIED) == printed.count(AS_ARCHIVE) == 1, printed
    assert all(f"{host} | SUCCESS => " in printed for host in (WITH, WITHOUT, ARCHIVE))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("chmod 0777 /usr/local/lib/calico", "its engine is not as it was installed, or others than root may write it"),
        ("echo >> /usr/local/lib/calico/current/host_routing/__init__.py", "its engine is not as it was installed"),
        ("rm -r /usr/local/lib/calico/current/host_routing/__pycache__", "its engine is not as it was installed"),
        ("mv /usr/local/lib/calico/start /usr/local/lib/calico/other", "it has no engine"),
    ],
)
def test_an_engine_that_is_not_as_it_was_installed_runs_nothing(hosts: Hosts, change: str, why: str) -> None:
    """A changed engine is not run: the controller's comes with the call, and reports no digest of an engine."""
    hosts.inside(WITH, "cp", "-a", "/usr/local/lib/calico", "/usr/local/lib/calico-before")
    try:
        hosts.inside(WITH, "sh", "-c", change)
        printed, results = hosts.play(task("node_info", {"gather": ["engine"]}), hosts=WITH)
    finally:
        hosts.inside(WITH, "rm", "-r", "/usr/local/lib/calico")
        hosts.inside(WITH, "mv", "/usr/local/lib/calico-before", "/usr/local/lib/calico")
    assert f"{CARRIED}, because {why}" in printed and BY_ENGINE not in printed, printed
    assert results[WITH][0]["engine_digest"] is None


def test_an_interpreter_without_byte_code_gets_the_engine_with_the_call(hosts: Hosts) -> None:
    """The engine comes with the call of an interpreter for which the installed one has no byte code."""
    other = hosts.folder / "other-python"
    other.write_text(f'#!/bin/sh\ncase "$*" in *" module "*) set -- -X pycache_prefix=/nowhere "$@";; esac\n'
                     f'exec {sys.executable} "$@"\n')  # fmt: skip
    other.chmod(0o755)
    printed, results = hosts.play(task("route_info", vars={"ansible_python_interpreter": str(other)}), hosts=WITH)
    assert f"{CARRIED}, because its engine has no byte code for this interpreter" in printed, printed
    assert not results[WITH][0].get("failed")
