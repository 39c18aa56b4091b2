# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other BGP implementations in network namespaces: FRR and GoBGP as Debian 12 ships them, unpacked.

FRR has paths, users and groups compiled in, so each of its daemons runs with the unpacked tree as its root, in a mount
namespace of its own.
"""

from __future__ import annotations

import json
import pathlib
import socket
import subprocess
import typing as t

from tests.integration.bird.network import Namespace, wait_for
from tests.integration.debian_archive import ROOT, unpacked

CACHE = ROOT / ".build" / "routers"
RELEASE = "bookworm"


def _frr_tree() -> pathlib.Path:
    return unpacked(CACHE / "frr", RELEASE, "frr", ["lib*"], _complete)


def _complete(tree: pathlib.Path) -> None:
    """Create the files that installing the packages would create."""
    root = tree / "root"
    for folder in ("etc", "proc", "dev", "run/frr", "tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/:/bin/false\nfrr:x:0:0::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nfrr:x:0:\nfrrvty:x:0:\n")
    if not (root / "var/run").exists():
        (root / "var").mkdir(exist_ok=True)
        (root / "var/run").symlink_to("/run")


class Frr:
    """FRR's zebra, bfdd and bgpd in one namespace; the configuration is bgpd's.

    The constructor downloads them at the first use, and raises what `unpacked` raises.
    """

    DAEMONS = ("zebra", "bfdd", "bgpd")

    def __init__(self, space: Namespace, folder: pathlib.Path) -> None:
        self._space, self._folder, self._root = space, folder, _frr_tree()
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, configuration: str) -> None:
        self._folder.mkdir(exist_ok=True)
        root = self._root
        for daemon in self.DAEMONS:
            own = configuration if daemon == "bgpd" else ""
            (self._folder / f"{daemon}.conf").write_text(f"log stdout\n{own}")
            script = (
                f"mount --bind {self._folder} {root}/run/frr; mount --rbind /proc {root}/proc; "
                f"mount --bind /dev {root}/dev; mount -t tmpfs none {root}/tmp; mkdir -p {root}/var/tmp; "
                f"mount -t tmpfs none {root}/var/tmp; exec chroot {root} /usr/lib/frr/{daemon} "
                f"-f /run/frr/{daemon}.conf -z /run/frr/zserv -i /run/frr/{daemon}.pid --vty_socket /run/frr -P 0 "
                "--log stdout"
            )
            command = self._space.command("unshare", "--mount", "--propagation", "private", "sh", "-ec", script)
            with open(self._folder / f"{daemon}.log", "ab") as log:
                self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))
            wait_for(f"FRR's {daemon}", (self._folder / f"{daemon}.vty").exists)

    def ask(self, daemon: str, command: str) -> t.Any:
        """Return a daemon's answer to `<command> json`, decoded.

        Raise OSError if the daemon does not accept a connection, TimeoutError after 10 seconds without a byte of the
        answer, and AssertionError with the answer if the daemon refuses the command, closes the connection, or answers
        with nothing or other text than JSON.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self._folder / f"{daemon}.vty"))
            answers = [answer_of_vty(connection, line) for line in ("enable", f"{command} json")]
        try:
            return json.loads(answers[-1])
        except ValueError:
            raise AssertionError(f"{daemon}: {command} json: {answers[-1]!r} is no JSON") from None

    def route(self, prefix: str) -> list[dict[str, t.Any]]:
        """Return bgpd's paths to a prefix; [] if it has none. Raise what `ask` raises."""
        family = "ipv6" if ":" in prefix else "ipv4"
        return t.cast("list[dict[str, t.Any]]", self.ask("bgpd", f"show bgp {family} {prefix}").get("paths", []))

    def communities(self, prefix: str) -> list[str]:
        """Return the communities, then the large communities, of the first path to a prefix; [] without a path.

        Raise what `ask` raises.
        """
        paths = self.route(prefix)
        kinds = ("community", "largeCommunity")
        return [text for kind in kinds for text in paths[0].get(kind, {}).get("list", ())] if paths else []

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes.clear()


def answer_of_vty(connection: socket.socket, command: str) -> str:
    """Return the text that a daemon of FRR answers to a command on its vty.

    The protocol is vtysh's: a zero byte ends a command; three zero bytes and a status, 0 for success, end an answer.
    Raise AssertionError with the answer if the status is not 0 or the daemon closes the connection, and TimeoutError as
    the connection's timeout says.
    """
    connection.sendall(command.encode() + b"\0")
    answer = b""
    while b"\0\0\0" not in answer[:-1]:
        more = connection.recv(65536)
        assert more, f"{command}: the daemon closed the connection after {answer!r}"
        answer += more
    text, _zeros, status = answer.partition(b"\0\0\0")
    assert status == b"\0", f"{command}: status {status[0]}: {text.decode()}"
    return text.decode()


class GoBgp:
    """gobgpd with a configuration of its own, in TOML.

    The constructor downloads it at the first use, and raises what `unpacked` raises.
    """

    def __init__(self, space: Namespace, folder: pathlib.Path) -> None:
        root = unpacked(CACHE / "gobgpd", RELEASE, "gobgpd", ["lib*"])
        self._space, self._folder, self._programs = space, folder, root / "usr" / "bin"
        self._process: t.Optional[subprocess.Popen[bytes]] = None

    def start(self, configuration: str) -> None:
        self._folder.mkdir(exist_ok=True)
        path = self._folder / "gobgpd.toml"
        path.write_text(configuration)
        command = self._space.command(str(self._programs / "gobgpd"), "-f", str(path), "--api-hosts", "127.0.0.1:50051")
        with open(self._folder / "gobgpd.log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for("gobgpd", lambda: self.command("global", check=False))

    def command(self, *words: str, check: bool = True) -> str:
        command = self._space.command(str(self._programs / "gobgp"), *words)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, done
        return done.stdout if done.returncode == 0 else ""

    def route(self, prefix: str) -> list[dict[str, t.Any]]:
        """Return the paths to a prefix, as `gobgp` prints them in JSON; [] if there are none or it fails.

        Raise subprocess.TimeoutExpired after 20 seconds.
        """
        family = "ipv6" if ":" in prefix else "ipv4"
        said = self.command("global", "rib", prefix, "-a", family, "-j", check=False)
        return [path for paths in json.loads(said or "{}").values() for path in paths]

    def announce(self, prefix: str, *more: str) -> None:
        family = "ipv6" if ":" in prefix else "ipv4"
        self.command("global", "rib", "add", prefix, *more, "-a", family)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
