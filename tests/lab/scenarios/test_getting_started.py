# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/tutorials/getting-started.md, performed literally: its files, its commands, and what they print.

The controller is a Debian 13 host with the newest ansible-core in a virtual environment and the built artifact. It has
no file of the clone, no internet, and a user without sudo. The nodes are plain hosts, whose user has sudo and whose
root cannot log in.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import Lab, page
from tests.lab.handle import BaseLab
from tests.lab.machines import downloads

from .conftest import LAB, ROOT

NODES = {"node1": "bookworm", "node2": "trixie"}
CONTROLLER = "node6"
PAGE = ROOT / "docs" / "tutorials" / "getting-started.md"
PACKAGES = ("sudo", "podman", "crun", "containernetworking-plugins", "busybox-static")
#: The image that the page runs, made of Debian's own busybox, since the lab has no internet.
IMAGE = "docker.io/library/busybox:latest"
APPLETS = "sh sleep wget httpd cat echo"
#: Settings that podman needs in a systemd container, and that a host of one's own does without.
NESTED = {
    "storage.conf": (
        '[storage]\ndriver = "vfs"\ngraphroot = "/var/lib/containers/storage"\nrunroot = "/run/containers/storage"\n'
    ),
    "containers.conf": (
        '[containers]\ncgroups = "disabled"\nkeyring = false\nlog_driver = "k8s-file"\n'
        '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nruntime = "crun"\n'
    ),
}
MAKE_USER = "useradd --create-home --shell /bin/bash"
#: The longest time in seconds that one command of the page may take.
PATIENCE = 300


class Terminal:
    """A shell of the user `you` on the controller, which keeps its folder and its variables from command to command."""

    def __init__(self, lab: BaseLab) -> None:
        self._process = lab.popen(CONTROLLER, ["runuser", "-l", "you"], stderr=subprocess.STDOUT)

    def run(self, command: str) -> tuple[int, str]:
        """Run `command` without input and return its exit status and what it printed; 255 if the shell ended."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{{ {command}\n}} </dev/null 2>&1; printf '\\nstatus %s\\n' $?\n".encode())
        self._process.stdin.flush()
        timer = threading.Timer(PATIENCE, self._process.kill)
        timer.start()
        said = b""
        while b"\nstatus " not in said or not said.endswith(b"\n"):
            line = self._process.stdout.readline()
            if not line:
                return 255, said.decode()
            said += line
        timer.cancel()
        output, _, status = said.rpartition(b"\nstatus ")
        return int(status), output.decode()

    def check(self, command: str) -> str:
        status, output = self.run(command)
        assert status == 0, f"{command}\nended with {status}:\n{output}"
        return output

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of this clone, as `make build` makes it."""
    folder = tmp_path_factory.mktemp("artifact")
    command = ["ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [built] = folder.glob("*.tar.gz")
    return built


@pytest.fixture(scope="module")
def lab(artifact: Path) -> Iterator[BaseLab]:
    lab = Lab(f"{LAB}-start", machine="native")
    lab.down()
    lab.up([*NODES, CONTROLLER], baked=False)
    key = make_controller(lab, artifact)
    for node, release in NODES.items():
        make_node(lab, node, release, key)
    yield lab
    if not os.environ.get("HOST_ROUTING_LAB_KEEP"):
        lab.down()


def make_controller(lab: BaseLab, artifact: Path) -> str:
    """Prepare the controller as the page requires it, and return its user's public key."""
    downloads.give_repository(lab, CONTROLLER, downloads.debs("trixie", ["python3-venv"]))
    downloads.give_wheels(lab, CONTROLLER, downloads.wheels("3.13", ROOT / "tests/lab/controller.requirements.txt"))
    install(lab, CONTROLLER, "python3-venv")
    lab.exec(CONTROLLER, f"{MAKE_USER} you")
    lab.put(CONTROLLER, artifact, f"/home/you/{artifact.name}")
    lab.exec(CONTROLLER, ["runuser", "-l", "you", "-c", "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519"])
    answer: str = lab.exec(CONTROLLER, ["cat", "/home/you/.ssh/id_ed25519.pub"]).stdout
    return answer


def make_node(lab: BaseLab, node: str, release: str, key: str) -> None:
    """Prepare a plain host as the page requires it: the user `admin` has sudo and `key`, and root cannot log in."""
    downloads.give_repository(lab, node, downloads.debs(release, PACKAGES))
    install(lab, node, "sudo")
    lab.exec(node, f"{MAKE_USER} admin && install -d -o admin -m 700 /home/admin/.ssh")
    lab.exec(node, "cat > /home/admin/.ssh/authorized_keys", input=key)
    lab.exec(node, "echo 'admin ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/admin")
    lab.exec(node, "echo 'PermitRootLogin no' > /etc/ssh/sshd_config.d/10-root.conf && systemctl restart ssh")
    for name, text in NESTED.items():
        lab.exec(node, f"mkdir -p /etc/containers && cat > /etc/containers/{name}", input=text)


def install(lab: BaseLab, node: str, package: str) -> None:
    command = f"DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {package}"
    lab.exec(node, command, timeout=120)


def pull(lab: BaseLab) -> None:
    """Give podman on each node the image that it would fetch from a registry.

    It has Debian 13's busybox on all of them: wget of Debian 12's busybox-static crashes.
    """
    install(lab, "node2", "busybox-static")
    script = f"""
        box=$(mktemp -d) && mkdir $box/bin $box/tmp && cp /bin/busybox $box/bin
        for name in {APPLETS}; do ln -s busybox $box/bin/$name; done
        tar -C $box -c .
    """
    image = lab.exec("node2", script, text=False).stdout
    for node in NODES:
        lab.exec(node, ["podman", "import", "-q", "-", IMAGE], input=image, text=False)


@pytest.fixture(scope="module")
def terminal(lab: BaseLab) -> Iterator[Terminal]:
    terminal = Terminal(lab)
    yield terminal
    terminal.close()


def perform(lab: BaseLab, terminal: Terminal, step: page.Command | page.File) -> None:
    """Write the file, or run the command and compare; raise AssertionError with the page's line."""
    where = f"{PAGE.name}:{step.line}"
    if isinstance(step, page.File):
        lab.exec(CONTROLLER, ["runuser", "-u", "you", "--", "mkdir", "-p", os.path.dirname(f"/home/you/{step.path}")])
        lab.exec(CONTROLLER, ["runuser", "-u", "you", "--", "tee", f"/home/you/{step.path}"], input=step.text)
        return
    status, output = terminal.run(step.text)
    wrong = page.differences(step.output, output)
    assert (status, wrong) == (step.status, []), f"{where}: {step.text}\nended with {status}: {wrong}\n{output}"


def test_the_page_is_true(lab: BaseLab, terminal: Terminal, record_property: Callable[[str, object], None]) -> None:
    """Each command of the page prints what the page says, and ends as it says."""
    pulled = False
    for step in page.steps(PAGE.read_text("utf-8")):
        if not pulled and isinstance(step, page.Command) and "podman run" in step.text:
            pull(lab)
            pulled = True
        began = time.monotonic()
        perform(lab, terminal, step)
        record_property(f"line {step.line}", f"{time.monotonic() - began:.1f} s")


#: The inventory of the page, and the same without become.
FLEET, BARE = "fleet", "bare"
PLAYBOOK = "ansible-playbook -i fleet baremetal.host_routing."
CALICOCTL = "~/.ansible/collections/ansible_collections/baremetal/host_routing/bin/calicoctl"
#: What an ordinary user does after the page: {name: (command, a line that it prints)}.
CASES = {
    "switch_pool_mode": (
        f"{PLAYBOOK}switch_pool_mode -e pool=default-ipv4-ippool -e mode=vxlan -e write_inventory=true "
        "-e calico_node_soak_seconds=1",
        "pool default-ipv4-ippool is vxlan now, and /home/you/fleet/group_vars/all/calico.yml says so.",
    ),
    "switch_topology": (f"{PLAYBOOK}switch_topology -e topology=mesh", "converged 2/2 nodes ..."),
    "sync_workloads": (f"{PLAYBOOK}sync_workloads", "synced 2/2 nodes ..."),
    "ipam_check": (f"{PLAYBOOK}ipam_check", "Check of the fleet complete; found 0 problems."),
    "scale": (f"{PLAYBOOK}scale", "in all: 2 nodes, 1 session, 4 blocks"),
    "resources": (f"{PLAYBOOK}resources", "Node 2"),
    # It runs the playbook change.
    "calicoctl create": (
        "mkdir fleet/.resources && "
        "echo 'calico_resource_files: [~/fleet/.resources]' > fleet/group_vars/all/resources.yml && "
        f"echo '{{kind: Tier, metadata: {{name: own}}}}' | {CALICOCTL} -i fleet create -f - --dry-run",
        "Nothing was written: this is a dry run of: Successfully created 1 'Tier' resource(s)",
    ),
    "status": (f"{PLAYBOOK}status -e strict=true", "good 2/2 nodes ..."),
    "teardown": (f"{PLAYBOOK}teardown --check --diff", "- unit calico-agent.service enabled, started"),
    # become on the command line
    "site --become": ("ansible-playbook -i bare baremetal.host_routing.site --become", "converged 2/2 nodes ..."),
    "status --become": (
        "ansible-playbook -i bare baremetal.host_routing.status --become -e strict=true",
        "good 2/2 nodes ...",
    ),
    # modules by themselves, also as jobs
    "a module": ("ansible node1 -i fleet -m baremetal.host_routing.node_confirm", '"outcome": "nothing"'),
    "a module --become": ("ansible node1 -b -i bare -m baremetal.host_routing.workload_info", '"agent_running": true,'),
    "a module as a job": (
        "ansible node2 -i fleet -m baremetal.host_routing.bgp_session_info -B 60 -P 1",
        '"router_id": "10.10.1.12",',
    ),
    # calicoctl asks an inventory, as the playbooks do
    "calicoctl get": (f"{CALICOCTL} get nodes -i fleet", "node2"),
    "calicoctl ipam show": (
        f"{CALICOCTL} ipam show -i fleet",
        "| IP Pool | 10.244.0.0/16 | 256 | 5 (2%) | 0 (0%) | 251 (98%) |",
    ),
    "calicoctl validate": (f"{CALICOCTL} validate -i fleet", "nothing found: 2 nodes and ... rules"),
    "calicoctl policy explain": (
        f"{CALICOCTL} policy explain -i fleet --from client --to node2 --port 22/tcp",
        "ALLOW the inventory has no policy: all that can be routed passes",
    ),
}


@pytest.fixture(scope="module")
def converged(lab: BaseLab, terminal: Terminal) -> Terminal:
    """The terminal after another `site` on the page's first inventory; the page has left both nodes bare."""
    files = {step.path: step for step in reversed(page.steps(PAGE.read_text("utf-8"))) if isinstance(step, page.File)}
    hosts = files["fleet/hosts.yml"]
    perform(lab, terminal, hosts)
    terminal.check(f"mkdir {BARE} && ln -s ../{FLEET}/group_vars {BARE}")
    own = f"    calico_lockfile: /home/you/{FLEET}/.calico.lock.yml\n"
    without = hosts.text.replace("    ansible_become: true\n", own)
    perform(lab, terminal, page.File(hosts.line, f"{BARE}/hosts.yml", without))
    refused = terminal.run(f"ansible-playbook -i {BARE} baremetal.host_routing.site")
    assert refused[0] == 2 and refused[1].count("Set ansible_become: true for this host.") >= len(NODES), refused[1]
    terminal.check(f"{PLAYBOOK}site")
    return terminal


@pytest.mark.parametrize("name", CASES)
def test_an_ordinary_user_with_become_does_everything(converged: Terminal, name: str) -> None:
    """Playbooks, modules and calicoctl work for a user who becomes root on nodes, and has no sudo on the controller."""
    command, output = CASES[name]
    said = converged.check(command)
    assert not page.differences((output, "..."), said), said


def test_sudo_with_a_password(lab: BaseLab, converged: Terminal) -> None:
    """A run gives sudo the password that it was given, and names its lack; it needs sudo on the nodes alone."""
    lab.exec("node2", "echo 'admin:s3cret word' | chpasswd && echo 'admin ALL=(ALL) ALL' > /etc/sudoers.d/admin")
    status, said = converged.run(f"{PLAYBOOK}status")
    assert status == 2 and not page.differences(("! node2: Missing sudo password", "..."), said), said
    converged.check("echo 's3cret word' > password")
    said = converged.check(f"{PLAYBOOK}site --become-password-file password -e calico_spare_blocks=2")
    assert not page.differences(("converged 2/2 nodes ...", "..."), said), said
    assert converged.run("command -v sudo")[0] != 0
