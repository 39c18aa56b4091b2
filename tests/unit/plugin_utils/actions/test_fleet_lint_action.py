# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action fleet_lint, with inventories as Ansible reads them: files, lines, output; shipped ones pass."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest

from tests.unit.fleet.bad_inventories import CASES, Case
from tests.unit.plugin_utils import controller

ROOT = pathlib.Path(__file__).resolve().parents[4]
SHIPPED = sorted(path.name for path in (ROOT / "inventories").iterdir() if (path / "hosts.yml").exists())

#: The cases whose inventory or lockfile is wrong, whatever the nodes report.
BAD = [case for case in CASES if not case.copies and not case.limit]
ODD = {
    "group_vars/all.yml": """\
calico_ip_pools:
  - name: default
    cidr: 10.244.0.0/16
  - name: b
    cidr: 172.15.0.0/16
    natOutgoing: true
    nodeSelector: rack == 'b'
calico_spare_blocks: 0
calico_lint_ignore: [no-spare-blocks]
""",
    "hosts.yml": """\
calico_nodes:
  hosts:
    node1:
      calico_node_address: 10.10.1.11/24
      ansible_host: 10.244.1.1
    node2: {calico_node_address: 10.10.1.12/24, calico_node_address_ipv6: "fd00::12/64"}
    node3: {calico_node_address: 10.10.1.13/24, calico_node_address_ipv6: "fd00::13/64"}
spare:
  hosts:
    node4:
      calico_node_address: 10.10.1.14/24
""",
}
FOUND = """\
SEVERITY   RULE                     WHERE
error      address-on-no-device     hosts.yml:7
  calico_node_address of node3 10.10.1.13/24 is on no device of node3, according to gathered facts.
  Write the address that the host itself has on the underlay.
error      address-on-no-device     hosts.yml:7
  calico_node_address_ipv6 of node3 fd00::13/64 is on no device of node3, according to gathered facts.
  Write the address that the host itself has on the underlay.
error      pool-over-management     group_vars/all.yml:3
  calico_ip_pools[0].cidr 10.244.0.0/16 covers 10.244.1.1, by which Ansible reaches node1 (ansible_host): a run would cut itself off.
  Choose a range that nothing else uses.
error      mtu-above-link           calico_underlay_mtu
  calico_underlay_mtu 1500 is more than bond-0 of node2 carries (1400): larger packets are lost.
  Set it to 1400, or raise the MTU of the devices and of all switches between them.
warning    host-in-no-group         hosts.yml:11
  calico_node_address of node4 10.10.1.14/24 has no effect: node4 is neither in group calico_nodes nor in calico_rr.
  Put it into one of them, or remove the variable.
warning    address-moves            hosts.yml:6
  calico_node_address of node2 10.10.1.12/24 is an additional address of bond-0 with /32, as those that move between hosts.
  Write the address that stays with the host.
warning    pool-for-nobody          group_vars/all.yml:7
  calico_ip_pools[1].nodeSelector rack == 'b' matches no node, so that no node gets addresses of pool b.
  Correct it, or the calico_node_labels of the nodes that are meant.
warning    pool-public-behind-nat   group_vars/all.yml:5
  calico_ip_pools[1].cidr 172.15.0.0/16 is a public range behind natOutgoing: its owners on the Internet cannot be reached from here.
  Choose a private one (10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16), or remove natOutgoing if the range is yours.
4 errors and 4 warnings: 3 nodes and 58 rules
"""  # noqa: E501 - as it is printed
ALONE = """\
calico_nodes:
  vars:
    calico_ip_pools: [{name: six, cidr: "fd00:10:244::/64", vxlanMode: Always}]
    calico_underlay_mtu: 1400
  hosts:
    node1: {calico_node_address_ipv6: "fd00::11/64"}
    node2: {calico_node_address_ipv6: "fd00::12/64"}
"""
WRONG = {
    "prod/group_vars/all.yml": """\
calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]
calico_policy_files: [../policy/*.yml, ../polcy/*.yml, ../more]
calico_workloads: [{name: web, node: node001, labels: 1}]
calico_spare_blocks: 0
""",
    "prod/hosts.yml": """\
calico_nodes:
  hosts:
    node001: {calico_node_address: 10.10.1.11/24, ansible_host: 10.244.1.1}
    node002: {calico_node_address: 10.10.1.12/24, calico_node_labels: "{{ no_such }}"}
    node1[01:25]:
""",
    "policy/broken.yml": "kind: Tier\nmetadata: {name: [}\n",
    "policy/tier.yml": "apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: a}\nspec: {order: x}\n",
    "more/latin.yml": "kind: Tier\n",
}
NO_ADDRESS = """\
error      refused                calico_node_address of {0}
  calico_node_address of {0} is not set.
  Set it in host_vars/{0}.yml, for example to 10.10.1.11/24; a node that has IPv6 alone has calico_node_address_ipv6 instead.
"""  # noqa: E501 - as it is printed
ALL_WRONG = """\
SEVERITY   RULE                   WHERE
error      refused                prod/hosts.yml:4
  calico_node_labels of node002 is a template that cannot be evaluated: 'no_such' is undefined.
  Define what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for ansible_default_ipv4.
error      refused                policy/broken.yml:2
  document is not YAML: expected the node content, but found '}}'.
  Correct it.
error      refused                prod/group_vars/all.yml:2
  calico_policy_files[1] ../polcy/*.yml matches no file.
  Correct it, as seen from prod, or remove it.
{addresses}error      refused                policy/tier.yml:4
  Tier a: spec.order x is a text.
  Write a number, without quotes.
error      refused                more/latin.yml:1
  Tier: metadata.name is missing.
  Give the resource a name, as default-ipv4-ippool.
error      refused                prod/group_vars/all.yml:3
  calico_workloads[0].labels 1 is not a dictionary.
  Write for example {{app: web}}.
error      pool-over-management   prod/group_vars/all.yml:1
  calico_ip_pools[0].cidr 10.244.0.0/16 covers 10.244.1.1, by which Ansible reaches node001 (ansible_host): a run would cut itself off.
  Choose a range that nothing else uses.
warning    no-spare-blocks        prod/group_vars/all.yml:4
  calico_spare_blocks 0 leaves agents no block to open: a node whose blocks are full attaches no workload until the next run.
  Set it to 1, the default, unless workloads come by the inventory alone.
and 5 more errors of rule refused about calico_node_address
32 errors and 1 warning: 2 nodes and 38 rules, 21 more rules not run because of errors
"""  # noqa: E501 - as it is printed
LIVE = """\
calico_nodes:
  vars:
    calico_ip_pools: [{name: default, cidr: 10.244.0.0/16}]
    calico_policy_enabled: true
    calico_live_policy: true
    calico_etcd_endpoints: ["https://10.10.1.11:2379"]
  hosts: {node1: {calico_node_address: 10.10.1.11/24}}
"""
UNREADABLE_WAY = ALONE.replace('12/64"}', "12/64\", ansible_host: '{{ ansible_default_ipv4.address }}'}")
#: Values that a hostile node may report in place of the facts of the module setup.
HOSTILE_FACTS = [
    "x",
    {"interfaces": 5},
    {"interfaces": ["eth0"], "eth0": "x"},
    {"interfaces": ["eth0"], "eth0": {"ipv4": 7, "ipv4_secondaries": 7, "ipv6": [7]}},
]
FACTS = {
    "interfaces": ["lo", "bond-0", "eth1"],
    "lo": {"ipv4": {"address": "127.0.0.1"}},
    "bond_0": {
        "mtu": 1400,
        "ipv4": {"address": "10.10.1.2", "netmask": "255.255.255.0"},
        "ipv4_secondaries": [{"address": "10.10.1.12", "netmask": "255.255.255.255"}],
    },
    "eth1": {"mtu": 9000, "ipv4": {}, "ipv6": [{"address": "fe80::1"}, {"address": "fd00::12", "prefix": "128"}]},
}


def _run(hosts: pathlib.Path, args: t.Mapping[str, t.Any] = {}, **facts: t.Any) -> controller.Run:
    return controller.Run("fleet_lint", {"output": "none", **args}, str(hosts), facts or {"node1": {}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    made = tmp_path_factory.mktemp("odd")
    for name, text in {
        **ODD,
        "alone/hosts.yml": ALONE,
        "live/hosts.yml": LIVE,
        "way/hosts.yml": UNREADABLE_WAY,
    }.items():
        (made / name).parent.mkdir(exist_ok=True)
        (made / name).write_text(text)
    return made


@pytest.fixture(scope="module")
def answers(folder: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, t.Any]]:
    bad = {case.name: case.write(tmp_path_factory.mktemp(case.name[:20])) for case in BAD}
    facts = {"node1": {}, "node2": {"ansible_facts": FACTS}, "node3": {"ansible_facts": {**FACTS, "bond_0": {}}}}
    runs = {
        **{name: _run(ROOT / "inventories" / name / "hosts.yml", {"strict": True}) for name in SHIPPED},
        **{
            f"bad {name}": _run(hosts, {"answer_file": str(hosts.parent / "answer.json")})
            for name, hosts in bad.items()
        },
        "odd": _run(folder / "hosts.yml", {"answer_file": str(folder / ".answer.json")}, **facts),
        "printed": _run(folder / "hosts.yml", {"output": "json"}, **facts),
        "warnings": _run(folder / "good.yml"),
        "alone": _run(folder / "alone" / "hosts.yml", node1={}, node2={"ansible_facts": FACTS}),
        "way": _run(folder / "way" / "hosts.yml", {"answer_file": str(folder / "way" / ".answer.json")}),
        "live documents": _run(folder / "live" / "hosts.yml", {"answer_file": str(folder / "live" / ".answer.json")}),
        "strict": _run(folder / "good.yml", {"strict": True}),
        **{
            f"hostile facts {index}": _run(folder / "alone" / "hosts.yml", node1={}, node2={"ansible_facts": hostile})
            for index, hostile in enumerate(HOSTILE_FACTS)
        },
    }
    (folder / "good.yml").write_text("calico_nodes: {hosts: {node1: {calico_node_address: 10.10.1.11/24}}}\n")
    results = dict(zip(runs, controller.run(list(runs.values()))))
    wrong = [result["exception"] for result in results.values() if "exception" in result]
    assert not wrong, wrong[0]
    for name, hosts in bad.items():
        results[f"bad {name}"]["folder"] = str(hosts.parent)
    return results


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    """The answer about an inventory in which a lot is wrong; paths are relative to its folder."""
    folder = tmp_path_factory.mktemp("everything")
    for name, text in WRONG.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    hosts = folder / "prod" / "hosts.yml"
    (result,) = controller.run([_run(hosts, {"answer_file": str(folder / "answer.json")}, node001={})])
    assert "exception" not in result, result["exception"]
    text = (folder / "answer.json").read_text("utf-8").replace(f"{folder}/", "")
    return {**json.loads(text), "msg": result["msg"].replace(f"{folder}/", "")}


def test_all_that_is_wrong_in_one_run(everything: dict[str, t.Any]) -> None:
    """All hosts without an address, the errors of all files and templates, and what the rules find in the rest."""
    addresses = "".join(NO_ADDRESS.format(f"node1{number:02}") for number in range(1, 21))
    assert "".join(f"{line}\n" for line in everything["lines"]) == ALL_WRONG.format(addresses=addresses)
    assert everything["answer"]["left_out"] == [
        {"severity": "error", "rule": "refused", "subject": "calico_node_address", "count": 5}
    ]
    assert (everything["answer"]["errors"], len(everything["answer"]["findings"])) == (32, 28)
    assert everything["msg"].endswith(" And 30 more.")


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_is_found_in_what_is_shipped(name: str, answers: dict[str, dict[str, t.Any]]) -> None:
    assert answers[name].get("findings") == [], answers[name]
    assert answers[name]["lines"][-1].startswith("nothing found: ")


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_the_first_finding_is_the_error_that_refuses_a_run(case: Case, answers: dict[str, dict[str, t.Any]]) -> None:
    answer = answers[f"bad {case.name}"]
    folder = pathlib.Path(answer["folder"])
    first = json.loads((folder / "answer.json").read_text("utf-8"))["answer"]["findings"][0]
    origin = f"{first['origin']}: " if first["origin"] else ""
    assert f"{origin}{first['what']} {first['remedy']}" == case.expected(folder, origins=True)
    assert (answer["failed"], first["severity"], first["rule"]) == (True, "error", "refused")
    dummy, dot, rest = answer["msg"].partition(". ")
    assert dot and rest.startswith(f"{origin}error: {first['what']} {first['remedy']} [refused]")


def test_all_that_is_found(folder: pathlib.Path, answers: dict[str, dict[str, t.Any]]) -> None:
    lines = FOUND.splitlines()
    first = [f"error: {lines[row + 1].strip()} {lines[row + 2].strip()} [{lines[row].split()[1]}]" for row in (1, 4, 7)]
    places = ("hosts.yml:7", "hosts.yml:7", "group_vars/all.yml:3")
    named = " ".join(f"{place}: {text}" for place, text in zip(places, first))
    said = answers["odd"]["msg"].replace(f"{folder}/", "")
    assert said == f"4 errors and 4 warnings: 3 nodes and 58 rules. {named} And 5 more."
    assert answers["printed"]["msg"] == "4 errors and 4 warnings: 3 nodes and 58 rules, see above."
    written = json.loads((folder / ".answer.json").read_text("utf-8"))
    assert written["answer"]["errors"] == 4
    assert "".join(f"{line}\n" for line in written["lines"]).replace(f"{folder}/", "") == FOUND


def test_nothing_is_missed_of_ipv4_where_nodes_have_ipv6_alone(answers: dict[str, dict[str, t.Any]]) -> None:
    assert answers["alone"]["lines"] == ["nothing found: 2 nodes and 59 rules"]


def test_a_fleet_with_live_policy_is_told_that_live_documents_are_not_looked_at(
    folder: pathlib.Path, answers: dict[str, dict[str, t.Any]]
) -> None:
    note = "without live documents: validate reads the inventory alone, ask `calicoctl policy explain` on a node"
    written = json.loads((folder / "live" / ".answer.json").read_text("utf-8"))
    assert written["lines"][-2] == f"note   {note}"
    assert written["answer"]["notes"] == answers["live documents"]["notes"] == [note]
    assert not any("live" in line for line in (*answers["alone"]["lines"], *answers["alone"]["notes"]))


def test_warnings_are_good_unless_strict(answers: dict[str, dict[str, t.Any]]) -> None:
    warnings = answers["warnings"]
    assert (warnings["good"], warnings["errors"], warnings["warnings_found"]) == (True, 0, 2)
    assert [(one["severity"], one["rule"]) for one in warnings["findings"]] == [
        ("warning", "pool-for-nobody"),
        ("warning", "pool-public-behind-nat"),
    ]
    assert answers["strict"]["failed"] is True
    named = [f"{one['what']} {one['remedy']} [{one['rule']}]" for one in warnings["findings"]]
    places = [one["origin"] for one in warnings["findings"]]
    found = " ".join(f"{place}: warning: {text}" for place, text in zip(places, named))
    assert answers["strict"]["msg"] == f"2 warnings: 1 node and 58 rules. {found}"


def test_facts_of_any_form_end_no_lint(answers: dict[str, dict[str, t.Any]]) -> None:
    for index in range(len(HOSTILE_FACTS)):
        assert "exception" not in answers[f"hostile facts {index}"]


def test_an_ansible_host_that_cannot_be_evaluated_is_found(
    folder: pathlib.Path, answers: dict[str, dict[str, t.Any]]
) -> None:
    """It is an error like any other template's: the finding names the host, and calicoctl gets its answer file."""
    what = "ansible_host of node2 is a template that cannot be evaluated: 'ansible_default_ipv4' is undefined."
    remedy = (
        "Define what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for "
        "ansible_default_ipv4."
    )
    assert answers["way"]["msg"] == (f"1 error: 2 nodes and 59 rules. error: {what} {remedy} [refused]")
    (finding,) = json.loads((folder / "way" / ".answer.json").read_text("utf-8"))["answer"]["findings"]
    assert (finding["what"], finding["remedy"]) == (what, remedy)
