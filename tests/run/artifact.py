# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds what a release consists of. Two clones of one commit build the same bytes.

    .venv/bin/python tests/run/artifact.py FOLDER [KEY]

FOLDER gets baremetal-host_routing-VERSION.tar.gz, the artifact for Ansible Galaxy, and VERSION.cdx.json, its SBOM in
the format CycloneDX 1.5. With KEY, the name of a secret key of gpg, it also gets VERSION.asc: the detached signature of
the artifact's MANIFEST.json, which has the digests of all other files. `ansible-galaxy collection verify --offline
--signature file://... --keyring ...` checks it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import typing as t
import uuid

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
GALAXY = pathlib.Path(sys.executable).with_name("ansible-galaxy")
#: The time of all files in the artifact: 1980-01-01, the first that every archive can have.
TIME = 315532800
MANIFEST, FILES = "MANIFEST.json", "FILES.json"


def contents(built: bytes) -> dict[str, tuple[tarfile.TarInfo, bytes]]:
    """Return the members of a .tar.gz by name, with their contents (b"" for a folder or link).

    The files' list in FILES.json is sorted, and MANIFEST.json has its digest: ansible-galaxy lists files as the disk
    does. Raise KeyError if one of these is missing.
    """
    found = {}
    with tarfile.open(fileobj=io.BytesIO(built)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            found[member.name] = (member, file.read() if file else b"")
    files = json.loads(found[FILES][1])
    files["files"].sort(key=lambda entry: entry["name"])
    found[FILES] = (found[FILES][0], _json(files))
    manifest = json.loads(found[MANIFEST][1])
    manifest["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(found[FILES][1]).hexdigest()
    found[MANIFEST] = (found[MANIFEST][0], _json(manifest))
    return found


def packed(members: t.Mapping[str, tuple[tarfile.TarInfo, bytes]]) -> bytes:
    """Return a .tar.gz whose bytes depend on the members' names, contents and right to be executed alone."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        # Galaxy expects the manifests before all else.
        for name in sorted(members, key=lambda name: (name not in (MANIFEST, FILES), name)):
            member, data = members[name]
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname, entry.size, entry.mtime = member.type, member.linkname, len(data), TIME
            entry.mode = 0o755 if member.isdir() or member.mode & 0o111 else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), 9, mtime=0)


def bill_of_materials(artifact: bytes) -> dict[str, t.Any]:
    """Return the SBOM of an artifact as a document of CycloneDX 1.5.

    The artifact contains this collection's files alone. It requires what galaxy.yml and meta/runtime.yml name. The
    pinned tools of requirements-dev.lock.txt build and test it; they have the scope `excluded`.
    """
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text("utf-8"))
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text("utf-8"))
    digest = hashlib.sha256(artifact).hexdigest()
    name = f"{galaxy['namespace']}.{galaxy['name']}"
    required = {"ansible-core": runtime["requires_ansible"], **galaxy["dependencies"]}
    pinned = [
        line.partition("==")
        for line in (ROOT / "requirements-dev.lock.txt").read_text("utf-8").splitlines()
        if "==" in line and not line.startswith("#")
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{name}:{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": name,
                "group": galaxy["namespace"],
                "name": galaxy["name"],
                "version": galaxy["version"],
                "licenses": [{"license": {"id": licence}} for licence in galaxy["license"]],
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
        },
        "components": [
            *(
                {"type": "library", "bom-ref": other, "name": other, "version": version, "scope": "required"}
                for other, version in required.items()
            ),
            *(
                {
                    "type": "library",
                    "bom-ref": f"pkg:pypi/{other}@{version}",
                    "name": other,
                    "version": version,
                    "scope": "excluded",
                    "purl": f"pkg:pypi/{other}@{version}",
                }
                for other, dummy, version in pinned
            ),
        ],
        "dependencies": [{"ref": name, "dependsOn": list(required)}],
    }


def build(folder: pathlib.Path, key: str = "") -> pathlib.Path:
    """Write the artifact, its SBOM and with `key` its signature to `folder`, and return the artifact's path.

    Raise CalledProcessError if ansible-galaxy or gpg fails; their errors are on stderr.
    """
    with tempfile.TemporaryDirectory() as passing:
        command = [str(GALAXY), "collection", "build", str(ROOT), "--output-path", passing]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        (built,) = pathlib.Path(passing).iterdir()
        members = contents(built.read_bytes())
        artifact = packed(members)
    path = folder / built.name
    path.write_bytes(artifact)
    stem = built.name[: -len(".tar.gz")]
    (folder / f"{stem}.cdx.json").write_bytes(_json(bill_of_materials(artifact)))
    if key:
        signing = ["gpg", "--batch", "--yes", "--local-user", key, "--detach-sign", "--armor", "--output"]
        subprocess.run([*signing, folder / f"{stem}.asc"], check=True, input=members[MANIFEST][1])
    return path


def _json(document: t.Any) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


if __name__ == "__main__":
    print(build(pathlib.Path(sys.argv[1]), *sys.argv[2:3]))
