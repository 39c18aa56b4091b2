# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One member of Debian's etcd with TLS and a password on this machine's loopback, with the files of a controller."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import pathlib
import random
import socket
import subprocess
import time
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import gateway
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import EtcdClient
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import auth
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import DatastoreSettings
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.lab.machines import downloads

#: The packages of Debian's releases have these versions.
RELEASES = {"bookworm": "3.4", "trixie": "3.5"}
PASSWORD, NODE_SECRET = "root-4711-" + "x" * 30, "0f" * 32


class OneEtcd:
    """A member at an `address` of its own. `files` is a folder like .calico.etcd, `folder` has what is the member's."""

    def __init__(self, release: str, folder: pathlib.Path, files: pathlib.Path) -> None:
        self.address, self.folder, self.files = _unused_address(), folder, files
        packages = downloads.debs(release, ["etcd-server", "etcd-client"])
        for package in packages.glob("etcd-*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder / "programs"], check=True)
        files.mkdir(mode=0o700)
        _issue(files, folder, self.address)
        made = {"username": "root", "password": PASSWORD, "node_secret": NODE_SECRET}
        (files / "secrets.json").write_text(json.dumps(made))
        (files / "secrets.json").chmod(0o600)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"https://{self.address}:2379"

    def start(self) -> None:
        peer = f"http://{self.address}:2380"
        command = [
            *(self.folder / "programs" / "usr" / "bin" / "etcd", "--data-dir", self.folder / "data"),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url, "--bcrypt-cost", "4"),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
            *("--initial-cluster", f"default={peer}", "--trusted-ca-file", self.files / "ca.pem", "--client-cert-auth"),
            *("--cert-file", self.folder / "server.pem", "--key-file", self.folder / "server.key"),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
            self.process = None

    def client(self, user: str = "root", password: str = PASSWORD) -> EtcdClient:
        """Return a client, without a user for ""."""
        return self.settings(user, password).client(5.0, 0.0)

    def settings(self, user: str = "root", password: str = PASSWORD) -> DatastoreSettings:
        files = (str(self.files / name) for name in ("ca.pem", "client.pem", "client.key"))
        return DatastoreSettings((self.url,), *files, user, password if user else "")

    def ask(
        self, talk: t.Callable[[EtcdClient], t.Awaitable[t.Any]], user: str = "root", password: str = PASSWORD
    ) -> t.Any:
        """Return what `talk` returns for a client of this user."""

        async def run() -> t.Any:
            client = self.client(user, password)
            try:
                return await talk(client)
            finally:
                await client.close()

        return asyncio.run(run())

    def wait(self, user: str = "root") -> None:
        """Wait until the member answers. Raise AssertionError after 60 seconds."""
        end = time.monotonic() + 60
        while True:
            try:
                self.ask(lambda client: client.status(), user)
                return
            except Exception:  # noqa: BLE001  it starts
                assert time.monotonic() < end, (self.folder / "log").read_text()[-3000:]
                time.sleep(0.1)

    def demand_passwords(self) -> None:
        """Make the user root and switch authentication on."""

        async def secure(client: EtcdClient) -> None:
            await client.call(auth.USER_ADD, auth.user_with_password("root", PASSWORD))
            await client.call(auth.ROLE_ADD, auth.new_role("root"))
            await client.call(auth.USER_GRANT, auth.grant_role("root", "root"))
            await client.call("/v3/auth/enable", gateway.to_bytes({}))

        self.ask(secure, user="")


def _unused_address() -> str:
    """Return a random address of the loopback network at which nobody has ports of etcd: tests run at the same time."""
    while True:
        address = f"127.{random.randint(120, 250)}.{random.randint(1, 250)}.{random.randint(2, 250)}"
        try:
            for port in (2379, 2380):
                with socket.socket() as one:
                    one.bind((address, port))
        except OSError:
            continue
        return address


def _issue(files: pathlib.Path, folder: pathlib.Path, address: str) -> None:
    """Write the certificates of a CA, of the member and of clients, who have no common name."""
    authority = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "test")])
    ca = _begun(name, name, authority).add_extension(x509.BasicConstraints(True, None), critical=True)
    _write(files / "ca.pem", ca.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    usages = x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH, x509.ExtendedKeyUsageOID.SERVER_AUTH])
    for target in (folder / "server", files / "client"):
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        begun = _begun(x509.Name([]), name, key).add_extension(usages, critical=False)
        made = begun.add_extension(names, critical=True).sign(authority, hashes.SHA256())
        _write(target.with_suffix(".pem"), made.public_bytes(serialization.Encoding.PEM))
        kind = serialization.PrivateFormat.PKCS8
        _write(
            target.with_suffix(".key"),
            key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption()),
        )


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    begun = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    day = datetime.timedelta(days=1)
    return begun.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)


def _write(path: pathlib.Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
