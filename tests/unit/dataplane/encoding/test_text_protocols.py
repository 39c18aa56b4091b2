# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No text in a NodeState, or in another node's answer, is more than one token of any protocol."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics import metrics
from ansible_collections.baremetal.host_routing.plugins.module_utils.agent.metrics.metrics import Registry
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import iptables_encoding, terminal_text
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.not_encodable import NotEncodable
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import encoding as bird_encoding
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.change import ApplyError
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.drivers import sysctl
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.linux import LinuxKernel
from ansible_collections.baremetal.host_routing.plugins.module_utils.dataplane.kernel.port import KernelError
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.host import unit_encoding
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store.endpoints import file_name
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.node_state import NodeState, Sysctl
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.kernel import FakeKernel
from tests.unit.dataplane.encoding import hostile_text, protocol_models
from tests.unit.dataplane.encoding.hostile_text import HOSTILE, Path, Written, replaced, texts

SOAK = os.environ.get("HOST_ROUTING_SOAK") == "1"
STATE = hostile_text.state()
OTHERS = hostile_text.endpoints_of_others()
HARMLESS = hostile_text.write(STATE, OTHERS)
PATHS = list(texts(STATE))
#: Values that stand in the place of harmless ones: pieces of commands, addresses and words, or any characters.
ANY = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(
        st.sampled_from([*HOSTILE, "10.0.0.1", "cali1", "add", "-A", "-j", ",", ":", "/", "ACCEPT", ";", "}", " "]),
        max_size=4,
    ).map("".join),
    st.text(st.characters(exclude_categories=()), max_size=30),
)


_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def check(written: Written, *like: Written) -> None:
    """Assert that `written` has only commands of the kinds that drivers give.

    Its bird.cfg, if there is one, must have the same tokens as that of one of `like`. Passwords stay in one string,
    paths are in their two folders, and lines of the plan have no control characters.
    """
    for text in written.ipset:
        protocol_models.check_ipset(text)
    for text in written.iptables:
        protocol_models.check_iptables(text)
    assert not written.bird or protocol_models.bird_shape(written.bird) in [
        protocol_models.bird_shape(one.bird) for one in like
    ]
    assert written.secrets.count("\n") <= 2 and written.secrets.count('"') in (0, 2)
    for path in written.paths:
        assert path.startswith(("/proc/sys/net/", "/run/netns/")) and ".." not in path.split("/"), path
    for line in written.lines:
        assert line.isprintable() or set(terminal_text.line(line)) == set(line), line
        assert "\n" not in line and "\x1b" not in line


def twins(path: Path) -> list[Written]:
    """Return what is written with a meaningless word instead of the text at `path`, and with an empty text.

    The result is [] for a path outside `bird`.
    """
    if path[0] != "bird":
        return []
    return [hostile_text.write(replaced(STATE, path, text), OTHERS, (STATE, HARMLESS)) for text in ("zz", "")]


def is_a_rule(path: Path) -> bool:
    """Return whether the text at `path` is an iptables rule, which is written unchanged and may be at most one line."""
    return path[:1] == ("iptables",) and ("rule" in path or path[2:4] == ("chains", "value"))


def test_every_field_that_holds_texts_is_attacked() -> None:
    """Every field that holds texts has one in hostile_text.state, so a new field must be filled in there."""
    assert hostile_text.text_fields(NodeState) - hostile_text.filled_fields(STATE) == set()
    assert HARMLESS.refused == []
    check(HARMLESS, HARMLESS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_no_text_of_a_state_is_more_than_a_token(path: Path) -> None:
    like = (HARMLESS, *twins(path))
    for hostile in HOSTILE if SOAK else HOSTILE[PATHS.index(path) % 11 :: 11]:
        written = hostile_text.write(replaced(STATE, path, hostile), OTHERS, (STATE, HARMLESS))
        if _SYMBOL.fullmatch(hostile):  # A symbol is one token, so the output is like that for a harmless word.
            written = dataclasses.replace(written, bird=written.bird.replace(hostile, "zz"))
        if is_a_rule(path):
            lines = [len(protocol_models.read_lines(text, 10240)) for text in written.iptables]
            assert lines <= [len(protocol_models.read_lines(text, 10240)) for text in HARMLESS.iptables]
        else:
            check(written, *like)


_PROTOCOLS = protocol_models.bird_shape(HARMLESS.bird).count("protocol")


@given(st.lists(st.tuples(st.sampled_from(PATHS), ANY), min_size=1, max_size=5))
def test_no_texts_together_are_more_than_tokens(chosen: list[tuple[Path, str]]) -> None:
    attacked = STATE
    for path, text in chosen:
        if not is_a_rule(path):
            attacked = _at(attacked, path, text)
    written = hostile_text.write(attacked, OTHERS)
    for text in written.ipset:
        protocol_models.check_ipset(text)
    for text in written.iptables:
        protocol_models.check_iptables(text)
    # The shape leaves out the content of strings and comments.
    assert protocol_models.bird_shape(written.bird).count("protocol") <= _PROTOCOLS


def _at(value: t.Any, path: Path, text: str) -> t.Any:
    try:
        return replaced(value, path, text)
    except (IndexError, TypeError):  # Two keys of a mapping have become one.
        return value


@pytest.mark.parametrize("path", list(texts(OTHERS)), ids=lambda path: ".".join(map(str, path)))
def test_no_text_of_another_node_is_a_command_or_stops_anything(path: Path) -> None:
    """The state itself is fully in force, and a node that sends a bad text loses only objects of its own."""
    own = {name for text in HARMLESS.iptables for name in text.splitlines() if not name.startswith(("*", "COMMIT"))}
    for hostile in HOSTILE if SOAK else HOSTILE[::2]:
        written = hostile_text.write(STATE, replaced(OTHERS, path, hostile))
        check(written, HARMLESS)
        assert {name for text in written.iptables for name in text.splitlines()} >= own
        assert all("left out" in reason for reason in written.refused), written.refused
        assert not any("10.244.2.1" in reason for reason in written.refused)
        added = {line for text in written.ipset for line in text.splitlines()}
        expected = {line for text in HARMLESS.ipset for line in text.splitlines()}
        assert {line for line in expected - added if line.split()[2] not in OTHER_MEMBERS} == set()


OTHER_MEMBERS = {"10.244.3.1", "fd00::3", "10.244.3.1,tcp:80", "fd00::3,tcp:80"}


@given(ANY)
def test_texts_for_people_are_lines_and_no_commands_of_a_terminal(text: str) -> None:
    shown = terminal_text.line(text)
    assert len(shown.splitlines()) <= 1
    assert not any(ord(one) < 32 or 127 <= ord(one) < 160 or 0x202A <= ord(one) <= 0x202E for one in shown)
    assert not any(0x2066 <= ord(one) <= 0x2069 or 0xD800 <= ord(one) <= 0xDFFF for one in shown)
    shown.encode()
    assert terminal_text.text(text).count("\n") == text.count("\n")
    assert terminal_text.line(shown) == shown


@given(ANY)
def test_other_writers_hold_to_their_protocols(text: str) -> None:
    registry = Registry()
    registry.gauge("calico_test", "Test.", ("name",)).set(text, value=1.0)
    assert len(metrics.text(registry).split("\n")) == 4
    name = file_name(text)
    assert "/" not in name and name not in (".", "..") and len(name) < 255 and name.isascii()
    assert json.loads(json.dumps({"text": text}))["text"] == text
    assert "\n" not in json.dumps({"text": text})
    for encode in (unit_encoding.unit_name, lambda one: bird_encoding.command(one).decode()[:-1]):
        try:
            encoded = encode(text)
        except NotEncodable as error:
            assert str(error).isprintable()
            continue
        assert encoded == text
        assert encoded.isprintable() and "\n" not in encoded


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_command_for_bird_is_one_line(hostile: str) -> None:
    try:
        assert bird_encoding.command(f"show {hostile}").count(b"\n") == 1
    except NotEncodable as error:
        assert "cannot be a command for BIRD's control socket: Allowed is one line" in str(error)


def test_a_sysctl_that_leads_elsewhere_is_neither_read_nor_written() -> None:
    class Kernel(FakeKernel):
        def sysctl_read(self, key: str) -> t.Optional[str]:
            assert ".." not in key
            return super().sysctl_read(key)

    kernel = Kernel()
    good = Sysctl("net/ipv4/ip_forward", "1")
    desired = [Sysctl("net/ipv4/conf/../../../kernel/core_pattern", "|/bin/x"), good]
    with pytest.raises(ApplyError) as caught:
        sysctl.apply(kernel, sysctl.diff(desired, sysctl.observe(kernel, desired)))
    assert str(caught.value) == (
        "sysctl net.ipv4.conf.//.//.//.kernel.core_pattern: 'net/ipv4/conf/../../../kernel/core_pattern' cannot be a"
        " key for /proc/sys: Allowed is a path that begins with net/, without '..', white space and control characters."
        " It is left as it is. Correct it, then run again."
    )
    assert kernel.sysctl_read(good.key) == "1"
    value = Sysctl(good.key, "1\n2")
    assert [change.action for change in sysctl.diff([value], {good.key: "0"})] == ["!"]


def test_the_kernel_is_asked_for_no_file_outside_of_its_folders(tmp_path: pathlib.Path) -> None:
    kernel = LinuxKernel(netns_folder=str(tmp_path / "netns"), marker_folder=str(tmp_path / "markers"))
    (tmp_path / "outside").write_text("kept")
    with pytest.raises(KernelError, match="cannot be a key for /proc/sys"):
        kernel.sysctl_read("net/../kernel/hostname")
    with pytest.raises(KernelError, match="cannot be a value for /proc/sys"):
        kernel.sysctl_write("net/ipv4/ip_forward", "1\n")
    for name in ("../outside", str(tmp_path / "outside"), "..", "", "a\0b", "\ud800"):
        with pytest.raises(KernelError, match="cannot be a network namespace for /run/netns"):
            kernel.netns_add(name, "owner")
        with pytest.raises(KernelError, match="cannot be a network namespace for /run/netns"):
            kernel.netns_delete(name)
    assert (tmp_path / "outside").read_text() == "kept"
    kernel.close()


def test_every_field_of_bird_has_a_kind() -> None:
    for made_of, kinds in bird_encoding.KINDS.items():
        assert set(kinds) == {field.name for field in dataclasses.fields(made_of)}, made_of


def test_a_refusal_says_what_where_and_what_is_allowed() -> None:
    bird = STATE.to_dict()["bird"]
    bird["peers"][0]["node"] = 'n2"; }\nprotocol static x {'
    with pytest.raises(NotEncodable) as caught:
        bird_encoding.checked(bird)
    assert str(caught.value) == (
        "'n2\"; }\\nprotocol static x {' cannot be bird.peers.node (a text) for bird.cfg: Allowed is up to 255"
        " characters that are no double quote and no control character."
    )
    with pytest.raises(NotEncodable) as caught:
        bird_encoding.checked({**STATE.to_dict()["bird"], "new": 1})
    assert str(caught.value) == "'new' cannot be a field for bird.cfg: Bird has no field of this name."
    with pytest.raises(NotEncodable) as caught:
        bird_encoding.checked({**STATE.to_dict()["bird"], "as_number": "1; }"})
    assert str(caught.value) == "'1; }' cannot be bird.as_number for bird.cfg: Allowed is a number."
    with pytest.raises(NotEncodable) as caught:
        iptables_encoding.check_line(f"-A cali-x {iptables_encoding.interface('eth0 -j ACCEPT')}")
    assert str(caught.value.allowed) == (
        "'eth0 -j ACCEPT' cannot be an interface for iptables-restore: Allowed are 15 letters, digits and"
        " _.:@~=#$%&^- , the first a letter, digit, _ or ., and a + at the end"
    )
