# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of operators on the controller: what they have, that calicoctl takes them, and when they go."""

from __future__ import annotations

import pathlib
import stat
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.connection import api_config
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore import operator_files
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.datastore.operator_files import OperatorFiles
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.etcd_folder import EtcdFolder

from tests.unit.plugin_utils.datastore.test_access import CERTIFICATE, KEY, SECRET, Inventory

SECRET_BYTES = bytes.fromhex(SECRET)
ISSUED = CERTIFICATE.replace("x", "ada") + KEY.replace("x", "adas") + CERTIFICATE.replace("x", "earlier")
ADA = [{"name": "ada"}]


class Operators:
    """An inventory whose operators change."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.inventory = Inventory(folder)
        self.folder = EtcdFolder(str(folder / ".calico.etcd"))
        self.ada = folder / ".calico.etcd" / "operators" / "ada"

    def bring(self, operators: t.Sequence[t.Any], check: bool = False, **own: t.Any) -> OperatorFiles:
        found = self.inventory.of(calico_etcd_operators=list(operators), **own)
        assert found is not None
        return operator_files.bring(found, SECRET_BYTES, self.folder, check)

    def lines(self, operators: t.Sequence[t.Any], check: bool = False, **own: t.Any) -> list[str]:
        return [change.line() for change in self.bring(operators, check, **own).changes]

    def issue(self) -> None:
        self.folder.write("operators/ada/issued.pem", ISSUED.encode())


@pytest.fixture
def operators(tmp_path: pathlib.Path) -> Operators:
    return Operators(tmp_path)


def test_an_operator_gets_a_configuration_that_calicoctl_takes(operators: Operators) -> None:
    operators.issue()
    line = "+ files    .calico.etcd/operators/ada  calicoctl.cfg ca.pem client.pem client.key"
    assert operators.lines(ADA, check=True) == [line] and not (operators.ada / "calicoctl.cfg").exists()
    assert operators.lines(ADA) == [line]
    assert operators.lines(ADA) == []
    files = ("calicoctl.cfg", "ca.pem", "client.pem", "client.key")
    assert {stat.S_IMODE((operators.ada / name).stat().st_mode) for name in files} == {0o600}
    assert stat.S_IMODE(operators.ada.stat().st_mode) == 0o700
    assert (operators.ada / "client.pem").read_text() == CERTIFICATE.replace("x", "ada")
    assert (operators.ada / "client.key").read_text() == KEY.replace("x", "adas")
    warned: list[str] = []
    found = api_config.of_file(str(operators.ada / "calicoctl.cfg"), warned.append)
    assert warned == [] and found.endpoints == ("https://10.10.1.21:2379",)
    assert (found.user, found.password) == ("ada", rights.password(SECRET_BYTES, "operator/ada/0"))
    assert (found.ca, found.certificate, found.key) == tuple(str(operators.ada / name) for name in files[1:])


def test_another_rotation_is_another_password(operators: Operators) -> None:
    operators.issue()
    operators.bring(ADA)
    assert operators.lines([{"name": "ada", "rotation": 1}]) == [
        "~ files    .calico.etcd/operators/ada    calicoctl.cfg"
    ]
    assert rights.password(SECRET_BYTES, "operator/ada/1") in (operators.ada / "calicoctl.cfg").read_text()


def test_an_operator_who_left_keeps_no_file_but_the_record_of_its_certificate(operators: Operators) -> None:
    """playbooks/etcd.yml needs that record to revoke the certificate, and removes it."""
    operators.issue()
    operators.bring(ADA)
    line = "- files    .calico.etcd/operators/ada  ca.pem calicoctl.cfg client.key client.pem"
    assert operators.lines([], check=True) == [line] and (operators.ada / "calicoctl.cfg").exists()
    assert operators.lines([]) == [line]
    assert [path.name for path in operators.ada.iterdir()] == ["issued.pem"]
    assert operators.lines([]) == []


def test_an_operator_without_a_certificate_waits_for_it(operators: Operators) -> None:
    found = operators.bring(ADA)
    assert found == OperatorFiles((), ("ada",)) and not operators.ada.exists()


def test_a_cluster_of_ones_own_has_one_certificate_or_none(operators: Operators) -> None:
    own = {"calico_etcd_endpoints": ["https://etcd.example.com"]}
    operators.bring(ADA, **own)
    assert (operators.ada / "client.key").read_text() == KEY
    assert '"https://etcd.example.com"' in (operators.ada / "calicoctl.cfg").read_text()
    (operators.inventory.etcd / "client.pem").unlink()
    assert operators.lines(ADA, **own) == [
        "~ files    .calico.etcd/operators/ada    calicoctl.cfg client.pem client.key"
    ]
    assert not (operators.ada / "client.key").exists()
    assert "etcdKeyFile" not in (operators.ada / "calicoctl.cfg").read_text()


def test_files_that_others_put_there_stay(operators: Operators) -> None:
    operators.issue()
    operators.bring(ADA)
    (operators.ada / "notes.txt").write_text("mine")
    (operators.ada.parent / "not a name").mkdir()
    operators.bring([])
    assert sorted(path.name for path in operators.ada.iterdir()) == ["issued.pem", "notes.txt"]
    assert (operators.ada.parent / "not a name").exists()


def test_a_file_that_others_may_read_is_refused(operators: Operators) -> None:
    operators.issue()
    operators.bring(ADA)
    (operators.ada / "calicoctl.cfg").chmod(0o644)
    with pytest.raises(FleetError, match="may be read by others: its mode is 0644"):
        operators.bring(ADA)
