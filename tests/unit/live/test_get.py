# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl get` of policy on the controller: live documents and those of the inventory, each once."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.fleet import live_resources
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import keys
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gateway import KeyChange

from tests.unit.live.conftest import TIER, Operator, document, policy


def test_each_is_listed_once_with_its_source(operator: Operator) -> None:
    operator.put_inventory(TIER, policy("both", 1), policy("planned", 5))
    operator.apply(policy("both", 2), policy("own", 3))
    assert operator.run("get", "gnp", "-o", "wide") == (
        0,
        "NAME      TIER      ORDER   SELECTOR   SOURCE\n"
        "both      default   1       all()      inventory, hiding a live one\n"
        "own       default   3       all()      live\n"
        "planned   default   5       all()      inventory\n\n",
        "",
    )
    assert operator.run("get", "gnp", "own")[1] == "NAME   TIER\nown    default\n\n"
    assert operator.run("get", "tiers", "-o", "wide")[1] == (
        "NAME      ORDER   SOURCE\ndefault   1e+06   inventory\nweb       10      inventory\n\n"
    )
    shown = json.loads(operator.run("get", "gnp", "own", "-o", "json")[1])
    assert shown["metadata"] == {
        "name": "own",
        "annotations": {"baremetal.host-routing/source": "live"},
        "resourceVersion": str(operator.changes()[-1]["revision"]),
    }
    assert operator.run("get", "gnp", "x")[0] == 1
    assert operator.run("get", "ippools")[2].startswith("calicoctl: this host is no node")


def test_what_is_shown_can_be_applied_again(operator: Operator) -> None:
    """It changes nothing, and the annotation of the source is written nowhere."""
    operator.apply(policy("a"), document("NetworkPolicy", "web", {"selector": "all()"}, namespace="prod"))
    before = operator.etcd.revision
    for kind in ("gnp", "np"):
        status, out, err = operator.run("get", kind, "-A", "-o", "yaml")
        assert (status, err) == (0, "")
        (operator.folder / "shown.yml").write_text(out)
        status, said, err = operator.run("apply", "-f", str(operator.folder / "shown.yml"))
        assert (status, err) == (0, "") and said.endswith(" is unchanged\n")
    assert operator.etcd.revision == before
    (operator.folder / "shown.yml").write_text(
        operator.run("get", "gnp", "-o", "yaml")[1].replace("order: 100", "order: 1")
    )
    assert operator.run("apply", "-f", str(operator.folder / "shown.yml"))[0] == 0
    assert b"/source" not in (operator.value("GlobalNetworkPolicy", "a") or b"")


def test_what_cannot_be_understood_is_named(operator: Operator) -> None:
    operator.apply(TIER)
    operator.put_raw("tiers/evil", b"\x1b]0;x\x07")
    operator.put_raw("tiers/\x1b[2J", b"{}")
    status, out, err = operator.run("get", "tiers", "-o", "name")
    assert (status, out) == (0, "tier/default\ntier/web\n")
    assert "\x1b" not in err and err.count("left out") == 2
    assert operator.run("get", "tier", "evil")[0] == 1


def test_a_selector_and_a_namespace(operator: Operator) -> None:
    operator.apply(*(document("NetworkSet", "a", namespace=space, labels={"is": space}) for space in ("prod", "test")))
    assert (
        operator.run("get", "netsets", "-A", "--selector", "is == 'prod'")[1] == "NAMESPACE   NAME\nprod        a\n\n"
    )
    assert operator.run("get", "netsets", "-n", "test", "-o", "name")[1] == "networkset/a\n"


def test_changes_are_watched(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    operator.apply(policy("a"))
    watch, shown, lines = live_resources.watch, live_resources._shown, list[str]()

    def change_and_watch(*words: t.Any) -> None:
        operator.put(policy("b"))
        operator.put(policy("a", 5))
        operator.put_raw("globalnetworkpolicies/c", b"\x1b")
        operator.remove("GlobalNetworkPolicy", "a")
        operator.put(document("GlobalNetworkPolicy", "end"))
        watch(*words)

    def show(change: KeyChange, *words: t.Any) -> str:
        if change.key.endswith("/end"):
            raise KeyboardInterrupt
        lines.append(shown(change, *words))
        return lines[-1]

    monkeypatch.setattr(live_resources, "watch", change_and_watch)
    monkeypatch.setattr(live_resources, "_shown", show)
    status, out, err = operator.run("get", "gnp", "-w")
    assert (status, err) == (0, "")
    assert out == "NAME   TIER\na      default\n\n" + "".join(lines)
    last = operator.etcd.revision - 1
    assert [line.partition("   ")[2] for line in lines] == [
        f"GlobalNetworkPolicy(b) created at revision {last - 3}\n",
        f"GlobalNetworkPolicy(a) changed at revision {last - 2}\n",
        f"GlobalNetworkPolicy(c) created at revision {last - 1}, and is left out: it is not JSON.\n",
        f"GlobalNetworkPolicy(a) deleted at revision {last}\n",
    ]
    lines.clear()
    operator.run("delete", "gnp", "c")
    operator.run("get", "gnp", "b", "c", "-w", "-o", "json")
    assert lines == []  # c does not exist
    operator.run("get", "gnp", "b", "-w", "-o", "json")
    found = [json.loads(line) for line in lines if line]
    assert [one["type"] for one in found] == ["MODIFIED"]
    assert found[0]["object"]["metadata"]["name"] == "b"


def test_what_cannot_be_watched(operator: Operator) -> None:
    assert operator.run("get", "nodes", "-w")[0] == 2
    assert operator.run("get", "gnp", "-w", "-i", "hosts")[0] == 2
    operator.fleet.leave()
    operator.node.store()
    assert operator.run("get", "gnp", "-w")[2].startswith("calicoctl: --watch asks the datastore")


def test_a_datastore_of_another(operator: Operator) -> None:
    operator.etcd._apply([(key, None) for key in list(operator.etcd.data()) if key.startswith(keys.BLOCKS.encode())])
    status, out, err = operator.run("get", "gnp")
    assert (status, out) == (1, "") and "has no blocks of a fleet" in err
