# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests do with a running lab, on any machine: run commands, copy files, capture packets."""

from __future__ import annotations

import abc
import contextlib
import json
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .shell import progress
from .topology import NODES, TORS, LabError, Node, Places, pick

Command = str | Sequence[str | Path]


class CommandFailed(LabError):
    """The error for a command inside the lab with an exit status other than 0; ``done`` is its CompletedProcess."""

    def __init__(self, where: str, done: subprocess.CompletedProcess[Any]) -> None:
        self.done = done
        said = "\n".join(
            text.strip()[-3000:] for text in (done.stdout, done.stderr) if isinstance(text, str) and text.strip()
        )
        super().__init__(f"{where}: exit status {done.returncode} of {shlex.join(map(str, done.args))}\n{said}")


class Program:
    """A program that runs inside the lab until it ends, or until ``stop`` is called.

    ``BaseLab.background`` starts one. A thread reads its stdout to the end; until then ``stdout`` is b"". ``pid`` is
    its process id in the lab. The constructor raises LabError or ValueError if nothing can run at ``where``, for
    instance because the host is off. A program that does not exist is no error there: it ends at once.
    """

    def __init__(self, lab: BaseLab, where: str, command: Command, netns: str | None = None) -> None:
        self.stdout = b""
        self._lab, self._where = lab, where
        words = ["sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        if netns:
            words = ["ip", "netns", "exec", netns, *words]
        # The shell prints its process id before it becomes the program, because signals do not travel through nsenter
        # or through a shared SSH connection.
        script = 'echo "$$" >&2; exec "$@"'
        self._process = lab.popen(where, ["sh", "-c", script, "sh", *words], stderr=subprocess.PIPE)
        assert self._process.stderr
        self.pid = int(self._process.stderr.readline() or b"0")
        if not self.pid:
            raise LabError(f"{where}: {words[0]} did not start.")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        self.stdout = self._process.stdout.read()

    def wait_for(self, text: bytes) -> None:
        """Read stderr until it contains ``text``, in lines; raise LabError if it ends first.

        What is read here is gone: a later call finds only what comes after it. There is no time limit.
        """
        said = b""
        assert self._process.stderr
        while text not in said:
            line = self._process.stderr.readline()
            if not line:
                raise LabError(f"{self._where}: the program ended; it said {said.decode(errors='replace')}")
            said += line

    def join(self, seconds: float) -> bool:
        """Wait at most `seconds` for the program to end, which closes its stdout; return whether it has."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def stop(self, name: str = "TERM") -> bytes:
        """Send the program the signal `name` unless it has ended, and return all that it wrote to stdout.

        After 15 seconds without an end, kill the process of this machine that runs it. The result is b"" if stdout is
        still open then.
        """
        if not self.join(0):
            self._lab.exec(self._where, f"kill -{name} {self.pid}", check=False)
            if not self.join(15):
                self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe and not self._reader.is_alive():
                pipe.close()
        return self.stdout


class Capture:
    """Packets seen on a link of the underlay: a host's, or the bridge of "rack1" or "rack2".

    ``BaseLab.capturing`` makes one. Read it after the with block. At most 256 bytes of each packet are kept. The
    constructor returns when tcpdump listens, and raises LabError if it does not, as for a wrong ``expression``, or
    ValueError if the router does not run.
    """

    def __init__(self, lab: BaseLab, where: str, expression: str, count: int | None) -> None:
        self._lab = lab
        interface = {"rack1": "br1", "rack2": "br2"}.get(where, where)
        # -U and --immediate-mode write each packet at once, so that stopping loses none.
        argv = ["tcpdump", "-i", interface, "-n", "-U", "--immediate-mode", "-s", "256", "-w", "-"]
        argv += ["-c", str(count)] if count else []
        self._program = lab.background("router", [*argv, *shlex.split(expression)])
        self._program.wait_for(b"listening on")

    @property
    def pcap(self) -> bytes:
        return self._program.stdout

    def stop(self) -> None:
        self._program.stop()

    def wait(self, seconds: float) -> None:
        """Wait ``seconds``, or less if tcpdump ends before, as it does after ``count`` packets."""
        self._program.join(seconds)

    def text(self, *options: str) -> str:
        """Return the packets as tcpdump prints them: a line each, and more for encapsulated packets or with ``-v``.

        `options` are tcpdump's, such as ``-e`` and ``-v``. Raise CommandFailed if tcpdump refuses them, or if the
        capture has not ended.
        """
        done = self._lab.exec("router", ["tcpdump", "-n", *options, "-r", "-"], input=self.pcap, text=False)
        packets: bytes = done.stdout
        return packets.decode(errors="replace")

    @property
    def lines(self) -> list[str]:
        return self.text().splitlines()


class BaseLab(abc.ABC):
    """A lab by name.

    ``exec`` and the like work while it is up; see README.md beside this file.
    """

    machine = ""
    patience = 1  # factor for the time limits of commands

    def __init__(self, name: str) -> None:
        self.name = name
        self.places = Places(name)

    # Methods that each kind of machine implements in its own way:

    @abc.abstractmethod
    def up(
        self,
        hosts: str | Sequence[str] | None = None,
        baked: bool = True,
        podman: bool = False,
        switches: bool = False,
        ipv6: bool = False,
        docker: bool = False,
    ) -> None:
        """Start `hosts` and the network around them, where they do not run; return when SSH answers on all `hosts`.

        If one had to be started, all have booted then. `hosts` are names (a list, or with commas); None, "" and [] mean
        the usual four. `baked`: hosts have BIRD and other packages installed. `podman`: hosts that are started now have
        podman, and /srv/box to run. `switches`: start top-of-rack switches (machines/tors.py). `ipv6`: both subnets and
        the hosts that are started now have IPv6. `docker`: hosts that are started now have podman, and Docker with its
        units masked. The emulated machine refuses these four.

        Missing programs are installed and missing images built on this machine first. Raise LabError without root, if
        that fails, for what is refused, an unknown host, a lab that is up on another machine or has running hosts that
        are baked and shall not be, or the reverse, and for a host that does not answer in time.
        """

    @abc.abstractmethod
    def down(self) -> None:
        """Remove what this lab has put on the machine, whatever state it is in; do nothing if there is nothing.

        The cache's images and snapshots and the installed programs stay. Raise LabError if processes survive SIGKILL
        for 10 to 20 seconds.
        """

    @abc.abstractmethod
    def argv(self, where: str, command: Sequence[str]) -> list[str]:
        """Return the command line, for this machine, that runs ``command`` at ``where``.

        ``where`` is a host, a switch, "router", "outside", "control", or "machine" for what carries the hosts: the
        emulated machine, natively this one.
        """

    @abc.abstractmethod
    def reboot(self, node: str, wait: bool = True) -> None:
        """Run ``systemctl reboot`` inside; return when the host has booted and SSH answers again.

        `wait` False does not wait for that, but the emulated machine always waits. Raise LabError if the host is off,
        or does not come back: on the machine's own kernel it has 100 seconds until it boots and the time of `start`.
        """

    @abc.abstractmethod
    def power_cut(self, node: str) -> None:
        """Cut the power of a host or a switch without a last packet on the wire.

        A host keeps its disk. Raise LabError if processes survive SIGKILL for 20 seconds, and LabError or
        FileNotFoundError for a host that the lab never had.
        """

    @abc.abstractmethod
    def start(self, node: str, wait: bool = True) -> None:
        """Start a host or a switch that is off; one that runs stays as it is.

        If `wait` is true, and always in the emulated machine, return when the host has booted and its SSH answers, or
        when the switch's FRR answers. Raise LabError if the lab has no such node, or if it does not answer in time. On
        the machine's own kernel that is 90 seconds by default for a host, and 60 for a switch.
        """

    @abc.abstractmethod
    def is_running(self, node: str) -> bool: ...

    # Methods and properties that all kinds of machines share:

    @property
    def state(self) -> Any:
        """What ``up`` has stored (machine, hosts, baked, ipv6), {} if the lab is not up or it cannot be read."""
        try:
            return json.loads((self.places.state / "lab.json").read_text())
        except (OSError, ValueError):
            return {}

    def write_state(self, hosts: Sequence[Node], baked: bool, ipv6: bool = False) -> None:
        names = [node.name for node in hosts]
        text = json.dumps({"machine": self.machine, "hosts": names, "baked": baked, "ipv6": ipv6})
        (self.places.state / "lab.json").write_text(text + "\n")

    @property
    def nodes(self) -> list[Node]:
        """The hosts of this lab, or the usual four if it is not up."""
        return pick(self.state.get("hosts") or [])

    @property
    def ssh_config(self) -> Path:
        return self.places.ssh_config

    def _command(self, where: str, command: Command, netns: str | None) -> list[str]:
        if where not in NODES and where not in TORS and where not in ("router", "outside", "control", "machine"):
            raise LabError(f"The lab has no {where!r}: name a host, 'router', 'outside' or 'control'.")
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        if netns:
            words = ["ip", "netns", "exec", netns, *words]
        return self.argv(where, words)

    def exec(
        self,
        where: str,
        command: Command,
        check: bool = True,
        netns: str | None = None,
        timeout: float = 60,
        input: str | bytes | None = None,
        text: bool = True,
    ) -> subprocess.CompletedProcess[Any]:
        """Run a command at `where`, or in a named namespace `netns` there, and return its CompletedProcess.

        `where` is as in `argv`. The command is a list of words, or one text for sh. `timeout` is in seconds, times
        `patience`. `input` is the command's stdin, which is empty without it, and is bytes if `text` is false. So are
        stdout and stderr then, which are captured. Raise CommandFailed on a status other than 0 unless ``check`` is
        false, and LabError for an unknown `where`, when the time is over, or when the lab is lost.
        """
        argv = self._command(where, command, netns)
        more: dict[str, Any] = {"input": input} if input is not None else {"stdin": subprocess.DEVNULL}
        if text:
            more["errors"] = "replace"
        limit = timeout * self.patience
        try:
            done = subprocess.run(argv, capture_output=True, text=text, timeout=limit, check=False, **more)
        except subprocess.TimeoutExpired:
            raise LabError(f"{where}: no end after {limit:g} s of {command}") from None
        done.args = [command] if isinstance(command, str) else list(map(str, command))
        if done.returncode == 255 and (lost := self.lost()):  # 255 is also SSH's own status
            raise LabError(f"{where}: {lost}")
        if check and done.returncode:
            raise CommandFailed(where, done)
        return done

    def lost(self) -> str:
        """Return why nothing can run in this lab any more, "" if that is not known."""
        return ""

    def popen(self, where: str, command: Command, netns: str | None = None, **more: object) -> subprocess.Popen[Any]:
        """Start a program at `where`, or in a named namespace `netns` there, and return its Popen at once.

        `where` and `command` are as in `exec`. stdin and stdout are pipes of bytes unless `more`, options of Popen,
        says otherwise. Raise LabError for an unknown `where`. That nothing can run there is no error here: the Popen
        ends with a status other than 0.
        """
        options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **more}
        return subprocess.Popen(self._command(where, command, netns), **options)

    def background(self, where: str, command: Command, netns: str | None = None) -> Program:
        """Start a program and return it as soon as it has a process id; ``stop()`` ends it.

        Raise LabError or ValueError if nothing can run at `where`, and LabError for an unknown `where`.
        """
        return Program(self, where, command, netns)

    def router_exec(self, command: Command, **more: object) -> subprocess.CompletedProcess[Any]:
        return self.exec("router", command, **more)  # type: ignore[arg-type]

    def outside_exec(self, command: Command, **more: object) -> subprocess.CompletedProcess[Any]:
        return self.exec("outside", command, **more)  # type: ignore[arg-type]

    def put(self, node: str, local: str | Path, remote: str, mode: str = "644") -> None:
        """Copy the file `local` to the path `remote` of a host or the router, replacing it atomically.

        `mode` is octal text. Missing folders are made. Raise CommandFailed if the host is off or the file cannot be
        written there, and OSError if `local` cannot be read.
        """
        target = shlex.quote(remote)
        script = f'set -e; mkdir -p "$(dirname {target})"; cat > {target}.new; '
        script += f"chmod {mode} {target}.new; mv {target}.new {target}"
        self.exec(node, script, input=Path(local).read_bytes(), text=False)

    def get(self, node: str, remote: str) -> bytes:
        content: bytes = self.exec(node, ["cat", remote], text=False).stdout
        return content

    def json(self, where: str, command: Command, netns: str | None = None) -> Any:
        """Return the parsed output of a command that prints JSON, such as ``ip -j route``; [] if it prints nothing.

        Raise CommandFailed if the command fails, and ValueError if it prints anything else.
        """
        return json.loads(self.exec(where, command, netns=netns).stdout or "[]")

    @contextlib.contextmanager
    def capturing(self, where: str, expression: str = "", count: int | None = None) -> Iterator[Capture]:
        """Yield a capture that runs during the with block, on a host's link ("node1") or a bridge ("rack1", "rack2").

        `expression` is tcpdump's filter, "" for all. The capture ends early after `count` packets, if given. Raise
        LabError if tcpdump does not start, and ValueError if the router does not run.
        """
        capture = Capture(self, where, expression, count)
        try:
            yield capture
        finally:
            capture.stop()

    def capture(self, where: str, seconds: float, expression: str = "", count: int | None = None) -> Capture:
        """Capture for `seconds`, or until ``count`` packets have been seen, and return the ended capture.

        `where` and `expression` are as in `capturing`, and so are the errors.
        """
        with self.capturing(where, expression, count) as capture:
            capture.wait(seconds)
        return capture

    def link(self, node: str, up: bool) -> None:
        """Connect or disconnect the cable of a host's eth0, at the router's end.

        Raise CommandFailed if the lab has no such host or it is off.
        """
        self.exec("router", ["ip", "link", "set", node, "up" if up else "down"])

    def wait_booted(self, node: str) -> None:
        """Wait until systemd has booted, even if a unit failed; raise LabError after 2 minutes times `patience`.

        Return at once if the host is off.
        """
        self.exec(node, ["systemctl", "is-system-running", "--wait"], check=False, timeout=120)

    def say(self, text: str) -> None:
        progress(text)
