#!/usr/bin/env python3
# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fuzzer guided by coverage (atheris) for the readers of targets.py: `fuzz.py --seconds 600 [TARGET ...]`.

New inputs that reach more of the code are kept in .build/fuzz/TARGET. What a reader fails on is kept there too, in a
file crash-*; as a file of corpus/TARGET it is a case of test_corpus.py. The exit status is 1 if a reader failed.

Only this program needs atheris. It installs the version below into .build/fuzz/packages.
"""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
FOLDER = ROOT / ".build" / "fuzz"
CORPUS = pathlib.Path(__file__).parent / "corpus"
ATHERIS = "atheris == 3.0.0"


def install() -> None:
    packages = FOLDER / "packages"
    if not (packages / "atheris").is_dir():
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", packages, ATHERIS], check=True)


def fuzz(name: str, seconds: int) -> bool:
    """Run the fuzzer on one target in a process of its own; return whether that never failed."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
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
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="folders of corpus/ (default: all)")
    options = parser.parse_args()
    names = options.targets or sorted(path.name for path in CORPUS.iterdir())
    install()
    return int([fuzz(name, options.seconds) for name in names].count(False) > 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2:])
    sys.exit(main())
