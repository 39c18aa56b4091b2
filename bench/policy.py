#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cost of changes to 500 policies with 30,000 rules, 1,000 workloads here and 10,000 elsewhere.

Run as root. It makes a network namespace of its own and changes nothing outside of it. Measured are:

  full            iptables-restore of all tables as iptables-save printed them: its start until it has ended
  remote label    a workload elsewhere gets another label: from the Endpoint value to the kernel, in a running process
                  (index, compiler, rendering, comparison, ipset and iptables), which here changes members of sets
  local label     the same for a workload here, to which other policies apply then
  new workload    one more workload here like others; `gone workload` is its removal
  new policies    one more workload here unlike all others, with a policy of 60 rules of its own: chains in two tables
  bare transaction  iptables-restore --noflush of one chain with one rule
  no change       a pass that finds nothing to do, which is asserted: without a change no driver is called to write
  read again      the same when somebody else has written in between, and all rules are read
  from nothing    everything, in a running process, into an empty kernel

Ratios are medians of those within each round, to the full restore of that round, so that a busy machine weighs on both
sides. Goals are those of the nft backend; legacy, whose kernel takes a table only as a whole, is reported beside it.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections")]

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.ports import PortRange  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.planning.cached_drivers import (  # noqa: E402
    CachedSets,
    CachedTables,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.compile import Compiler  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains.settings import ChainSettings  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.index.policy_index import PolicyIndex  # noqa: E402
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import (  # noqa: E402
    EGRESS,
    INGRESS,
    WORKLOAD_ENDPOINT,
    Endpoint,
    Entity,
    Policy,
    PolicyRule,
    PolicySet,
    policy_set,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.policy_tables import PolicyTables  # noqa: E402

GOALS = {"remote label": 0.05, "local label": 0.05, "new workload": 0.1, "new policies": 0.1}
HERE = "node1"
APPS = 100
POLICIES = 500
RULES = 30  # per policy and direction
LOCAL, REMOTE = 1000, 10000


def endpoint(number: int, app: str, node: str, env: str = "prod") -> Endpoint:
    return Endpoint(
        WORKLOAD_ENDPOINT,
        f"default/w{number}",
        node,
        f"cali{number:011x}",
        (f"10.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}",),
        (("app", app), ("env", env)),
    )


def policy(name: str, app: str, rules: int = RULES) -> Policy:
    """Return a policy for the workloads of `app`, with `rules` rules per direction.

    Each rule allows TCP from or to the workloads of a random app, on a port of its own. The same `name` gives the same
    apps.
    """
    chance = random.Random(name)

    def entity(number: int) -> Entity:
        return Entity(selector=f'app == "a{chance.randrange(APPS):03}"', ports=() if number else (PortRange(80, 90),))

    ports = [PortRange(1000 + number, 1000 + number) for number in range(rules)]
    ingress = tuple(
        PolicyRule("Allow", protocol="tcp", source=entity(1), destination=Entity(ports=(port,))) for port in ports
    )
    egress = tuple(
        PolicyRule("Allow", protocol="tcp", destination=dataclasses.replace(entity(1), ports=(port,))) for port in ports
    )
    return Policy(name, selector=f'app == "{app}"', types=(INGRESS, EGRESS), ingress=ingress, egress=egress)


@functools.cache
def many() -> tuple[Policy, ...]:
    return tuple(policy(f"p{n:03}", f"a{n % APPS:03}") for n in range(POLICIES))


def policies(*more: Policy) -> PolicySet:
    return policy_set(policies=[*many(), *more])


class Node:
    """The part of an agent that programs policy."""

    def __init__(self, kernel: LinuxKernel) -> None:
        self.kernel = kernel
        self.index = PolicyIndex(HERE)
        self.compiler = Compiler(ChainSettings(), 4)
        self.rendering = PolicyTables()
        self.sets, self.tables = CachedSets(), CachedTables()
        self.desired: tuple[t.Any, t.Any] = ((), [])

    def render(self) -> None:
        self.index.commit()
        node = self.index.node_policy()
        self.desired = self.rendering.render([self.compiler.compile(node)])

    def program(self) -> int:
        """Write to the kernel what differs from the last `render`, and return the number of changes.

        Additions and changes come first, sets before tables. Then come removals, tables before sets. Raise ApplyError
        if the kernel refuses a change, and ObserveError or KernelError if it cannot be read.
        """
        tables, sets = self.desired
        changed_sets = self.sets.diff(sets, self.sets.observe(self.kernel, sets))
        changed_tables = self.tables.diff(tables, self.tables.observe(self.kernel, tables))
        for actions, order in (("+~", (0, 1)), ("-", (1, 0))):
            for which in order:
                driver, changes = ((self.sets, changed_sets), (self.tables, changed_tables))[which]
                part = [change for change in changes if change.action in actions]
                if part:
                    driver.apply(self.kernel, part)
        return len(changed_sets) + len(changed_tables)

    def converge(self) -> int:
        self.render()
        return self.program()

    def update(self, *endpoints: Endpoint) -> int:
        for one in endpoints:
            self.index.update_endpoint(one)
        return self.converge()


def timed(work: t.Callable[[], t.Any], least: int = 1) -> float:
    """Return the seconds that `work` takes.

    `work` returns None, or the number of its changes. Raise AssertionError if there are fewer than `least`.
    """
    began = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - began
    assert done is None or done >= least, done
    return seconds


def nothing(changes: int) -> None:
    assert changes == 0, changes


def run(argv: t.Sequence[str], text: str = "") -> str:
    return subprocess.run(argv, input=text, check=True, capture_output=True, text=True).stdout


def restore(text: str, *options: str) -> None:
    run(["iptables-restore", *options], text)


def world() -> tuple[list[Endpoint], list[Endpoint]]:
    here = [endpoint(number, f"a{number % APPS:03}", HERE) for number in range(LOCAL)]
    elsewhere = [endpoint(LOCAL + n, f"a{n % APPS:03}", f"node{2 + n % 40}") for n in range(REMOTE)]
    return here, elsewhere


def one_round(node: Node, here: t.Sequence[Endpoint], elsewhere: t.Sequence[Endpoint]) -> dict[str, float]:
    found: dict[str, float] = {}
    saved = run(["iptables-save"])
    found["full"] = timed(lambda: restore(saved))
    found["read again"] = timed(node.converge, 0)
    found["no change"] = timed(lambda: nothing(node.converge()))
    remote, local = random.choice(elsewhere), random.choice(here)
    other = (("app", f"a{random.randrange(APPS):03}x"), ("env", "prod"))
    found["remote label"] = timed(lambda: node.update(dataclasses.replace(remote, labels=other)))
    node.update(remote)
    app = f"a{(int(dict(local.labels)['app'][1:]) + 1) % APPS:03}"
    relabelled = dataclasses.replace(local, labels=(("app", app), ("env", "prod")))
    found["local label"] = timed(lambda: node.update(relabelled))
    node.update(local)
    number = LOCAL + REMOTE + 1
    found["new workload"] = timed(lambda: node.update(endpoint(number, "a007", HERE)))
    node.index.remove_endpoint(WORKLOAD_ENDPOINT, f"default/w{number}")
    found["gone workload"] = timed(node.converge)
    unlike = endpoint(number, "unlike", HERE)
    with_more = policies(policy("unlike", "unlike"))

    def new_policies() -> int:
        node.index.update_policy_set(with_more)
        return node.update(unlike)

    found["new policies"] = timed(new_policies)
    node.index.remove_endpoint(WORKLOAD_ENDPOINT, unlike.name)
    node.index.update_policy_set(policies())
    node.converge()
    one = "*filter\n:cali-probe - [0:0]\n-A cali-probe -j DROP\nCOMMIT\n"
    found["bare transaction"] = timed(lambda: restore(one, "--noflush"))
    restore("*filter\n-F cali-probe\n-X cali-probe\nCOMMIT\n", "--noflush")
    return found


def measure(rounds: int) -> tuple[list[dict[str, float]], int, float, float]:
    """Return each round's {name: seconds}, the number of rules, and the seconds of rendering and of programming.

    The latter two are of everything, once, into an empty kernel. Raise AssertionError if a pass that must change
    something makes no change, or the pass with nothing to do makes one; raise ApplyError or CalledProcessError if the
    kernel refuses a change.
    """
    kernel = LinuxKernel()
    node = Node(kernel)
    here, elsewhere = world()
    node.index.update_policy_set(policies())
    for one in (*here, *elsewhere):
        node.index.update_endpoint(one)
    rendered = timed(node.render)
    programmed = timed(node.program)
    rules = sum(line.startswith("-A ") for line in run(["iptables-save"]).splitlines())
    results = [one_round(node, here, elsewhere) for _ in range(rounds)]
    kernel.close()
    return results, rules, rendered, programmed


def alternatives(backend: str, folder: str) -> None:
    """Make `iptables` and `ip6tables` those of `backend`, "nft" or "legacy", for this process and its children.

    `folder` must exist and be empty; links to the programs are made in it. Raise AssertionError if this machine has no
    program of that backend.
    """
    program = shutil.which(f"xtables-{backend}-multi", path="/usr/sbin:/sbin")
    assert program, "install iptables"
    for family in ("iptables", "ip6tables"):
        for verb in ("", "-save", "-restore"):
            pathlib.Path(folder, family + verb).symlink_to(program)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"


def inside(backend: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory(prefix="calico-bench-") as folder:
        alternatives(backend, folder)
        results, rules, rendered, programmed = measure(rounds)
    print(json.dumps({"rounds": results, "rules": rules, "render": rendered, "program": programmed}))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--inside", choices=["nft", "legacy"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        return inside(arguments.inside, arguments.rounds)
    if os.geteuid() != 0:
        print("bench/policy.py makes network namespaces: run it as root.", file=sys.stderr)
        return 2
    met = True
    for backend in ("nft", "legacy"):
        command = ["unshare", "--net", sys.executable, __file__, "--inside", backend]
        found = json.loads(run([*command, "--rounds", str(arguments.rounds)]))
        rounds = found["rounds"]
        ratios = {
            name: statistics.median(one[name] / one["full"] for one in rounds) for name in rounds[0] if name != "full"
        }
        verdicts = {name: ratios[name] <= goal for name, goal in GOALS.items()} if backend == "nft" else {}
        met = met and all(verdicts.values())
        if arguments.json:
            print(json.dumps({"backend": backend, "ratios": ratios, "goals": verdicts, **found}))
            continue
        full = statistics.median(one["full"] for one in rounds)
        print(f"{backend}: {found['rules']} rules, full restore {full * 1000:.0f} ms (median of {len(rounds)} rounds)")
        for name, ratio in ratios.items():
            median = statistics.median(one[name] for one in rounds) * 1000
            goal = f"   goal {GOALS[name]:g}: {'met' if verdicts[name] else 'MISSED'}" if name in verdicts else ""
            print(f"  {name:<17}{median:8.1f} ms   {ratio:6.3f} of a full restore{goal}")
        whole = found["render"] + found["program"]
        print(f"  {'from nothing':<17}{whole * 1000:8.1f} ms, of which {found['program'] * 1000:.1f} programming")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
