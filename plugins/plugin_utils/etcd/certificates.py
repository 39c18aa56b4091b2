# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates for the members of an etcd cluster and for its clients, and the authorities that sign them.

All keys are of the curve P-256. No certificate of ours but that of an authority has a common name: etcd takes the
common name of a client for a user, and its JSON gateway refuses a client that has one.
"""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    HAS_LIBRARY = False
else:
    HAS_LIBRARY = True

#: A clock of a node or member may be behind that of the controller by as much.
_BACKDATED = datetime.timedelta(days=1)
_ORGANIZATION = "baremetal.host_routing"


class CertificateError(Exception):
    """A certificate or key that cannot be used. Its text is the rest of a sentence that begins with the file."""


@dataclasses.dataclass(frozen=True)
class CertifiedKey:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: t.Any

    @property
    def certificate_pem(self) -> bytes:
        """The certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        """The key as PEM, not encrypted."""
        return t.cast(
            bytes,
            self.key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )


def check_library() -> None:
    """Raise FleetError if the controller lacks cryptography, which comes with ansible-core."""
    if not HAS_LIBRARY:
        raise FleetError(
            "the controller's Python",
            None,
            "has no package cryptography, which signs certificates.",
            "Install it where ansible-core is: pip install cryptography.",
        )


def made_authority(name: str, days: int, now: datetime.datetime) -> CertifiedKey:
    """Return a new authority with the common name `name` that is valid for `days` from `now` on."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
                         x509.NameAttribute(NameOID.COMMON_NAME, name)])  # fmt: skip
    builder = _builder(subject, subject, key, days, now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(signs=True), critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return CertifiedKey(builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256()), key)


def made_member(
    authority: CertifiedKey, name: str, addresses: t.Iterable[str], days: int, now: datetime.datetime
) -> CertifiedKey:
    """Return a new certificate of a member, for its `name` and `addresses`.

    It serves and calls: etcd's gateway is a client of its own member, and each member is a client of the others.
    """
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in host_names(name)]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
    return _signed(authority, usages, names, days, now)


def made_client(authority: CertifiedKey, days: int, now: datetime.datetime) -> CertifiedKey:
    """Return a new certificate of a client. It has no names, so that it is valid at each address."""
    return _signed(authority, (ExtendedKeyUsageOID.CLIENT_AUTH,), [], days, now)


def loaded(certificate: bytes, key: bytes) -> CertifiedKey:
    """Return a certificate and its key, both given as PEM. Raise CertificateError if they do not belong together."""
    try:
        first = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        raise CertificateError("has no certificate in PEM.") from None
    try:
        own = serialization.load_pem_private_key(key, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateError("has no key in PEM, or one that a passphrase protects.") from None
    if _public(own.public_key()) != _public(first.public_key()):
        raise CertificateError("has a key that belongs to another certificate.")
    return CertifiedKey(first, own)


def loaded_authority(certificate: bytes, key: bytes) -> CertifiedKey:
    """Return an authority that can sign. Raise CertificateError for a certificate that may not, and as `loaded`."""
    found = loaded(certificate, key)
    if not isinstance(found.key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise CertificateError("has a key that is neither of an elliptic curve nor of RSA.")
    if not is_authority(found.certificate):
        raise CertificateError("is no certificate of an authority (CA:TRUE).")
    return found


def bundle(content: bytes) -> list[x509.Certificate]:
    """Return the certificates in a file of PEM. Raise CertificateError if one cannot be read."""
    found = []
    for part in content.split(b"-----BEGIN CERTIFICATE-----")[1:]:
        try:
            found.append(x509.load_pem_x509_certificate(b"-----BEGIN CERTIFICATE-----" + part))
        except ValueError:
            raise CertificateError("has no certificate in PEM.") from None
    return found


def bundle_pem(certificates: t.Iterable[x509.Certificate]) -> bytes:
    """Return certificates as one file of PEM."""
    return b"".join(one.public_bytes(serialization.Encoding.PEM) for one in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate in DER, as 64 hex digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def is_authority(certificate: x509.Certificate) -> bool:
    """Return whether a certificate may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Return whether an authority has signed a certificate."""
    key, algorithm = authority.public_key(), certificate.signature_hash_algorithm
    if certificate.issuer != authority.subject or algorithm is None:
        return False
    try:
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(algorithm))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(certificate.signature, certificate.tbs_certificate_bytes, padding.PKCS1v15(), algorithm)
        else:
            return False
    except InvalidSignature:
        return False
    return True


def names_of(certificate: x509.Certificate) -> set[str]:
    """Return the names and addresses that a certificate is for, as texts."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


def host_names(name: str) -> list[str]:
    """Return a host's name in the inventory if it can be one of DNS, else []."""
    is_one = len(name) <= 253 and all(
        0 < len(label) <= 63 and label.isascii() and label.replace("-", "").isalnum() and label.strip("-") == label
        for label in name.split(".")
    )
    return [name] if is_one else []


def days_left(certificate: x509.Certificate, now: datetime.datetime) -> int:
    """Return the whole days until a certificate ends, negative afterwards."""
    return (_end(certificate) - now).days


def is_due(certificate: x509.Certificate, now: datetime.datetime, part: int = 3) -> bool:
    """Return whether less than one `part` of a certificate's validity is left."""
    return (_end(certificate) - now) * part < _end(certificate) - _begin(certificate)


def _signed(
    authority: CertifiedKey,
    usages: t.Iterable[x509.ObjectIdentifier],
    names: t.Sequence[x509.GeneralName],
    days: int,
    now: datetime.datetime,
) -> CertifiedKey:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION)])
    builder = _builder(subject, authority.certificate.subject, key, days, now, _end(authority.certificate))
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(list(usages)), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return CertifiedKey(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: t.Any,
    days: int,
    now: datetime.datetime,
    latest: t.Optional[datetime.datetime] = None,
) -> x509.CertificateBuilder:
    end = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(min(end, latest) if latest else end)
    )


def _key_usage(signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _public(key: t.Any) -> bytes:
    return t.cast(
        bytes,
        key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
    )


def _begin(certificate: x509.Certificate) -> datetime.datetime:
    # cryptography before 42 has times without a zone, in UTC.
    found = getattr(certificate, "not_valid_before_utc", None)
    return found or certificate.not_valid_before.replace(tzinfo=datetime.timezone.utc)


def _end(certificate: x509.Certificate) -> datetime.datetime:
    found = getattr(certificate, "not_valid_after_utc", None)
    return found or certificate.not_valid_after.replace(tzinfo=datetime.timezone.utc)
