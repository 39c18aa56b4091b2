# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl -i INVENTORY apply` and the other verbs, with a program in the place of ansible-playbook.

tests/unit/plugin_utils/actions/test_resource_change_action.py tests what the playbook does.
"""

from __future__ import annotations

import io
import json
import pathlib
import sys
import typing as t

import pytest

from tests.unit.cli.conftest import Node

POOL = "kind: IPPool\nmetadata: {name: lab}\nspec: {cidr: 10.245.0.0/24}\n"
DOCUMENT = {"kind": "IPPool", "metadata": {"name": "lab"}, "spec": {"cidr": "10.245.0.0/24"}}
LINES = ["Successfully applied 1 'IPPool' resource(s)"]

#: It keeps the request, answers a question to the inventory, and writes down how it is called otherwise.
PROGRAM = """#!{python}
import json, os, pathlib, sys
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
if "-e" in words and "answer_file" in words[words.index("-e") + 1]:
    told = json.loads(words[words.index("-e") + 1])
    (folder / "asked").write_text(json.dumps([words[0].rpartition("/")[2], json.load(open(told["request_file"]))]))
    open(told["answer_file"], "w").write((folder / "answer").read_text())
else:
    with open(folder / "ran", "a") as stream:
        stream.write(" ".join(words) + "\\n")
    sys.exit(int((folder / "status").read_text()) if "--check" not in words else 0)
"""


class Controller:
    """A controller whose ansible-playbook answers that the files changed."""

    def __init__(self, node: Node, program: pathlib.Path) -> None:
        self._node = node
        node.controller = True
        self.folder = node.folder
        program.write_text(PROGRAM.format(python=sys.executable, folder=str(self.folder)))
        self.answer(True)
        self.status(0)
        (self.folder / "net.yml").write_text(POOL)
        self.inventory = str(self.folder / "hosts")

    def answer(self, changed: bool, **more: str) -> None:
        (self.folder / "answer").write_text(json.dumps({"lines": LINES, "answer": {"changed": changed, **more}}))

    def status(self, status: int) -> None:
        (self.folder / "status").write_text(str(status))

    def run(self, *words: str) -> tuple[int, str, str]:
        return self._node.run(*words)

    def change(self, *words: str) -> tuple[int, str, str]:
        return self.run(words[0], "-i", self.inventory, *words[1:])

    @property
    def asked(self) -> dict[str, t.Any]:
        """What the playbook was asked last."""
        playbook, request = json.loads((self.folder / "asked").read_text())
        assert playbook == "change.yml"
        return dict(request)

    @property
    def ran(self) -> list[str]:
        """The playbooks that were run."""
        path = self.folder / "ran"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def controller(node: Node, program: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A controller, with its folder as the current one."""
    made = Controller(node, program)
    monkeypatch.chdir(made.folder)
    return made


def test_documents_are_sent_with_their_places(controller: Controller) -> None:
    path = controller.folder / "net.yml"
    path.write_text(f"{POOL}---\n{POOL}")
    status, out, err = controller.run("-i", controller.inventory, "apply", "-f", "net.yml")
    assert (status, err) == (0, "")
    assert controller.asked == {
        "verb": "apply",
        "namespace": "",
        "skip": False,
        "dry_run": False,
        "adopt": False,
        "documents": [{"content": DOCUMENT, "place": "net.yml:1"}, {"content": DOCUMENT, "place": "net.yml:5"}],
    }
    assert out == (
        "Successfully applied 1 'IPPool' resource(s)\n\nThe hosts do not have it yet. Plan the run, and run it:\n"
        "  ansible-playbook -i NODE/hosts SITE --check --diff\n"
        "  ansible-playbook -i NODE/hosts SITE\n"
    ).replace("SITE", str(pathlib.Path(__file__).resolve().parents[4] / "playbooks" / "site.yml"))


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("create -f net.yml --skip-exists", {"verb": "create", "skip": True}),
        ("replace -f . -R -n prod", {"verb": "replace", "namespace": "prod"}),
        ("delete ippool a b -s", {"kind": "IPPool", "word": "ippool", "names": ["a", "b"], "skip": True}),
        ("delete -f net.yml --adopt", {"verb": "delete", "adopt": True}),
        ("label nodes n a=b --adopt", {"adopt": True}),
        ("delete -f net.yml", {"verb": "delete", "skip": False}),
        ("label nodes n rack=a --overwrite", {"kind": "Node", "word": "nodes", "names": ["n"], "label": "rack=a",
                                              "overwrite": True, "remove": False}),
        ("label nodes n rack --remove --dry-run", {"label": "rack", "remove": True, "dry_run": True}),
        ('patch bgpp x -p {"spec":{}}', {"kind": "BGPPeer", "patch": {"spec": {}}, "type": "strategic"}),
        ("patch bgpp x -t json -p []", {"patch": [], "type": "json"}),
    ],
)  # fmt: skip
def test_options_are_calico_s(controller: Controller, line: str, request_: dict[str, t.Any]) -> None:
    status, dummy, err = controller.change(*line.split())
    assert (status, err) == (0, "")
    assert {key: controller.asked[key] for key in request_} == request_


def test_standard_input_is_a_file(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(POOL))
    assert controller.change("apply", "-f", "-")[0] == 0
    assert controller.asked["documents"] == [{"content": DOCUMENT, "place": "<stdin>:1"}]


@pytest.mark.parametrize(
    ("line", "error", "status"),
    [
        ("apply -f gone.yml", "gone.yml cannot be read: No such file or directory.", 1),
        ("apply -f empty.yml", "no resources specified in file empty.yml", 1),
        ("apply -f folder", "no resources specified in directory folder. It has no file *.yaml, *.yml or *.json.", 1),
        ("apply -f wrong.yml", "failed to execute command: wrong.yml:1: is not YAML: "
         "expected the node content, but found '<stream end>'.", 1),
        ("apply", "say what to apply: -f FILE, a file, a folder or - for standard input.", 2),
        ("delete", "say what to change: a KIND and a name.", 2),
        ("delete ippool", "resource name may not be empty", 2),
        ("delete ippool a -f net.yml", "say what to change once: a KIND and names, or -f FILE.", 2),
        ("delete foo a", "resource type 'foo' is not supported. Here are: nodes, ippools,", 2),
        ("patch pool a -p {a:1}", "the patch is not JSON: Expecting property name enclosed in double quotes. "
         """Write for example -p '{"spec": {"natOutgoing": true}}'.""", 1),
        ("apply -f net.yml --yes", "--playbook, --yes and words behind -- are for --run.", 2),
        ("apply -f net.yml -- --limit a", "--playbook, --yes and words behind -- are for --run.", 2),
        ("apply -f net.yml --run --dry-run", "--dry-run writes nothing that --run could run. "
         "Leave one of them out.", 2),
        ("apply -f net.yml --run", "--run asks before it changes hosts, and there is no terminal. "
         "Add --yes to run without asking.", 2),
    ],
)  # fmt: skip
def test_a_wrong_command_is_refused_before_the_inventory_is_read(
    controller: Controller, line: str, error: str, status: int
) -> None:
    (controller.folder / "empty.yml").write_text("# nothing\n")
    (controller.folder / "wrong.yml").write_text("a: [")
    (controller.folder / "folder").mkdir()
    found, out, err = controller.change(*line.split())
    assert (found, out) == (status, "")
    assert err.startswith(f"calicoctl: {error}")
    assert not (controller.folder / "asked").exists()


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ("labels: {on: a}", "metadata.labels true is not a text. Write the name in quotes."),
        ("labels: {1.50: a}", "metadata.labels 1.5 is not a text. Write the name in quotes."),
        ("labels: {a: 2026-11-30}", "metadata.labels datetime.date(2026, 11, 30) is not a text, as the value of a. "
         "Write it in quotes."),
        ("annotations: {2026-11-30: a}", "metadata.annotations datetime.date(2026, 11, 30) is not a text. "
         "Write the name in quotes."),
        ("annotations: {a: .inf}", "metadata.annotations inf is not a text, as the value of a. Write it in quotes."),
        ("annotations: {!!binary YQ==: a}", "metadata.annotations b'a' is not a text. Write the name in quotes."),
    ],
)  # fmt: skip
def test_a_value_that_the_request_cannot_have_is_refused_as_by_a_file(
    controller: Controller, field: str, why: str
) -> None:
    """It would be sent as another one: the label `on` as `true`."""
    (controller.folder / "odd.yml").write_text(f"kind: Tier\nmetadata:\n  name: a\n  {field}\n")
    wanted = (1, "", f"calicoctl: odd.yml:1: Tier a: {why}\n")
    assert controller.change("apply", "-f", "odd.yml") == controller.change("create", "-f", "odd.yml") == wanted
    assert controller.run("validate", "-f", "odd.yml")[2] == f"odd.yml:4: Tier a: {why}\n1 of 1 are not valid\n"
    assert not (controller.folder / "asked").exists()
    assert controller.change("delete", "-f", "odd.yml")[::2] == (0, "")
    assert controller.asked["documents"][0]["content"]["metadata"]["name"] == "a"


def test_an_unquoted_date_that_a_server_wrote_is_no_reason_to_refuse(controller: Controller) -> None:
    written = "  creationTimestamp: 2026-11-30T10:00:00Z\n  managedFields: [{2026-11-30: .nan}]\n"
    (controller.folder / "net.yml").write_text(f"kind: Tier\nmetadata:\n  name: a\n{written}")
    assert controller.change("apply", "-f", "net.yml")[::2] == (0, "")
    assert controller.asked["documents"][0]["content"]["metadata"]["managedFields"] == [{"2026-11-30": "nan"}]


def test_a_patch_with_a_number_beyond_all_is_refused(controller: Controller) -> None:
    why = "the patch has a number that 64 bits of floating point cannot hold. Choose another one."
    assert controller.change("patch", "tier", "a", "-p", '{"spec":{"order":1e999}}') == (1, "", f"calicoctl: {why}\n")


def test_a_refusal_has_the_exit_status_of_calico(controller: Controller) -> None:
    why = "failed to create 'IPPool' resource: [resource already exists: IPPool(lab)]"
    controller.answer(False, refused=why)
    assert controller.change("create", "-f", "net.yml") == (1, "", f"calicoctl: {why}\n")


def test_empty_files_are_passed_over_if_that_is_asked(controller: Controller) -> None:
    (controller.folder / "empty.yml").write_text("# nothing\n")
    assert controller.change("apply", "-f", "empty.yml", "--skip-empty") == (0, "No resources specified\n", "")


def test_nothing_is_to_run_for_a_dry_run_or_without_a_change(controller: Controller) -> None:
    said = "Successfully applied 1 'IPPool' resource(s)\n"
    assert controller.change("apply", "-f", "net.yml", "--dry-run") == (0, said, "")
    controller.answer(False)
    assert controller.change("apply", "-f", "net.yml", "--run", "--yes") == (0, said, "")
    assert controller.ran == []


@pytest.mark.parametrize("status", [0, 4])
def test_run_plans_and_runs_with_the_status_of_ansible(controller: Controller, status: int) -> None:
    controller.status(status)
    words = ("--run", "--yes", "--playbook", "switch.yml", "--", "-e", "pool=lab", "--limit", "a b")
    found, out, err = controller.change("apply", "-f", "net.yml", *words)
    asked = f"-i {controller.inventory} switch.yml -e pool=lab --limit a b"
    assert (found, err, controller.ran) == (status, "", [f"{asked} --check --diff", asked])
    assert "$ ansible-playbook -i NODE/hosts switch.yml -e pool=lab --limit 'a b'\n" in out


class Terminal(io.StringIO):
    """A terminal at which somebody types an answer."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "status", "runs"), [("y\n", 0, 2), ("yes\n", 0, 2), ("n\n", 1, 1), ("", 1, 1)])
def test_run_asks_at_a_terminal(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, typed: str, status: int, runs: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    found, out, err = controller.change("apply", "-f", "net.yml", "--run", "--playbook", "site.yml")
    assert (found, len(controller.ran)) == (status, runs)
    assert "Run it? [y/N] " in out
    why = "no host was changed, and the files stay as written. Run it later: ansible-playbook -i NODE/hosts"
    assert err == ("" if status == 0 else f"calicoctl: {why} site.yml\n")


def test_without_an_inventory_the_variables_are_named(controller: Controller) -> None:
    status, out, err = controller.run("apply", "-f", "net.yml")
    assert (status, out) == (1, "")
    assert err.startswith("calicoctl apply is not done here: the Ansible inventory says what this node is to have")
