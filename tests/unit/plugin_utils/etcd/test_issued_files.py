# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of .calico.etcd: what each run writes, renewal, the succession of authorities, and who may read them."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import resource
import ssl
import stat

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import certificates, etcd_folder, issued_files
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.cluster_members import EtcdHost
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.etcd_folder import EtcdFolder
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd.issued_files import IssuedFiles, WantedFiles
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.timezone.utc)
HOSTS = [EtcdHost("etcd1", "10.0.0.1"), EtcdHost("etcd2", "fd00::2")]
DAY = datetime.timedelta(days=1)
FIRST = [
    "secrets.json", "authority.pem", "ca.pem", "peer-authority.pem", "peers.pem",
    "members/etcd1/server.pem", "members/etcd1/peer.pem", "members/etcd2/server.pem", "members/etcd2/peer.pem",
    "client.key", "client.pem",
]  # fmt: skip
LEAVES = FIRST[5:]


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> EtcdFolder:
    return EtcdFolder(str(tmp_path / ".calico.etcd"))


def run(folder: EtcdFolder, now: datetime.datetime = NOW, **wanted: object) -> IssuedFiles:
    issue = issued_files.planned(folder, WantedFiles(HOSTS, **wanted), now)  # type: ignore[arg-type]
    issued_files.apply(folder, issue)
    return issue


def certificate(folder: EtcdFolder, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(folder.read(name) or b"")


def signed(folder: EtcdFolder, name: str, by: str) -> bool:
    return certificates.is_signed_by(certificate(folder, name), certificate(folder, by))


def test_the_first_run_makes_everything_and_the_second_nothing(folder: EtcdFolder) -> None:
    assert list(run(folder).files) == FIRST
    again = run(folder)
    assert (again.files, again.lines, again.notices) == ({}, [], [])


def test_the_folder_is_its_owners_alone(folder: EtcdFolder) -> None:
    old = os.umask(0)
    try:
        run(folder)
    finally:
        os.umask(old)
    root = pathlib.Path(folder.path)
    modes = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert {modes[name] for name in FIRST} == {0o600}
    assert {modes[name] for name in ("members", "members/etcd1")} == {0o700}
    assert (root / ".gitignore").read_text() == "# Keys and passwords: keep them out of version control.\n*\n"


def test_passwords_are_long_and_random(folder: EtcdFolder, tmp_path: pathlib.Path) -> None:
    run(folder)
    found = json.loads(folder.read("secrets.json") or b"")
    assert (found["username"], len(bytes.fromhex(found["node_secret"]))) == ("root", 32)
    assert len(found["password"]) >= 43
    assert found["password"] != json.loads(etcd_folder.new_secrets())["password"]


def test_members_serve_and_call_and_clients_only_call(folder: EtcdFolder) -> None:
    """The names of a member's certificate are its own, and no certificate but an authority's has a common name."""
    run(folder)
    server = certificate(folder, "members/etcd1/server.pem")
    assert certificates.names_of(server) == {"etcd1", "10.0.0.1", "127.0.0.1"}
    assert certificates.names_of(certificate(folder, "members/etcd2/peer.pem")) == {"etcd2", "fd00::2"}
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    assert list(server.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == both
    client = certificate(folder, "client.pem")
    assert list(client.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == both[1:]
    assert certificates.names_of(client) == set()
    for name in LEAVES:
        if name != "client.key":
            assert not certificate(folder, name).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder.where("ca.pem"))
    context.load_cert_chain(folder.where("client.pem"), folder.where("client.key"))
    context.load_cert_chain(folder.where("members/etcd1/server.pem"))


def test_a_clients_certificate_is_no_members(folder: EtcdFolder) -> None:
    """The port of members trusts another authority than that of clients."""
    run(folder)
    assert signed(folder, "client.pem", "ca.pem") and signed(folder, "members/etcd1/server.pem", "ca.pem")
    assert signed(folder, "members/etcd1/peer.pem", "peers.pem")
    assert not signed(folder, "client.pem", "peers.pem") and not signed(folder, "members/etcd1/peer.pem", "ca.pem")


def test_certificates_are_renewed_when_a_third_is_left(folder: EtcdFolder) -> None:
    run(folder, days=90)
    assert run(folder, NOW + 59 * DAY, days=90).files == {}
    late = run(folder, NOW + 61 * DAY, days=90)
    assert list(late.files) == LEAVES
    assert late.lines[0] == "members/etcd1/server.pem: renewed: 29 days were left"


def test_certificates_are_renewed_on_demand_and_for_another_address(folder: EtcdFolder) -> None:
    run(folder)
    assert list(run(folder, renew=True).files) == LEAVES
    moved = issued_files.planned(folder, WantedFiles([EtcdHost("etcd1", "10.0.0.9"), HOSTS[1]]), NOW)
    assert moved.lines == [
        "members/etcd1/server.pem: renewed for another address",
        "members/etcd1/peer.pem: renewed for another address",
    ]


def test_damaged_certificates_are_made_anew(folder: EtcdFolder) -> None:
    run(folder)
    folder.write("members/etcd1/server.pem", b"rubbish")
    folder.write("client.key", folder.read("members/etcd1/peer.pem") or b"")
    assert list(run(folder).files) == ["members/etcd1/server.pem", "client.key", "client.pem"]


def test_a_successor_is_trusted_before_it_signs(folder: EtcdFolder) -> None:
    """The old authority signs until `finish`, and stays trusted after it, so that no client is cut off."""
    run(folder)
    old = certificate(folder, "ca.pem")
    begun = run(folder, succession="begin")
    assert list(begun.files) == ["authority-next.pem", "ca.pem", "peer-authority-next.pem", "peers.pem"]
    assert begun.notices[0] == (
        "authority-next.pem is trusted from this run on. Run playbooks/site.yml, so that all nodes trust it, then "
        "playbooks/etcd_certificates.yml -e ca=finish. Certificates stay valid meanwhile."
    )
    following = certificate(folder, "authority-next.pem")
    assert certificates.bundle(folder.read("ca.pem") or b"") == [old, following]
    assert run(folder, succession="begin").files == {}
    finished = run(folder, succession="finish")
    assert list(finished.files) == [
        "authority.pem", "authority-next.pem", "peer-authority.pem", "peer-authority-next.pem", *LEAVES,
    ]  # fmt: skip
    assert finished.files["authority-next.pem"] is None and folder.read("authority-next.pem") is None
    assert certificates.bundle(folder.read("ca.pem") or b"") == [old, following]
    assert certificates.is_signed_by(certificate(folder, "client.pem"), following)
    assert run(folder).files == {}


def test_nothing_is_finished_that_was_not_begun(folder: EtcdFolder) -> None:
    run(folder)
    assert run(folder, succession="finish").files == {}


def test_a_successor_that_is_not_trusted_yet_does_not_sign(folder: EtcdFolder) -> None:
    """The file of trusted authorities was restored without it: the run only trusts it again."""
    run(folder)
    old = folder.read("ca.pem") or b""
    run(folder, succession="begin")
    folder.write("ca.pem", old)
    again = run(folder, succession="finish")
    assert "authority.pem" not in again.files and "peer-authority.pem" in again.files
    assert len(certificates.bundle(folder.read("ca.pem") or b"")) == 2


def test_authorities_are_succeeded_by_time(folder: EtcdFolder) -> None:
    """A successor is made when a third is left, signs when a sixth is left, and the old one goes when it has ended."""
    run(folder, authority_days=900, days=10)
    begun = run(folder, NOW + 601 * DAY, authority_days=900, days=10)
    assert "authority-next.pem" in begun.files and "authority.pem" not in begun.files
    assert "authority.pem" not in run(folder, NOW + 740 * DAY, authority_days=900, days=10).files
    assert "authority.pem" in run(folder, NOW + 760 * DAY, authority_days=900, days=10).files
    later = run(folder, NOW + 901 * DAY, authority_days=900, days=10)
    assert "ca.pem: 1 trusted" in later.lines


def test_certificates_end_with_their_authority(folder: EtcdFolder) -> None:
    run(folder, authority_days=100, days=365)
    assert certificates.days_left(certificate(folder, "client.pem"), NOW) == 100


def user_authority(tmp_path: pathlib.Path, name: str) -> tuple[str, str]:
    made = certificates.made_authority(name, 3650, NOW)
    paths = (tmp_path / f"{name}.pem", tmp_path / f"{name}.key")
    paths[0].write_bytes(made.certificate_pem)
    paths[1].write_bytes(made.key_pem)
    return str(paths[0]), str(paths[1])


def test_an_authority_of_the_user_signs_for_clients_alone(folder: EtcdFolder, tmp_path: pathlib.Path) -> None:
    own = user_authority(tmp_path, "mine")
    issue = run(folder, own_authority=own)
    assert "authority.pem" not in issue.files and "peer-authority.pem" in issue.files
    mine = x509.load_pem_x509_certificate(pathlib.Path(own[0]).read_bytes())
    assert certificates.is_signed_by(certificate(folder, "client.pem"), mine)
    assert run(folder, own_authority=own).files == {}


def test_a_changed_authority_of_the_user_signs_in_the_next_run(folder: EtcdFolder, tmp_path: pathlib.Path) -> None:
    run(folder, own_authority=user_authority(tmp_path, "mine"))
    other = user_authority(tmp_path, "other")
    first = run(folder, own_authority=other)
    assert list(first.files) == ["ca.pem"]
    assert first.notices == [
        "calico_etcd_ca_cert is another authority than before. It is trusted from this run on, and signs in a later "
        "one. Run "
        "playbooks/site.yml, so that all nodes trust it, then playbooks/etcd.yml once more."
    ]
    assert [name for name in run(folder, own_authority=other).files if "peer" not in name] == [
        "members/etcd1/server.pem", "members/etcd2/server.pem", "client.key", "client.pem",
    ]  # fmt: skip


def refused(folder: EtcdFolder, **wanted: object) -> str:
    with pytest.raises(FleetError) as caught:
        issued_files.planned(folder, WantedFiles(HOSTS, **wanted), NOW)  # type: ignore[arg-type]
    return str(caught.value)


def test_an_authority_that_cannot_sign_is_refused(folder: EtcdFolder, tmp_path: pathlib.Path) -> None:
    one, other = user_authority(tmp_path, "one"), user_authority(tmp_path, "other")
    remedy = "Name the files of an authority that may sign certificates."
    assert refused(folder, own_authority=(one[0], other[1])) == (
        f"calico_etcd_ca_cert {one[0]} with calico_etcd_ca_key {other[1]} has a key that belongs to another "
        f"certificate. {remedy}"
    )
    assert refused(folder, own_authority=(one[1], one[1])) == (
        f"calico_etcd_ca_cert {one[1]} with calico_etcd_ca_key {one[1]} has no certificate in PEM. {remedy}"
    )
    assert refused(folder, own_authority=(one[0], one[0])) == (
        f"calico_etcd_ca_cert {one[0]} with calico_etcd_ca_key {one[0]} has no key in PEM, or one that a passphrase "
        f"protects. "
        f"{remedy}"
    )
    run(folder)
    leaf = (folder.where("client.pem"), folder.where("client.key"))
    assert refused(folder, own_authority=leaf) == (
        f"calico_etcd_ca_cert {leaf[0]} with calico_etcd_ca_key {leaf[1]} is no certificate of an authority (CA:TRUE). "
        f"{remedy}"
    )
    assert refused(folder, own_authority=("/nowhere.pem", one[1])) == (
        "calico_etcd_ca_cert /nowhere.pem cannot be read: No such file or directory. Name a file on the controller "
        "that you can "
        "read."
    )


def test_a_controller_without_the_library_is_refused(folder: EtcdFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "HAS_LIBRARY", False)
    assert refused(folder) == (
        "the controller's Python has no package cryptography, which signs certificates. Install it where "
        "ansible-core is: pip install cryptography."
    )


def test_a_damaged_authority_is_not_replaced(folder: EtcdFolder) -> None:
    """A new authority would cut off all clients."""
    run(folder)
    folder.write("authority.pem", b"rubbish")
    path = folder.where("authority.pem")
    assert refused(folder) == (
        f"etcd's file {path} has no certificate in PEM. Restore it from a backup; see docs/how-to/etcd.md for a lost "
        f"authority."
    )


def test_a_file_that_others_may_read_is_refused(folder: EtcdFolder) -> None:
    run(folder)
    path = folder.where("secrets.json")
    os.chmod(path, 0o644)
    assert refused(folder) == (
        f"etcd's file {path} may be read by others: its mode is 0644. If nobody else knows it, run chmod 600 {path}. "
        f"Otherwise "
        "remove it, and the next run makes another one."
    )


def test_a_huge_file_is_refused(folder: EtcdFolder) -> None:
    folder.write("secrets.json", b"x" * ((1 << 20) + 1))
    path = folder.where("secrets.json")
    assert refused(folder) == (
        f"etcd's file {path} has more than 1048576 bytes. See that it is a file that you can read, or restore it from "
        f"a backup."
    )


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"username": "root"}', b'{"username": 1, "password": "x"}',
     b'{"username": "root", "password": ""}', b"[" * 100_000],
)  # fmt: skip
def test_rubbish_instead_of_secrets_is_refused(folder: EtcdFolder, content: bytes) -> None:
    folder.write("secrets.json", content)
    path = folder.where("secrets.json")
    with pytest.raises(FleetError) as caught:
        etcd_folder.credentials(folder, {}, str)
    assert str(caught.value) == (
        f"etcd's file {path} has no username and password. Restore it from a backup. Without the password the users of "
        f"the "
        "cluster cannot be changed."
    )


def test_the_vaults_password_comes_before_the_files(folder: EtcdFolder) -> None:
    run(folder)
    found = etcd_folder.credentials(folder, {"calico_etcd_password": "vaulted"}, lambda value: value)
    assert found is not None and (found.user, found.password) == ("root", "vaulted")
    assert "vaulted" not in repr(found)
    stored = etcd_folder.credentials(folder, {}, lambda value: value)
    assert stored is not None and len(stored.password) >= 43
    with pytest.raises(FleetError) as caught:
        etcd_folder.credentials(folder, {"calico_etcd_password": "x" * 257}, lambda value: value)
    assert str(caught.value) == "calico_etcd_password is no text of 1 to 256 characters. Correct it."


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: pathlib.Path) -> None:
    (tmp_path / ".calico.etcd").write_text("a file")
    folder = EtcdFolder(str(tmp_path / ".calico.etcd"))
    with pytest.raises(FleetError) as caught:
        folder.write("secrets.json", b"{}")
    assert str(caught.value) == (
        f"etcd's file {folder.path}/secrets.json cannot be written: File exists. No host was touched. Make the folder "
        f"{folder.path} writable."
    )


def test_a_full_disk_leaves_no_empty_list_of_ignored_files(folder: EtcdFolder) -> None:
    """An empty .gitignore would stay, and a commit of the inventory would have the keys."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(FleetError):
            folder.write("ca.key", b"key")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert os.listdir(folder.path) == []
    folder.write("ca.key", b"key")
    assert sorted(os.listdir(folder.path)) == [".gitignore", "ca.key"]


def test_a_snapshots_file_is_its_owners_alone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "snapshots" / "etcd.db"
    etcd_folder.make_empty(str(path))
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    path.chmod(0o644)
    etcd_folder.make_empty(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(FleetError) as caught:
        etcd_folder.make_empty(str(tmp_path / "link"))
    assert str(caught.value) == (
        f"the snapshot's file {tmp_path}/link cannot be written: Too many levels of symbolic links. Name another one: "
        "-e to=PATH."
    )


def test_an_inventory_without_a_folder_is_refused() -> None:
    with pytest.raises(FleetError) as caught:
        etcd_folder.folder_of({})
    assert str(caught.value) == (
        "the inventory has no folder to keep .calico.etcd in, with the keys of the etcd cluster. Use an inventory that "
        "is a file "
        "or a folder."
    )


def test_days_left_are_reported_for_each_certificate(folder: EtcdFolder) -> None:
    run(folder)
    found = issued_files.days_left(folder, HOSTS, NOW)
    assert found["ca.pem"] == 3650 and found["members/etcd1/server.pem"] == 365 and len(found) == 7


NODES = ["node1", "node2"]


def test_each_node_has_a_certificate_of_its_own(folder: EtcdFolder) -> None:
    issue = run(folder, nodes=NODES)
    assert list(issue.files)[-2:] == ["nodes/node1.pem", "nodes/node2.pem"]
    assert issue.lines[-1] == "nodes/: new certificates for node1, node2"
    for node in NODES:
        assert signed(folder, f"nodes/{node}.pem", "authority.pem")
    one, other = (certificate(folder, f"nodes/{node}.pem") for node in NODES)
    assert one.serial_number != other.serial_number and not one.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert run(folder, nodes=NODES).files == {} and not run(folder).files
    many = run(folder, nodes=[*NODES, *(f"n{number}" for number in range(10))])
    assert many.lines == ["nodes/: new certificates for n0, n1, n2, n3, n4, n5, n6, n7 and 2 more"]


def test_all_certificates_of_a_revoked_node_are_listed(folder: EtcdFolder) -> None:
    """Renewed ones are still valid. The list keeps those of other nodes; the next run makes a new one."""
    run(folder, nodes=NODES)
    first = certificate(folder, "nodes/node1.pem")
    run(folder, nodes=NODES, renew=True)
    second = certificate(folder, "nodes/node1.pem")
    found = []
    for node in ("node1", "node2", "node1", "node3"):
        issue = issued_files.revocation(folder, node)
        issued_files.apply(folder, issue)
        found.append(issue)
    assert [issue.lines for issue in found] == [
        ["revoked.txt: 2 of node1 more"],
        ["revoked.txt: 2 of node2 more"],
        [],
        [],
    ]
    assert found[2].notices == []  # its certificates are on the list
    assert found[3].notices == [
        f"node3 has no certificate of its own in {folder.path}/nodes. If it has a copy of client.pem, that stays "
        "valid: change the authorities (docs/how-to/etcd.md, Change the authorities)."
    ]
    assert list(found[0].files) == ["revoked.txt", "nodes/node1.pem"]  # a list that is not written loses nothing
    listed = (folder.read("revoked.txt") or b"").decode().splitlines()
    assert listed[:3] == ["# node1", certificates.fingerprint(second), certificates.fingerprint(first)]
    assert listed[3] == "# node2" and len(listed) == 6 and folder.read("nodes/node1.pem") is None
    run(folder, nodes=NODES)
    third = certificates.fingerprint(certificate(folder, "nodes/node1.pem"))
    assert third not in listed and (folder.read("revoked.txt") or b"").decode().splitlines() == listed


def test_a_certificate_that_has_ended_is_not_listed(folder: EtcdFolder) -> None:
    run(folder, nodes=NODES, days=30)
    late = NOW + 40 * DAY
    run(folder, late, nodes=NODES)
    issued_files.apply(folder, issued_files.revocation(folder, "node1"))
    assert len((folder.read("revoked.txt") or b"").splitlines()) == 2


ISSUED = "operators/ada/issued.pem"


def test_an_operator_has_a_certificate_of_its_own(folder: EtcdFolder) -> None:
    issue = run(folder, operators=["ada"])
    assert list(issue.files) == [*FIRST, ISSUED] and issue.lines[-1] == "operators/: new certificates for ada"
    assert signed(folder, ISSUED, "authority.pem")
    assert certificate(folder, ISSUED) != certificate(folder, "client.pem")
    assert not certificate(folder, ISSUED).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    again = run(folder, operators=["ada"])
    assert (again.files, again.operators_left) == ({}, [])
    assert list(run(folder, NOW + 250 * DAY, operators=["ada"]).files)[-1] == ISSUED
    assert (folder.read(ISSUED) or b"").count(b"BEGIN CERTIFICATE") == 2  # a revocation needs the one before, too


def test_an_operator_who_left_is_revoked_until_the_cluster_has_shut_it_out(folder: EtcdFolder) -> None:
    run(folder, operators=["ada", "berta"])
    issue = run(folder, operators=["berta"])
    assert (list(issue.files), issue.operators_left) == (["revoked.txt"], ["ada"])
    own = certificates.fingerprint(certificate(folder, ISSUED))
    assert (folder.read("revoked.txt") or b"").decode().splitlines() == ["# ada", own]
    cut_short = run(folder, operators=["berta"])
    assert (cut_short.files, cut_short.operators_left) == ({}, ["ada"])
    issued_files.apply(folder, issued_files.forgotten(["ada"]))
    assert run(folder, operators=["berta"]).operators_left == [] and folder.read(ISSUED) is None
    both = run(folder)
    assert both.operators_left == ["berta"] and len((folder.read("revoked.txt") or b"").splitlines()) == 4


def test_an_operator_is_revoked_by_its_name_as_a_node_is(folder: EtcdFolder) -> None:
    run(folder, operators=["ada"])
    issue = issued_files.revocation(folder, "ada")
    assert list(issue.files) == ["revoked.txt", ISSUED] and not issue.notices
    issued_files.apply(folder, issue)
    assert run(folder).operators_left == []
