# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a container of a network that is not the collection's, on a host of the group calico_etcd."""

from __future__ import annotations

import pathlib

import pytest

from tests.integration.attacks.member_host import (
    CLIENT,
    GATE,
    MEMBER,
    MEMBER6,
    OTHER_MEMBER,
    OTHER_MEMBER6,
    PEER,
    PORTS,
    MemberHost,
)

pytestmark = pytest.mark.root


def test_a_container_connects_to_members(tmp_path: pathlib.Path) -> None:
    """Connect to etcd of other members and of the host itself, from a bridge that the host masquerades.

    Gain: Etcd itself with the address of a member, past the gate.
    Precedent: CWE-441 (unintended proxy).
    Closed: 0.3.0
    Result: The host forwards nothing to etcd. The gates of other members are reached with the address of the host.
    """
    member = MemberHost(tmp_path)
    try:
        container = member.container()
        closed = [("", address, port) for address in (OTHER_MEMBER, OTHER_MEMBER6) for port in (CLIENT, PEER)]
        closed += [("", address, port) for address in (MEMBER, MEMBER6, "172.17.0.1", "fd17::1") for port in PORTS]
        gates = [("", address, GATE) for address in (OTHER_MEMBER, OTHER_MEMBER6)]
        expected = {**dict.fromkeys(closed, "dropped"), **dict.fromkeys(gates, "connected")}
        assert member.reaches([*closed, *gates], container) == expected
    finally:
        member.close()
