#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fuzzer guided by coverage (atheris) for the readers of targets.py: `fuzz.py --seconds 600 [TARGET ...]`.

New inputs that reach more of the code are kept in .build/fuzz/TARGET. What a reader fails on is kept there too, in a
file crash-*; as a file of corpus/TARGET it is a case of test_corpus.py. The exit status is 1 if a reader failed.

`fuzz.py --keep` writes the inputs of .build/fuzz to kept/TARGET.txt, one in base64 on each line, the shortest first.
They are cases of test_corpus.py as well, and the fuzzer begins with them.

Only this program needs atheris. It installs the version below into .build/fuzz/packages.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".build" / "fuzz"
CORPUS = pathlib.Path(__file__).parent / "corpus"
KEPT = pathlib.Path(__file__).parent / "kept"
ATHERIS = "atheris == 3.0.0"
#: The most inputs that are kept of a target, and the most bytes of one.
MOST, LARGEST = 150, 2048


def install() -> None:
    packages = FOLDER / "packages"
    if not (packages / "atheris").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", packages, ATHERIS], check=True)


def kept(name: str) -> list[bytes]:
    """Return the inputs that earlier runs have found for a target."""
    path = KEPT / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep(name: str) -> None:
    """Write the inputs that runs have found for a target to the file of those that are kept."""
    found = {path.read_bytes() for path in (FOLDER / name).glob("[0-9a-f]*")}.union(kept(name))
    inputs = sorted((one for one in found if len(one) <= LARGEST), key=lambda one: (len(one), one))[:MOST]
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{name}.txt").write_text("".join(f"{base64.b64encode(one).decode()}\n" for one in inputs if one))


def fuzz(name: str, seconds: int) -> bool:
    """Run the fuzzer on one target in a process of its own; return whether that never failed."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for one in kept(name):
        (folder / hashlib.sha1(one).hexdigest()).write_bytes(one)
    print(f"{name}: {seconds} s", flush=True)
    (FOLDER / "logs").mkdir(exist_ok=True)
    log = FOLDER / "logs" / f"{name}.log"
    options = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=1024", f"-artifact_prefix={folder}/"]
    with log.open("w") as output:
        done = subprocess.run(
            [sys.executable, __file__, "--one", name, f"-max_total_time={seconds}", *options, folder, CORPUS / name],
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode:
        print(f"{name} FAILED, see {log}", flush=True)
    return done.returncode == 0


def one(arguments: list[str]) -> None:
    """Run libFuzzer with its own arguments on the target that is the first of them. It ends the process."""
    sys.path[:0] = [str(ROOT), str(ROOT / ".build" / "collections"), str(FOLDER / "packages")]
    import atheris

    name, *options = arguments
    with atheris.instrument_imports(include=["ansible_collections.baremetal.host_routing"]):
        from tests.unit.fuzz.targets import TARGETS
    atheris.Setup([name, *options], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=600, help="for each target (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep what earlier runs have found, and run nothing")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="folders of corpus/ (default: all)")
    options = parser.parse_args()
    names = options.targets or sorted(path.name for path in CORPUS.iterdir())
    if options.keep:
        for name in names:
            keep(name)
        return 0
    install()
    return int([fuzz(name, options.seconds) for name in names].count(False) > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2:])
    sys.exit(main())
