# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""BIRD 3 and the MTUs of the kernel's routes: the commands it gets, and their times."""

from __future__ import annotations

import itertools
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bgp.bird_state import Bird, BirdPeer, BirdPool
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, kernel_sync
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.client import BirdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import ConfigurationRefused
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState
from ansible_collections.baremetal.host_routing.plugins.plugin_utils import bird_config

ALL = "show protocols all"
DONE = [b"0002-Reading configuration\n0003 Reconfigured\n"]


def text(*pools: BirdPool, peers: tuple[BirdPeer, ...] = ()) -> str:
    bird = Bird("10.10.1.11", "10.10.1.11", 64512, "10.10.1.0/24", pools=pools, peers=peers)
    return bird_config.render(NodeState("node1", "10.10.1.11/24", bird=bird).to_dict()["bird"])


PLAIN = text(BirdPool("10.244.0.0/16", "vxlan.calico"), BirdPool("fd10::/64"))
LIMITED = text(BirdPool("10.244.0.0/16", "vxlan.calico", mtu=1400), BirdPool("fd10::/64"))


def kernel(name: str, export: str, received: int, imported: int = 3, state: str = "up") -> bytes:
    """Return the bytes for a kernel protocol as BIRD 3.4.0 prints it in its reply.

    `state` is the protocol's and `export` its export state. `received` is the number of its import updates, and
    `imported` that of its routes.
    """
    return (
        f"1002-{name}    Kernel     master4    {state}     2026-11-22 17:11:49  \n"
        f"1006-  Channel ipv4\n     Export state:   {export}\n"
        f"     Routes:         {imported} imported, 0 exported, 0 preferred\n"
        f"       Import updates:              {received}          0          0\n"
    ).encode()


def said(*protocols: bytes) -> list[bytes]:
    return [b"".join(protocols) + b"0000 \n"]


@pytest.fixture
def three(bird):
    bird.greeting = b"0001 BIRD 3.4.0 ready.\n"
    bird.answers["configure"] = [DONE]
    bird.answers["reload"] = [[b"0008 kernel4: reloading\n"]]
    return bird


@pytest.fixture
def config(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "etc" / "bird.cfg"
    path.parent.mkdir()
    path.write_text(PLAIN)
    return str(path)


def keep(folder: pathlib.Path) -> str:
    """Make `folder` with a fake BIRD in it, and return the program's path.

    It refuses only "nonsense", and copies each configuration to `folder`: parsed0, parsed1 and so on. Raise
    FileExistsError if the folder exists.
    """
    folder.mkdir()
    path = folder / "bird"
    path.write_text(f'#!/bin/sh\ncp "$3" {folder}/parsed$(ls {folder} | grep -c parsed)\n! grep -q nonsense "$3"\n')
    path.chmod(0o755)
    return str(path)


def test_a_changed_krt_mtu_counts_and_a_changed_router_id_does_not() -> None:
    assert kernel_sync.other_mtus(PLAIN, LIMITED)
    assert kernel_sync.other_mtus(LIMITED, PLAIN)
    assert kernel_sync.other_mtus(LIMITED, LIMITED.replace("krt_mtu = 1400", "krt_mtu = 1380"))
    assert not kernel_sync.other_mtus(LIMITED, LIMITED.replace("router id 10.10.1.11", "router id 10.10.1.12"))


@pytest.mark.parametrize("before", [PLAIN, LIMITED])
def test_all_routes_to_the_kernel_get_a_weight_after_their_way_and_nothing_else_does(before: str) -> None:
    after = kernel_sync.with_weights(before)
    changed = [(one, two) for one, two in itertools.zip_longest(before.splitlines(), after.splitlines()) if one != two]
    assert len(changed) == 3  # an `accept;` for each of two pools, and one for routes outside of them
    assert all(two == one.replace("accept;", "{ weight = 2; accept; }") for one, two in changed)


def test_a_weight_leaves_the_ways_to_peers_conditional() -> None:
    """Only routes of calico_reachable are accepted before the lines that refuse others and choose devices."""
    router = BirdPeer("Global_192_0_2_1", "192.0.2.1", 64512, "external", reachable_by="10.10.1.1")
    after = kernel_sync.with_weights(text(BirdPool("10.244.0.0/16", "vxlan.calico", mtu=1400), peers=(router,)))
    start = after.index("filter calico_kernel_programming {")
    assert [line.strip() for line in after[start:].splitlines()[1:3]] == [
        'if proto ~ "calico_reachable*" then { weight = 2; accept; }   # ways to peers',
        "if source != RTS_BGP then reject;",
    ]


def test_a_changed_mtu_makes_bird_read_two_configurations(three, config: str, tmp_path: pathlib.Path) -> None:
    three.answers[ALL] = [
        said(kernel("kernel4", "DOWN", 0), kernel("kernel6", "READY", 0)),  # kernel4 is before its first scan
        # The kernel protocol `other` of a snippet is not waited for.
        said(kernel("kernel4", "READY", 3), kernel("kernel6", "READY", 1, imported=0), kernel("other", "DOWN", 0)),
        said(kernel("kernel4", "READY", 3), kernel("kernel6", "READY", 1, imported=0), kernel("other", "DOWN", 0)),
        said(kernel("kernel4", "PARTIAL", 5), kernel("kernel6", "READY", 2, imported=0)),  # kernel4: 2 of 3 again
        said(kernel("kernel4", "READY", 6), kernel("kernel6", "READY", 2, imported=0)),
    ]
    program = keep(tmp_path / "program")
    outcome = configuration.apply(LIMITED, config, three.path, program)
    assert outcome == configuration.Outcome(True, True, PLAIN, LIMITED)
    words = [" ".join(command.split()[:4]).partition(' "')[0] for command in three.asked]
    assert words == [
        ALL, ALL, "configure", ALL, "reload filters out kernel4", "reload filters out kernel6", ALL, ALL,
        ALL, "configure",
    ]  # fmt: skip
    assert three.asked[2].startswith(f'configure "{pathlib.Path(config).parent}/.bird.cfg.')
    assert (tmp_path / "program" / "parsed1").read_text() == kernel_sync.with_weights(LIMITED)
    assert pathlib.Path(config).read_text() == LIMITED
    assert [path.name for path in pathlib.Path(config).parent.iterdir()] == ["bird.cfg"]


@pytest.mark.parametrize(
    ("version", "wanted", "reads"), [("2.17.5", LIMITED, 1), ("3.4.0", LIMITED, 2), ("3.4.0", PLAIN + "#\n", 1)]
)
def test_once_where_once_is_enough(three, config: str, tmp_path: pathlib.Path, version: str, wanted: str, reads: int):
    three.greeting = f"0001 BIRD {version} ready.\n".encode()
    three.answers[ALL] = [said(kernel("kernel4", "READY", 3 * number)) for number in range(9)]
    configuration.apply(wanted, config, three.path, keep(tmp_path / "program"))
    assert sum(command.startswith("configure") for command in three.asked) == reads


def test_an_unparsable_configuration_is_refused_before_any_command(three, config: str, tmp_path: pathlib.Path):
    with pytest.raises(ConfigurationRefused):
        configuration.apply(LIMITED + "nonsense;\n", config, three.path, keep(tmp_path / "program"))
    assert pathlib.Path(config).read_text() == PLAIN
    assert three.asked == []
    assert [path.name for path in pathlib.Path(config).parent.iterdir()] == ["bird.cfg"]


def test_a_refusal_of_the_first_file_is_reported(three, config: str, tmp_path: pathlib.Path) -> None:
    """BIRD 3 refuses the text with weights, before there is a bird.cfg."""
    pathlib.Path(config).unlink()
    three.answers[ALL] = [said(kernel("kernel4", "READY", 3))]
    three.answers["configure"] = [[b"8002 no such thing\n"]]
    with pytest.raises(ConfigurationRefused, match="no such thing"):
        configuration.apply(LIMITED, config, three.path, keep(tmp_path / "program"))
    assert list(pathlib.Path(config).parent.iterdir()) == []


def test_a_changed_mtu_is_written_without_a_running_bird(config: str, tmp_path: pathlib.Path) -> None:
    outcome = configuration.apply(LIMITED, config, str(tmp_path / "bird.ctl"), keep(tmp_path / "program"))
    assert outcome == configuration.Outcome(True, False, PLAIN, LIMITED)


def test_waits_for_a_kernel_protocol_have_a_time_limit(three) -> None:
    slept: list[float] = []
    wait: t.Callable[..., None]
    for wait in (kernel_sync.wait_for_first_scan, kernel_sync.scan):
        three.answers[ALL] = [said(kernel("kernel4", "DOWN", 0), kernel("kernel6", "DOWN", 0, state="start"))]
        with BirdClient(three.path) as client:
            wait(client, seconds=2, sleep=slept.append)
        assert round(sum(slept), 1) == 2.0
        slept.clear()
    assert "reload filters out kernel6" not in three.asked  # kernel6 is not up
