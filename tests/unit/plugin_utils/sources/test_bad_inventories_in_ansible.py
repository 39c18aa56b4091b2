# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same bad inventories, read by Ansible and refused by the fleet action: with known places, without any host."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

import pytest

from tests.unit.fleet.bad_inventories import ALL, CASES, HOSTS, Case
from tests.unit.plugin_utils import controller

GOOD = Case("good", ALL, HOSTS, None, {}, None, "", "")
#: {case: the number of errors that it has besides its message}, mostly because both nodes have the wrong value.
MORE = {
    "cluster-id-of-a-node-that-is-none": 1,
    "cluster-id-zero-of-a-node": 1,
    "host-endpoint-of-a-group-by-addresses-without-a-name": 1,
    "ipv6-pool-and-a-node-without-ipv6": 1,
    "ipv6-pools-that-overlap": 2,
    "reflector-clients-that-are-no-selector": 1,
    "source-spoofing-not-a-boolean": 1,
}


def run_of(case: Case, hosts_file: pathlib.Path, **args: t.Any) -> controller.Run:
    registered = {
        host: {"observed": {"state": state.to_dict() if state else None}} for host, state in case.observed().items()
    }
    return controller.Run("fleet", {"observed": "observed", **args}, str(hosts_file), registered)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[pathlib.Path, dict[str, t.Any]]]:
    """{case: (folder, result of the action)} for all cases and GOOD, which run in one process."""
    folders = {case.name: tmp_path_factory.mktemp(case.name[:20]) for case in [*CASES, GOOD]}
    runs = [run_of(case, case.write(folders[case.name])) for case in [*CASES, GOOD]]
    results = controller.run(runs)
    return {name: (folders[name], result) for name, result in zip(folders, results)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_refused_with_file_and_line(case: Case, answers: dict[str, tuple[pathlib.Path, dict[str, t.Any]]]) -> None:
    folder, result = answers[case.name]
    assert "exception" not in result, result["exception"]
    assert result["failed"] is True
    others = MORE.get(case.name, 0)
    more = f" And {others} more error{'s' if others > 1 else ''}, see above." if others else ""
    assert result["msg"] == case.expected(folder, origins=True) + more
    lockfile = folder / ".calico.lock.yml"
    assert (lockfile.read_text() if lockfile.exists() else None) == case.lockfile
    assert {path.name for path in folder.iterdir()} - {".calico.lock.yml"} == {"group_vars", "hosts.yml"}


def test_the_inventory_that_all_these_differ_from_is_good(
    answers: dict[str, tuple[pathlib.Path, dict[str, t.Any]]],
) -> None:
    folder, result = answers["good"]
    assert "exception" not in result, result["exception"]
    assert not result.get("failed")
    assert result["changed"] is True
    assert (result["generation"], result["modes"], result["change"]) == (1, {"default": "ipip"}, False)
    assert (folder / ".calico.lock.yml").exists()


UNDEFINED = (
    "Define what it names. Facts are in ansible_facts alone: write ansible_facts.default_ipv4 for ansible_default_ipv4."
)
TEMPLATE = (
    "Correct the template. The filters, tests and lookups of a collection have full names, such as "
    "ansible.utils.ipaddr, and the collection is installed on the controller."
)


def test_a_template_that_fails_has_a_remedy_for_its_reason(tmp_path: pathlib.Path) -> None:
    """A filter and a lookup that do not exist, and a name that is not defined, each have a remedy that fits."""
    cases = {
        "{{ 'a' | no_such }}": f"Syntax error in template: No filter named 'no_such'. {TEMPLATE}",
        "{{ lookup('no_such') }}": f"The lookup plugin 'no_such' was not found. {TEMPLATE}",
        "{{ nowhere }}": f"'nowhere' is undefined. {UNDEFINED}",
    }
    runs = []
    for index, template in enumerate(cases):
        folder = tmp_path / str(index)
        folder.mkdir()
        written = dataclasses.replace(GOOD, all=f'{ALL}calico_node_labels: {{rack: "{template}"}}\n').write(folder)
        runs.append(run_of(GOOD, written))
    said = [result["msg"] for result in controller.run(runs)]
    assert said == [
        f"{tmp_path}/{index}/group_vars/all.yml:5: calico_node_labels of node1 is a template that cannot be evaluated: "
        f"{rest}"
        for index, rest in enumerate(cases.values())
    ]


def test_a_template_of_a_secret_fails_without_its_value(tmp_path: pathlib.Path) -> None:
    """The error of a template in calico_bgp_secrets does not repeat what a filter says, which may be the password."""
    template = "{{ 'hunter2' | from_yaml | combine('hunter2') }}"
    text = f'{ALL}calico_bgp_secrets: {{tor-a: {{password: "{template}"}}}}\n'
    run = run_of(GOOD, dataclasses.replace(GOOD, all=text).write(tmp_path))
    asking = dataclasses.replace(run, action="node_info", args={})
    printed, results = controller.printed([run, asking])
    expected = f"calico_bgp_secrets of node1 is a template that cannot be evaluated. {TEMPLATE}"
    place = f"{tmp_path}/group_vars/all.yml:5: "
    assert [result.get("msg") for result in results] == [place + expected, expected]
    assert "hunter2" not in printed


def test_a_key_that_is_a_date_is_named_with_its_place(tmp_path: pathlib.Path) -> None:
    """Each action that reads a variable refuses a key that JSON does not know, and names its mapping and host."""
    labels = "calico_node_labels: {2020-01-01: x, 2: y, true: z}\n"
    cases = {
        labels: ("fleet", "calico_node_labels of node1 has the key 2020-01-01"),
        "calico_workloads: [{name: web}, {labels: {2020-01-01 10:00:00: x}}]\n": (
            "fleet",
            "calico_workloads[1].labels of node1 has the key 2020-01-01 10:00:00",
        ),
        "calico_bgp_secrets: {2020-01-01: {password: x}}\n": (
            "node_info",
            "calico_bgp_secrets of node1 has the key 2020-01-01",
        ),
        labels.replace("2020-01-01", "'2020-01-01'"): ("fleet", None),
    }
    runs, places = [], []
    for index, (text, (action, dummy)) in enumerate(cases.items()):
        folder = tmp_path / str(index)
        folder.mkdir()
        run = run_of(GOOD, dataclasses.replace(GOOD, all=ALL + text).write(folder))
        places.append(f"{folder}/group_vars/all.yml:5: " if action == "fleet" else "")
        runs.append(run if action == "fleet" else dataclasses.replace(run, action=action, args={}))
    assert [result.get("msg") for result in controller.run(runs)] == [
        begin and f"{place}{begin}, which is neither text nor a number. Write the key in quotes."
        for place, (dummy, begin) in zip(places, cases.values())
    ]
