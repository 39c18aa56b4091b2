# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bin/calicoctl of two operators against the etcd of Debian 12 (3.4) and 13 (3.5), with the rights of operators."""

from __future__ import annotations

import functools
import json
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import (
    documents,
    gateway,
    heartbeats,
    keys,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import Put
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.heartbeats import Heartbeat
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.keys import under
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live import (
    change_answer,
    open_change,
    policy_heartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_answer import ChangeAnswer
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.change_effect import ChangeEffect
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.live.policy_heartbeat import (
    PolicyHeartbeat,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import auth

from tests.conftest import ROOT
from tests.integration.fleet.test_pages_of_inventories import ENVIRONMENT
from tests.integration.playbooks.one_etcd import OneEtcd
from tests.unit.live.conftest import Data, document, policy

PLAYBOOK = [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,"]
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
SECRET = "secret-of-an-operator"


class Operators:
    """A member with the users ada and bob; `run` is calicoctl as one of them."""

    def __init__(self, etcd: OneEtcd, folder: pathlib.Path) -> None:
        self.etcd, self.folder = etcd, folder
        etcd.demand_passwords()
        etcd.ask(self._begin)
        for user in ("ada", "bob"):
            self._settings(user)

    async def _begin(self, client: EtcdClient) -> None:
        await client.write([Put(keys.blocks_key("node1"), documents.encode_blocks(["10.244.0.0/26"]))])
        for user in ("ada", "bob"):
            await client.call(auth.USER_ADD, auth.user_with_password(user, SECRET))
            await client.call(auth.ROLE_ADD, auth.new_role(user))
            reads = [keys.WATCHED, *(under(one) for one in (keys.ANSWERS, keys.HISTORY, keys.INVENTORY, keys.SETTINGS))]
            writes = [under(keys.CHANGES), under(keys.DOCUMENTS), under(keys.history_of(user))]
            for kind, ranges in ((auth.READ, [*reads, under(keys.HEARTBEATS)]), (auth.READWRITE, writes)):
                for one in ranges:
                    await client.call(auth.ROLE_GRANT, auth.grant(user, auth.Permission(one, kind)))
            await client.call(auth.USER_GRANT, auth.grant_role(user, user))

    def _settings(self, user: str) -> None:
        files = self.etcd.files
        spec = {
            "datastoreType": "etcdv3",
            "etcdEndpoints": self.etcd.url,
            "etcdCACertFile": str(files / "ca.pem"),
            "etcdCertFile": str(files / "client.pem"),
            "etcdKeyFile": str(files / "client.key"),
            "etcdUsername": user,
            "etcdPassword": SECRET,
        }
        path = self.folder / f"{user}.cfg"
        path.write_text(json.dumps({"apiVersion": "projectcalico.org/v3", "kind": "CalicoAPIConfig", "spec": spec}))
        path.chmod(0o600)

    def run(self, user: str, *words: str, given: str = "") -> tuple[int, str, str]:
        command = [str(ROOT / "bin" / "calicoctl"), "-c", str(self.folder / f"{user}.cfg"), *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    def apply(self, user: str, *contents: Data, verb: str = "apply") -> tuple[int, str, str]:
        return self.run(user, verb, "-f", "-", given=json.dumps(list(contents)))

    def live(self) -> dict[str, Data]:
        async def read(client: EtcdClient) -> dict[str, Data]:
            return {
                entry.key: json.loads(entry.value)
                async for page in client.pages(under(keys.DOCUMENTS))
                for entry in page.entries
            }

        found: dict[str, Data] = self.etcd.ask(read)
        return found


#: Runs a program with SIGINT as a terminal has it: a shell lets what it starts in the background ignore it.
INTERRUPTIBLE = ("env", "--default-signal=INT")


@pytest.fixture(params=[pytest.param("bookworm", marks=pytest.mark.soak), "trixie"])
def operators(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> t.Iterator[Operators]:
    member = OneEtcd(request.param, tmp_path, tmp_path / "files")
    member.start()
    member.wait(user="")
    yield Operators(member, tmp_path)
    member.stop()


def test_a_change_its_history_and_the_way_back(operators: Operators) -> None:
    tier = document("Tier", "web", {"order": 10})
    status, out, err = operators.apply("ada", tier, policy("web.a", tier="web"))
    assert (status, err) == (0, ""), err
    assert out.startswith("Successfully applied 2 resource(s)\nIt is change ")
    assert operators.run("bob", "delete", "tier", "web")[2] == (
        "calicoctl: Tier(web) is not deleted, because live policies are in it: GlobalNetworkPolicy(web.a). Delete them "
        "first, or give them another tier\n"
    )
    assert operators.apply("bob", tier, policy("web.a", tier="web"), verb="delete")[0] == 0
    assert operators.live() == {}
    found = json.loads(operators.run("ada", "history", "-o", "json")[1])
    assert [(one["user"], one["verb"]) for one in found] == [("ada", "apply"), ("bob", "delete")]
    assert operators.run("ada", "rollback", found[1]["id"])[0] == 0
    assert len(operators.live()) == 2
    assert operators.run("ada", "delete", "tier", "web", "--dry-run")[0] == 1
    assert operators.run("ada", "delete", "gnp", "web.a")[0] == 0
    status, out, err = operators.run("ada", "delete", "tier", "web")
    assert (status, err) == (0, "")


def test_the_largest_transactions(operators: Operators) -> None:
    """100 documents in 16 tiers, documents of 256 KiB before and after, and the deletion of tiers fit into one each."""
    tiers = [document("Tier", f"t{number}") for number in range(16)]
    assert operators.apply("ada", *tiers)[0] == 0
    policies = [policy(f"t{number % 16}.p{number}", tier=f"t{number % 16}") for number in range(100)]
    status, out, err = operators.apply("ada", *policies)
    assert (status, err) == (0, "") and "transactions" not in out
    large = [{"nets": [f"10.{number}.{one // 250}.{one % 250}/32" for one in range(14_000)]} for number in (1, 2)]
    for spec in large:
        status, out, err = operators.apply("ada", document("GlobalNetworkSet", "a", spec))
        assert (status, err) == (0, ""), err
    status, out, err = operators.apply("ada", *policies, *tiers, verb="delete")
    assert (status, err) == (0, "") and "it is 2 transactions" in out
    many = [document("GlobalNetworkSet", f"s{number}", {"nets": large[0]["nets"][:4_000]}) for number in range(12)]
    status, out, err = operators.apply("ada", *many)
    assert (status, err) == (0, "") and "transactions" in out
    assert operators.apply("ada", *many, verb="delete")[::2] == (0, "")
    assert len(operators.live()) == 1


def test_an_operator_writes_only_its_own_history(operators: Operators) -> None:
    operators._settings("bob")
    text = (operators.folder / "bob.cfg").read_text()
    assert operators.apply("bob", policy("a"))[0] == 0

    async def forge(client: EtcdClient) -> None:
        await client.write([Put(keys.history_key("ada", "20261130T160212.123-9f3a1c"), b"{}")])

    with pytest.raises(Exception, match="permission denied"):
        operators.etcd.ask(forge, "bob", SECRET)
    (operators.folder / "bob.cfg").write_text(text.replace('"bob"', '"nobody"'))
    assert operators.apply("bob", policy("a"))[0] == 1


def test_members_tell_their_release_to_everybody(operators: Operators) -> None:
    """A node may ask a member for its release, which it does without gates. Some releases refuse to tell it more."""

    async def ask(client: EtcdClient) -> dict[str, str]:
        return await client.releases()

    found = operators.etcd.ask(ask, "bob", "not the password of bob")
    assert list(found) == [operators.etcd.url] and re.fullmatch(r"3\.[45]\.\d+", found[operators.etcd.url])


def test_two_operators_at_once(operators: Operators) -> None:
    """Each patches other fields of the same policy: none is lost."""
    operators.apply("ada", policy("a"))
    failed: list[str] = []

    def write(user: str) -> None:
        for number in range(4):
            status, dummy, err = operators.run(user, "label", "gnp", "a", f"{user}{number}=x")
            if status:
                failed.append(err)

    threads = [threading.Thread(target=write, args=[user]) for user in ("ada", "bob")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (found,) = operators.live().values()
    assert failed == [] and len(found["metadata"]["labels"]) == 8
    changes = json.loads(operators.run("ada", "history", "-o", "json")[1])
    assert len(changes) == 9 and all(one["user"] for one in changes)


def play_folder(operators: Operators, *words: str, status: int = 0) -> str:
    """Run playbooks/live.yml with the folder `live` as ada, and return its output."""
    told = ["-e", f"folder={operators.folder / 'live'}", "-e", f"datastore={operators.folder / 'ada.cfg'}"]
    command = [*PLAYBOOK, str(ROOT / "playbooks" / "live.yml"), *told, "-e", "wait=", *words]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def test_a_folder_is_put_in_force(operators: Operators) -> None:
    """playbooks/live.yml shows the plan, applies the folder, and removes what the folder lacks on request."""
    folder = operators.folder / "live"
    (folder / "web").mkdir(parents=True)
    (folder / "tier.json").write_text(json.dumps(document("Tier", "web")))
    (folder / "web" / "a.json").write_text(json.dumps(policy("web.a", tier="web")))
    operators.apply("bob", policy("other"))

    play = functools.partial(play_folder, operators)
    out = play("--check", "--diff")
    assert "+++ live/GlobalNetworkPolicy(web.a)\n" in out and "+++ live/Tier(web)\n" in out and "changed=1" in out
    assert list(operators.live()) == [f"{keys.DOCUMENTS}globalnetworkpolicies/other"]
    assert "Successfully applied 2 resource(s)" in play() and "changed=0" in play()
    (folder / "web" / "a.json").unlink()
    assert "changed=0" in play()
    assert "and deleted 1 that the files do not have" in play("-e", "prune=true")
    assert sorted(operators.live()) == [f"{keys.DOCUMENTS}globalnetworkpolicies/other", f"{keys.DOCUMENTS}tiers/web"]
    (folder / "tier.json").write_text(json.dumps(document("IPPool", "web")))
    assert "IPPool is not live: write it into the inventory" in play(status=2)
    assert "Name the folder" in play("-e", "folder=", status=2)


def test_the_status_shows_the_drift_from_a_folder(operators: Operators) -> None:
    """playbooks/status.yml compares as live.yml plans. Without an answer it says so, and fails only with strict."""
    folder, hosts = operators.folder / "live", operators.folder / "hosts.yml"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps([document("Tier", "web"), policy("web.a", tier="web"), policy("b")]))
    hosts.write_text("calico_nodes: {hosts: {node1: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")

    def status(*words: str, fails: bool = False) -> str:
        given = [f"live_folder={folder}", f"live_datastore={operators.folder / 'ada.cfg'}", *words]
        options = [word for one in given for word in ("-e", one)]
        done = subprocess.run(
            [*PLAYBOOK[:-1], str(hosts), str(ROOT / "playbooks" / "status.yml"), *options],
            env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        assert "changed=0" in done.stdout
        return done.stdout

    operators.run("ada", "apply", "-f", str(folder), "--owner", "live.yml")
    assert f"\nlive policy is that of the folder {folder}: 3 documents\n" in status()
    owned = {"baremetal.host-routing/owner": "live.yml"}
    extra = policy("c")
    extra["metadata"]["annotations"] = owned
    operators.apply("bob", extra, policy("other"))
    operators.run("bob", "delete", "gnp", "web.a")
    operators.run("bob", "patch", "gnp", "b", "-p", '{"spec": {"order": 7}}')
    before = operators.live()
    out = status("output=json")
    found = json.loads(out[out.index("\n{") : out.index("\n}") + 2])
    command = (
        f"ansible-playbook playbooks/live.yml -e folder={folder} -e datastore={operators.folder / 'ada.cfg'} "
        "-e prune=true --check --diff"
    )
    assert found["live"] == {
        "folder": str(folder), "compared": True, "reason": "",
        "missing": {"count": 1, "names": ["GlobalNetworkPolicy(web.a)"]},
        "different": {"count": 1, "names": ["GlobalNetworkPolicy(b)"]},
        "extra": {"count": 1, "names": ["GlobalNetworkPolicy(c)"]},
        "same": 1, "command": command,
    }  # fmt: skip
    assert found["problems"][-1].startswith(f"live policy differs from the folder {folder}: 1 document is missing (")
    assert operators.live() == before
    operators.etcd.stop()
    away = status()
    assert f"! live policy was not compared with the folder {folder}: " in away
    assert "leads to no datastore of a fleet" in away
    assert "2 things are not well with the fleet" in status("strict=true", fails=True)


def answers_of(operators: Operators, tasks: list[Data]) -> dict[str, Data]:
    """Return the results of tasks by the names that they register."""
    names = [str(task["register"]) for task in tasks]
    copy = {"dest": str(operators.folder / "answers"), "content": "{{ answers | to_json }}"}
    tasks.append({"ansible.builtin.copy": copy, "vars": {"answers": {name: f"{{{{ {name} }}}}" for name in names}}})
    play = operators.folder / "play.yml"
    play.write_text(json.dumps([{"hosts": "localhost", "vars": LOCAL, "gather_facts": False, "tasks": tasks}]))
    done = subprocess.run(
        [*PLAYBOOK, str(play)], env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answers: dict[str, Data] = json.loads((operators.folder / "answers").read_text())
    return answers


def test_modules_of_live_policy(operators: Operators) -> None:
    tasks: list[Data] = []
    for name, module, given in (
        ("checked", "resource", {"definition": policy("a"), "check": True}),
        ("changed", "resource", {"definition": policy("a")}),
        ("unchanged", "resource", {"definition": [policy("a")]}),
        ("refused", "resource", {"definition": policy("x.a", tier="x")}),
        ("read", "resource_info", {"kind": "gnp"}),
        ("no_policy", "resource_info", {"kind": "ippool"}),
        ("deleted", "resource", {"definition": policy("a"), "state": "absent"}),
        ("both", "resource", {"definition": policy("a"), "inventory": "x"}),
        ("neither", "resource", {}),
    ):
        check = given.pop("check", False)
        options = {"datastore": str(operators.folder / "ada.cfg"), **given}
        tasks.append({f"baremetal.host_routing.{module}": options, "register": name, "check_mode": check,
                      "ignore_errors": True, "diff": True})  # fmt: skip
    found = answers_of(operators, tasks)
    assert {name: found[name]["changed"] for name in ("checked", "changed", "unchanged", "deleted")} == {
        "checked": True, "changed": True, "unchanged": False, "deleted": True
    }  # fmt: skip
    assert found["checked"]["change"] == "" and found["changed"]["change"] and found["changed"]["revision"]
    assert [found[name]["documents"] for name in ("checked", "unchanged")] == [
        {"created": ["GlobalNetworkPolicy(a)"], "changed": [], "deleted": [], "unchanged": []},
        {"created": [], "changed": [], "deleted": [], "unchanged": ["GlobalNetworkPolicy(a)"]},
    ]
    assert "+++ live/GlobalNetworkPolicy(a)\n" in found["checked"]["diff"]["prepared"]
    assert "exists neither live nor in the inventory" in found["refused"]["msg"]
    (shown,) = found["read"]["resources"]
    assert shown["metadata"]["annotations"] == {"baremetal.host-routing/source": "live"}
    assert found["no_policy"]["msg"] == "a IPPool is not in the datastore. Name the inventory."
    assert found["both"]["failed"] and found["neither"]["failed"]
    assert operators.live() == {}


class AnsweringNode:
    """A node that answers each open change, in a thread of its own, until the context ends.

    It answers with `state`. Without one, it agrees to questions and trials. It says that it has every revision.
    """

    def __init__(self, operators: Operators, state: str) -> None:
        self._etcd, self._state = operators.etcd, state
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.seen: list[str] = []

    def __enter__(self) -> AnsweringNode:
        self._etcd.ask(self._beat)
        self._thread.start()
        return self

    def __exit__(self, *dummy: object) -> None:
        self._ended.set()
        self._thread.join()

    async def _beat(self, client: EtcdClient) -> None:
        header = gateway.page_of(await client.call("/v3/kv/range", gateway.get_request(keys.OPEN_CHANGE))).header
        agent = Heartbeat("node1", time.time(), VERSION)
        own = PolicyHeartbeat("node1", time.time(), VERSION, header.cluster, 1 << 40)
        await client.write([Put(keys.heartbeat_key("node1"), heartbeats.encode(agent))])
        await client.write([Put(keys.policy_heartbeat_key("node1"), policy_heartbeat.encode(own))])

    def _run(self) -> None:
        beaten = time.monotonic()
        while not self._ended.wait(0.05):
            self._etcd.ask(self._answer)
            if time.monotonic() - beaten > 10:
                self._etcd.ask(self._beat)
                beaten = time.monotonic()

    async def _answer(self, client: EtcdClient) -> None:
        entry = await client.get(keys.OPEN_CHANGE)
        if entry is None:
            return
        change = open_change.decode(entry.value)
        if change.id not in self.seen:
            self.seen.append(change.id)
            state = self._state or ("in_force" if change.kind == open_change.TRIAL else "answered")
            answer = ChangeAnswer("node1", change.id, time.time(), state, "", ChangeEffect())
            await client.write([Put(keys.answer_key("node1", change.id), change_answer.encode(answer))])


def is_open(operators: Operators) -> bool:
    async def read(client: EtcdClient) -> bool:
        return await client.get(keys.OPEN_CHANGE) is not None

    found: bool = operators.etcd.ask(read)
    return found


def test_nodes_are_asked_and_try_it(operators: Operators) -> None:
    """Leases, the condition on the open change and one transaction for its end are as etcd means them."""
    with AnsweringNode(operators, "answered") as node:
        text = json.dumps([policy("a")])
        status, out, err = operators.run("ada", "apply", "-f", "-", "--dry-run=server", given=text)
        assert (status, err) == (0, "") and "Nothing changes in what is in force." in out
        seen = re.findall("This is plan ([0-9a-f]{16})", out)[0]
        assert operators.live() == {} and not is_open(operators)
        assert operators.run("ada", "apply", "-f", "-", "--plan", seen, given=text)[::2] == (0, "")
        assert len(operators.live()) == 1 and len(node.seen) == 2
    with AnsweringNode(operators, "in_force"):
        status, out, err = operators.run("bob", "delete", "gnp", "a", "--confirm", "60s", "--wait", "0")
        assert out.startswith("trial    in force on 1 nodes"), err
        assert operators.live() == {} and not is_open(operators)
    with AnsweringNode(operators, "refused"):
        status, out, err = operators.run("bob", "apply", "-f", "-", "--confirm", "60s", given=text)
        assert status == 1 and "nothing is committed" in err and not is_open(operators) and operators.live() == {}


def test_a_module_asks_and_tries(operators: Operators) -> None:
    """Check, run, check and run again: with the plan that the check has shown, and with a trial."""
    tasks: list[Data] = []
    other = {"definition": policy("a", 7)}
    for name, given in (
        ("asked", {"check": True, "ask": True}),
        ("other_plan", {"plan": "0123456789abcdef"}),
        ("planned", {"plan": "{{ asked.asked.plan }}", "wait": 30}),
        ("asked_again", {"check": True, "ask": True}),
        ("planned_again", {"plan": "{{ asked.asked.plan }}"}),
        ("tried", {**other, "confirm": "60s"}),
        ("tried_again", {**other, "confirm": "60s"}),
        ("too_long", {**other, "confirm": "601s"}),
        ("no_datastore", {"plan": "x", "inventory": "x", "datastore": None}),
    ):
        check = given.pop("check", False)
        options = {"datastore": str(operators.folder / "ada.cfg"), "definition": policy("a"), **given}
        options = {key: value for key, value in options.items() if value is not None}
        tasks.append({"baremetal.host_routing.resource": options, "register": name, "check_mode": check,
                      "ignore_errors": True, "diff": True})  # fmt: skip
    with AnsweringNode(operators, "") as node:
        found = answers_of(operators, tasks)
        assert len(node.seen) == 4  # a question in check mode, for each plan, and a trial
    failed = {name: answer["msg"] for name, answer in found.items() if answer.get("failed")}
    assert failed.keys() == {"other_plan", "too_long", "no_datastore"}, failed
    assert failed["other_plan"].startswith("it is no longer what plan 0123456789abcdef showed: ")
    assert failed["too_long"] == "confirm takes seconds, such as 60s, from 1 to 600."
    assert failed["no_datastore"] == "missing parameter(s) required by 'plan': datastore"
    changed = {name: (answer["changed"], "diff" in answer) for name, answer in found.items() if name not in failed}
    assert changed == {
        "asked": (True, True), "planned": (True, True), "asked_again": (False, False), "planned_again": (False, False),
        "tried": (True, True), "tried_again": (False, False),
    }  # fmt: skip
    assert found["asked"]["asked"]["nodes"]["node1"]["state"] == "answered"
    assert found["asked_again"]["asked"]["plan"] == "" and "asked" not in found["planned"]
    assert found["planned"]["diff"] == found["asked"]["diff"]
    assert found["tried"]["lines"][0].startswith("trial    in force on 1 nodes after "), found["tried"]
    assert found["tried"]["lines"][-1].startswith("It is in force on 1 node")
    assert operators.live() == {f"{keys.DOCUMENTS}globalnetworkpolicies/a": policy("a", 7)}


def test_a_folder_is_asked_about_and_tried(operators: Operators) -> None:
    """playbooks/live.yml asks nodes in check mode, applies what they have said, and has nodes try it first."""
    folder = operators.folder / "live"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(policy("a")))
    with AnsweringNode(operators, ""):
        out = play_folder(operators, "--check", "--diff", "-e", "ask=true")
        assert "+++ live/GlobalNetworkPolicy(a)\n" in out and "changed=1" in out and operators.live() == {}
        seen = re.findall("This is plan ([0-9a-f]{16})", out)[0]
        assert "it is no longer what plan x showed" in play_folder(operators, "-e", "plan=x", status=2)
        assert "the name of the plan is empty" in play_folder(operators, "-e", "plan=", status=2)
        assert operators.live() == {}
        assert "changed=1" in play_folder(operators, "-e", f"plan={seen}", "-e", "confirm=60s")
        assert "changed=0" in play_folder(operators, "-e", f"plan={seen}", "-e", "confirm=60s")
        assert len(operators.live()) == 1


def test_a_trial_forbids_other_changes(operators: Operators) -> None:
    """The condition on the open change, and its end in the transaction of a forced change, are as etcd means them."""
    assert operators.apply("ada", policy("a"))[::2] == (0, "")
    path = operators.folder / "b.json"
    path.write_text(json.dumps([policy("b")]))
    words = [*INTERRUPTIBLE, str(ROOT / "bin" / "calicoctl"), "-c", str(operators.folder / "bob.cfg")]
    words += ["apply", "-f", str(path)]
    with AnsweringNode(operators, "kept") as node:
        node._ended.set()  # it is silent
        with subprocess.Popen([*words, "--confirm", "120s"], stderr=subprocess.PIPE, text=True) as trial:
            assert _becomes(lambda: is_open(operators), 30)
            changes = [["apply", "-f", "-"], ["delete", "gnp", "a"], ["label", "gnp", "a", "x=y"]]
            for change in changes:
                status, out, err = operators.run("ada", *change, given=json.dumps([policy("c")]))
                assert (status, out) == (1, "") and err.startswith("calicoctl: bob tries a change (20"), err
                assert " of GlobalNetworkPolicy(b) since 20" in err and err.endswith(
                    "or add --force, which ends it now\n"
                )
            assert is_open(operators) and list(operators.live()) == [f"{keys.DOCUMENTS}globalnetworkpolicies/a"]
            status, out, err = operators.run("ada", "delete", "gnp", "a", "--force")
            assert (status, err) == (0, "") and "--force ends that trial." in out, err
            assert not is_open(operators) and operators.live() == {}
            trial.send_signal(signal.SIGINT)
            trial.wait(30)
    assert operators.live() == {}


def test_a_writer_that_dies_leaves_a_key_that_ends_by_time(operators: Operators) -> None:
    with AnsweringNode(operators, "kept") as node:
        node._ended.set()  # it is silent
        path = operators.folder / "a.json"
        path.write_text(json.dumps([policy("a")]))
        for number, seconds, patience in ((signal.SIGINT, "60s", 10), (signal.SIGKILL, "1s", 30)):
            words = ["-c", str(operators.folder / "ada.cfg"), "apply", "-f", str(path), "--confirm", seconds]
            writer = subprocess.Popen([*INTERRUPTIBLE, str(ROOT / "bin" / "calicoctl"), *words])
            assert _becomes(lambda: is_open(operators), 10)
            writer.send_signal(number)
            writer.wait(10)
            assert _becomes(lambda: not is_open(operators), patience)
    assert operators.live() == {}


def _becomes(condition: t.Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True
