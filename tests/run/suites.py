# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All test suites, in the order in which their lane runs them. A new suite is one more entry in SUITES.

The lanes FIRST and SECOND run side by side. SECOND begins with an emulated machine, which has priority over the other
suites where processors are scarce (tests/lab/machines/machine.py). FIRST begins with the suites that need a processor
all the time. Each suite with hosts has a lab of its own. A lane that has finished its own suites takes the next suite
of EITHER. Hosts of a lab wait for much of the time, so a third lane takes suites of EITHER when FIRST has finished its
own. Of these the long ones come first, so that all lanes end at about the same time.
"""

from __future__ import annotations

import dataclasses
import typing as t

FIRST, SECOND, EITHER = "first", "second", "either"

PYTEST = ("{bin}/python", "-m", "pytest", "-v", "--junit-xml={junit}/pytest.xml")


@dataclasses.dataclass(frozen=True)
class Suite:
    """One command whose exit status and JUnit files are its result.

    `command` may hold {root}, {bin} (of the venv), {junit} (an empty folder whose *.xml are counted), {logs}, and
    {temporary} (an empty folder that is removed afterwards, in memory where there is room).
    A command that writes no JUnit file counts as one test. `lane` is FIRST, SECOND or EITHER, which all lanes share.
    After `limit` seconds the suite is killed and `clean_up` runs. `skips` maps a part of a test's name to the reason
    why it may be skipped: any other skip is a failure.
    `covers` are the folders and files whose tests it runs, `part` is the make target that runs it with similar suites,
    `root` says that it needs root, `packages` are the Debian packages that it needs on the machine itself.
    """

    name: str
    about: str
    command: tuple[str, ...]
    limit: int
    covers: tuple[str, ...] = ()
    part: str = "static"
    lane: str = FIRST
    root: bool = False
    packages: tuple[str, ...] = ()
    clean_up: tuple[str, ...] = ()
    skips: dict[str, str] = dataclasses.field(default_factory=dict)


# Programs that change and read a network namespace
NETWORK = ("iproute2", "iptables", "nftables", "ipset", "iputils-ping", "tcpdump")
# Clients of the CNI plugin and what they need: podman with its CNI backend, chained plugins, the containers' files
CONTAINERS = ("podman", "crun", "containernetworking-plugins", "netcat-openbsd", "busybox-static", "strace")
# The package whose systemd-analyze judges unit files
SYSTEMD = ("systemd",)
# The browser that looks at pages, and a font (tests/browser.py)
CHROMIUM = ("chromium", "fonts-dejavu-core")
#: The programs that show manual pages.
MANUAL = ("groff", "man-db", "mandoc")
#: Shells whose completion is tried, besides bash.
SHELLS = ("zsh", "fish")
# The daemon that simulated hosts run from the machine's own programs (bench/site/simulated_hosts.py)
BIRD = ("bird2",)


def molecule(scenario: str, lab: str, about: str, limit: int, **more: t.Any) -> Suite:
    return Suite(
        f"molecule-{scenario.replace('_', '-')}",
        about,
        ("{bin}/molecule", "test", "--scenario-name", scenario),
        limit=limit,
        covers=(f"molecule/{scenario}",),
        clean_up=("tests/lab/lab", "down", "--name", lab),
        root=True,
        **{"part": "lab", **more},
    )


def scenario(test: str, name: str, lab: str, about: str, limit: int, lane: str = EITHER) -> Suite:
    """Return the suite of the scenarios in tests/lab/scenarios/test_`test`.py, in a lab of their own.

    `name` is the suite's name. `lab` is the name that the scenarios give their lab, for the clean-up; `limit` is in
    seconds.
    """
    return Suite(
        name,
        about,
        (*PYTEST, f"tests/lab/scenarios/test_{test}.py"),
        limit=limit,
        clean_up=("tests/lab/lab", "down", "--name", lab),
        part="lab",
        root=True,
        lane=lane,
    )


SUITES: tuple[Suite, ...] = (
    Suite(
        "unit",
        "the engine, the modules against a fake kernel, the code's structure",
        # These tests write and sync thousands of small files: on a disk they would wait for it.
        (*PYTEST, "-n", "2", "--basetemp={temporary}/t", "tests/unit"),
        limit=1800,
        covers=("tests/unit",),
    ),
    Suite(
        "lint",
        "ruff, mypy, yamllint, ansible-lint, licences, changelog, docs",
        ("{bin}/python", "tests/run/lint.py"),
        limit=600,
    ),
    Suite(
        "build",
        "two clones build one artifact; it is signed, installs, is verified, and galaxy-importer takes it",
        ("tests/run/build_artifact",),
        limit=900,
        packages=("gnupg",),
    ),
    Suite(
        "sanity",
        "ansible-test sanity",
        ("{bin}/python", "tests/run/sanity.py"),
        limit=1200,
        skips={
            "pslint": "the collection has no PowerShell",
            "shellcheck": "the artifact has no shell script",
            "empty-init": "only for ansible-core itself",
        },
    ),
    Suite(
        "report",
        "reports of 4, 200 and 1,000 nodes in Chromium: desktop, phone, dark, paper, hostile texts",
        (*PYTEST, "tests/report"),
        limit=600,
        covers=("tests/report",),
        packages=CHROMIUM,
    ),
    Suite(
        "integration",
        "drivers, modules and BIRD on this machine's kernel, in network namespaces",
        # Most of these tests wait: for BIRD, for the agent, for playbooks.
        (*PYTEST, "-n", "3", "--dist", "loadfile", "tests/integration"),
        limit=4200,
        covers=("tests/integration",),
        part="integration",
        root=True,
        packages=(*NETWORK, *CONTAINERS, *BIRD, *SYSTEMD),
        # These tests are skipped only where the kernel has no ipip: see tests/lab/scenarios/test_drivers.py.
        skips={
            "tunl0": "this kernel has no ipip; lab-ipip runs the same tests on the emulated machine's",
            "test_ipip": "this kernel has no ipip; lab-ipip has the node module make tunl0",
            "test_addresses_of_others_stay": "this kernel has no ipip; the drivers' test of it runs in lab-ipip",
        },
    ),
    Suite(
        "lab-ipip",
        "the drivers' tunl0, a container of podman, and switching from and to IPIP, in an emulated machine",
        (
            *("env", "HOST_ROUTING_LAB=scenarios-ipip", "HOST_ROUTING_LAB_MACHINE=qemu"),
            *PYTEST,
            # The other scenarios are the same in every mode and run natively.
            *(f"tests/lab/scenarios/test_{name}.py" for name in ("drivers", "podman_by_ipip", "switching")),
        ),
        limit=3600,
        covers=("tests/lab/scenarios",),
        clean_up=("tests/lab/lab", "down", "--name", "scenarios-ipip"),
        part="ipip",
        lane=SECOND,
        root=True,
    ),
    molecule("ipip", "molecule-ipip", "a mesh with IPIP in an emulated machine", limit=3600, part="ipip", lane=SECOND),
    molecule("default", "molecule-default", "a mesh of four hosts, VXLAN and direct pools", limit=1200, lane=SECOND),
    molecule("route_reflector", "molecule-rr", "four hosts behind two reflectors", limit=1200, lane=SECOND),
    molecule(
        "as_per_rack_tor",
        "molecule-tor",
        "an AS per rack, eBGP with FRR switches; one of them dies",
        limit=1200,
        lane=SECOND,
    ),
    molecule("dual_stack", "molecule-dual", "IPv4 and IPv6 in a mesh, over VXLAN and direct", limit=1200, lane=SECOND),
    Suite(
        "lab",
        "site.yml and switching under traffic on real hosts",
        (
            *("env", "HOST_ROUTING_LAB=scenarios"),
            *PYTEST,
            "tests/lab/scenarios",
            # These files have suites with labs of their own: lab-modes, lab-installation and so on. tests/run/soak runs
            # the runbook, addresses_by_ipip, bonds, and the upgrades, which need the clone's history.
            *(
                f"--ignore=tests/lab/scenarios/test_{name}.py"
                for name in (
                    *("modes", "installation", "agent", "podman", "docker", "ports", "services"),
                    *("etcd", "live", "runtimes", "podman_by_ipip"),
                    *("policy", "policy_lockout", "topology", "addresses", "switches", "getting_started"),
                    *("path_faults", "beside_other_software", "import"),
                    *("upgrade", "upgrade_by_node", "runbook", "addresses_by_ipip", "bonds"),
                )
            ),
        ),
        limit=2700,
        covers=("tests/lab/scenarios",),
        clean_up=("tests/lab/lab", "down", "--name", "scenarios"),
        part="lab",
        lane=EITHER,
        root=True,
        skips={"test_tunl0_on_this_kernel": "this kernel's tunl0 is tested in integration; lab-ipip runs this one"},
    ),
    scenario(
        "getting_started",
        "lab-getting-started",
        "scenarios-start",
        "docs/tutorials/getting-started.md, performed literally on plain hosts, by a Debian 13 with the artifact",
        limit=1500,
    ),
    scenario(
        "docker",
        "lab-docker",
        "scenarios-docker",
        "containers of Docker on Debian 12 and 13; dockerd, agents and driver restarted and killed; reboots",
        limit=1500,
    ),
    scenario(
        "agent",
        "lab-agent",
        "scenarios-agent",
        "containers of podman on four hosts; agents restarted, upgraded and killed; reboots",
        limit=1500,
    ),
    scenario(
        "policy_lockout",
        "lab-lockout",
        "scenarios-lockout",
        "changes that cut Ansible off all nodes, and nodes that go back from them by themselves",
        limit=1200,
    ),
    scenario(
        "etcd",
        "lab-etcd",
        "scenarios-etcd",
        "an etcd cluster of three hosts: planned, made, a second run, closed ports; repaired and upgraded in soak",
        limit=1800,
    ),
    scenario(
        "live",
        "lab-live",
        "scenarios-live",
        "a fleet gets an etcd cluster, policy follows, members and hosts go and come back, and it leaves the cluster",
        limit=2400,
    ),
    scenario(
        "policy",
        "lab-policy",
        "scenarios-policy",
        "a shop of three tiers: exactly what is allowed passes, while policy, labels, mode and agents change",
        limit=1500,
    ),
    scenario(
        "modes",
        "lab-modes",
        "scenarios-modes",
        "VXLAN without BGP, CrossSubnet, pools by rack; nodes and workloads come and go under traffic",
        limit=1500,
    ),
    scenario(
        "switches",
        "lab-switches",
        "scenarios-switches",
        "a mesh, reflectors, an AS per rack behind FRR switches: three shipped inventories in turn, under traffic",
        limit=1500,
    ),
    molecule(
        "live",
        "molecule-live",
        "four hosts that know each other's workloads by an etcd cluster of three members",
        limit=1500,
        lane=EITHER,
    ),
    scenario(
        "podman",
        "lab-podman",
        "scenarios-podman",
        "podman of Debian 12 by CNI and of Debian 13 by netavark: what its users do, kills, reboots, Quadlet",
        limit=900,
    ),
    scenario(
        "topology",
        "lab-topology",
        "scenarios-topology",
        "mesh, reflectors, cluster ids and AS numbers change under traffic; BIRDs and controllers die",
        limit=1200,
    ),
    scenario(
        "addresses",
        "lab-addresses",
        "scenarios-addresses",
        "one run under traffic gives hosts other addresses: one beside its old one, two exchanged; others in soak",
        limit=1200,
    ),
    scenario(
        "import",
        "lab-import",
        "scenarios-import",
        "a real Calico's documents become an inventory, and four hosts keep its blocks, tunnels and addresses",
        limit=900,
    ),
    scenario(
        "path_faults",
        "lab-path-faults",
        "scenarios-faults",
        "faults on routers, links and hosts between runs: agents name each path that is down, and nothing else",
        limit=900,
    ),
    scenario(
        "beside_other_software",
        "lab-beside",
        "scenarios-beside",
        "other software of Debian 12 and 13 restarts: packets lost as docs/reference/beside-other-software.md says",
        limit=900,
    ),
    scenario(
        "installation",
        "lab-installation",
        "scenarios-install",
        "bare hosts are planned and installed; every plan held against what happened",
        limit=1200,
    ),
    scenario(
        "services",
        "lab-services",
        "scenarios-services",
        "services of systemd, containers of nspawn, LXC and containerd, on Debian 12 and 13",
        limit=900,
    ),
    scenario(
        "runtimes",
        "lab-runtimes",
        "scenarios-runtimes",
        "packets between podman, Docker and namespaces on Debian 12 and 13, forged ones too; random starts and kills",
        limit=900,
    ),
    scenario(
        "ports",
        "lab-ports",
        "scenarios-ports",
        "ports that podman, Docker and calicoctl publish, on Debian 12 and 13, with clients and policy",
        limit=900,
    ),
    Suite(
        "docs-site",
        "the site is built, its links are right, Chromium shows it well; shells complete calicoctl",
        (*PYTEST, "tests/docs_site"),
        limit=900,
        covers=("tests/docs_site",),
        lane=EITHER,
        packages=(*CHROMIUM, *MANUAL, *SHELLS),
    ),
    Suite(
        "lab-itself",
        "the lab: reboots, power cuts, captures, traffic",
        (*PYTEST, "tests/lab/test_lab.py"),
        limit=800,
        covers=("tests/lab/test_lab.py",),
        clean_up=("tests/lab/lab", "down", "--name", "lab-test"),
        part="lab",
        lane=EITHER,
        root=True,
    ),
)
