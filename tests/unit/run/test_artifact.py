# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tests/run/artifact.py: equal sources give equal bytes. tests/run/build_artifact builds and verifies the real one."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile

from tests.run import artifact


def built(names: list[str], time: int, mode: int = 0o644, owner: str = "root") -> bytes:
    """Return an artifact as ansible-galaxy builds it from files in this order, by this user at this time."""
    files = {"files": [{"name": name, "ftype": "file"} for name in names], "format": 1}
    manifest = {"file_manifest_file": {"name": "FILES.json", "chksum_sha256": "0"}}
    data = {"MANIFEST.json": json.dumps(manifest), "FILES.json": json.dumps(files), **dict.fromkeys(names, "text\n")}
    found = io.BytesIO()
    with tarfile.open(fileobj=found, mode="w:gz") as archive:
        folder = tarfile.TarInfo("plugins")
        folder.type, folder.mtime = tarfile.DIRTYPE, time
        archive.addfile(folder)
        for name, text in data.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode, entry.uname = len(text), time, mode, owner
            archive.addfile(entry, io.BytesIO(text.encode()))
    return found.getvalue()


def repacked(artifact_of_galaxy: bytes) -> bytes:
    return artifact.packed(artifact.contents(artifact_of_galaxy))


def test_order_time_umask_and_owner_change_nothing() -> None:
    first = repacked(built(["plugins/b.py", "plugins/a.py"], 1, 0o640, "someone"))
    assert first == repacked(built(["plugins/a.py", "plugins/b.py"], 2_000_000_000, 0o644))


def test_the_right_to_execute_stays() -> None:
    with tarfile.open(fileobj=io.BytesIO(repacked(built(["bin/x"], 1, 0o700)))) as archive:
        assert archive.getmember("bin/x").mode == 0o755


def test_the_manifest_has_the_digest_of_the_sorted_list() -> None:
    with tarfile.open(fileobj=io.BytesIO(repacked(built(["b", "a"], 1)))) as archive:
        assert archive.getnames()[:2] == ["FILES.json", "MANIFEST.json"]
        files = archive.extractfile("FILES.json").read()
        manifest = json.load(archive.extractfile("MANIFEST.json"))
    assert [entry["name"] for entry in json.loads(files)["files"]] == ["a", "b"]
    assert manifest["file_manifest_file"]["chksum_sha256"] == hashlib.sha256(files).hexdigest()


def test_the_head_of_gzip_has_no_time_and_no_name() -> None:
    packed = repacked(built(["a"], 1))
    assert packed[3] == 0 and packed[4:8] == bytes(4)
    assert gzip.decompress(packed)


def test_the_bill_of_materials_names_what_is_required_and_what_builds() -> None:
    found = artifact.bill_of_materials(b"artifact")
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.5")
    assert found["metadata"]["component"]["hashes"][0]["content"] == hashlib.sha256(b"artifact").hexdigest()
    scopes = {one["name"]: one["scope"] for one in found["components"] if one["name"] in ("ansible-core", "pytest")}
    assert scopes["pytest"] == "excluded"
    assert [one["name"] for one in found["components"] if one["scope"] == "required"] == ["ansible-core"]
    assert len({one["bom-ref"] for one in found["components"]}) == len(found["components"])
    assert found == artifact.bill_of_materials(b"artifact")
