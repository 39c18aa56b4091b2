# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to a fleet's datastore: the members, the files of TLS, the operator's user, the secret of the nodes' users.

The inventory's variables say it. What they leave out lies in .calico.etcd in the inventory's folder, which the role
calico_etcd makes. A FleetDatastore has no secret, so that it can be stored for the run; secrets are read where they are
used, by the process that uses them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import typing as t

from ansible_collections.baremetal.host_routing.plugins.module_utils.base.release import API_VERSION
from ansible_collections.baremetal.host_routing.plugins.module_utils.base.typed_json import NotJson, parse_table
from ansible_collections.baremetal.host_routing.plugins.module_utils.cli.connection import api_config
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.client import Credentials
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.publication import rights
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import (
    PROGRESS_SECONDS,
    DatastoreSettings,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.files import bounded
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet import variables
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.host import Host
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory import datastore_inventory
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.datastore_inventory import (
    CA,
    CERT,
    ENDPOINTS,
    KEY,
    NODE_SECRET,
    PASSWORD,
    USERNAME,
    Operator,
    check_secret,
    check_text,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.fleet.inventory.policy_settings import LIVE_POLICY
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.write import datastore_files
from ansible_collections.baremetal.host_routing.plugins.module_utils.state.errors import FleetError

from ..etcd import cluster_members, etcd_folder
from ..etcd.etcd_folder import EtcdFolder
from ..sources import inventory_source
from ..sources.given_inventory import CLUSTER_GROUP

#: The most bytes of a file of TLS. A bundle of some CAs has a few KB.
_FILE_LIMIT = 256 << 10
_ROOT = "root"
_RUN_ETCD = "Run playbooks/etcd.yml, which makes the cluster and this file"


@dataclasses.dataclass(frozen=True)
class FleetDatastore:
    """The datastore of a fleet, as far as it is no secret.

    `ca`, `certificate` and `key` are paths on the controller; the latter two are "" if members demand no certificate.
    `progress` is the members' interval of progress messages in seconds, None if it is not known. `own` is True for a
    cluster that role calico_etcd makes for the fleet alone. Nodes use `gates`, and `endpoints` without any. `operators`
    are those of the inventory. `check_rights`: nodes check the release of etcd before they take live policy.
    """

    endpoints: tuple[str, ...]
    ca: str
    certificate: str
    key: str
    progress: t.Optional[float]
    own: bool = False
    gates: tuple[str, ...] = ()
    operators: tuple[Operator, ...] = ()
    check_rights: bool = False

    def settings(self, credentials: Credentials) -> DatastoreSettings:
        """Return the settings by which the controller itself reaches the cluster."""
        return DatastoreSettings(
            self.endpoints,
            self.ca,
            self.certificate,
            self.key,
            credentials.user,
            credentials.password,
            self.progress,
        )


def of(hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]) -> t.Optional[FleetDatastore]:
    """Return the datastore of a fleet, None if it has none. No file is read.

    `hosts` are all of the fleet, as inventory_source.hosts returns them. Raise FleetError if a variable is invalid, a
    host of group calico_etcd has no address, or the inventory has no folder in which the files could be.
    """
    given = datastore_inventory.read(lambda name: variables.of_fleet(hosts, name))
    check_live_policy(hosts, task_vars)
    own = given.endpoints is None
    hosts_of_members = cluster_members.listed(task_vars) if own else []
    members = tuple(host.client_url for host in hosts_of_members) if given.endpoints is None else given.endpoints
    if not members:
        return None
    certificate = _path(given.cert, etcd_folder.CLIENT_CERTIFICATE, task_vars)
    key = _path(given.key, etcd_folder.CLIENT_KEY, task_vars)
    if given.cert is None and not own and not os.path.exists(certificate):
        certificate = key = ""
    progress = given.progress if given.progress is not None else (PROGRESS_SECONDS if own else 0)
    gates = tuple(host.gate_url for host in hosts_of_members)
    ca = _path(given.ca, etcd_folder.TRUSTED, task_vars)
    operators = datastore_inventory.operators(
        variables.of_fleet(hosts, datastore_inventory.OPERATORS) or (), {host.name for host in hosts}, given.username
    )
    checked = bool(variables.of_fleet(hosts, LIVE_POLICY)) and not gates
    return FleetDatastore(
        members, ca, certificate, key, float(progress) if progress else None, own, gates, operators, checked
    )


def check_live_policy(hosts: t.Sequence[Host], task_vars: t.Mapping[str, t.Any]) -> None:
    """Raise FleetError if policy is to be live in a fleet without a datastore, or a variable of that is invalid."""
    has_members = bool(task_vars.get("groups", {}).get(CLUSTER_GROUP))
    datastore_inventory.check_live_policy(lambda name: variables.of_fleet(hosts, name), has_members)


def _path(chosen: t.Optional[str], name: str, task_vars: t.Mapping[str, t.Any]) -> str:
    """Return the absolute path of a file: `chosen` from the inventory's folder on, else `name` in .calico.etcd."""
    folder = task_vars.get("inventory_dir")
    if chosen is not None:
        return os.path.abspath(os.path.join(str(folder or ""), os.path.expanduser(chosen)))
    if not folder:
        raise FleetError(
            CA,
            None,
            f"is not set, and the inventory has no folder with {etcd_folder.NAME}.",
            f"Use an inventory that is a file or a folder, or set {CA}, {CERT} and {KEY}.",
        )
    return os.path.join(str(folder), etcd_folder.NAME, name)


def operator(task_vars: t.Mapping[str, t.Any]) -> Credentials:
    """Return the user of the cluster that this run is: of the variables of the task's host, else of secrets.json.

    Raise FleetError if neither has one, or one is invalid. No error has the password.
    """
    password = check_text(PASSWORD, _own(task_vars, PASSWORD), secret=True)
    if password is not None:
        return Credentials(check_text(USERNAME, _own(task_vars, USERNAME)) or _ROOT, password)
    path, found = _secrets(task_vars)
    user, password = found.get("username"), found.get("password")
    if user is None or password is None:
        raise FleetError(
            PASSWORD,
            None,
            f"is not set, and {path} has no user.",
            f"Set {USERNAME} and {PASSWORD}, encrypted with ansible-vault. {_RUN_ETCD}, for a cluster of its own.",
        )
    label = f"password in {path}"
    return Credentials(
        t.cast(str, check_text(f"username in {path}", user)), t.cast(str, check_text(label, password, secret=True))
    )


def node_secret(task_vars: t.Mapping[str, t.Any]) -> bytes:
    """Return the secret of the nodes' passwords: of the variables of the task's host, else of secrets.json.

    Raise FleetError, which does not have it, if neither has one, or one is invalid.
    """
    found = check_secret(NODE_SECRET, _own(task_vars, NODE_SECRET))
    if found is None:
        path, content = _secrets(task_vars)
        found = check_secret(f"node_secret in {path}", content.get("node_secret"))
        if found is None:
            raise FleetError(
                NODE_SECRET,
                None,
                f"is not set, and {path} has none.",
                f"Set it to the output of `openssl rand -hex 32`, encrypted with ansible-vault. {_RUN_ETCD}, for a "
                "cluster of its own.",
            )
    return bytes.fromhex(found)


def _own(task_vars: t.Mapping[str, t.Any], name: str) -> t.Any:
    host = task_vars["inventory_hostname"]
    own = task_vars["hostvars"][host]
    if name not in own:
        return None
    return inventory_source.plain_variable(inventory_source.evaluated(own, host, name), host, name)


def _secrets(task_vars: t.Mapping[str, t.Any]) -> tuple[str, dict[str, t.Any]]:
    """Return the path and the content of secrets.json, {} without the file. Raise FleetError."""
    folder = task_vars.get("inventory_dir")
    path = os.path.join(str(folder or ""), etcd_folder.NAME, etcd_folder.SECRETS)
    content = _read(path, "secrets of etcd", private=True, remedy="") if folder and os.path.exists(path) else ""
    try:
        return path, parse_table(content or "{}")
    except NotJson:
        raise FleetError("secrets of etcd", path, "is not a JSON object.", "Restore it from a backup.") from None


def _read(path: str, label: str, *, private: bool, remedy: str) -> str:
    """Return the content of a file. Raise FleetError, also for a `private` one that others may read."""
    try:
        content, mode = bounded.read_with_mode(path, _FILE_LIMIT)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise FleetError(label, path, "does not exist.", remedy or "Restore it from a backup.") from None
    except OSError as error:
        raise FleetError(
            label, path, f"cannot be read: {error.strerror}.", "See that it is a file that you can read."
        ) from error
    except ValueError:
        raise FleetError(
            label, path, f"is no text of at most {_FILE_LIMIT} bytes.", "Write a file in the form of PEM."
        ) from None
    if private and mode & 0o077:
        raise FleetError(
            label,
            path,
            f"may be read by others: its mode is {mode:04o}.",
            f"If nobody has read it, run `chmod 600 {path}`; otherwise replace what is in it.",
        )
    return text


def node_files(datastore: FleetDatastore, secret: bytes, node: str) -> dict[str, str]:
    """Return the contents of the files of a node by their names in datastore_files.PATHS. They have its password.

    Raise FleetError if a file on the controller is missing, cannot be read or has no PEM of its kind.
    """
    paths = datastore_files.PATHS
    found = {"ca": _pem(CA, datastore.ca, "CERTIFICATE")}
    own = _own_certificate(datastore, node)
    if os.path.exists(own):
        content = _pem(CERT, own, "PRIVATE KEY", private=True)
        found["certificate"], found["key"] = (_block(content, kind) for kind in ("CERTIFICATE", "PRIVATE KEY"))
    elif datastore.certificate:
        found["certificate"] = _pem(CERT, datastore.certificate, "CERTIFICATE")
        found["key"] = _pem(KEY, datastore.key, "PRIVATE KEY", private=True)
    wanted = DatastoreSettings(
        endpoints=datastore.gates or datastore.endpoints,
        ca=paths["ca"],
        certificate=paths["certificate"] if datastore.certificate else "",
        key=paths["key"] if datastore.certificate else "",
        user=node,
        password=rights.password(secret, node),
        progress_seconds=datastore.progress,
        check_rights=datastore.check_rights,
    )
    return {**found, "settings": f"{json.dumps(wanted.to_dict(), indent=2)}\n"}


def operator_files(
    datastore: FleetDatastore, secret: bytes, operator: Operator, folder: EtcdFolder
) -> dict[str, bytes]:
    """Return the contents of an operator's files by their names; {} for one that has no certificate yet.

    They have its password, and its certificate and key, if members demand one. Raise FleetError as `node_files`.
    """
    found = {etcd_folder.TRUSTED: _pem(CA, datastore.ca, "CERTIFICATE")}
    if _has_own_certificates(datastore):
        issued = folder.where(etcd_folder.of_operator(operator.name))
        if not os.path.exists(issued):
            return {}
        content = _pem(CERT, issued, "PRIVATE KEY", private=True)
        found[etcd_folder.CLIENT_CERTIFICATE] = _block(content, "CERTIFICATE")
        found[etcd_folder.CLIENT_KEY] = _block(content, "PRIVATE KEY")
    elif datastore.certificate:
        found[etcd_folder.CLIENT_CERTIFICATE] = _pem(CERT, datastore.certificate, "CERTIFICATE")
        found[etcd_folder.CLIENT_KEY] = _pem(KEY, datastore.key, "PRIVATE KEY", private=True)
    origin = rights.origin_of_operator(operator.name, operator.rotation)
    spec = {
        "datastoreType": "etcdv3",
        "etcdEndpoints": ",".join(datastore.endpoints),
        **{
            field: folder.where(etcd_folder.of_operator(operator.name, name))
            for field, name in _OPERATOR_FILES.items()
            if name in found
        },
        "etcdUsername": operator.name,
        "etcdPassword": rights.password(secret, origin),
    }
    lines = [f"  {field}: {json.dumps(value)}" for field, value in spec.items()]
    found[OPERATOR_CONFIG] = "\n".join([*_OPERATOR_HEAD, *lines, ""])
    return {name: content.encode() for name, content in found.items()}


#: The name of an operator's configuration of calicoctl.
OPERATOR_CONFIG = "calicoctl.cfg"
_OPERATOR_FILES = {
    "etcdCACertFile": etcd_folder.TRUSTED,
    "etcdCertFile": etcd_folder.CLIENT_CERTIFICATE,
    "etcdKeyFile": etcd_folder.CLIENT_KEY,
}
_OPERATOR_HEAD = (
    "# Written by playbooks/site.yml. It has a password: keep it like a key.",
    f"apiVersion: {API_VERSION}",
    f"kind: {api_config.KIND}",
    "metadata:",
    "spec:",
)


def _has_own_certificates(datastore: FleetDatastore) -> bool:
    """Return whether playbooks/etcd.yml makes a certificate for each node and operator."""
    return datastore.own and os.path.basename(datastore.certificate) == etcd_folder.CLIENT_CERTIFICATE


def _own_certificate(datastore: FleetDatastore, node: str) -> str:
    """Return where playbooks/etcd.yml keeps the certificate of a node, "" if the fleet does not use it."""
    if not _has_own_certificates(datastore):
        return ""
    return os.path.join(os.path.dirname(datastore.certificate), etcd_folder.of_node(node))


def _block(content: str, kind: str) -> str:
    """Return the first block of a kind in a file of PEM, "" without one."""
    found = re.search(f"-----BEGIN {kind}-----[^-]+-----END {kind}-----\n?", content)
    return found.group() if found else ""


def _pem(label: str, path: str, kind: str, private: bool = False) -> str:
    text = _read(
        path,
        label,
        private=private,
        remedy=f"{_RUN_ETCD}, or set {ENDPOINTS}, {CA}, {CERT} and {KEY} to your cluster's.",
    )
    if f"{kind}-----" not in text or "-----BEGIN " not in text:
        raise FleetError(label, path, f"has no {kind.lower()} in the form of PEM.", "Name the file that has it.")
    if "ENCRYPTED" in text:
        raise FleetError(label, path, "has a passphrase.", "Nodes use it without a person: name a key without one.")
    return text
