# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user on a host of the group calico_etcd, on its member and its gate."""

from __future__ import annotations

import pathlib
import typing as t

import pytest

from tests.integration.attacks.member_host import (
    MEMBER,
    MEMBER6,
    OTHER_MEMBER,
    OTHER_MEMBER6,
    PORTS,
    Attempt,
    MemberHost,
)

pytestmark = pytest.mark.root

#: All ports of its own member by all addresses of the host, and of another member.
ATTEMPTS: list[Attempt] = [
    ("", address, port)
    for address in (MEMBER, MEMBER6, "127.0.0.1", "127.3.2.1", "::1", OTHER_MEMBER, OTHER_MEMBER6)
    for port in PORTS
]


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[MemberHost]:
    folder: pathlib.Path = tmp_path_factory.mktemp("member")
    made = MemberHost(folder)
    yield made
    made.close()


@pytest.mark.parametrize(
    "who", [(), ("unshare", "--user", "--map-root-user")], ids=["as himself", "as root of a user namespace"]
)
def test_a_local_user_connects_to_a_member(member: MemberHost, who: tuple[str, ...]) -> None:
    """Connect to gate, member and the port of members, by all addresses of the host, and to another member.

    Gain: The gate's connections, and with them its memory and processor time, without any credential.
    Precedent: CWE-770 (allocation of resources without limits), CWE-284.
    Closed: 0.3.0
    Result: The kernel refuses each connection. Those of root and of the users of member and gate are accepted.
    """
    assert member.local("stranger", ATTEMPTS, *who) == dict.fromkeys(ATTEMPTS, "refused")
    for user in ("root", "calico-etcd", "calico-gate"):
        assert member.local(user, ATTEMPTS) == dict.fromkeys(ATTEMPTS, "connected")
