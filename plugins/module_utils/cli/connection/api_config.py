# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calico's configuration of calicoctl: the document CalicoAPIConfig, or variables of the environment.

    apiVersion: projectcalico.org/v3
    kind: CalicoAPIConfig
    spec:
      datastoreType: etcdv3
      etcdEndpoints: https://10.10.1.11:2379,https://10.10.1.12:2379
      etcdCACertFile: /etc/calico/etcd/ca.pem
      etcdUsername: node1
      etcdPassword: ...

Fields and their variables are those of Calico (libcalico-go, lib/apiconfig). Errors do not show values of fields, which
may be passwords.
"""

from __future__ import annotations

import os
import stat
import typing as t

from ...base.document_limits import BeyondLimits, DocumentLimits
from ...base.release import API_VERSION
from ...datastore.settings import DatastoreSettings, DatastoreSettingsError
from ...files import bounded
from ..errors import CommandError

KIND = "CalicoAPIConfig"
_LIMITS = DocumentLimits(1 << 20, 1000, 8)
#: The most bytes of a file with certificates or a key.
_PEM_LIMIT = 256 << 10
#: Fields about etcd -> variables of the environment; None for those that only a file may have.
_ETCD: t.Mapping[str, t.Optional[str]] = {
    "datastoreType": "DATASTORE_TYPE",
    "etcdEndpoints": "ETCD_ENDPOINTS",
    "etcdDiscoverySrv": "ETCD_DISCOVERY_SRV",
    "etcdUsername": "ETCD_USERNAME",
    "etcdPassword": "ETCD_PASSWORD",
    "etcdKeyFile": "ETCD_KEY_FILE",
    "etcdCertFile": "ETCD_CERT_FILE",
    "etcdCACertFile": "ETCD_CA_CERT_FILE",
    "etcdKey": None,
    "etcdCert": None,
    "etcdCACert": None,
}
#: Fields about Kubernetes. A file with them is a Calico's, and none of them is used.
_KUBERNETES = frozenset(
    ("kubeconfig", "kubeconfigInline", "usePodCIDR", "calicoAPIGroup")
    + ("k8sAPIEndpoint", "k8sKeyFile", "k8sCertFile", "k8sCAFile", "k8sAPIToken", "k8sInsecureSkipTLSVerify")
    + ("k8sDisableNodePoll", "k8sClientQPS", "k8sClientBurst", "k8sCurrentContext")
)
_SECRETS = ("etcdPassword", "etcdKey", "k8sAPIToken", "kubeconfigInline")
_INLINE = ("etcdKey", "etcdCert", "etcdCACert")


class NotUsable(Exception):
    """A configuration by which this program cannot reach a datastore. The text is a sentence without its subject."""


def of_file(path: str, warn: t.Callable[[str], None]) -> DatastoreSettings:
    """Return the settings in the file `path`. Raise NotUsable, FileNotFoundError, or another OSError.

    `warn` gets a sentence if others may read a file with secrets. A file that others may write is refused: it says to
    whom passwords are sent.
    """
    try:
        found = bounded.read_with_mode(path, _LIMITS.size)
    except bounded.TooLarge:
        raise NotUsable("is larger than 1 MiB. It needs some lines.") from None
    owner = os.stat(path).st_uid
    if found.mode & (stat.S_IWGRP | stat.S_IWOTH) or owner not in (0, os.geteuid()):
        raise NotUsable("may be changed by other users, who could read passwords so. Run chown root and chmod 600.")
    spec = _spec(path, found.data)
    if found.mode & stat.S_IROTH and any(spec.get(field) for field in _SECRETS):
        warn(f"{path} has secrets, and all users may read it. Run chmod 600.")
    return _settings(spec, warn)


def of_environment(environment: t.Mapping[str, str], warn: t.Callable[[str], None]) -> t.Optional[DatastoreSettings]:
    """Return the settings in variables, with or without Calico's prefix CALICO_; None if none is about a datastore.

    Raise NotUsable.
    """
    spec = {}
    for field, variable in _ETCD.items():
        if variable is not None:
            value = environment.get(f"CALICO_{variable}", environment.get(variable, ""))
            if value:
                spec[field] = value
    if "datastoreType" not in spec and "etcdEndpoints" not in spec:
        return None
    return _settings(spec, warn)


def _spec(path: str, data: bytes) -> dict[str, t.Any]:
    from ...base.document_limits import read_json
    from ..render.document_text import NotReadable, documents_of

    try:
        text = data.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            documents = [read_json(text, _LIMITS)]
        else:
            documents = [document for document, dummy in documents_of(text, path)]
    except UnicodeDecodeError:
        raise NotUsable("is not UTF-8.") from None
    except NotReadable as error:
        raise NotUsable(f"{error}" if error.line is None else f"(line {error.line}) {error}") from None
    except BeyondLimits as error:
        raise NotUsable(str(error)) from None
    except ValueError:
        raise NotUsable("is not JSON.") from None
    except CommandError as error:  # PyYAML is missing
        raise NotUsable(f"cannot be read: {error} A file in JSON can be.") from None
    document = documents[0] if len(documents) == 1 else None
    if not isinstance(document, dict):
        raise NotUsable(f"is not one document. Write apiVersion: {API_VERSION}, kind: {KIND} and spec.")
    if document.get("apiVersion") != API_VERSION:
        raise NotUsable(f"is an invalid config file: unknown APIVersion {document.get('apiVersion', '')!r}")
    if document.get("kind") != KIND:
        raise NotUsable(f"is an invalid config file: expected kind '{KIND}', got {document.get('kind', '')!r}")
    spec = document.get("spec")
    if not isinstance(spec, dict):
        raise NotUsable("has no spec.")
    unknown = sorted(str(field) for field in spec if field not in _ETCD and field not in _KUBERNETES)
    if unknown:
        raise NotUsable(f"has a field in its spec that Calico does not have: {unknown[0][:80]!r}.")
    return spec


def _settings(spec: t.Mapping[str, t.Any], warn: t.Callable[[str], None]) -> DatastoreSettings:
    wrong = [field for field in _ETCD if not isinstance(spec.get(field) or "", str)]
    if wrong:
        raise NotUsable(f"has a {wrong[0]} that is not text.")
    found = {field: spec.get(field) or "" for field in _ETCD}
    kind = found["datastoreType"] or ("etcdv3" if found["etcdEndpoints"] else "kubernetes")
    if kind == "kubernetes":
        raise NotUsable("is for a Calico whose datastore is Kubernetes. Fleets here have etcd, or no datastore at all.")
    if kind != "etcdv3":
        raise NotUsable("has a datastoreType that is neither etcdv3 nor kubernetes.")
    if found["etcdDiscoverySrv"]:
        raise NotUsable("has etcdDiscoverySrv, which is not supported here. Write etcdEndpoints.")
    for field in _INLINE:
        if found[field]:
            raise NotUsable(f"has {field}, which is not read here. Put it into a file, and name it by {field}File.")
    for field in ("etcdCACertFile", "etcdCertFile", "etcdKeyFile"):
        _check_pem(field, found[field], warn)
    settings = {
        "endpoints": [endpoint.strip() for endpoint in found["etcdEndpoints"].split(",") if endpoint.strip()],
        "ca": found["etcdCACertFile"],
        "certificate": found["etcdCertFile"],
        "key": found["etcdKeyFile"],
        "user": found["etcdUsername"],
        "password": found["etcdPassword"],
    }
    try:
        return DatastoreSettings.from_dict(settings)
    except DatastoreSettingsError as error:
        cause = str(error).removeprefix("datastore.json: ").partition(". Run playbooks/")[0]
        raise NotUsable(f"is not usable: {cause}.") from None


def _check_pem(field: str, path: str, warn: t.Callable[[str], None]) -> None:
    """Raise NotUsable unless a file of TLS is a regular one of a usual size, which TLS itself does not check."""
    if not path:
        return
    try:
        found = bounded.read_with_mode(path, _PEM_LIMIT)
    except bounded.TooLarge:
        raise NotUsable(f"names a file by {field} that is larger than 256 KiB: {path}.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its name is not valid"
        raise NotUsable(f"names a file by {field} that cannot be read: {path}: {why}.") from None
    if field == "etcdKeyFile" and found.mode & (stat.S_IRWXO | stat.S_IWGRP):
        warn(f"{path} is a private key, and other users have rights to it. Run chmod 600.")
