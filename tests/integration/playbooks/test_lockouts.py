# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs whose policy would deny SSH to hosts: refused, approved and tried on one host first.

The hosts are simulated. That they are reached by SSH is said by SSH_CONNECTION, whose server is an address that all of
them have.
"""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest

from tests.integration.ansible_playbook import ROOT, SIMULATED, play
from tests.integration.playbooks.simulated_fleet import HOSTS, SimulatedFleet, simulated_fleet

pytestmark = pytest.mark.root

SERVER = "192.0.2.1"
ALLOW = [{"action": "Allow"}]
DENY_SSH = {"action": "Deny", "protocol": "TCP", "destination": {"ports": [22]}}
DENIES = f"hosts#1 (ingress, HostEndpoint host1-all) denies ssh from 192.0.2.99 to {SERVER} port 22"


def policies(*ingress: t.Any, hosts: t.Sequence[str] = HOSTS) -> list[dict[str, t.Any]]:
    return [
        *(
            {
                "apiVersion": "projectcalico.org/v3",
                "kind": "HostEndpoint",
                "metadata": {"name": f"{host}-all", "labels": {"role": "node" if host in hosts else "other"}},
                "spec": {"node": host, "interfaceName": "*"},
            }
            for host in HOSTS
        ),
        *(
            {
                "apiVersion": "projectcalico.org/v3",
                "kind": "GlobalNetworkPolicy",
                "metadata": {"name": name},
                "spec": {"selector": f"role == '{role}'", "ingress": [*more, *ALLOW], "egress": ALLOW},
            }
            for name, role, more in (("hosts", "node", ingress), ("others", "other", ()))
        ),
    ]


#: A connection plugin whose connections tell the host that they are by SSH, each from another port. A new one fails if
#: the host's rules deny port 22, unless there is the file `reachable` beside the plugin.
PLUGIN = f'''
import itertools, os, pathlib, subprocess
from ansible.errors import AnsibleConnectionFailure
exec(open("{ROOT}/bench/site/connection/namespace.py").read())
Namespace, ports = Connection, itertools.count(20000 + os.getpid() % 20000)
reachable = pathlib.Path(__file__).parent / "reachable"

class Connection(Namespace):
    port = 0

    def exec_command(self, cmd, in_data=None, sudoable=True):
        if not self.port:
            enter = ["nsenter", f"--target={{self.get_option('pid')}}", "--mount", "--net", "--pid", "--"]
            rules = subprocess.run([*enter, "iptables-save"], capture_output=True, text=True).stdout
            if "--dport 22 " in rules and not reachable.exists():
                raise AnsibleConnectionFailure("Connection timed out")
            self.port = next(ports)
        told = f"export SSH_CONNECTION='192.0.2.99 {{self.port}} {SERVER} 22'; {{cmd}}"
        return super().exec_command(told, in_data, sudoable)

    def reset(self):
        self.port = 0
'''


class Fleet(SimulatedFleet):
    """Three nodes, which all have the address SERVER. `plugins` is the folder of their connection plugin."""

    @property
    def plugins(self) -> pathlib.Path:
        return self.folder / "connection"

    def variables(self) -> dict[str, t.Any]:
        return {
            "calico_ip_pools": [{"name": "pool", "cidr": "10.244.0.0/16", "vxlanMode": "Always"}],
            "calico_failsafe_inbound_host_ports": [],
            "calico_policies": policies(),
        }

    def over_ssh(self, playbook: str, *options: str) -> tuple[int, str, dict[str, str]]:
        """Run a playbook; return its exit status, what it printed as one line, and the recap's words by host."""
        self.plugins.mkdir(exist_ok=True)
        (self.plugins / "namespace.py").write_text(PLUGIN)
        environment = {**SIMULATED, "ANSIBLE_CONNECTION_PLUGINS": str(self.plugins)}
        done = play(f"playbooks/{playbook}.yml", self.inventory, *options, environment=environment, timeout=300)
        recap = re.findall(r"^(host\d) +: ok=\d+ +(.*?) *$", done.stdout, re.M)
        counts = {host: " ".join(re.findall(r"(?:changed|failed)=\d", words)) for host, words in recap}
        return done.returncode, re.sub(r"\s+", " ", done.stdout + done.stderr), counts

    @property
    def denying(self) -> list[str]:
        """The hosts whose rules name port 22."""
        return [host for host in HOSTS if "--dport 22 " in self.inside(host, "iptables-save")]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Fleet]:
    """The fleet, whose policy allows everything; its inventory denies SSH to all hosts."""
    with simulated_fleet(Fleet, tmp_path_factory) as made:
        for host in HOSTS:
            made.inside(host, "ip", "address", "add", f"{SERVER}/32", "dev", "lo")
        made.run("site")
        made.write(calico_policies=policies(DENY_SSH))
        yield made


def refusal(printed: str) -> str:
    """Return the approval that a refused run asks for. Raise AssertionError if it says anything else of it."""
    found = re.search(r"\[ERROR\]: Task failed: Action failed: plan (\w+) (.*?) Origin: ", printed)
    assert found and found[2] == (
        f"needs approval: it would deny new SSH connections to 3 hosts (host1, host2, host3): {DENIES}. Look at it "
        f"with --check --diff. If it is what you want, run it with -e approve={found[1]}: then host1 goes first, "
        "alone, and the others follow when a new connection has reached it. Nothing was changed."
    ), printed
    return found[1]


def test_a_lockout_is_refused_then_tried_on_one_host(fleet: Fleet) -> None:
    """The first host cannot be reached after its change: it goes back by itself, and no other host was changed."""
    status, printed, recap = fleet.over_ssh("site")
    assert status == 2 and fleet.denying == []
    assert recap == {"host1": "changed=0 failed=1", "host2": "changed=0 failed=0", "host3": "changed=0 failed=0"}
    approval = refusal(printed)
    options = ("-e", f"approve={approval}", "-e", "calico_node_confirm_timeout=5")
    status, printed, recap = fleet.over_ssh("site", *options)
    assert status == 2 and fleet.denying == []
    assert recap == {"host1": "changed=1 failed=1", "host2": "changed=0 failed=0", "host3": "changed=0 failed=0"}
    assert (
        "host1 could not be reached by a new connection within 5 s of the change, and went back by itself to what it "
        "had before. The plan said: a new connection like ssh from 192.0.2.99 to 192.0.2.1 port 22 would be cut by "
        "hosts#1 (ingress, HostEndpoint host1-all). Correct the inventory, then run again. host1 went first, because "
        "the plan denies SSH to hosts. No other host was changed."
    ) in printed


def test_the_others_follow_when_the_first_host_is_confirmed(fleet: Fleet) -> None:
    """A return to the earlier policy needs no approval, and one to the policy that denies SSH needs it again."""
    approval = refusal(fleet.over_ssh("site")[1])
    (fleet.plugins / "reachable").touch()
    status, printed, recap = fleet.over_ssh("site", "-e", f"approve={approval}")
    assert status == 0 and fleet.denying == [*HOSTS], printed
    assert recap == dict.fromkeys(HOSTS, "changed=1 failed=0")
    steps = re.findall(r"changed: \[host\d\]|Check that the first host", printed)
    assert steps[:2] == ["changed: [host1]", "Check that the first host"], printed
    assert sorted(steps[2:]) == ["changed: [host2]", "changed: [host3]"], printed
    assert re.findall(r"\[WARNING\]: ([^:]*): a new connection like ssh", printed) == ["host1, host2, host3"]
    assert "confirm 3/3 nodes answered a new connection" in printed

    status, printed, recap = fleet.over_ssh("rollback", "-e", "plan=previous", "--diff")
    assert status == 0 and fleet.denying == [], printed
    assert "~ policy hosts 3 rules -> 2 rules 1 removed" in printed and " - policy " not in printed
    status, printed, recap = fleet.over_ssh("rollback", "-e", "plan=previous")
    assert status == 2 and fleet.denying == [] and refusal(printed) == approval
