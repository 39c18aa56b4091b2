# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the file with a node's settings of the datastore."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore import settings
from ansible_collections.baremetal.host_routing.plugins.module_utils.datastore.settings import (
    DatastoreSettings,
    DatastoreSettingsError,
)

REMEDY = "Run playbooks/site.yml, which writes the file."
WHOLE = {
    "endpoints": ["https://192.0.2.1:2379", "https://[2001:db8::1]"],
    "ca": "/etc/calico/etcd/ca.pem",
    "certificate": "/etc/calico/etcd/client.pem",
    "key": "/etc/calico/etcd/client.key",
    "user": "node1",
    "password": "very secret",
    "progress_seconds": None,
}


def written(folder: pathlib.Path, content: t.Any) -> str:
    path = folder / "datastore.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_a_fleet_without_a_datastore_has_no_file(tmp_path: pathlib.Path) -> None:
    assert settings.load(str(tmp_path / "none")) is None


def test_the_settings_are_read_as_they_were_written(tmp_path: pathlib.Path) -> None:
    found = settings.load(written(tmp_path, WHOLE))
    assert found is not None and found.to_dict() == WHOLE
    assert settings.load(written(tmp_path, found.to_dict())) == found
    assert str(settings.address_of(found.endpoints[1])) == "[2001:db8::1]:2379"
    assert "secret" not in repr(found)
    checked = {**WHOLE, "check_rights": True}
    again = settings.load(written(tmp_path, checked))
    assert again is not None and again.check_rights and again.to_dict() == checked and not found.check_rights


def test_the_interval_of_progress_is_the_one_of_our_own_members() -> None:
    assert DatastoreSettings.from_dict({"endpoints": ["http://127.0.0.1:1"]}).progress_seconds == 2.0


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ("{", "it is not JSON."),
        ("[" * 100_000, "it has more than 65536 bytes."),
        ("[" * 60_000, "it is not JSON."),
        ([], "it is a list, not a table."),
        ({}, "endpoints is missing."),
        ({**WHOLE, "endpoints": ["https://192.0.2.1"] * 17}, "endpoints is a list of 17, not a list of 1 to 16."),
        ({**WHOLE, "endpoints": [1]}, "endpoints[0] is 1, not a text of at most 2000 characters."),
        (
            {**WHOLE, "endpoints": ["192.0.2.1:2379"]},
            "endpoints[0] is refused: '192.0.2.1:2379' is not a URL of the form https://HOST:PORT.",
        ),
        (
            {**WHOLE, "endpoints": ["https://root:secret@192.0.2.1"]},
            "endpoints[0] is refused: a URL contains a user name; write it to user, and the password to password.",
        ),
        (
            {**WHOLE, "endpoints": ["https://root:secret\u2100@192.0.2.1"]},  # urlsplit would quote this one
            "endpoints[0] is refused: a URL contains a user name; write it to user, and the password to password.",
        ),
        (
            {**WHOLE, "endpoints": ["https://192.0.2.1/v3"]},
            "endpoints[0] is refused: 'https://192.0.2.1/v3' has a path; write https://HOST:PORT alone.",
        ),
        ({**WHOLE, "endpoints": ["https://192.0.2.1:99999"]}, "endpoints[0] is refused: Port out of range 0-65535."),
        ({**WHOLE, "password": 1}, "password is no text of at most 4096 characters."),
        ({**WHOLE, "progress_seconds": 0}, "progress_seconds is 0, not a number from 0.1 to 3600."),
        (f"{json.dumps(WHOLE)[:-5]}NaN}}", "it is not JSON."),
        ({**WHOLE, "progress_seconds": True}, "progress_seconds is True, not a number from 0.1 to 3600."),
        (
            {**WHOLE, "leader": "me"},
            "leader is not known. There are: endpoints, ca, certificate, key, user, password, progress_seconds, "
            "check_rights.",
        ),
        ({**WHOLE, "check_rights": 1}, "check_rights is 1, not true or false."),
    ],
)
def test_an_invalid_settings_file_is_refused_with_the_reason(
    tmp_path: pathlib.Path, content: t.Any, wrong: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DatastoreSettingsError) as refused:
        settings.load(path)
    assert str(refused.value) == f"{path}: {wrong} {REMEDY}"


@pytest.mark.parametrize("endpoint", ["https://192.0.2.1:2379", "HTTPS://192.0.2.1:2379"])
def test_no_password_is_sent_to_a_member_that_cannot_be_checked(endpoint: str) -> None:
    """A URL with https and no CA is refused; a plain connection would show the password to anybody on the way."""
    without = DatastoreSettings((endpoint,), user="node1", password="very secret")
    with pytest.raises(DatastoreSettingsError) as refused:
        without.client()
    assert str(refused.value) == f"The endpoint {endpoint} needs a CA, and ca is empty. {REMEDY}"


def test_https_is_spoken_however_the_url_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, t.Any] = {}
    monkeypatch.setattr(settings, "TlsFiles", lambda *files: "TLS")
    monkeypatch.setattr(settings, "HttpTransport", lambda address, tls: given.update({str(address): tls}))
    DatastoreSettings(("HTTPS://192.0.2.1", "http://192.0.2.2"), ca="ca.pem").client()
    assert given == {"192.0.2.1:2379": "TLS", "192.0.2.2:2379": None}


def test_files_of_tls_that_cannot_be_used_are_named(tmp_path: pathlib.Path) -> None:
    missing = DatastoreSettings(("https://192.0.2.1:2379",), ca=str(tmp_path / "ca.pem"))
    with pytest.raises(DatastoreSettingsError) as refused:
        missing.client()
    assert str(refused.value) == (
        f"The files of TLS for the datastore ({tmp_path}/ca.pem) cannot be used: No such file or directory. {REMEDY}"
    )
