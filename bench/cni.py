#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CNI plugin compared with Debian's `ptp` and `host-local`, executed as a container runtime executes them.

Run as root. It makes network and mount namespaces of its own and changes nothing outside of them. There are two
hosts, each a network namespace: one runs the agent as nodes have it and the shim, the other ptp. Measured is the
execution of the plugin: fork, exec, configuration on stdin, until it ends. The plugins take turns, container by
container, each in a network namespace that already exists. After DELs the benchmark waits until the agent has deleted
the links, which it does after its answers. Each program's files are where they are on a node: records below /run on a
tmpfs, the journal and host-local's folder on the disk.

  ADD, DEL        one after the other, beside 0, 10 and 1,000 workloads that stay
  ADD 8 parallel  rounds of 48 containers by 8 threads, in turns; containers per second
  policy          ADD and DEL beside 110 workloads here, of them 100 with labels, and 10,000 elsewhere under 500
                  policies with 30,000 rules. Some workloads have a label of the 100 and become members of sets.
                  Each of the others needs a policy of 20 rules of its own, that is new chains. The others also run with
                  their own policies only, beside 10 workloads: a kernel's time for new chains depends on how many rules
                  there are already
  foreign         the same beside these policies, where another program adds a rule to a chain of its own by iptables
                  before each ADD
  dual            the same where each workload gets an IPv6 address as well, so that there are chains and sets of both
                  IP versions; ptp has IPv4 alone
  restore         the bare `iptables-restore` of as many new chains and rules as such an ADD makes, beside these rules:
                  the least that an ADD with chains of its own can take, because the kernel checks the whole table
  A : B           the median of A as a multiple of that of B
  fdatasync       of what the agent's journal writes for one address, on the same disk
  shim            an execution that the agent answers at once (STATUS)

Ratios are medians of the ratio within each turn. The exit status is 1 if a goal is missed, also with --json, and 2 if
there are no figures, because something is missing here or an execution of a plugin failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from plugins.module_utils.base.ports import PortRange  # noqa: E402
from plugins.module_utils.dataplane.kernel import linux  # noqa: E402
from plugins.module_utils.node.engine import bundle  # noqa: E402
from plugins.module_utils.node.store.store import Store, Stored  # noqa: E402
from plugins.module_utils.policy import model  # noqa: E402
from plugins.module_utils.state.node_state import Block, NodeIpam, NodeState, Pool, Route, Sysctl  # noqa: E402
from plugins.module_utils.state.policy_state import PolicyState, allow_all  # noqa: E402
from plugins.module_utils.wire.client import AgentClient, NotRunning  # noqa: E402

PTP = "/usr/lib/cni/ptp"
SHIM = ROOT / "roles" / "calico_node" / "files" / "cni" / "calico"
NETNS = "/run/netns"
PARALLEL, BURST = 8, 48
VERBS = ("ADD", "DEL")
GOALS = {
    "ADD": 0.55,
    "DEL": 0.4,
    "ADD 8 parallel": 2.0,
    "ADD, sets": 0.7,
    "ADD, few chains": 1.8,
    "DEL, chains": 0.5,
    "ADD, many : 10": 1.5,
    "ADD, chains : few chains": 1.3,
    "ADD, sets, foreign : sets": 1.5,
    "ADD, chains, foreign : chains": 1.5,
    "ADD, sets, dual : sets": 1.4,
    "ADD, chains, dual : chains": 1.4,
}
POLICED = ("sets", "few chains", "chains", "sets, foreign", "chains, foreign", "sets, dual", "chains, dual")
#: The numbers of values of the label app, of policies for them, of rules of each of these per direction, and of
#: workloads elsewhere. The policies for one workload each ("own...") come on top, with 10 rules per direction.
APPS, POLICIES, RULES, ELSEWHERE = 100, 500, 30, 10000

Container = tuple[str, str]  # id, path of its namespace


class ExecutionFailed(Exception):
    """A failed execution of a plugin: it ended with another status than 0, or the process that executes it ended.

    The text says which, and what the plugin printed.
    """


class Ratio(t.NamedTuple):
    """A measured ratio; `goal` is its name in GOALS, "" for none. A rate is to be at least its goal, a time at most."""

    value: float
    goal: str = ""
    rate: bool = False

    @property
    def met(self) -> bool:
        if not self.goal:
            return True
        return self.value >= GOALS[self.goal] if self.rate else self.value <= GOALS[self.goal]

    def __str__(self) -> str:
        if not self.goal:
            return ""
        return f"goal {'>=' if self.rate else '<='} {GOALS[self.goal]:g}: {'met' if self.met else 'MISSED'}"


# ---- executing plugins


def execute(program: str, request: tuple[dict[str, str], bytes]) -> tuple[float, bytes]:
    """Execute the plugin at the path `program`; return its seconds and its output, stderr included.

    `request` is (environment, stdin); more stdin than a pipe holds (64 KiB) would block forever. Raise OSError if the
    plugin cannot be started, and ExecutionFailed if its exit status is not 0. posix_spawn starts it: `subprocess` takes
    0.4 ms of processor time more, a tenth of what is measured here.
    """
    environment, stdin = request
    given, give = os.pipe()
    take, taken = os.pipe()
    os.write(give, stdin)  # this does not block, since the input fits into the pipe
    os.close(give)
    files = [(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_DUP2, taken, 1), (os.POSIX_SPAWN_DUP2, taken, 2)]
    start = time.perf_counter()
    process = os.posix_spawn(program, [program], environment, file_actions=files)
    os.close(given)
    os.close(taken)
    output = b""
    while data := os.read(take, 65536):
        output += data
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    seconds = time.perf_counter() - start
    os.close(take)
    if status != 0:
        said = output.decode(errors="replace").rstrip()
        raise ExecutionFailed(f"{program}, {environment['CNI_COMMAND']}: exit status {status}, and it said: {said}")
    return seconds, output


def lane() -> None:
    """Run jobs until stdin ends: read each as a line of JSON, and print a line of JSON when it is done.

    A job is {"program", "threads": 1 or any other number for PARALLEL, "calls": [{"environment", "configuration"}]}. An
    answer is {"seconds": in all, "times": seconds of each call, "outputs": texts}, or {"error": text} if a call fails:
    the calls after that one may not have been made. An OSError, for a program that cannot be started, comes out.
    """
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for line in sys.stdin:
            job = json.loads(line)
            programs, requests = [job["program"]] * len(job["calls"]), [request(call) for call in job["calls"]]
            start = time.perf_counter()
            try:
                done = list((map if job["threads"] == 1 else pool.map)(execute, programs, requests))
            except ExecutionFailed as error:
                print(json.dumps({"error": str(error)}), flush=True)
                continue
            seconds = time.perf_counter() - start
            answer = {
                "seconds": seconds,
                "times": [took for took, _ in done],
                "outputs": [out.decode() for _, out in done],
            }
            print(json.dumps(answer), flush=True)


def request(call: dict[str, t.Any]) -> tuple[dict[str, str], bytes]:
    return call["environment"], json.dumps(call["configuration"]).encode()


class Plugin:
    def __init__(self, program: str, configuration: dict[str, t.Any], host: t.Sequence[str] = ()) -> None:
        self._program = program
        self._configuration = configuration
        self._results: dict[str, t.Any] = {}
        command = [*host, sys.executable, __file__, "--lane"]
        self._lane = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def _run(self, calls: list[dict[str, t.Any]], threads: int) -> dict[str, t.Any]:
        assert self._lane.stdin and self._lane.stdout
        self._lane.stdin.write(json.dumps({"program": self._program, "calls": calls, "threads": threads}) + "\n")
        self._lane.stdin.flush()
        line = self._lane.stdout.readline()
        if not line:
            raise ExecutionFailed(f"{self._program}: the process that executes it ended with {self._lane.wait()}")
        answer = t.cast("dict[str, t.Any]", json.loads(line))
        if "error" in answer:
            raise ExecutionFailed(answer["error"])
        return answer

    def _call(self, command: str, container: Container, **fields: t.Any) -> dict[str, t.Any]:
        environment = {
            "PATH": os.environ["PATH"],
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": container[0],
            "CNI_NETNS": container[1],
            "CNI_IFNAME": "eth0",
            "CNI_PATH": "/usr/lib/cni",
            "CNI_ARGS": "IgnoreUnknown=1",
        }
        return {"environment": environment, "configuration": {**self._configuration, **fields}}

    def add(self, containers: t.Sequence[Container], threads: int = 1, apps: t.Sequence[str] = ()) -> dict[str, t.Any]:
        """Add containers, one after the other if `threads` is 1, by PARALLEL threads for any other number.

        Return {"seconds": in all, "times": seconds of each, "outputs": results of each as JSON text}, and keep the
        results for `delete`. `apps` holds the value of the label app of each container, which ptp ignores; () stands
        for no labels, and containers beyond the end of a shorter one are not added. Raise ExecutionFailed if an
        execution fails; no result is kept then.
        """
        fields: list[dict[str, t.Any]] = [{"labels": {"app": app}} for app in apps] or [{} for _ in containers]
        done = self._run([self._call("ADD", one, **more) for one, more in zip(containers, fields)], threads)
        for container, output in zip(containers, done["outputs"]):
            self._results[container[0]] = json.loads(output)
        return done

    def delete(self, containers: t.Sequence[Container], threads: int = 1) -> dict[str, t.Any]:
        calls = [self._call("DEL", one, prevResult=self._results.pop(one[0])) for one in containers]
        return self._run(calls, threads)

    def status(self) -> float:
        return t.cast(float, self._run([self._call("STATUS", ("", ""), cniVersion="1.1.0")], 1)["times"][0])

    def settled(self) -> None:
        """Wait until nothing is under way after the answers; return at once for a plugin without an agent.

        With one there is no time limit. Raise AgentError if the agent does not answer.
        """

    def close(self) -> None:
        assert self._lane.stdin
        self._lane.stdin.close()
        self._lane.wait()


class Ours(Plugin):
    """The agent and the shim, with all their files in `folder`.

    `group` is the number of the group whose members may read through the API, None for no group. The constructor mounts
    a tmpfs on `folder`/run and, for a group, a file over /etc/group. It starts the agent and waits for its first answer
    without a limit, and raises AssertionError if the agent ends before, AgentError if an answer takes more than 30
    seconds, or CalledProcessError if a mount fails. `close` ends the agent and unmounts the tmpfs, not the file.
    """

    def __init__(self, folder: pathlib.Path, group: t.Optional[int] = None) -> None:
        self._volatile = folder / "run"
        self._settings: dict[str, t.Any] = {"metrics_port": 0, "cooldown": 0}
        if group is not None:
            groups = folder / "group"
            groups.write_text(f"root:x:0:\nbench:x:{group}:\n")
            subprocess.run(["mount", "--bind", groups, "/etc/group"], check=True)
            self._settings["group"] = "bench"
        self._client = self._start(folder)
        shim = folder / "calico"
        text = SHIM.read_text().replace("socket=/run/calico/agent.sock", f"socket={folder}/run/agent.sock")
        shim.write_text(text)
        shim.chmod(0o755)
        super().__init__(str(shim), {"cniVersion": "1.0.0", "name": "bench", "type": "calico"})

    @property
    def pid(self) -> int:
        """Return the process id (PID) of the agent."""
        return self._agent.pid

    def police(self, own: int, others: int) -> None:
        """Replace the policy in force: one policy for each of `own` workloads that may come, and `others` more.

        Raise AssertionError if the agent reports problems, and AgentError if it does not answer within 600 seconds.
        """
        self._apply(dataclasses.replace(self._in_force, policy=policy(own, others)))

    def unpolice(self) -> None:
        self._apply(self._in_force)

    def use_ipv6(self, used: bool) -> None:
        """Give each workload from now on an IPv6 address as well, or no longer; there must be no policy in force.

        Raise what `police` raises.
        """
        state = self._state
        if used:
            blocks = tuple(Block(f"fd00:244::{number:x}40/122", "bench6") for number in range(1, 25))
            state = dataclasses.replace(
                state,
                address6="fd00:10::11/64",
                pools=(*state.pools, Pool("bench6", "fd00:244::/64", 122, "None", workload_mtu=1500)),
                ipam=NodeIpam(2, (*state.ipam.blocks, *blocks)),
                routes=(*state.routes, *(Route(block.cidr, "blackhole") for block in blocks)),
                sysctls=(*state.sysctls, Sysctl("net/ipv6/conf/all/forwarding", "1")),
            )
        self._configuration["ipam"] = {"type": "calico-ipam", "assign_ipv4": "true", "assign_ipv6": str(used).lower()}
        self._in_force = state
        self._apply(state)

    def rules(self) -> int:
        while True:  # iptables-save fails when the agent writes meanwhile: any failure is retried, without a limit
            saved = subprocess.run(["iptables-save"], capture_output=True, text=True, check=False)
            if saved.returncode == 0:
                return sum(line.startswith("-A ") for line in saved.stdout.splitlines())

    def _apply(self, state: NodeState) -> None:
        self._store.save(Stored(state, complete=True))
        with AgentClient(str(self._volatile / "agent.sock"), 600.0) as client:
            problems = client.call("node.apply", removals=True)["problems"]
        assert problems == [], problems

    def _start(self, folder: pathlib.Path) -> AgentClient:
        blocks = [f"10.244.{number >> 2}.{(number & 3) * 64}/26" for number in range(24)]
        state = NodeState(
            node="bench",
            address="10.10.1.11/24",
            pools=(Pool("bench", "10.244.0.0/16", 26, "None", workload_mtu=1500),),
            ipam=NodeIpam(1, tuple(Block(cidr, "bench") for cidr in blocks)),
            routes=tuple(Route(cidr, "blackhole") for cidr in blocks),
            sysctls=(Sysctl("net/ipv4/ip_forward", "1"),),
        )
        self._state = self._in_force = state  # with IPv4 alone; the one to apply, but for policy
        self._store = Store(str(folder / "lib"))
        self._store.save(Stored(state, complete=True))
        source = str(ROOT / "plugins" / "module_utils")
        bundle.install(bundle.build(source), bundle.bundle_digest(source), str(folder / "engine"))
        (folder / "run").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "calico-bench", folder / "run"], check=True)  # as /run is on nodes
        paths = {
            "store": "lib",
            "ipam": "lib/ipam",
            "cni_deleted": "lib/cni/deleted",
            "engine": "engine",
            "workloads": "run/workloads",
            "agent_socket": "run/agent.sock",
            "writer_lock": "run/writer.lock",
            "lock": "run/node.lock",
            "marker_folder": "run/markers",
            "bird_socket": "run/bird.ctl",
        }
        (folder / "paths.json").write_text(json.dumps({name: str(folder / path) for name, path in paths.items()}))
        (folder / "agent.json").write_text(json.dumps(self._settings))
        command = [sys.executable, "-I", str(folder / "engine" / "current"), "agent"]
        command += ["--paths", str(folder / "paths.json"), "--settings", str(folder / "agent.json")]
        self._log = (folder / "agent.log").open("wb")
        self._agent = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        while True:
            assert self._agent.poll() is None, (folder / "agent.log").read_text()
            try:
                client = AgentClient(str(folder / "run" / "agent.sock"), 30.0)
                client.call("version")
                return client
            except NotRunning:
                time.sleep(0.02)

    def memory(self) -> int:
        """Return the peak resident memory of the agent since its start, in KiB.

        Raise StopIteration if it has ended by itself, and FileNotFoundError after `close`.
        """
        status = pathlib.Path(f"/proc/{self._agent.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])

    def settled(self) -> None:
        while self._client.call("status")["deleting"]:
            time.sleep(0.002)

    def close(self) -> None:
        super().close()
        self._client.close()
        self._agent.terminate()
        self._agent.wait()
        self._log.close()
        subprocess.run(["umount", self._volatile], check=True)


# ---- the policies of `Ours.police`


def rules(chance: random.Random, number: int, direction: str) -> tuple[model.PolicyRule, ...]:
    """Return `number` rules that allow TCP from (INGRESS) or to (EGRESS) workloads with some value of the label app.

    Each rule has a random value and another port of the policy's own workloads, from 1000 on.
    """
    found = []
    for port in range(1000, 1000 + number):
        others = model.Entity(selector=f'app == "a{chance.randrange(APPS):03}"')
        here = model.Entity(ports=(PortRange(port, port),))
        ends = (others, here) if direction == model.INGRESS else (here, others)
        found.append(model.PolicyRule("Allow", protocol="tcp", source=ends[0], destination=ends[1]))
    return tuple(found)


def policy_of(name: str, app: str, number: int) -> model.Policy:
    chance = random.Random(name)
    ingress, egress = (rules(chance, number, direction) for direction in (model.INGRESS, model.EGRESS))
    return model.Policy(
        name, selector=f'app == "{app}"', types=(model.INGRESS, model.EGRESS), ingress=ingress, egress=egress
    )


def policy(own: int, others: int) -> PolicyState:
    policies = [policy_of(f"p{number:03}", f"a{number % APPS:03}", RULES) for number in range(others)]
    policies += [policy_of(f"own{number:03}", f"own{number:03}", 10) for number in range(own)]
    elsewhere = tuple(
        model.Endpoint(
            model.WORKLOAD_ENDPOINT,
            f"elsewhere/w{number}",
            f"node{number % 40}",
            "cali1",
            (f"10.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",),
            (("app", f"a{number % APPS:03}"),),
        )
        for number in range(ELSEWHERE)
    )
    return PolicyState(model.policy_set(policies=policies, profiles=[allow_all()]), elsewhere)


# ---- measurements beside workloads, and under policy


def containers(kernel: linux.LinuxKernel, count: int) -> list[Container]:
    made = []
    for _ in range(count):
        id = secrets.token_hex(32)
        kernel.netns_add(id[:16], "")
        made.append((id, f"{NETNS}/{id[:16]}"))
    return made


def remove(kernel: linux.LinuxKernel, gone: t.Sequence[Container]) -> None:
    for _id, path in gone:
        kernel.netns_delete(os.path.basename(path))


class Bench:
    """Workloads by the plugins `calico` and `ptp`; without `theirs` by the former alone."""

    def __init__(self, kernel: linux.LinuxKernel, ours: Plugin, theirs: t.Optional[Plugin] = None) -> None:
        self._kernel = kernel
        self.plugins = {"calico": ours} if theirs is None else {"calico": ours, "ptp": theirs}
        self._existing: dict[str, list[Container]] = {name: [] for name in self.plugins}

    def existing(self, count: int, apps: t.Sequence[str] = ()) -> None:
        """Add workloads to both hosts until each has `count`; none is removed from a host that has more.

        `apps` holds the value of the label app of each workload that is added to a host, as many as these; () stands
        for no labels. Raise ExecutionFailed if an ADD fails.
        """
        for name, plugin in self.plugins.items():
            more = containers(self._kernel, count - len(self._existing[name]))
            plugin.add(more, PARALLEL, apps)
            self._existing[name] += more

    def leave(self, count: int) -> None:
        """Delete workloads of both hosts, the latest ones, until each has `count`. Raise ExecutionFailed."""
        for name, plugin in self.plugins.items():
            gone, self._existing[name] = self._existing[name][count:], self._existing[name][:count]
            plugin.delete(gone, PARALLEL)
            plugin.settled()
            remove(self._kernel, gone)

    def sequential(
        self, count: int, apps: t.Sequence[str] = (), before: t.Callable[[], None] = lambda: None
    ) -> dict[str, dict[str, list[float]]]:
        """Return {"ADD", "DEL": {plugin: seconds of each execution}}, executed one after the other.

        `count` containers are added and deleted by each plugin. `apps` holds the value of each one's label app; those
        beyond its end have no label. `before` is called before each ADD of ours, which does not count. Raise
        ExecutionFailed if an execution fails, and AgentError if the agent does not answer; what was added stays then.
        """
        times: dict[str, dict[str, list[float]]] = {
            verb: {name: [] for name in self.plugins} for verb in ("ADD", "DEL")
        }
        made = {name: containers(self._kernel, count) for name in self.plugins}
        for number in range(count):
            for name, plugin in self._in_turns(number):
                if name == "calico":
                    before()
                times["ADD"][name] += plugin.add([made[name][number]], apps=apps[number : number + 1])["times"]
        for number in range(count):
            for name, plugin in self._in_turns(number):
                times["DEL"][name] += plugin.delete([made[name][number]])["times"]
                plugin.settled()
        for gone in made.values():
            remove(self._kernel, gone)
        return times

    def parallel(self, rounds: int) -> dict[str, list[float]]:
        """Return {plugin: containers added per second, of each round}.

        A round adds and deletes BURST containers by PARALLEL threads of each plugin. Raise ExecutionFailed if an
        execution fails, and AgentError if the agent does not answer.
        """
        rates: dict[str, list[float]] = {name: [] for name in self.plugins}
        for number in range(rounds):
            for name, plugin in self._in_turns(number):
                made = containers(self._kernel, BURST)
                rates[name].append(BURST / plugin.add(made, PARALLEL)["seconds"])
                plugin.delete(made, PARALLEL)
                plugin.settled()
                remove(self._kernel, made)
        return rates

    def _in_turns(self, number: int) -> list[tuple[str, Plugin]]:
        order = list(self.plugins.items())
        return order if number % 2 else order[::-1]


def fdatasync(folder: pathlib.Path, count: int) -> list[float]:
    """Return the seconds of `count` calls of fdatasync, each after a line of 301 bytes.

    Lines of the agent's journal are about as long. The file is `folder`/journal.
    """
    times = []
    with (folder / "journal").open("ab", buffering=0) as journal:
        for _ in range(count):
            journal.write(b"x" * 300 + b"\n")
            start = time.perf_counter()
            os.fdatasync(journal.fileno())
            times.append(time.perf_counter() - start)
    return times


def policed(bench: Bench, ours: Ours, count: int) -> dict[str, t.Any]:
    """Return the times of ADD and DEL under policy, and the number of iptables rules; remove the policy at the end.

    The shape is {each of POLICED: as `Bench.sequential` returns for `count`, "restore": seconds of each, "rules":
    number}. Each workload has a policy of its own: without other policies in "few chains", beside POLICIES others in
    "chains". In "sets" it has the policies of an existing workload instead. Both hosts need exactly 10 workloads
    before, and have as many afterwards. Raise AssertionError if the agent reports problems, AgentError if it does not
    answer, and ExecutionFailed if an execution fails; the policy may still be in force then.
    """
    warm = 3
    own = [f"own{number:03}" for number in range(count + warm)]
    figures: dict[str, t.Any] = {}

    def both(words: str, before: t.Callable[[], None] = lambda: None) -> None:
        for name, apps in (("sets", ["a007"] * len(own)), ("chains", own)):
            bench.sequential(warm, apps[count:], before)
            figures[name + words] = bench.sequential(count, apps[:count], before)

    ours.police(len(own), 0)
    bench.sequential(warm, own[count:])
    figures["few chains"] = bench.sequential(count, own[:count])
    ours.police(len(own), POLICIES)
    bench.existing(10 + APPS, [f"a{number:03}" for number in range(APPS)])
    both("")
    figures["rules"] = ours.rules()
    figures["restore"] = restored(count)
    subprocess.run(["iptables", "-N", "theirs"], check=True)
    both(", foreign", foreign_rule)
    for command in ("-F", "-X"):
        subprocess.run(["iptables", command, "theirs"], check=True)
    ours.unpolice()
    ours.use_ipv6(True)
    bench.leave(10)
    bench.existing(10 + APPS, [f"a{number:03}" for number in range(APPS)])
    ours.police(len(own), POLICIES)
    both(", dual")
    ours.unpolice()
    bench.leave(10)
    ours.use_ipv6(False)
    return figures


def foreign_rule() -> None:
    subprocess.run(["iptables", "-w", "-A", "theirs", "-s", "10.9.0.1", "-j", "RETURN"], check=True)


def restored(count: int) -> list[float]:
    """Return the seconds of each of `count` bare executions of iptables-restore that add what such an ADD adds.

    These are four chains with 20 rules of a policy and nine of each direction of a workload, and two rules that lead to
    them. They are deleted each time, so that the next execution finds the same rules. The agent is given a second to
    look at them.
    """
    rule = "-m set --match-set floor src -m comment --comment host-routing:0123456789abcdef"
    subprocess.run(["ipset", "create", "floor", "hash:net"], check=True)
    chains = {"floor-po": 10, "floor-pi": 10, "floor-fw": 9, "floor-tw": 9}
    lines = ["*filter", *(f":{name} - [0:0]" for name in chains), ":theirs - [0:0]"]
    lines += [f"-A {name} -p tcp {rule} -j RETURN" for name, number in chains.items() for _ in range(number)]
    lines += [f"-A theirs {rule} -g {name}" for name in ("floor-fw", "floor-tw")]
    undone = ["*filter", "-F theirs", "-X theirs"]
    undone += [f"{command} {name}" for command in ("-F", "-X") for name in chains]
    times = []
    for _ in range(count):
        for number, text in enumerate((lines, undone)):
            command = ["iptables-restore", "--noflush", "-w", "10"]
            start = time.perf_counter()
            subprocess.run(command, input="\n".join([*text, "COMMIT", ""]), text=True, check=True)
            if number == 0:
                times.append(time.perf_counter() - start)
            time.sleep(0.5)
    subprocess.run(["ipset", "destroy", "floor"], check=True)
    return times


def underlay(*host: str) -> None:
    """Give a network namespace the node's address on eth0, whose other end is wire0, and default routes.

    `host` are options of `ip` that choose the namespace, none for the present one. Raise CalledProcessError.
    """
    lines = (
        "link add eth0 type veth peer name wire0\nlink set lo up\nlink set wire0 up\nlink set eth0 up\n"
        "address add 10.10.1.11/24 dev eth0\nroute add default via 10.10.1.1\n"
        "address add fd00:10::11/64 dev eth0 nodad\nroute add default via fd00:10::1\n"
    )
    subprocess.run(["ip", *host, "-batch", "-"], input=lines, text=True, check=True)


def measure(folder: pathlib.Path, count: int, rounds: int, many: int) -> dict[str, t.Any]:
    kernel = linux.LinuxKernel(marker_folder=str(folder / "markers"))
    kernel.netns_add("ptp", "")
    underlay()
    underlay("-n", "ptp")
    ipam = {"type": "host-local", "subnet": "10.245.0.0/16", "dataDir": str(folder / "host-local")}
    ipam["routes"] = [{"dst": "0.0.0.0/0"}]  # type: ignore[assignment]
    ptp = {"cniVersion": "1.0.0", "name": "bench", "type": "ptp", "ipam": ipam}
    ours = Ours(folder)
    bench = Bench(kernel, ours, Plugin(PTP, ptp, ["nsenter", f"--net={NETNS}/ptp"]))
    figures: dict[str, t.Any] = {}
    try:
        bench.sequential(5)  # so that everything has been read from the disk once
        figures["shim"] = [ours.status() for _ in range(count)]
        figures["fdatasync"] = fdatasync(folder, count)
        for existing in (0, 10, many):
            bench.existing(existing)
            figures[str(existing)] = bench.sequential(count)
            if existing == 10:
                figures["parallel"] = bench.parallel(rounds)
                figures.update(policed(bench, ours, count))
    finally:
        for plugin in bench.plugins.values():
            plugin.close()
    return figures


# ---- what is printed


def ratio(times: dict[str, list[float]]) -> float:
    """Return the median ratio of the values of "calico" to those of "ptp", which are seconds or rates.

    Values at the same place of both lists were measured one after the other, so that a busy machine affects both. Those
    beyond the end of the shorter list are left out.
    """
    return statistics.median(ours / theirs for ours, theirs in zip(times["calico"], times["ptp"]))


def sequential(figures: dict[str, t.Any], many: int) -> dict[str, dict[str, list[float]]]:
    """Return {name as printed: {plugin: seconds of each}} of the executions one after the other.

    `many` is the number that `measure` was given. Raise KeyError if there are no figures for it.
    """
    places = [(f" beside {existing}", existing) for existing in ("0", "10", str(many))]
    places += [(f", {what}", what) for what in POLICED]
    return {f"{verb}{words}": figures[place][verb] for words, place in places for verb in VERBS}


def multiples(figures: dict[str, t.Any], many: int) -> dict[str, dict[str, float]]:
    """Return {"ADD, A : B" of GOALS: {plugin: the median of A as a multiple of that of B}}.

    Raise KeyError if there are no figures for `many`.
    """
    found: dict[str, dict[str, float]] = {}
    for name in GOALS:
        above, colon, below = name.removeprefix("ADD, ").partition(" : ")
        if colon:
            pair = [figures[str(many) if place == "many" else place]["ADD"] for place in (above, below)]
            medians = [{plugin: statistics.median(times[plugin]) for plugin in times} for times in pair]
            found[name] = {plugin: medians[0][plugin] / medians[1][plugin] for plugin in medians[0]}
    return found


def ratios(figures: dict[str, t.Any], many: int) -> dict[str, Ratio]:
    """Return all ratios of the figures of `measure`, by the names that `report` prints.

    `many` is the number that `measure` was given. Raise KeyError if there are no figures for it.
    """
    found: dict[str, Ratio] = {}
    for name, times in sequential(figures, many).items():
        goal = name.partition(" beside ")[0]
        found[name] = Ratio(ratio(times), goal if goal in GOALS else "")
    found["ADD 8 parallel"] = Ratio(ratio(figures["parallel"]), "ADD 8 parallel", rate=True)
    found.update((name, Ratio(of["calico"], name)) for name, of in multiples(figures, many).items())
    return found


def report(figures: dict[str, t.Any], many: int) -> None:
    found = ratios(figures, many)
    print(f"{'':<30}{'calico':>12}{'ptp':>12}{'ratio':>8}")
    for name, times in sequential(figures, many).items():
        ours, theirs = (statistics.median(times[plugin]) for plugin in ("calico", "ptp"))
        print(f"{name:<30}{ours * 1e3:>9.2f} ms{theirs * 1e3:>9.2f} ms{found[name].value:>8.2f}   {found[name]}")
    print(f"{'rules in force':<30}{figures['rules']:>12}")
    ours, theirs = (statistics.median(figures["parallel"][name]) for name in ("calico", "ptp"))
    one = found["ADD 8 parallel"]
    print(f"{'ADD 8 parallel':<30}{ours:>10.0f}/s{theirs:>10.0f}/s{one.value:>8.2f}   {one}")
    for name, of in multiples(figures, many).items():
        print(f"{name:<30}{of['calico']:>12.2f}{of['ptp']:>12.2f}{'':>8}   {found[name]}")
    for name in ("shim", "restore", "fdatasync"):
        print(f"{name:<30}{statistics.median(figures[name]) * 1e3:>9.2f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60, help="containers one after the other (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of 8 parallel executions (default: %(default)s)")
    parser.add_argument("--many", type=int, default=1000, help="workloads beside (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print figures, ratios and goals as JSON")
    parser.add_argument("--lane", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.lane:
        lane()
        return 0
    if os.geteuid() != 0:
        print("bench/cni.py attaches containers in network namespaces of its own: run it as root.", file=sys.stderr)
        return 2
    # ptp is what is compared with. Without netcat-openbsd the shim starts an interpreter for each call, and its start
    # would be measured.
    for program, package in ((PTP, "containernetworking-plugins"), ("/bin/nc.openbsd", "netcat-openbsd")):
        if not os.path.exists(program):
            print(f"bench/cni.py: {program} is missing. apt-get install {package}", file=sys.stderr)
            return 2
    if not os.environ.get("CALICO_BENCH_INSIDE"):
        command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv]
        return subprocess.run(command, env={**os.environ, "CALICO_BENCH_INSIDE": "1"}, check=False).returncode
    os.makedirs(NETNS, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "calico-bench", NETNS], check=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="calico-bench-", dir="/var/tmp"))
    try:
        figures = measure(folder, arguments.count, arguments.rounds, arguments.many)
    except ExecutionFailed as error:
        print(f"bench/cni.py: {error}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = ratios(figures, arguments.many)
    if arguments.json:
        goals = {name: one.met for name, one in found.items() if one.goal}
        print(json.dumps({**figures, "ratios": {name: one.value for name, one in found.items()}, "goals": goals}))
    else:
        title = f"{arguments.count} containers in turns, {arguments.rounds} rounds of {BURST} by {PARALLEL} threads"
        print(f"{title}, medians")
        report(figures, arguments.many)
    return 0 if all(one.met for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
