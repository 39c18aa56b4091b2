# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of .calico.etcd that a run has to write: authorities, certificates and passwords.

Members and nodes trust what ca.pem has, and nodes get it by another run than members. So an authority that succeeds
another one is trusted first (`begin`), and signs only in a later run (`finish`). The one before it stays trusted until
it ends. Members trust each other by authorities of their own, in peers.pem: a client's certificate opens no port of
members.
"""

from __future__ import annotations

import dataclasses
import datetime
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from . import certificates, etcd_folder
from .certificates import CertificateError, CertifiedKey
from .cluster_members import EtcdHost
from .etcd_folder import CLIENT_CERTIFICATE, CLIENT_KEY, REVOKED, SECRETS, TRUSTED, EtcdFolder

PEERS = "peers.pem"
#: The common names and the files of our own authorities. "-next" stands in the name of a successor's file.
_CLIENTS_AUTHORITY, _PEERS_AUTHORITY = "authority", "peer-authority"
_LOOPBACK = "127.0.0.1"
#: A successor signs at the latest when less than this part of its predecessor's validity is left.
_FINISH_PART = 6
#: The most nodes that a line names.
_NAMED = 8


@dataclasses.dataclass(frozen=True)
class WantedFiles:
    """What the files are for: the members, and the `nodes` and `operators` by name.

    `own_authority` has the paths of the user's certificate and key, None for ours. `renew` makes all certificates anew.
    `succession` is "begin" or "finish", "" by the time that is left.
    """

    members: t.Sequence[EtcdHost]
    days: int = 365
    authority_days: int = 3650
    own_authority: t.Optional[tuple[str, str]] = None
    renew: bool = False
    succession: str = ""
    nodes: t.Sequence[str] = ()
    operators: t.Sequence[str] = ()


@dataclasses.dataclass
class IssuedFiles:
    """The files to write, in order, None for one to remove. `lines` says why, `notices` what is left to do.

    `operators_left` are operators who are not wanted, and whose certificates are on the list of revoked ones: their
    files stay until `forgotten`, so that a run that is cut short is repeated.
    """

    files: dict[str, t.Optional[bytes]] = dataclasses.field(default_factory=dict)
    lines: list[str] = dataclasses.field(default_factory=list)
    notices: list[str] = dataclasses.field(default_factory=list)
    operators_left: list[str] = dataclasses.field(default_factory=list)

    def write(self, name: str, content: bytes, why: str) -> None:
        self.files[name] = content
        if why:
            self.lines.append(f"{name}: {why}")


@dataclasses.dataclass
class _Trust:
    """The authority that signs in this run, and all that are trusted."""

    signer: t.Optional[CertifiedKey]
    trusted: list[t.Any]


def planned(folder: EtcdFolder, wanted: WantedFiles, now: datetime.datetime) -> IssuedFiles:
    """Return what has to be written. Raise FleetError if a file, the user's authority or cryptography is not usable."""
    certificates.check_library()
    issue = IssuedFiles()
    if folder.read(SECRETS) is None:
        issue.write(SECRETS, etcd_folder.new_secrets(), "new, with a random password of the user root")
    if wanted.own_authority:
        clients = _own_authority(folder, issue, wanted, now)
    else:
        clients = _authority(folder, issue, wanted, _CLIENTS_AUTHORITY, TRUSTED, now)
    peers = _authority(folder, issue, wanted, _PEERS_AUTHORITY, PEERS, now)
    for host in wanted.members:
        names = {host.address}
        _member(folder, issue, wanted, f"members/{host.name}/server.pem", clients, host.name, {*names, _LOOPBACK}, now)
        _member(folder, issue, wanted, f"members/{host.name}/peer.pem", peers, host.name, names, now)
    _client(folder, issue, wanted, clients, now)
    for kind, owners, name_of in (
        ("nodes", wanted.nodes, etcd_folder.of_node),
        (etcd_folder.OPERATORS, wanted.operators, etcd_folder.of_operator),
    ):
        made = [name for name in owners if _personal(folder, issue, wanted, name_of(name), clients, now)]
        if made:
            more = f" and {len(made) - _NAMED} more" if len(made) > _NAMED else ""
            issue.lines.append(f"{kind}/: new certificates for {', '.join(made[:_NAMED])}{more}")
    for name in folder.operators():
        if name not in wanted.operators and folder.read(etcd_folder.of_operator(name)) is not None:
            issue.operators_left.append(name)
            _revoke(folder, issue, name, etcd_folder.of_operator(name))
    return issue


def forgotten(names: t.Iterable[str]) -> IssuedFiles:
    """Return the removal of the certificates of operators who left, after the cluster has shut them out."""
    return IssuedFiles({etcd_folder.of_operator(name): None for name in names})


def _revoke(folder: EtcdFolder, issue: IssuedFiles, owner: str, name: str) -> bool:
    """Put the certificates in the file `name` on the list of revoked ones; return whether there are any."""
    own = _certificates(folder.read(name))
    content = issue.files.get(REVOKED) or folder.read(REVOKED) or b""
    listed = content.decode("ascii", "replace").splitlines()
    added = [text for text in map(certificates.fingerprint, own) if text not in listed]
    if added or (own and f"# {owner}" not in listed):
        lines = "".join(f"{line}\n" for line in [*listed, f"# {owner}", *added])
        issue.write(REVOKED, lines.encode("ascii", "replace"), f"{len(added)} of {owner} more")
    return bool(own)


def revocation(folder: EtcdFolder, node: str) -> IssuedFiles:
    """Return what has to be written so that gates refuse all certificates that `node` has got. Nothing is written.

    It may be an operator, too. Raise FleetError if a file cannot be read.
    """
    issue = IssuedFiles()
    names = [
        name for name in (etcd_folder.of_node(node), etcd_folder.of_operator(node)) if folder.read(name) is not None
    ]
    if names:
        certificates.check_library()
    listed = (folder.read(REVOKED) or b"").decode("ascii", "replace").splitlines()
    revoked = [name for name in names if _revoke(folder, issue, node, name)]
    if revoked:
        issue.files.update(dict.fromkeys(revoked))  # after the list has what only these files know
    elif f"# {node}" not in listed:
        issue.notices.append(
            f"{node} has no certificate of its own in {folder.path}/nodes. If it has a copy of {CLIENT_CERTIFICATE}, "
            "that stays valid: change the authorities (docs/how-to/etcd.md, Change the authorities)."
        )
    return issue


def apply(folder: EtcdFolder, issue: IssuedFiles) -> None:
    """Write and remove the files. Raise FleetError if that fails; the files before it are written then."""
    for name, content in issue.files.items():
        if content is None:
            folder.remove(name)
        else:
            folder.write(name, content)


def days_left(folder: EtcdFolder, members: t.Sequence[EtcdHost], now: datetime.datetime) -> dict[str, int]:
    """Return the days that certificates are valid for, by file. Raise FleetError if a file cannot be read."""
    names = [TRUSTED, PEERS, CLIENT_CERTIFICATE]
    names += [f"members/{host.name}/{kind}.pem" for host in members for kind in ("server", "peer")]
    found = {}
    for name in names:
        certified = _certificates(folder.read(name))
        if certified:
            # A bundle is as good as the authority that ends last.
            found[name] = max(certificates.days_left(one, now) for one in certified)
    return found


def _authority(
    folder: EtcdFolder, issue: IssuedFiles, wanted: WantedFiles, name: str, trusted_file: str, now: datetime.datetime
) -> _Trust:
    """Return our authority `name`, and plan its files: the first, a successor, or the succession."""
    successor = f"{name}-next.pem"
    current = _loaded(folder, f"{name}.pem", authority=True)
    following = _loaded(folder, successor, authority=True)
    stored = _certificates(folder.read(trusted_file))
    trusted = [one for one in stored if certificates.days_left(one, now) >= 0]
    if current is None or certificates.days_left(current.certificate, now) < 0:
        current = certificates.made_authority(f"{name} of the etcd cluster", wanted.authority_days, now)
        issue.write(f"{name}.pem", current.certificate_pem + current.key_pem, "a new authority")
    elif following is None:
        if wanted.succession == "begin" or certificates.is_due(current.certificate, now):
            following = certificates.made_authority(f"{name} of the etcd cluster", wanted.authority_days, now)
            content = following.certificate_pem + following.key_pem
            issue.write(successor, content, "its successor, which does not sign yet")
            issue.notices.append(_begun(successor))
    elif following.certificate in stored and (
        wanted.succession == "finish" or certificates.is_due(current.certificate, now, _FINISH_PART)
    ):
        current = following
        issue.write(f"{name}.pem", current.certificate_pem + current.key_pem, "the successor signs from now on")
    for one in (current, following):
        if one is not None and one.certificate not in trusted:
            trusted.append(one.certificate)
    if current is following:
        issue.files[successor] = None
    _trust(issue, trusted_file, stored, trusted)
    return _Trust(current, trusted)


def _begun(name: str) -> str:
    return (
        f"{name} is trusted from this run on. Run playbooks/site.yml, so that all nodes trust it, then "
        "playbooks/etcd_certificates.yml -e ca=finish. Certificates stay valid meanwhile."
    )


def _own_authority(folder: EtcdFolder, issue: IssuedFiles, wanted: WantedFiles, now: datetime.datetime) -> _Trust:
    """Return the user's authority. If members and nodes trust another one so far, it signs in a later run."""
    certificate_file, key_file = wanted.own_authority or ("", "")
    content = _given("calico_etcd_ca_cert", certificate_file)
    try:
        given = certificates.bundle(content)
        signer = certificates.loaded_authority(content, _given("calico_etcd_ca_key", key_file))
    except CertificateError as error:
        raise FleetError(
            "calico_etcd_ca_cert",
            certificate_file,
            f"with calico_etcd_ca_key {key_file} {error}",
            "Name the files of an authority that may sign certificates.",
        ) from None
    stored = _certificates(folder.read(TRUSTED))
    trusted = [one for one in stored if certificates.days_left(one, now) >= 0]
    is_known = not trusted or signer.certificate in stored
    trusted += [one for one in given if one not in trusted]
    _trust(issue, TRUSTED, stored, trusted)
    if not is_known:
        issue.notices.append(
            "calico_etcd_ca_cert is another authority than before. It is trusted from this run on, and signs in a "
            "later "
            "one. Run playbooks/site.yml, so that all nodes trust it, then playbooks/etcd.yml once more."
        )
    return _Trust(signer if is_known else None, trusted)


def _trust(issue: IssuedFiles, name: str, stored: t.Sequence[t.Any], trusted: t.Sequence[t.Any]) -> None:
    if list(stored) != list(trusted):
        issue.write(name, certificates.bundle_pem(trusted), f"{len(trusted)} trusted")


def _member(
    folder: EtcdFolder,
    issue: IssuedFiles,
    wanted: WantedFiles,
    name: str,
    trust: _Trust,
    host: str,
    addresses: t.Collection[str],
    now: datetime.datetime,
) -> None:
    """Plan the file `name` with a member's certificate and key, if it has to be renewed."""
    have = _loaded(folder, name)
    why = _why(have, wanted, trust, now)
    if (
        not why
        and have is not None
        and certificates.names_of(have.certificate)
        != {
            *certificates.host_names(host),
            *addresses,
        }
    ):
        why = "renewed for another address"
    if why and trust.signer is not None:
        made = certificates.made_member(trust.signer, host, sorted(addresses), wanted.days, now)
        issue.write(name, made.certificate_pem + made.key_pem, why)


def _client(folder: EtcdFolder, issue: IssuedFiles, wanted: WantedFiles, trust: _Trust, now: datetime.datetime) -> None:
    certificate, key = folder.read(CLIENT_CERTIFICATE), folder.read(CLIENT_KEY)
    have = _pair(certificate, key)
    why = _why(have, wanted, trust, now)
    if why and trust.signer is not None:
        made = certificates.made_client(trust.signer, wanted.days, now)
        issue.write(CLIENT_KEY, made.key_pem, "")
        issue.write(CLIENT_CERTIFICATE, made.certificate_pem, why)


def _personal(
    folder: EtcdFolder, issue: IssuedFiles, wanted: WantedFiles, name: str, trust: _Trust, now: datetime.datetime
) -> bool:
    """Plan the file `name` with the certificate of a node or operator, and return whether a new one is made.

    Those before it stay in the file as long as they are valid, because they are revoked with it.
    """
    content = folder.read(name)
    if trust.signer is None or not _why(_pair(content, content), wanted, trust, now):
        return False
    made = certificates.made_client(trust.signer, wanted.days, now)
    before = [one for one in _certificates(content) if certificates.days_left(one, now) >= 0]
    issue.write(name, made.certificate_pem + made.key_pem + certificates.bundle_pem(before), "")
    return True


def _why(have: t.Optional[CertifiedKey], wanted: WantedFiles, trust: _Trust, now: datetime.datetime) -> str:
    """Return why a certificate has to be made, "" if it need not."""
    if have is None:
        return "new"
    if trust.signer is not None and not certificates.is_signed_by(have.certificate, trust.signer.certificate):
        return "renewed by another authority"
    if certificates.is_due(have.certificate, now):
        return f"renewed: {certificates.days_left(have.certificate, now)} days were left"
    return "renewed on demand" if wanted.renew else ""


def _loaded(folder: EtcdFolder, name: str, authority: bool = False) -> t.Optional[CertifiedKey]:
    """Return the certificate and key in one file, None without one that can be used.

    An authority that cannot be used is an error: a new one would cut off all clients.
    """
    content = folder.read(name)
    if not authority:
        return _pair(content, content)
    if not content:
        return None
    try:
        return certificates.loaded_authority(content, content)
    except CertificateError as error:
        raise FleetError(
            "etcd's file",
            folder.where(name),
            str(error),
            "Restore it from a backup; see docs/how-to/etcd.md for a lost authority.",
        ) from None


def _pair(certificate: t.Optional[bytes], key: t.Optional[bytes]) -> t.Optional[CertifiedKey]:
    try:
        return certificates.loaded(certificate or b"", key or b"")
    except CertificateError:
        return None


def _certificates(content: t.Optional[bytes]) -> list[t.Any]:
    try:
        return certificates.bundle(content or b"")
    except CertificateError:
        return []


def _given(variable: str, path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            return stream.read(1 << 20)
    except OSError as error:
        raise FleetError(
            variable, path, f"cannot be read: {error.strerror}.", "Name a file on the controller that you can read."
        ) from error
