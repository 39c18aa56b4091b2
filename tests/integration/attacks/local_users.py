# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of users other than root, beside an agent whose readers are the members of one group."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import typing as t

from tests.integration.agent.daemon_under_test import Daemon, daemon_under_test
from tests.integration.host_under_test import HOST

GROUP = "nogroup"  # its members may use the agent's methods that read; every Debian has this group
GID = 65534
MEMBER, OTHER_MEMBER, STRANGER = 61001, 61002, 61003  # uids, and gids of the same number

# The program of `say`: sends each text of a JSON list on a connection of its own, and prints the list of the answers.
# An answer is what arrived until the agent ended the connection, "" for nothing. If it cannot connect, the system's
# error message stands in its place.
SAY = """\
import json, socket, sys
heard = []
for said in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect("agent.sock")
            connection.sendall(said.encode())
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            heard.append(error.strerror)
            continue
        answer = b""
        try:
            while chunk := connection.recv(65536):
                answer += chunk
        except ConnectionResetError:
            pass
        heard.append(answer.decode())
json.dump(heard, sys.stdout)
"""


@contextlib.contextmanager
def daemon_with_readers(engine: pathlib.Path, folder: pathlib.Path, **settings: t.Any) -> t.Iterator[Daemon]:
    """Yield a running agent in sync, whose readers are the members of GROUP; kill it at the end.

    `settings` are further settings of the agent. Raise what `daemon_under_test`, `Daemon.start` and `Daemon.in_sync`
    raise.
    """
    with daemon_under_test(engine, folder) as daemon:
        daemon.settings(group=GROUP, cooldown=0.0, **settings)
        daemon.start()
        daemon.in_sync()
        yield daemon


def start(
    daemon: Daemon, uid: int, groups: t.Sequence[int], source: str, *arguments: str, **more: t.Any
) -> subprocess.Popen[bytes]:
    """Start the Python program `source` as a user in the network namespace of the daemon's host; return its process.

    The process has pipes to stdin and stdout, and `arguments` as sys.argv[1:]. Its working directory is the folder of
    the socket, so that `agent.sock` works even if the user cannot enter the folders above. Its group has the number
    `uid`, `groups` are the numbers of its other groups, and `more` are further arguments of Popen.
    """
    supplementary = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", supplementary]
    return subprocess.Popen(
        ["nsenter", f"--net={daemon.folder}/netns/{HOST}", *who, sys.executable, "-I", "-c", source, *arguments],
        cwd=daemon.folder / "run", stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more,
    )  # fmt: skip


def say(daemon: Daemon, uid: int, *said: str, groups: t.Sequence[int] = (GID,)) -> list[str]:
    process = start(daemon, uid, groups, SAY)
    output, _ = process.communicate(json.dumps(said).encode(), timeout=120)
    assert process.returncode == 0
    return t.cast("list[str]", json.loads(output))


def ask(daemon: Daemon, uid: int, method: str, groups: t.Sequence[int] = (GID,), **params: t.Any) -> dict[str, t.Any]:
    """Send one request as the user `uid`; return the result of the agent's answer, or its error as a dictionary.

    `groups` are the numbers of the user's groups besides its own. Raise ValueError if the user cannot connect, or the
    answer is empty, and subprocess.TimeoutExpired after 120 seconds.
    """
    (heard,) = say(daemon, uid, json.dumps({"id": 1, "method": method, "params": params}), groups=groups)
    answer = json.loads(heard)
    return t.cast("dict[str, t.Any]", answer.get("result", answer.get("error")))
