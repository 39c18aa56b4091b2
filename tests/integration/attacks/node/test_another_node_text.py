# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by another node whose texts reach the programs that write this node's firewall and routing.

The controller's checks are skipped here: a node's texts go straight to the code that writes, and from there to the real
ipset, iptables of both backends and ip6tables in a network namespace, and to BIRD's parser.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError, ObserveError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import ipset, iptables
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import MemberWrite
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import units
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.model import Endpoint
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_policy_tables import with_policy
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import (
    Hook,
    IpSet,
    IptablesTable,
    NodeState,
)
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

from tests.integration import iptables_backend
from tests.integration.host_under_test import HostKernel, host_under_test
from tests.unit.dataplane.encoding import hostile_text
from tests.unit.dataplane.encoding.hostile_text import HOSTILE, replaced, texts

STATE = hostile_text.state()
OTHER = hostile_text.endpoints_of_others()[0]
SOAK = os.environ.get("HOST_ROUTING_SOAK") == "1"
UNITS = pathlib.Path(__file__).resolve().parents[4] / "roles" / "calico_node" / "files" / "systemd"


class Node:
    """A network namespace, its firewall, and the path `file` at which no attack may create a file."""

    def __init__(self, kernel: LinuxKernel, file: pathlib.Path) -> None:
        self.kernel = kernel
        self.file = file

    def bring(self, state: NodeState) -> list[str]:
        """Bring the kernel's IP sets and rules to those of `state`.

        Return a sentence for each part that is left out or kept, and for each change that fails. Raise ObserveError if
        ipset or iptables cannot be read.
        """
        said = []
        for driver, wanted in ((ipset, state.ipsets), (iptables, state.iptables)):
            changes = driver.diff(wanted, driver.observe(self.kernel, wanted))
            said += [change.note for change in changes if change.action == "="]
            try:
                driver.apply(self.kernel, changes)
            except ApplyError as error:
                said += [reason for _change, reason in error.failures]
        return said

    def told(self, *others: Endpoint) -> list[str]:
        """Bring the firewall to STATE with its policy, for a node to which other nodes report these endpoints.

        Return what `bring` returns.
        """
        return self.bring(with_policy(STATE, (), others))

    def firewall(self) -> dict[str, list[str]]:
        """Return {"ipset save", "iptables-save" or "ip6tables-save": sorted lines of its output}.

        Comments, counters and the sizes and seeds of hashes are left out. Raise AssertionError if a program fails.
        """
        found = {}
        for program in ("ipset save", "iptables-save", "ip6tables-save"):
            done = self.kernel.run(program.split())
            assert done.code == 0, done.errors
            text = re.sub(r"^#.*\n|hashsize \d+ |initval \S+|\[\d+:\d+\]", "", done.output, flags=re.MULTILINE)
            found[program] = sorted(text.splitlines())
        return found


@pytest.fixture(params=["nft", "legacy"])
def node(request: pytest.FixtureRequest, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Node]:
    iptables_backend.choose(request.param, tmp_path, monkeypatch)
    with host_under_test(tmp_path, HostKernel) as kernel:
        yield Node(kernel, tmp_path / "written")


def test_a_line_break_in_an_address_is_no_command(node: Node) -> None:
    """Insert an ipset command into another node through a line break in an endpoint's address.

    Gain: Root on every other node, since `save -file` of ipset writes any file.
    Precedent: CWE-93.
    Closed: 0.2.0
    Result: The address is left out of its set and named. Sets and rules have all others, and no file is written.
    """
    good = "10.244.3.77"
    assert node.told(dataclasses.replace(OTHER, addresses=(good,))) == []
    expected = node.firewall()
    commands = (f"save -file {node.file}", "destroy", "add cali40all-hosts-net 0.0.0.0/1", "-! flush", "quit")
    for number, one in enumerate(hostile_text.BREAKS):
        for command in commands if SOAK else commands[number % 5 :: 5]:
            for address in (f"10.244.3.78{one}{command}", f"fd00::78{one}{command}"):
                said = node.told(dataclasses.replace(OTHER, addresses=(good, address)))
                assert all("left out: '" in sentence and repr(address)[1:8] in sentence for sentence in said), said
                assert said
    assert node.firewall() == expected
    assert not node.file.exists()


def test_a_member_longer_than_a_line_of_ipsets_is_no_second_line(node: Node) -> None:
    """Make ipset, which reads lines into 1024 bytes, read the end of a long address as its next line.

    Gain: root on every other node, without a line break in the text.
    Precedent: CWE-120, as an input that is cut at the size of a buffer and continued.
    Closed: 0.2.0
    Result: The address is left out, and no file is written.
    """
    assert node.told(OTHER) == []
    expected = node.firewall()
    for before in range(900, 1030):
        address = f"10.244.3.1{',' * before}save -file {node.file}"
        wanted = IpSet("cali40s:attacked", "hash:net", ("10.0.0.1", address))
        changes = ipset.diff([wanted], {})
        assert [change.action for change in changes] == ["=", "+"]
        assert all(len(line) < 200 for line in ipset._fill(changes[1]))
    assert node.told(dataclasses.replace(OTHER, addresses=("10.244.3.1", "10.244.3.2" + " " * 1000 + "save"))) != []
    changed = node.firewall()
    assert {name: [line for line in lines if "fd00::3" not in line] for name, lines in changed.items()} == {
        name: [line for line in lines if "fd00::3" not in line] for name, lines in expected.items()
    }
    assert not node.file.exists()


def test_a_text_that_is_no_single_address_widens_no_rule(node: Node) -> None:
    """Report an option, a name or a range instead of an address.

    Gain: A set member that is never repaired (`nomatch`), names that root resolves by DNS, or sets of millions of
    members.
    Precedent: CWE-88.
    Closed: 0.2.0
    Result: Each is left out and named, and the sets have all others.
    """
    good = (*OTHER.addresses, "10.244.3.99", "fd00::99")
    assert node.told(dataclasses.replace(OTHER, addresses=good)) == []
    expected = node.firewall()
    assert node.told(OTHER) == []
    bad = ("10.0.0.0/8 nomatch", "10.0.0.1 timeout 1", "localhost", "10.0.0.1-10.255.255.255", "1.2.3", "0x7f000001")
    said = node.told(dataclasses.replace(OTHER, addresses=(*bad, *good)))
    assert said and all("left out: " in sentence for sentence in said), said
    assert node.firewall() == expected
    for address in bad:
        with pytest.raises((ValueError, OSError)):
            node.kernel.ipset_write([MemberWrite("add", "cali40all-hosts-net", "hash:net", address)])


def test_an_option_that_was_smuggled_in_before_is_repaired(node: Node) -> None:
    """Leave `nomatch` on a member of a set, as an input of an older release could.

    Gain: A rule that never matches an address again, which no run repairs.
    Precedent: none known.
    Closed: 0.2.0
    Result: The option is removed, the member stays, and nothing else has to change.
    """
    node.told(OTHER)
    expected = node.firewall()
    node.kernel.run(["ipset", "del", "cali40all-hosts-net", "10.10.1.12"])
    node.kernel.run(["ipset", "add", "cali40all-hosts-net", "10.10.1.12", "nomatch"])
    assert node.firewall() != expected
    assert node.told(OTHER) == []
    assert node.firewall() == expected


def test_no_text_of_an_endpoint_is_a_command_or_stops_the_others(node: Node) -> None:
    """Put hostile texts into each field of an endpoint: name, labels, profiles, ports, interface, namespace.

    Gain: The attacker's rules and sets on other nodes, or nodes that are no longer repaired.
    Precedent: CWE-77.
    Closed: 0.2.0
    Result: The rules stay the same, all other members are in the sets, and no file is written.
    """
    node.told(OTHER)
    rules = {name: lines for name, lines in node.firewall().items() if name != "ipset save"}
    kept = {line for line in node.firewall()["ipset save"] if not re.search(r"10\.244\.3\.1|fd00::3", line)}
    for number, path in enumerate(texts(OTHER)):
        for hostile in HOSTILE if SOAK else HOSTILE[number % 16 :: 16]:
            said = node.told(replaced(OTHER, path, hostile))
            assert all("left out: " in sentence for sentence in said), said
            after = node.firewall()
            assert {name: lines for name, lines in after.items() if name != "ipset save"} == rules, (path, hostile)
            assert set(after["ipset save"]) >= kept, (path, hostile)
    assert not node.file.exists()


@pytest.mark.parametrize("family", [4, 6])
def test_a_rule_with_a_line_break_is_no_second_rule(node: Node, family: int) -> None:
    """Insert a line into the input of iptables-restore, by the name of a rule or chain, or by an overlong rule.

    Gain: Any rule in any chain, in the same transaction as the node's own.
    Precedent: CWE-93.
    Closed: 0.2.0
    Result: The chain is closed after its valid rules, and all other chains are written. INPUT has only the collection's
    jump.
    """
    hook = (Hook("INPUT", "-j cali-INPUT"),)
    net = "fd00::/8" if family == 6 else "10.0.0.0/8"
    evil = "-A INPUT -j ACCEPT"
    for bad in (
        f"-s {net} -j ACCEPT\n{evil}",
        f"-s {net} -j ACCEPT\n{evil}\nCOMMIT\n*nat\n-F",
        f'-s {net} -m comment --comment "x\n{evil}" -j DROP',
        f'-s {net} -m comment --comment "x',
        f'-s {net} -m comment --comment "{"x" * 10170}" -j ACCEPT{" " * 40}{evil}',
        f"-s {net} -j ACCEPT\0",
        f"-s {net} -j ACCEPT\r{evil}",
    ):
        chains = {"cali-INPUT": (f"-s {net} -j cali-bad", "-j cali-good"), "cali-bad": ("-p tcp -j RETURN", bad)}
        chains["cali-good"] = ("-p udp -j DROP",)
        said = node.bring(
            dataclasses.replace(STATE, ipsets=(), iptables=(IptablesTable("filter", chains, hook, family),))
        )
        assert len(said) == 1, said
        assert "was not given chain cali-bad of table filter at" in said[0]
        saved = node.firewall()["iptables-save" if family == 4 else "ip6tables-save"]
        rules = [re.sub(r" -m comment --comment \S+", "", line) for line in saved if line.startswith("-A")]
        assert sorted(rules) == sorted(
            [
                "-A INPUT -j cali-INPUT",
                f"-A cali-INPUT -s {net} -j cali-bad",
                "-A cali-INPUT -j cali-good",
                "-A cali-bad -p tcp -j RETURN",
                "-A cali-bad -j DROP",
                "-A cali-good -p udp -j DROP",
            ]
        )
        node.bring(dataclasses.replace(STATE, ipsets=(), iptables=()))


def test_an_interface_with_a_rule_in_its_name_is_no_rule(node: Node) -> None:
    """Name an interface so that iptables reads a part of the name as another condition or target.

    Gain: a rule that accepts what it should match.
    Precedent: CWE-88.
    Closed: 0.2.0
    Result: The chain of the rule is not written, and the kernel has no rule with the text.
    """
    state = with_policy(STATE, (), (OTHER,))
    assert node.bring(state) == []
    policy = t.cast(t.Any, STATE.policy)
    for name in ("eth1 -j ACCEPT", "eth1\n-A INPUT -j ACCEPT", '"eth1" -j ACCEPT', "-j ACCEPT"):
        hosts = tuple(
            dataclasses.replace(one, interface=name) if one.kind == "HostEndpoint" else one for one in policy.endpoints
        )
        attacked = dataclasses.replace(STATE, policy=dataclasses.replace(policy, endpoints=hosts))
        said = node.bring(with_policy(attacked, (), (OTHER,)))
        closed = [sentence for sentence in said if "was not given chain" in sentence]
        # A chain that was set aside keeps rules that lead to the chains of the former name, which so cannot be deleted.
        assert closed and all("could not be deleted" in sentence for sentence in said if sentence not in closed), said
        saved = [*node.firewall()["iptables-save"], *node.firewall()["ip6tables-save"]]
        assert [line for line in saved if re.match(r"-A (INPUT|OUTPUT|PREROUTING|FORWARD) ", line) and "cali-" not in
                line and "-j ACCEPT" in line and "--mark" not in line] == []  # fmt: skip
        assert not any("eth1 -j" in line or '"eth1"' in line for line in saved)


def test_no_text_of_a_session_is_a_statement_of_birds(tmp_path: pathlib.Path) -> None:
    """Put hostile texts into each field of bird.cfg: names of nodes, patterns, addresses, symbols.

    Gain: The attacker's protocols and routes in BIRD, or files that it includes.
    Precedent: CWE-94.
    Closed: 0.2.0
    Result: A text that is not a token is refused by name. Any other text adds no statement, and BIRD's own parser
    accepts it, unless it names a secret that is not defined.
    """
    content = STATE.to_dict()["bird"]
    plain = bird_config.render(content)
    refused = parsed = 0
    bird = t.cast(t.Any, STATE.bird)
    (tmp_path / "bird.secrets.conf").write_text("define 'calico_secret_tor:key' = \"secret\";\n")
    for path in texts(bird):
        for hostile in HOSTILE:
            if not hostile:
                continue
            attacked = dataclasses.replace(STATE, bird=replaced(bird, path, hostile))
            try:
                text = bird_config.render(attacked.to_dict()["bird"])
            except NotEncodable as error:
                assert str(error).isprintable() and "bird.cfg" in str(error)
                refused += 1
                continue
            assert len(re.findall(_STATEMENT, text)) <= len(re.findall(_STATEMENT, plain)), (path, hostile)
            if not {"password", "secrets"} & set(path):  # BIRD refuses a secret that is not defined
                assert _parse(tmp_path, text) == "", (path, hostile)
            parsed += 1
    assert _parse(tmp_path, plain) == ""
    assert "syntax error" in _parse(tmp_path, plain + 'x "')
    assert refused > 500
    assert parsed > 20


_STATEMENT = re.compile(r"^(?:protocol|filter|function|include|define|template)\b", re.MULTILINE)


def _parse(folder: pathlib.Path, text: str) -> str:
    """Write the configuration `text` into `folder`; return BIRD's complaint about it, "" if it is valid.

    Raise FileNotFoundError if BIRD is not installed, and subprocess.TimeoutExpired after 20 seconds.
    """
    config = folder / "bird.cfg"
    config.write_text(text)
    done = subprocess.run(["bird", "-p", "-c", str(config)], capture_output=True, text=True, timeout=60, check=False)
    return done.stderr + done.stdout


def test_no_name_of_a_unit_is_an_option_or_a_pattern(tmp_path: pathlib.Path) -> None:
    """Give a systemd unit a name that systemctl reads as an option, a pattern of all units, or a path.

    Gain: `--root=`, `*.service` or the attacker's file enabled as root.
    Precedent: CWE-88.
    Closed: 0.2.0
    Result: The name is refused before systemctl runs. Systemd finds nothing unknown or invalid in the shipped units.
    """
    ran = tmp_path / "ran"
    program = tmp_path / "systemctl"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for hostile in (*HOSTILE, "*.service", "--root=/tmp.service", "../x.service", "/tmp/x.service", "a b.service"):
        with pytest.raises(ObserveError, match="cannot be a unit for systemctl"):
            units.observe([units.WantedUnit(hostile, True, True)], str(program))
    assert not ran.exists()
    shipped = sorted(UNITS.glob("*.service"))
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *map(str, shipped)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    complaints = [line for line in done.stderr.splitlines() if re.search(r"Unknown|Invalid|ignoring|Missing", line)]
    assert complaints == []
