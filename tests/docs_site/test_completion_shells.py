# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The completion scripts of zsh and fish, in these shells. The one of bash is tested where no package is needed."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

SECONDS = 30
#: A program that completes as calicoctl does, and prints the arguments of any other call.
REAL = f"""\
#!/bin/sh
[ "$1" = __complete ] || {{ echo "RAN<$*>"; exit; }}
exec {sys.executable} {ROOT}/bin/calicoctl "$@"
"""
#: A program that completes with the lines of a file.
HOSTILE = """\
#!/bin/sh
[ "$1" = __complete ] || { echo "RAN<$*>"; exit; }
cat "${0%/*}/answer"
"""
WORDS = ("$(touch PWNED)", "`touch PWNED`", "x;touch PWNED", "a b", "\x1b[2J", "~root", "*", "'", "-rf/$(x)", ":files")


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with the program, its scripts, a path to complete, and a home without settings."""
    for shell, name in (("zsh", "_calicoctl"), ("fish", "calicoctl.fish")):
        made = subprocess.run(
            [sys.executable, ROOT / "bin" / "calicoctl", "completion", shell], check=True, capture_output=True
        )
        (tmp_path / name).write_bytes(made.stdout)
    write(tmp_path, REAL)
    (tmp_path / "inventory.yml").touch()
    return tmp_path


def write(folder: pathlib.Path, program: str) -> None:
    (folder / "calicoctl").write_text(program)
    (folder / "calicoctl").chmod(0o755)


def environment(folder: pathlib.Path) -> dict[str, str]:
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_DATA_HOME": str(folder / "data")}
    return {"PATH": f"{folder}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TERM": "dumb", **home}


def zsh(folder: pathlib.Path, setup: str, line: str) -> str:
    """Return the arguments with which an interactive zsh runs the program after a line with Tabs and Enter."""
    start = f"PS1='ready> '; cd {folder}; autoload -Uz compinit; {setup}; setopt no_beep"
    (folder / ".zshrc").write_text(start + "\n")
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve("/usr/bin/zsh", ["zsh", "-d", "-i"], {**environment(folder), "ZDOTDIR": str(folder)})
    try:
        shown, sent, end = "", False, time.monotonic() + SECONDS
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 65536).decode("utf-8", "replace")
            if not sent and "ready> " in shown:
                os.write(terminal, f"{line}\r".encode())
                sent = True
            found = re.search(r"RAN<(.*?)>", shown)
            if found:
                return found[1]
        raise AssertionError(shown)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


SETUPS = {
    "from a folder": "fpath=($PWD $fpath); compinit -u -D",
    "sourced": "compinit -u -D; source ./_calicoctl",
}
LINES = [
    ("calicoctl get ippools -o nam\t", "get ippools -o name"),
    ("calicoctl comp\tzs\t", "completion zsh"),
    ("calicoctl get ippools -o cus\tNAME", "get ippools -o custom-columns=NAME"),
    ("calicoctl get ippools --output=ya\t", "get ippools --output=yaml"),
    ("calicoctl ipam show --show-b\t", "ipam show --show-blocks"),
    ("calicoctl -i inv\tget nodes", "-i inventory.yml get nodes"),
    ("calicoctl get nodes --inventory=inv\t", "get nodes --inventory=inventory.yml"),
    ("./calicoctl get ipreserv\t", "get ipreservation"),
]


@pytest.mark.parametrize(("line", "ran"), LINES)
def test_zsh_completes(folder: pathlib.Path, line: str, ran: str) -> None:
    assert zsh(folder, SETUPS["from a folder"], line).rstrip() == ran


def test_zsh_completes_with_a_sourced_script(folder: pathlib.Path) -> None:
    assert zsh(folder, SETUPS["sourced"], LINES[0][0]).rstrip() == LINES[0][1]


def test_zsh_neither_runs_nor_inserts_hostile_words(folder: pathlib.Path) -> None:
    write(folder, HOSTILE)
    (folder / "answer").write_text("".join(f"{word}\n" for word in (*WORDS, "safe-word")))
    assert zsh(folder, SETUPS["from a folder"], "calicoctl get \t").rstrip() == "get safe-word"
    assert not (folder / "PWNED").exists()


def fish(folder: pathlib.Path, line: str) -> list[str]:
    """Return the words that fish offers for a line, and nothing else that it prints."""
    done = subprocess.run(
        ["/usr/bin/fish", "--no-config", "-c", "source calicoctl.fish; complete -C $argv[1]", line],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("calicoctl get ippoo", ["ippool", "ippools"]),
        ("calicoctl completion ", ["bash", "fish", "zsh"]),
        ("calicoctl get ippools -o cus", ["custom-columns="]),
        ("calicoctl get ippools --output=ya", ["--output=yaml"]),
        ("calicoctl ipam show --show-b", ["--show-blocks"]),
        ("calicoctl -i inv", ["inventory.yml"]),
        ("calicoctl get nodes --inventory=inv", ["--inventory=inventory.yml"]),
        ("./calicoctl get ippoo", ["ippool", "ippools"]),
        ("/nonexistent/calicoctl get ippoo", []),
        ("calicoctl nothing ", []),
    ],
)
def test_fish_completes(folder: pathlib.Path, line: str, words: list[str]) -> None:
    assert fish(folder, line) == words


def test_fish_neither_runs_nor_offers_hostile_words(folder: pathlib.Path) -> None:
    write(folder, HOSTILE)
    (folder / "answer").write_text("".join(f"{word}\n" for word in (*WORDS, "safe-word")))
    assert fish(folder, "calicoctl get ") == ["safe-word"]
    assert not (folder / "PWNED").exists()


def test_fish_asks_once_for_a_tab(folder: pathlib.Path) -> None:
    """Each question starts the program anew, which takes a tenth of a second."""
    write(folder, '#!/bin/sh\necho asked >> "${0%/*}/count"; echo word\n')
    assert fish(folder, "calicoctl get ") == ["word"]
    assert (folder / "count").read_text() == "asked\n"
