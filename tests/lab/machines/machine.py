# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab inside a QEMU machine that boots Debian's kernel, for features this machine's kernel lacks (IPIP).

The machine is emulated in software unless KVM works. Its read-only disk holds the same layers as native hosts; all
writes stay in its memory. Inside, native.py does all the work. Outside, SSH reaches the hosts as it does natively,
through the control namespace, which holds QEMU's tap.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..handle import BaseLab
from ..shell import locked, progress, run, wait_until
from ..topology import CACHE_ROOT, CONTROL_NET, NODES, STATE_ROOT, LabError, Node, Places, pick
from . import hosts as power
from . import images, keys, packages
from .native import remove

HERE = Path(__file__).resolve().parent
LAB = HERE.parent
INSIDE = "/opt/lab/tests/lab"
MEMORY_MIB = int(os.environ.get("HOST_ROUTING_LAB_MEMORY", "2048"))
BOOT_TIMEOUT = float(os.environ.get("HOST_ROUTING_LAB_MACHINE_TIMEOUT", "900"))
# Inside the machine the lab is always called "lab", so that labs of any name outside can begin from one snapshot.
INNER = Places("lab")
# Files that the lab inside needs, relative to tests/lab.
CODE = (
    *"__init__.py cli.py handle.py lab shell.py topology.py".split(),
    *(
        f"machines/{name}"
        for name in (
            "__init__.py hosts.py images.py keys.py native.py packages.py tors.py underlay.py zip_byte_code.py "
            "enter run-host run-router machine-boot machine-init"
        ).split()
    ),
)
KEPT_SNAPSHOTS = 3
BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4", "overlay")

MACHINE_SCRIPT = """
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io systemd-container netcat-openbsd
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: *\\(linux-image-[0-9].*\\)/\\1/p')
kernel=${kernel%%[!a-z0-9.-]*}
cd /tmp
apt-get download -qq -o APT::Sandbox::User=root "$kernel"
dpkg-deb -x linux-image-*.deb unpacked
mkdir -p /boot
cp unpacked/boot/vmlinuz-* /boot/vmlinuz
cp -a unpacked/lib/modules /usr/lib/
rm -rf unpacked linux-image-*.deb /var/cache/apt/archives/*.deb /var/cache/apt/*.bin /var/lib/apt/lists/*
# Only what a network of hosts may ask for; sound, graphics and file systems of others would triple the disk.
cd /usr/lib/modules/*
rm -rf kernel/drivers/gpu kernel/drivers/infiniband kernel/drivers/scsi kernel/drivers/net/ethernet kernel/sound
depmod "${PWD##*/}"
"""


_ARGUMENTS = [
    "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-machine", "q35",
    "-append", "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off net.ifnames=0 random.trust_cpu=on "
    # Without tsc=reliable the kernel does not use the emulated TSC, and reads the time from the emulated HPET, slowly.
    # The check of the timer panics if the emulated processor stands still meanwhile.
    "tsc=reliable no_timer_check "
    # Work for security and for large pages that no test looks at, and that costs an emulated processor much.
    "init_on_alloc=0 randomize_kstack_offset=off transparent_hugepage=never",
    "-netdev", "tap,id=control,ifname=tap0,script=no,downscript=no",
    "-device", "virtio-net-pci,netdev=control,romfile=",
    "-device", "virtio-rng-pci",
]  # fmt: skip
_ACCELERATORS = {
    "kvm": ["-accel", "kvm", "-cpu", "host"],
    # Features that make an emulated processor slower are off. With erms, QEMU copies memory byte by byte; with smap, it
    # ends a block of translated code at each access to a program's memory.
    "tcg": ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,la57=off,-avx2,-avx,-erms,-smap,-smep,-umip,-pku"],
}


def _snapshots_wanted() -> bool:
    return os.environ.get("HOST_ROUTING_LAB_SNAPSHOT", "1") != "0"


def machine_layer() -> Path:
    return CACHE_ROOT / f"machine-bookworm-{images.digest(images.layer_path('baked', 'bookworm').name, MACHINE_SCRIPT)}"


def _disk_layers() -> list[Path]:
    kinds = ("base", "repo", "baked")
    return [machine_layer(), *(images.layer_path(kind, release) for release in images.RELEASES for kind in kinds)]


def disk_folder() -> Path:
    """Return the folder of the kernel, the disk and the modules for the initramfs. It may not exist yet.

    It is named by a hash of names alone, those of the disk's layers and of the modules: a layer that is built again
    from newer packages keeps the folder.
    """
    return CACHE_ROOT / f"disk-all-{images.digest([path.name for path in _disk_layers()], BOOT_MODULES)}"


def _build_machine_layer(target: Path) -> None:
    progress("machine: Debian's kernel and systemd-container")
    scratch = Path(f"{target}.scratch")
    with images.mounted(images.layers("bookworm", baked=True), target, scratch) as root:
        images.use_archive(root, "bookworm")
        images.chroot(root, MACHINE_SCRIPT)
        images.forget_archive(root)


def _build_disk(target: Path) -> None:
    progress("machine: making its disk")
    layer = machine_layer()
    (modules,) = (layer / "usr/lib/modules").iterdir()
    shutil.copy(layer / "boot/vmlinuz", target / "vmlinuz")
    folder = target / "modules"
    folder.mkdir()
    order: list[str] = []
    for module in BOOT_MODULES:
        done = run(["modprobe", "-d", layer / "usr", "-S", modules.name, "--show-depends", module])
        for line in done.stdout.splitlines():
            if not line.startswith("insmod "):
                continue  # a module that is built into the kernel has no file
            path = Path(line.split()[1])
            if path.name not in order:
                order.append(path.name)
                shutil.copy(path, folder / path.name)
    (folder / "order").write_text("".join(f"{name}\n" for name in order))
    layers = _disk_layers()
    size = sum(int(run(["du", "-sm", path]).stdout.split()[0]) for path in layers)
    staging = target / "staging"
    script = "set -e\n"
    for path in layers:
        (staging / path.name).mkdir(parents=True)
        script += f"mount --bind {shlex.quote(str(path))} {shlex.quote(str(staging / path.name))}\n"
    image = shlex.quote(str(target / "disk.ext4"))
    script += f"mkfs.ext4 -q -O ^has_journal -m 0 -N 200000 -d {shlex.quote(str(staging))} {image} "
    script += f"{int(size * 1.15) + 200}M\n"
    run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script])
    shutil.rmtree(staging)


def build_image() -> Path:
    """Build the disk, and the kernel and layers that it lacks, unless it exists; return the folder of kernel and disk.

    To build it, install the programs that this needs on this machine. Raise LabError or OSError if anything fails.
    """
    folder = disk_folder()
    if folder.is_dir():
        return folder
    packages.install({**packages.IMAGES, **packages.QEMU})
    images.build()
    with locked(CACHE_ROOT / ".images.lock"):
        for target, builder in ((machine_layer(), _build_machine_layer), (folder, _build_disk)):
            if target.is_dir():
                continue
            with images.filled(target) as half:
                builder(half)
    progress("the machine's disk is ready")
    return folder


class MachineLab(BaseLab):
    machine = "qemu"
    patience = 5
    _process: subprocess.Popen[Any] | None = None  # QEMU, if this object started it

    @property
    def _here(self) -> Path:
        return self.places.state / "machine"

    def up(
        self,
        hosts: str | Sequence[str] | None = None,
        baked: bool = True,
        podman: bool = False,
        switches: bool = False,
        ipv6: bool = False,
        docker: bool = False,
    ) -> None:
        if podman or docker or switches or ipv6:
            raise LabError("The emulated machine has no podman, Docker, FRR or IPv6: use machine='native'.")
        nodes = pick(list(hosts) if hosts and not isinstance(hosts, str) else hosts)
        packages.install(packages.QEMU)
        folder = build_image()
        with locked(STATE_ROOT / f".{self.name}.lock"):
            known = self.state
            if known and known["machine"] != self.machine:
                raise LabError(f"The lab {self.name!r} is up natively; take it down first.")
            if known and self._pid():
                missing = [node.name for node in nodes if node.name not in known.get("hosts", [])]
                if known and known["baked"] != baked:
                    raise LabError(
                        f"The lab {self.name!r} is up with other hosts (baked or plain); take it down first."
                    )
                self._inside(
                    "up",
                    "--hosts",
                    ",".join(node.name for node in nodes),
                    "--baked" if baked else "--plain",
                    timeout=120,
                )
                if missing:
                    self.write_state(pick([*known.get("hosts", []), *missing]), baked)
                return
            self._remove()
            self._here.mkdir(parents=True, exist_ok=True)
            self._control_namespace()
            names = ",".join(node.name for node in nodes)
            snapshot = self._snapshot(folder, names, baked)
            if not self._restore(folder, snapshot, nodes):
                keys.make(self.places, self.patience)
                self._initramfs(folder, names, baked)
                emulated = self._boot(folder)
                self._wait_all(nodes, 120)
                if emulated and _snapshots_wanted():
                    self._save(snapshot)
            self.write_state(nodes, baked)
        progress("SSH answers on " + ", ".join(node.name for node in nodes))

    def _wait_all(self, nodes: Sequence[Node], timeout: float) -> None:
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(lambda node: self._wait_ssh(node.name, timeout), nodes))

    def _snapshot(self, folder: Path, names: str, baked: bool) -> Path:
        """Return the folder for the memory of a machine with exactly these settings, whether it exists or not."""
        code = [(LAB / name).read_text() for name in CODE]
        version = run(["qemu-system-x86_64", "--version"]).stdout.split("\n")[0]
        machine = Path("/proc/cpuinfo").read_text().count("processor\t")
        parts = (folder.name, code, names, baked, version, machine, MEMORY_MIB, _ARGUMENTS, _ACCELERATORS)
        return CACHE_ROOT / f"snapshot-{images.digest(*parts)}"

    def _save(self, snapshot: Path) -> None:
        """Save the memory of the running machine, with the keys that its hosts know.

        LabError and OSError while saving are only reported. Raise them if the folder cannot be made, or the machine
        cannot go on afterwards. All snapshots but the three used last are removed.
        """
        half = Path(f"{snapshot}.half")
        shutil.rmtree(half, ignore_errors=True)
        half.mkdir(parents=True)
        half.chmod(0o700)
        try:
            for name in ("id_ed25519", "id_ed25519.pub"):
                shutil.copy(self.places.state / name, half / name)
            shutil.copytree(self.places.state / "hostkeys", half / "hostkeys")
            shutil.copy(self._here / "initrd", half / "initrd")
            memory = shlex.quote(str(half / "memory"))
            self._monitor("stop")
            self._monitor("migrate_set_parameter max-bandwidth 100G")
            self._monitor(f'migrate -d "exec:cat > {memory}"')
            wait_until("the snapshot is written", lambda: "completed" in self._monitor("info migrate"), 60, 0.2)
            half.rename(snapshot)
        except (OSError, LabError) as error:
            progress(f"machine: no snapshot: {error}")
            shutil.rmtree(half, ignore_errors=True)
        finally:
            self._monitor("cont")
        kept = sorted(CACHE_ROOT.glob("snapshot-*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in kept[KEPT_SNAPSHOTS:]:
            shutil.rmtree(old, ignore_errors=True)

    def _restore(self, folder: Path, snapshot: Path, nodes: Sequence[Node]) -> bool:
        """Start from a snapshot and return True when SSH answers; return False if there is none or it does not come up.

        The result is also False if HOST_ROUTING_LAB_SNAPSHOT is "0". Coming up, or giving up, may take minutes. A
        snapshot that does not come up is removed.
        """
        if not snapshot.is_dir() or not _snapshots_wanted():
            return False
        progress("machine: restoring a snapshot of it")
        try:
            for name in ("id_ed25519", "id_ed25519.pub", "hostkeys"):
                copy = shutil.copytree if name == "hostkeys" else shutil.copy
                copy(snapshot / name, self.places.state / name)
            keys.make(self.places, self.patience)
            shutil.copy(snapshot / "initrd", self._here / "initrd")
            memory = shlex.quote(str(snapshot / "memory"))
            process = self._launch(folder, "tcg", ["-incoming", f"exec:cat {memory}"])

            def loaded() -> bool:
                if process.poll() is not None:
                    raise LabError((self._here / "log").read_text()[-500:])
                return "inmigrate" not in self._monitor("info status")

            wait_until("the snapshot is read", loaded, 60, 0.1)
            self._monitor("cont")
            self._wait_ssh("machine", 60)
            # The machine's clock stood still since the snapshot.
            self.exec("machine", ["date", "-u", "-s", f"@{time.time():.3f}"], timeout=20)
            self._wait_all(nodes, 60)
            os.utime(snapshot)
        except (OSError, LabError) as error:
            progress(f"machine: the snapshot is of no use: {error}")
            self._kill()
            keys.drop_connections(self.places)
            shutil.rmtree(snapshot, ignore_errors=True)
            return False
        return True

    def _monitor(self, command: str) -> str:
        """Send one command to QEMU's monitor and return the answer, with the prompt that ends it.

        Raise LabError or OSError if QEMU ends, does not listen within 10 seconds, or is silent for 30.
        """
        path = self._here / "monitor"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            wait_until(
                "QEMU's monitor answers", lambda: path.exists() and not connection.connect_ex(str(path)), 10, 0.05
            )

            def until_prompt() -> str:
                said = b""
                while not said.endswith(b"(qemu) "):
                    data = connection.recv(65536)
                    if not data:
                        raise LabError("QEMU is gone.")
                    said += data
                return said.decode(errors="replace")

            until_prompt()
            connection.sendall(command.encode() + b"\n")
            return until_prompt()

    def _wait_ssh(self, name: str, timeout: float) -> None:
        address = NODES[name].control_address if name in NODES else f"{CONTROL_NET}.1"
        netns = self.places.netns("control")
        wait_until(f"SSH of {name} answers", lambda: power.ssh_banner(netns, address, 10), timeout, 0.3)

    def _control_namespace(self) -> None:
        netns = self.places.netns("control")
        run(["ip", "netns", "del", netns], check=False)
        run(["ip", "netns", "add", netns])
        lines = f"link set lo up\ntuntap add tap0 mode tap\naddr add {CONTROL_NET}.254/24 dev tap0\nlink set tap0 up\n"
        run(["ip", "-n", netns, "-batch", "-"], input=lines)

    def _initramfs(self, folder: Path, hosts: str, baked: bool) -> None:
        """Write the file initrd of the machine's folder: Busybox, a few modules, the lab's own code and its keys.

        `folder` is that of `disk_folder`, which has the modules. `hosts` are names with commas between them, which the
        lab inside starts, with the packages installed if `baked` is true. Raise LabError if cpio fails.
        """
        tree = self._here / "initramfs"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "bin").mkdir(parents=True)
        shutil.copy(shutil.which("busybox") or "/bin/busybox", tree / "bin/busybox")
        (tree / "bin/sh").symlink_to("busybox")
        shutil.copytree(folder / "modules", tree / "modules")
        shutil.copy(HERE / "machine-boot", tree / "init")
        lab = tree / "lab"
        (lab / "tests/lab/machines").mkdir(parents=True)
        for name in CODE:
            shutil.copy(LAB / name, lab / "tests/lab" / name)
        (lab / "keys").mkdir()
        for name in ("id_ed25519", "id_ed25519.pub"):
            shutil.copy(self.places.state / name, lab / "keys" / name)
        shutil.copytree(self.places.state / "hostkeys", lab / "keys/hostkeys")
        layers = " ".join(path.name for path in [machine_layer(), *images.layers("bookworm", baked=True)])
        kind = "--baked" if baked else "--plain"
        (lab / "machine.env").write_text(f"LAB={INNER.name}\nHOSTS={hosts}\nKIND={kind}\nMACHINE_LAYERS='{layers}'\n")
        target = shlex.quote(str(self._here / "initrd"))
        run(["sh", "-ec", f"find . | cpio --quiet -o -H newc > {target}"], cwd=tree)
        shutil.rmtree(tree)

    def _pid(self) -> int | None:
        try:
            pid = int((self._here / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self._here).encode() in command else None

    def _console(self) -> str:
        try:
            return (self._here / "console").read_text(errors="replace")
        except OSError:
            return ""

    def _launch(self, folder: Path, accelerator: str, more: Sequence[str] = ()) -> subprocess.Popen[Any]:
        for name in ("console", "monitor"):
            (self._here / name).unlink(missing_ok=True)
        command = [
            "nsenter", f"--net=/run/netns/{self.places.netns('control')}", "qemu-system-x86_64",
            *_ARGUMENTS, *_ACCELERATORS[accelerator],
            "-smp", str(min(4, os.cpu_count() or 1)), "-m", str(MEMORY_MIB),
            "-kernel", str(folder / "vmlinuz"), "-initrd", str(self._here / "initrd"),
            "-drive", f"file={folder / 'disk.ext4'},format=raw,if=virtio,readonly=on,cache=unsafe,file.locking=off",
            "-serial", f"file:{self._here / 'console'}",
            "-monitor", f"unix:{self._here / 'monitor'},server=on,wait=off", *more,
        ]  # fmt: skip
        with (self._here / "log").open("w") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        self._process = process
        (self._here / "pid").write_text(f"{process.pid}\n")
        # By the scheduler's autogroup (sched(7)) the emulated machine, one session, has only the share of processors
        # that each of the dozens of sessions of a native lab has. A lower nice value gives it more.
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text("-5", "ascii")
        return process

    def _boot(self, folder: Path) -> bool:
        """Start the machine and wait for its lab; return True if it is emulated in software, False with KVM.

        HOST_ROUTING_LAB_ACCEL "auto", the default, tries KVM if /dev/kvm can be used. If KVM does not boot the machine
        within 15 seconds, that is recorded, and "auto" does not try it again until this machine reboots. "kvm" always
        tries it, and raises LabError then instead; other values do not. Raise LabError also if the lab inside does not
        come up, or takes more than BOOT_TIMEOUT seconds.
        """
        wanted = os.environ.get("HOST_ROUTING_LAB_ACCEL", "auto")
        refused = CACHE_ROOT / "no-kvm"
        identity = Path("/proc/sys/kernel/random/boot_id").read_text()
        tried = refused.read_text() == identity if refused.exists() else False
        if wanted == "kvm" or (wanted == "auto" and os.access("/dev/kvm", os.R_OK | os.W_OK) and not tried):
            progress("machine: trying KVM")
            process = self._launch(folder, "kvm")
            end = time.monotonic() + 15
            while time.monotonic() < end and process.poll() is None and "the kernel runs" not in self._console():
                time.sleep(0.2)
            if "the kernel runs" in self._console():
                self._await_ready(process)
                return False
            process.kill()
            process.wait()
            if wanted == "kvm":
                raise LabError(f"KVM does not boot the machine: {(self._here / 'log').read_text()[-500:]}")
            refused.write_text(identity)
        progress("machine: booting under software emulation (about half a minute)")
        self._await_ready(self._launch(folder, "tcg"))
        return True

    def _await_ready(self, process: subprocess.Popen[Any]) -> None:
        end = time.monotonic() + BOOT_TIMEOUT
        shown = 0
        while True:
            console = self._console()
            lines = [line.strip() for line in console.splitlines() if line.startswith("lab")]
            for line in lines[shown:]:
                progress(f"machine: {line}")
            shown = len(lines)
            if "lab: ready=yes" in console:
                return
            if "lab: ready=no" in console or process.poll() is not None or time.monotonic() > end:
                process.kill()
                process.wait()
                said = (self._here / "log").read_text()[-500:]
                raise LabError(
                    f"The machine did not bring up its lab. Its console ended with:\n{console[-3000:]}\n{said}"
                )
            time.sleep(0.2)

    def down(self) -> None:
        with locked(STATE_ROOT / f".{self.name}.lock"):
            self._remove()
        with contextlib.suppress(OSError):
            (STATE_ROOT / f".{self.name}.lock").unlink()

    def _remove(self) -> None:
        keys.drop_connections(self.places)
        self._kill()
        remove(self.places)

    def _kill(self) -> None:
        pid = self._pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
            wait_until("QEMU ends", lambda: not self._pid(), 60, 0.05)

    def argv(self, where: str, command: Sequence[str]) -> list[str]:
        target = where if where in NODES else "machine"
        if where in ("router", "outside", "control"):
            command = [f"{INSIDE}/machines/enter", str(INNER.state), where, *command]
        shared = ["-o", "ControlMaster=auto", "-o", "ControlPersist=10m"]
        return ["ssh", "-F", str(self.ssh_config), *shared, target, "--", shlex.join(command)]

    def _inside(self, *words: str, timeout: float = 60) -> None:
        """Run the words of a command line of the lab's program inside the machine.

        `timeout` is in seconds, times `patience`. Raise LabError when it is over, or if the command fails.
        """
        command, *rest = words
        environment = ["env", "HOST_ROUTING_LAB_QUIET=1", "HOST_ROUTING_LAB_BOOT_TIMEOUT=600"]
        self.exec("machine", [*environment, f"{INSIDE}/lab", command, "--name", INNER.name, *rest], timeout=timeout)

    def _forget(self, node: str) -> None:
        """End the shared SSH connection to a host that goes down; give up, without an error, after 5 seconds."""
        command = ["ssh", "-F", str(self.ssh_config), "-O", "exit", node]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)

    def lost(self) -> str:
        console = f"The console ended with: {self._console()[-3000:]}"
        if not self._pid():
            status = self._process.poll() if self._process else None
            said = (self._here / "log").read_text(errors="replace")[-500:] or "nothing"
            shown = "unknown" if status is None else status
            return f"the emulated machine has ended. QEMU's exit status: {shown}, it said: {said}\n{console}"
        if power.ssh_banner(self.places.netns("control"), f"{CONTROL_NET}.1", 10 * self.patience):
            return ""
        try:
            answer = self._monitor("info status").splitlines()[1]
        except (OSError, LabError, IndexError) as error:
            answer = f"no answer ({error})"
        return f"the emulated machine does not answer. QEMU's monitor says: {answer}\n{console}"

    def is_running(self, node: str) -> bool:
        done = self.exec("machine", f"read -r p < {INNER.state}/{node}/pid && [ -e /proc/$p ]", check=False)
        return done.returncode == 0

    def reboot(self, node: str, wait: bool = True) -> None:
        self._forget(node)
        self._inside("reboot", node)

    def power_cut(self, node: str) -> None:
        self._inside("power-cut", node)
        self._forget(node)

    def start(self, node: str, wait: bool = True) -> None:
        self._inside("start", node)
