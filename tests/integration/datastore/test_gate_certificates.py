# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates that end while gates keep connections to their members: the journal and the agents name them."""

from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import address_of

from tests.etcd_certificates import DAY
from tests.etcd_cluster import EtcdCluster
from tests.integration.datastore import test_access_faults
from tests.integration.datastore.reader import Churn, Links, reading, under_churn, until
from tests.integration.datastore.test_access_faults import content as content

RELEASE = "trixie"
GATES = True
EXPIRED = "its certificate is refused: certificate has expired"
REFUSED = "it refuses this client's certificate or TLS: [a-z ]+"
#: The most seconds until a gate has said something.
SAID = 60.0


@pytest.mark.parametrize("name", ["test_certificate_of_the_client_expired", "test_certificates_of_the_members_expired"])
def test_certificates_expired(cluster: EtcdCluster, name: str) -> None:
    """A node that reads through gates names an expired certificate as one that asks the members itself does."""
    getattr(test_access_faults, name)(cluster)


async def said(cluster: EtcdCluster, text: str) -> None:
    """Wait until each gate has said a line, which `text` is a pattern of; {} stands for its member."""
    for member in cluster.members:
        line = re.compile(f"^{text.format(re.escape(str(address_of(member.url))))}$", re.MULTILINE)
        log: pathlib.Path = member.folder / "gate.log"
        await until(lambda log=log, line=line: line.search(log.read_text()), log.read_text, SAID)  # type: ignore[misc]
        log.write_text("")


def test_gates_say_that_certificates_of_members_expired(cluster: EtcdCluster) -> None:
    """Gates ask their members by themselves. Open watches go on, and the journal says when the problem is over."""

    async def scenario(churn: Churn) -> None:
        async with reading(cluster.settings("node1")) as reader:
            for number in cluster.numbers:
                cluster.issue_server(number, days=-1)
            await said(
                cluster,
                rf"The gate cannot ask its member {{}}: {EXPIRED}\. Agents go to other members; run "
                r"playbooks/etcd\.yml, which renews certificates\.",
            )
            assert reader.status.synced and reader.status.listings == 1 and not reader.problems
            for number in cluster.numbers:
                cluster.issue_server(number)
            await said(cluster, r"The gate can ask its member {} again\.")
            await reader.equals(churn.operator)

    under_churn(cluster, scenario)


def test_gates_whose_own_certificate_for_the_member_expired(cluster: EtcdCluster) -> None:
    """The journal and the agents name the certificate. A new file cures it without a restart of the gate."""
    files = [member.folder / "root.pem" for member in cluster.members]
    valid = files[0].read_bytes()

    async def scenario(churn: Churn) -> None:
        async with Links(cluster) as links, reading(cluster.settings("node1", links.urls)) as reader:
            expired = cluster.authority.issue("expired", valid=-DAY)
            for file in files:
                file.write_bytes(b"".join(pathlib.Path(part).read_bytes() for part in expired))
            await said(
                cluster,
                rf"The gate cannot ask its member {{}}: {REFUSED}\. Agents go to other members; run "
                r"playbooks/etcd\.yml, which renews certificates\.",
            )
            links.cut()
            await reader.lost("the gate cannot ask its member: it refuses this client's certificate or TLS: ")
            for file in files:
                file.write_bytes(valid)
            await reader.equals(churn.operator)
            await said(cluster, r"The gate can ask its member {} again\.")

    try:
        under_churn(cluster, scenario)
    finally:
        for file in files:
            file.write_bytes(valid)
