# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program of the gate: its arguments, its files, and the archive that a member runs.

The cluster of tests/etcd_cluster.py runs it before real members.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import sys
import typing as t

import pytest
from ansible import constants
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.gate import program
from ansible_collections.baremetal.host_routing.plugins.module_utils.policy.chains import settings as chain_settings
from ansible_collections.baremetal.host_routing.plugins.plugin_utils.etcd import gate_sources

from tests.conftest import ROOT
from tests.etcd_certificates import Authority

MEMBER = "https://127.0.0.1:1"  # nothing listens there


@pytest.fixture
def files(tmp_path: pathlib.Path) -> list[str]:
    """The arguments that name files of TLS."""
    authority = Authority(tmp_path)
    for name in ("server", "client"):
        parts = authority.issue(name, ["127.0.0.1"])
        (tmp_path / f"{name}.all").write_bytes(b"".join(pathlib.Path(part).read_bytes() for part in parts))
    return ["--ca", str(authority.file), *("--certificate", str(tmp_path / "server.all")),
            *("--client", str(tmp_path / "client.all"))]  # fmt: skip


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:2379", "https://127.0.0.1", "https://:2378", "https://127.0.0.1:2378/v3", "10.0.0.1:2378"]
)
def test_an_address_that_is_none(url: str, files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--listen", url, "--member", MEMBER, *files])
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"calico-etcd-gate: error: argument --listen: {url!r} is not a URL of the form https://HOST:PORT"
    )


def test_files_that_cannot_be_used(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    listen = ["--listen", "https://127.0.0.1:2378", "--member", MEMBER]
    assert program.main([*listen, *files[:-1], "/nowhere.pem"]) == 1
    assert capsys.readouterr().err == "The gate cannot serve at 127.0.0.1:2378: No such file or directory.\n"


def test_an_address_in_use(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert program.main(["--listen", f"https://127.0.0.1:{port}", "--member", MEMBER, *files]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"The gate cannot serve at 127.0.0.1:{port}: ") and "Address already in use" in said


@contextlib.contextmanager
def _running(folder: pathlib.Path, files: list[str]) -> t.Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the program as its unit does, wait for its message to systemd, and yield it with its port."""
    gate = folder / "gate"
    gate.write_bytes(gate_sources.archive())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(folder / "notify"))
        systemd.settimeout(60)
        command = [sys.executable, "-I", "-B", str(gate), "--listen", f"https://127.0.0.1:{port}", "--member", MEMBER]
        environment = {"NOTIFY_SOCKET": str(folder / "notify")}
        errors = (folder / "errors").open("wb")
        process = subprocess.Popen([*command, *files], env=environment, stderr=errors)
        try:
            assert systemd.recv(100) == b"READY=1"
            yield process, port
        finally:
            errors.close()
            process.kill()
            process.wait(60)


def test_the_program_needs_nothing_but_its_archive(tmp_path: pathlib.Path, files: list[str]) -> None:
    """It says when it serves, refuses calls without a token, demands a certificate, and ends by SIGTERM."""
    (tmp_path / "program").mkdir()
    with _running(tmp_path / "program", files) as (process, port):
        trusted = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
            _asked(port, trusted)
        trusted.load_cert_chain(str(tmp_path / "client.all"))
        assert _asked(port, trusted) == (401, {"code": 16, "message": "the gate does not know this token"})
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert (tmp_path / "program" / "errors").read_text() == ""


def _asked(port: int, tls: ssl.SSLContext) -> tuple[int, t.Any]:
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)
    with contextlib.closing(connection):
        connection.request("POST", "/v3/lease/grant", "{}")
        answer = connection.getresponse()
        return answer.status, json.load(answer)


def test_the_archive_changes_with_its_sources_alone(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the time nor the mode of a source changes it, so that a gate is not restarted for them."""
    sources = gate_sources.sources()
    before = gate_sources.archive()
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(source.read_bytes())
        (tmp_path / name).chmod(0o600)
    monkeypatch.setattr(gate_sources, "sources", lambda: {name: tmp_path / name for name in sources})
    assert gate_sources.archive() == before
    with (tmp_path / "module_utils/datastore/gate/server.py").open("ab") as server:
        server.write(b"\n")
    assert gate_sources.archive() != before


def test_the_archive_is_written_for_the_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name on a member is the beginning of its digest."""
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    packed = gate_sources.packed()
    content = pathlib.Path(packed["archive"]).read_bytes()
    assert content == gate_sources.archive()
    digest = hashlib.sha256(content).hexdigest()[:16]
    assert packed == {"digest": digest, "archive": f"{tmp_path}/gate-{digest}"}


def test_the_port_is_one_everywhere() -> None:
    """The firewall of members and the failsafe ports of nodes have the gate's port."""
    firewall = (ROOT / "roles/calico_etcd/templates/firewall.nft.j2").read_text("utf-8")
    for version in ("ip saddr @fleet4", "ip6 saddr @fleet6"):
        assert f"tcp dport {settings.GATE_PORT} {version} goto fleet\n" in firewall
    for failsafe in (chain_settings.FAILSAFE_INBOUND, chain_settings.FAILSAFE_OUTBOUND):
        assert ("tcp", settings.GATE_PORT) in [(one.protocol, one.port) for one in failsafe]


def test_the_unit_has_all_of_its_variables() -> None:
    """Each variable that the unit's command uses is in gate.env, among them the workloads of a node."""
    unit = (ROOT / "roles/calico_etcd/files/systemd/calico-etcd-gate.service").read_text("utf-8")
    settings_of_gate = (ROOT / "roles/calico_etcd/templates/gate.env.j2").read_text("utf-8")
    used = set(re.findall(r"\$\{([A-Z_]+)\}", unit))
    assert used == set(re.findall(r"^([A-Z_]+)=", settings_of_gate, re.MULTILINE)) and "GATE_WORKLOADS" in used
    assert "GATE_WORKLOADS={{ calico_etcd_node_workloads | int }}\n" in settings_of_gate
