# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another `merge paths`, which restarts BIRD's kernel protocols: the files that BIRD reads, one after the other."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, held_routes
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.client import BirdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import ConfigurationRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

DONE = [b"0002-Reading configuration\n0003 Reconfigured\n"]
PLAIN = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", address6="fd00::11")


def text(**changes: t.Any) -> str:
    bird = dataclasses.replace(PLAIN, **changes)
    return bird_config.render(NodeState("node1", "10.10.1.11/24", bird=bird).to_dict()["bird"])


ON, OFF = text(merge_paths=True), text()

KERNEL4 = [
    b"1007-Table master4:\n"
    b" 0.0.0.0/0            unicast [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b" \tvia 10.10.1.1 on eth0\n"
    b" 10.244.1.0/26        blackhole [kernel4 2026-11-29 13:54:06.399] * (200)\n"
    b" 10.99.0.0/16         unicast [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b" \tvia 10.10.1.1 on eth0 onlink weight 2\n"
    b" \tvia 10.10.3.1 on eth1 weight 1\n"
    b" 10.98.0.0/16         unicast [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b" \tdev eth0.7\n"
    b" 10.97.0.0/16         unreachable [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b" 10.96.0.0/16         prohibited [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b" 10.95.0.0/16         unicast [kernel4 2026-11-29 13:54:06.399] * (10)\n"
    b' \tdev et"h;0\n'
    b"0000 \n"
]
KERNEL6 = [
    b"1007-Table master6:\n"
    b" ::/0                 unicast [kernel6 2026-11-29 13:54:06.399] * (10)\n"
    b" \tvia fe80::1 on eth0\n"
    b"0000 \n"
]
STATICS = """\
protocol static calico_held4 {
  ipv4 { preference 5; };
  route 0.0.0.0/0 via 10.10.1.1%'eth0';
  route 10.244.1.0/26 blackhole;
  route 10.99.0.0/16 via 10.10.1.1%'eth0' onlink weight 2 via 10.10.3.1%'eth1' weight 1;
  route 10.98.0.0/16 via "eth0.7";
  route 10.97.0.0/16 unreachable;
  route 10.96.0.0/16 prohibit;
}
protocol static calico_held6 {
  ipv6 { preference 5; };
  route ::/0 via fe80::1%'eth0';
}
"""


def up(since: str) -> list[bytes]:
    lines = [f"kernel{family}    Kernel     master{family}    up     2026-11-29 {since}  " for family in (4, 6)]
    return ["\n".join([f"1002-{lines[0]}", f" {lines[1]}", "0000 \n"]).encode()]


@pytest.fixture
def config(bird, tmp_path: pathlib.Path) -> str:
    bird.answers["show route protocol kernel4"] = [KERNEL4]
    bird.answers["show route protocol kernel6"] = [KERNEL6]
    bird.answers["configure"] = [DONE]
    bird.answers["show protocols"] = [up("13:54:06.399"), up("13:54:06.399"), up("14:00:00.001")]
    bird.answers["show status"] = [[b"1000-BIRD 2.0.12\n0013 Daemon is up and running\n"]]
    (tmp_path / "bird.cfg").write_text(OFF)
    return str(tmp_path / "bird.cfg")


@pytest.fixture
def read(bird, config: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of the files that the running BIRD was told to read, in their order."""
    found: list[str] = []
    ask = BirdClient.ask

    def noted(client: BirdClient, command: str) -> t.Any:
        if command.startswith("configure"):
            found.append(pathlib.Path(command.partition('"')[2].strip('"') or config).read_text())
        return ask(client, command)

    monkeypatch.setattr(BirdClient, "ask", noted)
    return found


def test_statics_are_the_routes_that_bird_has_learned(bird, config) -> None:
    """A device's name that could be more than a name is not written into a configuration."""
    with BirdClient(bird.path) as client:
        assert held_routes.statics(client) == STATICS


def test_a_bird_without_kernel_protocols_holds_nothing(bird) -> None:
    with BirdClient(bird.path) as client:
        assert held_routes.statics(client) == ""


@pytest.mark.parametrize(("before", "after"), [(OFF, ON), (ON, OFF)])
def test_learned_routes_are_held_while_the_kernel_protocols_restart(bird, config, read, before, after) -> None:
    """The merging changes alone, with all else as it was; the new text follows when the routes are learned again."""
    before = before.replace("router id 10.10.1.11", "router id 10.10.1.99")
    pathlib.Path(config).write_text(before)
    assert configuration.apply(after, config, bird.path).changed
    assert read == [f"{before}\n{STATICS}", f"{held_routes.with_merging_of(before, after)}\n{STATICS}", after]
    assert held_routes.with_merging_of(before, after) == after.replace("10.10.1.11;", "10.10.1.99;", 1)


@pytest.mark.parametrize(
    ("before", "after"), [(OFF, text(listen_port=1179)), ("", ON), (ON.partition("protocol")[0], ON)]
)
def test_nothing_is_held_without_another_merging(bird, config, read, before, after) -> None:
    pathlib.Path(config).write_text(before)
    configuration.apply(after, config, bird.path)
    assert read == [after]


def test_a_text_that_bird_cannot_read_is_refused_before_anything_is_held(bird, config, read) -> None:
    with pytest.raises(ConfigurationRefused):
        configuration.apply(ON + "nonsense;\n", config, bird.path)
    assert read == []
    assert pathlib.Path(config).read_text() == OFF


def test_no_bird_runs(config, tmp_path: pathlib.Path) -> None:
    assert not configuration.apply(ON, config, str(tmp_path / "nobody.ctl")).reloaded
    assert pathlib.Path(config).read_text() == ON


@pytest.mark.parametrize("merge", [False, True])
def test_both_kernel_protocols_merge_paths_or_none(merge: bool) -> None:
    assert re.findall("merge paths (.*);", text(merge_paths=merge)) == ["on" if merge else "off"] * 2
