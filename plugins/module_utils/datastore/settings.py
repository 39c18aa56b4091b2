# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings with which a node connects to the datastore, from the file /etc/calico/datastore.json.

A run of site.yml writes the file, and only root may read it. A fleet without a datastore has no such file.

    {"endpoints": ["https://192.0.2.1:2379"], "ca": "/etc/calico/etcd/ca.pem", "certificate": "…", "key": "…",
     "user": "node1", "password": "…", "progress_seconds": 2.0}
"""

from __future__ import annotations

import dataclasses
import typing as t
from urllib.parse import urlsplit

from ..base.ports import ETCD_CLIENT_PORT, ETCD_GATE_PORT
from ..base.typed_json import NotJson, Unreadable, flag, items, maybe, number, parse, secret, table, text
from ..files import bounded
from .client import CALL_SECONDS, JITTER, Credentials, EtcdClient
from .transport import HttpTransport, MemberAddress, TlsFiles

#: Seconds between two messages of progress at members that this collection installs.
PROGRESS_SECONDS = 2.0
CLIENT_PORT, GATE_PORT = ETCD_CLIENT_PORT, ETCD_GATE_PORT
_REMEDY = "Run playbooks/site.yml, which writes the file."
#: The most endpoints that the file may have.
_MOST_ENDPOINTS = 16
_SIZE_LIMIT = 64 << 10  # bytes


class DatastoreSettingsError(Exception):
    """The error for settings that cannot be used. Its text says what is wrong and names the remedy."""


@dataclasses.dataclass(frozen=True)
class DatastoreSettings:
    """The endpoints of an etcd cluster, the TLS files, and the user.

    `endpoints` are URLs such as https://192.0.2.1:2379. `ca`, `certificate` and `key` are paths, "" for none. URLs with
    https need a `ca`. `user` is "" for a cluster without authentication. `progress_seconds` is the interval between two
    progress messages of a member, None if the interval is not known. With `check_rights`, live policy is taken only
    from members in which users keep to their rights: nodes reach them without gates.
    """

    endpoints: tuple[str, ...]
    ca: str = ""
    certificate: str = ""
    key: str = ""
    user: str = ""
    password: str = dataclasses.field(default="", repr=False)
    progress_seconds: t.Optional[float] = PROGRESS_SECONDS
    check_rights: bool = False

    @classmethod
    def from_dict(cls, data: t.Any, path: str = "datastore.json") -> DatastoreSettings:
        """Return the settings in `data`, the parsed file `path`. Raise DatastoreSettingsError for anything else."""
        try:
            found = _SETTINGS(data)
        except Unreadable as error:
            raise DatastoreSettingsError(f"{path}: {error}. {_REMEDY}") from None
        return cls(**{**found, "endpoints": tuple(found["endpoints"])})

    def to_dict(self) -> dict[str, t.Any]:
        """Return the content of the file, JSON-ready. It contains the password in clear text.

        `check_rights` is left out if it is False: earlier releases do not know it.
        """
        found = {**dataclasses.asdict(self), "endpoints": list(self.endpoints)}
        if not self.check_rights:
            del found["check_rights"]
        return found

    def client(self, seconds: float = CALL_SECONDS, jitter: float = JITTER) -> EtcdClient:
        """Return a client of the cluster. `seconds` and `jitter` are those of EtcdClient.

        Raise DatastoreSettingsError if the TLS files cannot be used, or if an endpoint has https and there is no CA:
        the client cannot check such a member, and does not send it the password.
        """
        try:
            tls = TlsFiles(self.ca, self.certificate, self.key) if self.ca else None
        except OSError as error:  # ssl.SSLError is one
            files = ", ".join(name for name in (self.ca, self.certificate, self.key) if name)
            raise DatastoreSettingsError(
                f"The files of TLS for the datastore ({files}) cannot be used: {error.strerror or error}. {_REMEDY}"
            ) from error
        transports = {}
        for endpoint in self.endpoints:
            secure = uses_tls(endpoint)
            if secure and tls is None:
                raise DatastoreSettingsError(f"The endpoint {endpoint} needs a CA, and ca is empty. {_REMEDY}")
            transports[endpoint] = HttpTransport(address_of(endpoint), tls if secure else None)
        return EtcdClient(transports, Credentials(self.user, self.password) if self.user else None, seconds, jitter)


def uses_tls(endpoint: str) -> bool:
    """Return whether a member's URL asks for TLS, in whatever case its scheme is written."""
    return urlsplit(endpoint).scheme == "https"


def address_of(endpoint: str) -> MemberAddress:
    """Return the host and the port of a member's URL. Raise ValueError for anything but http(s)://HOST[:PORT]."""
    if "@" in endpoint:  # looked at first: errors of urlsplit may quote the URL, and with it a password
        raise ValueError("a URL contains a user name; write it to user, and the password to password")
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{endpoint!r} is not a URL of the form https://HOST:PORT")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"{endpoint!r} has a path; write https://HOST:PORT alone")
    return MemberAddress(parts.hostname, parts.port or CLIENT_PORT)


def load(path: str) -> t.Optional[DatastoreSettings]:
    """Read the settings from the file `path`, None if there is none. Raise DatastoreSettingsError for unusable ones."""
    try:
        content = bounded.read(path, _SIZE_LIMIT)
    except bounded.TooLarge:
        raise DatastoreSettingsError(f"{path}: it has more than {_SIZE_LIMIT} bytes. {_REMEDY}") from None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DatastoreSettingsError(f"{path}: it cannot be read: {error.strerror}. {_REMEDY}") from error
    try:
        data = parse(content)
    except NotJson:
        raise DatastoreSettingsError(f"{path}: it is not JSON. {_REMEDY}") from None
    return DatastoreSettings.from_dict(data, path)


def _endpoint(value: t.Any) -> str:
    endpoint: str = _URL(value)
    try:
        address_of(endpoint)
    except ValueError as error:
        raise Unreadable("", f"refused: {error}") from None
    return endpoint


_URL = text(2_000)
_SETTINGS = table(
    {"endpoints": items(_endpoint, _MOST_ENDPOINTS, least=1)},
    {
        "ca": text(),
        "certificate": text(),
        "key": text(),
        "user": text(),
        "password": secret(),
        "progress_seconds": maybe(number(0.1, 3600.0)),
        "check_rights": flag,
    },
)
