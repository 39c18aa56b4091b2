# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate authority for tests with etcd, whose gateway refuses clients that have a common name: none has one."""

from __future__ import annotations

import datetime
import ipaddress
import pathlib
import secrets
import typing as t

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


class Authority:
    """A CA; `folder` gets its certificate, ca.pem, and the files of the certificates that it issues."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.file = folder / "ca.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, secrets.token_hex(8))])
        self._name = name
        self.renew()

    def renew(self, valid: datetime.timedelta = DAY) -> None:
        """Write the authority's own certificate anew. `valid` is until when, from now: negative if it has expired."""
        certificate = (
            self._begun(self._name, self._key, valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        addresses: t.Sequence[str] = (),
        valid: datetime.timedelta = DAY,
        begins: datetime.timedelta = -2 * DAY,
    ) -> tuple[str, str]:
        """Write NAME.pem and NAME.key, over files of the same names, and return their paths.

        `addresses` are those of a server. `begins` and `valid` are from when and until when, both from now: `valid` is
        negative for an expired certificate, and `begins` positive for one of the future.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        certificate = (
            self._begun(x509.Name([]), key, valid, begins)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectAlternativeName(names or [x509.DNSName("client.invalid")]), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        files = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return str(files[0]), str(files[1])

    def _begun(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        valid: datetime.timedelta,
        begins: datetime.timedelta = -2 * DAY,
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.timezone.utc)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + valid)
        )
