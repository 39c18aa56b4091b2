# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Root trees for the hosts, as layers that an overlay stacks.

The layers are base, repo (packages to install), baked (packages installed), and on top of these podman for hosts that
run containers and docker on top of it, or switch (FRR) for top-of-rack switches. Each layer is a folder in the cache,
named by a hash of its release, packages and scripts, and of the layers below it. A layer that exists is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..shell import locked, progress, run
from ..topology import CACHE_ROOT, STATE_ROOT, LabError
from . import packages

RELEASES = ("bookworm", "trixie")
# Debian testing, for `lab up --hosts node7`. Its layers are built only then.
TESTING = "forky"

# A plain server, as an installer leaves it: no package is there for the product's sake.
BASE_PACKAGES = (
    "systemd systemd-sysv dbus openssh-server python3 python3-apt iproute2 kmod procps iputils-ping netbase"
).split()
# The packages that roles may install, and tools for tests. With their dependencies they lie in a file: repository
# inside every host.
_REPO = (
    "ipset iptables nftables conntrack netcat-openbsd tcpdump ethtool arping socat "
    "python3-pyroute2 python3-netaddr python3-jinja2"
).split()
REPO_PACKAGES = {**{release: ["bird2", *_REPO] for release in RELEASES}, TESTING: ["bird3", *_REPO]}

# What the owner of a host installs for containers: Debian 12's podman attaches by CNI, Debian 13's by netavark.
CONTAINER_PACKAGES = "podman crun conmon containernetworking-plugins busybox-static".split()

# What the owner of a host installs for Docker, and for containers of LXC and systemd-nspawn. Debian 13 has Docker's
# command line in a package of its own.
_DOCKER = "docker.io containerd docker-compose lxc systemd-container".split()
DOCKER_PACKAGES = {"bookworm": _DOCKER, "trixie": [*_DOCKER, "docker-cli"], TESTING: [*_DOCKER, "docker-cli"]}
# They have a layer of their own: containerd beside podman's network is what preflight asks the owner about.
DOCKER_UNITS = ("docker.service", "docker.socket", "containerd.service")

# The top-of-rack switches run another BGP implementation than the hosts.
SWITCH_PACKAGES = ["frr"]

# Files that no test looks at are left out.
EXCLUDES = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")

# This script runs in a new base layer. It masks a real server's consoles, timers and networkd, which only cost
# memory here, removes what each host gets of its own, configures sshd, and makes /srv/repo apt's only source.
BASE_SCRIPT = """
set -eu
for unit in console-getty.service getty@.service container-getty@.service apt-daily.timer apt-daily-upgrade.timer \
        dpkg-db-backup.timer e2scrub_all.timer fstrim.timer systemd-networkd.service systemd-networkd.socket; do
    ln -sf /dev/null /etc/systemd/system/$unit
done
rm -f /etc/ssh/ssh_host_*
: > /etc/machine-id
rm -f /etc/resolv.conf
: > /etc/resolv.conf
mkdir -p /etc/ssh/sshd_config.d /srv/repo
printf '%s\\n' 'PermitRootLogin prohibit-password' 'PasswordAuthentication no' 'UseDNS no' \
    'MaxSessions 100' 'MaxStartups 100' > /etc/ssh/sshd_config.d/lab.conf
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
rm -rf /var/cache/apt/*.bin /var/log/*.log /var/log/apt
echo 'deb [trusted=yes] file:/srv/repo ./' > /etc/apt/sources.list.d/lab.list
echo 'Acquire::Languages "none";' > /etc/apt/apt.conf.d/90lab
"""

BAKE_SCRIPT = """
set -eu
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io {packages}
rm -f /usr/sbin/policy-rc.d /var/cache/apt/*.bin
rm -rf /var/log/apt /var/log/dpkg.log
# Debian starts BIRD at installation; the product brings a unit of its own.
ln -sf /dev/null /etc/systemd/system/bird.service
rm -f /etc/systemd/system/*.wants/bird.service /etc/systemd/system/*.wants/nftables.service
"""

# This script installs packages from Debian's archive without starting their services.
INSTALL_SCRIPT = """
set -eu
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get update -qq
apt-get install -y -qq --no-install-recommends -o DPkg::Options::=--force-unsafe-io {packages}
rm -f /usr/sbin/policy-rc.d /var/cache/apt/*.bin
rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/apt /var/log/dpkg.log
"""

# This script installs podman and masks its units. It writes the settings that podman needs in a systemd container, with
# its CNI backend where it has one: no cgroups, no keyring of its own, and no overlay on an overlay. It also makes
# /srv/box, which is the root of every container.
CONTAINER_SCRIPT = (
    INSTALL_SCRIPT
    + """\
for unit in podman.service podman.socket podman-auto-update.service podman-auto-update.timer podman-restart.service \\
        podman-clean-transient.service; do
    ln -sf /dev/null /etc/systemd/system/$unit
done
mkdir -p /etc/containers /srv/box/bin /srv/box/etc /srv/box/proc /srv/box/sys /srv/box/dev /srv/box/tmp
cat > /etc/containers/storage.conf <<'END'
[storage]
driver = "vfs"
graphroot = "/var/lib/containers/storage"
runroot = "/run/containers/storage"
END
backend=
if dpkg --compare-versions "$(dpkg-query -W -f '${{Version}}' podman)" lt 5; then
    backend='network_backend = "cni"'
fi
cat > /etc/containers/containers.conf <<END
[containers]
cgroups = "disabled"
keyring = false
log_driver = "k8s-file"
default_capabilities = ["NET_RAW", "CHOWN", "SETUID", "SETGID", "KILL"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[network]
$backend
cni_plugin_dirs = ["/opt/cni/bin", "/usr/lib/cni"]
END
cp /bin/busybox /srv/box/bin/busybox
for name in sh sleep ping nc ip cat; do ln -s busybox /srv/box/bin/$name; done
"""
)

# This script installs Docker, masks its units, and makes an archive of /srv/box for `docker import`. dockerd finds by
# itself that neither overlay on an overlay nor a keyring is there.
DOCKER_SCRIPT = (
    INSTALL_SCRIPT
    + """\
for unit in {units}; do
    ln -sf /dev/null /etc/systemd/system/$unit
done
tar -C /srv/box -cf /srv/box.tar .
"""
)


def _mirror() -> str:
    """Return the URL of the Debian archive that this machine itself uses, so that a local mirror serves the lab.

    If this machine uses none with a release of RELEASES, it is that of deb.debian.org.
    """
    done = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(COMPONENT) $(CODENAME) $(REPO_URI)"], check=False)
    for line in done.stdout.splitlines():
        words: list[str] = line.split()
        if len(words) == 4 and words[:2] == ["Debian", "main"] and words[2] in RELEASES:
            return words[3].rstrip("/")
    return "http://deb.debian.org/debian"


def _apt_options() -> list[str]:
    """Return lines of apt settings: the lab's own, and those of this machine for proxies and validity."""
    done = run(["apt-config", "dump"], check=False)
    wanted = ("Acquire::http::Proxy", "Acquire::https::Proxy", "Acquire::Check-Valid-Until")
    options = ['Acquire::Languages "none";', 'APT::Sandbox::User "root";']
    return options + [line for line in done.stdout.splitlines() if line.startswith(wanted) and '""' not in line]


def digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _base_key(release: str) -> str:
    return digest("base", release, BASE_PACKAGES, EXCLUDES, BASE_SCRIPT)


def layer_path(kind: str, release: str) -> Path:
    """Return the folder of a layer, whether it exists or not.

    `kind` is base, repo, baked, podman, docker or switch.
    """
    key = _base_key(release)
    if kind != "base":
        key = digest(key, "repo", REPO_PACKAGES[release])
    if kind in ("baked", "podman", "docker", "switch"):
        key = digest(key, "baked", BAKE_SCRIPT)
    if kind == "switch":
        key = digest(key, "switch", SWITCH_PACKAGES, INSTALL_SCRIPT)
    if kind in ("podman", "docker"):
        key = digest(key, "podman", CONTAINER_PACKAGES, CONTAINER_SCRIPT)
    if kind == "docker":
        key = digest(key, "docker", DOCKER_PACKAGES[release], DOCKER_UNITS, DOCKER_SCRIPT)
    return CACHE_ROOT / f"{kind}-{release}-{key}"


def layers(release: str, baked: bool, podman: bool = False, docker: bool = False) -> list[Path]:
    """Return the folders of a host's layers, topmost first, as overlayfs wants its lowerdir; they need not exist.

    These are base and repo. `baked` adds the layer with the packages installed; `podman` adds that one and its own,
    `docker` all of these and its own.
    """
    return [layer_path(kind, release) for kind in reversed(_kinds(baked, podman, docker))]


def switch_layers() -> list[Path]:
    """Return the folders to stack for a top-of-rack switch, topmost first."""
    return [layer_path("switch", "bookworm"), *layers("bookworm", baked=True)]


def _kinds(baked: bool, podman: bool, docker: bool = False) -> list[str]:
    """Return the kinds of layers from the lowest to the topmost.

    podman builds on the packages that roles install, so `podman` implies `baked`; `docker` implies both.
    """
    podman = podman or docker
    return [
        "base",
        "repo",
        *(["baked"] if baked or podman else []),
        *(["podman"] if podman else []),
        *(["docker"] if docker else []),
    ]


def _clear(scratch: Path) -> None:
    """Remove a work folder, after unmounting what a killed build has left mounted in it, such as /dev.

    Raise LabError if something cannot be unmounted or removed.
    """
    mounts = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    for where in reversed(mounts):
        if where.startswith(f"{scratch}/"):
            run(["umount", "-l", where])
    run(["rm", "-rf", "--one-file-system", scratch])


@contextlib.contextmanager
def mounted(lower: list[Path], upper: Path, scratch: Path) -> Iterator[Path]:
    """Yield the stacked tree of ``lower``, topmost first, with /proc, /dev and /sys mounted, for chroot.

    Writes go to ``upper``, which is made if it is missing. The work folder ``scratch`` is removed at the beginning, if
    a killed build left it, and at the end, after the tree is unmounted. Raise LabError if mounting, unmounting or
    removing fails.
    """
    _clear(scratch)
    root, work = scratch / "root", scratch / "work"
    for folder in (root, work, upper):
        folder.mkdir(parents=True, exist_ok=True)
    mounts: list[Path] = []
    try:
        stack = ":".join(map(str, lower))
        run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={stack},upperdir={upper},workdir={work}", root])
        mounts.append(root)
        for kind, inside in (("proc", "proc"), ("sysfs", "sys"), ("devtmpfs", "dev")):
            run(["mount", "-t", kind, kind, root / inside])
            mounts.append(root / inside)
        yield root
    finally:
        for where in reversed(mounts):
            run(["umount", "-l", where], check=False)
        _clear(scratch)


def chroot(root: Path, script: str, timeout: float = 600) -> None:
    clean = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive",
    }
    clean.update({name: os.environ[name] for name in ("http_proxy", "https_proxy") if name in os.environ})
    run(["chroot", root, "/bin/sh", "-c", script], env=clean, timeout=timeout)


def use_archive(root: Path, release: str) -> None:
    """Let apt inside ``root`` use Debian's archive instead of the repository in the image.

    The proxy settings and resolv.conf are copied from this machine. Raise FileNotFoundError if ``root`` has no sources
    file of that repository, or this machine no resolv.conf.
    """
    (root / "etc/apt/sources.list.d/lab.list").rename(root / "etc/apt/lab.list.off")
    (root / "etc/apt/sources.list").write_text(f"deb {_mirror()} {release} main\n")
    (root / "etc/apt/apt.conf.d/90fetch").write_text("\n".join(_apt_options()) + "\n")
    (root / "etc/resolv.conf").write_text(Path("/etc/resolv.conf").read_text())


def forget_archive(root: Path) -> None:
    """Undo ``use_archive``, and leave an empty resolv.conf. Raise FileNotFoundError if it was not called before."""
    (root / "etc/apt/lab.list.off").rename(root / "etc/apt/sources.list.d/lab.list")
    for path in ("etc/apt/sources.list", "etc/apt/apt.conf.d/90fetch"):
        (root / path).unlink()
    (root / "etc/resolv.conf").write_text("")


def _build_base(release: str, target: Path) -> None:
    progress(f"{release}: installing a plain Debian (once; under a minute with a near mirror)")
    command = [
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        "--format=directory",
        f"--include={','.join(BASE_PACKAGES)}",
    ]
    command += [f"--aptopt={option}" for option in _apt_options()]
    command += ["--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDES)]
    # mmdebstrap installs into `target` itself: it uses a temporary folder only if the result is an archive.
    run([*command, release, target, _mirror()], timeout=900)
    (target / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    run(["chroot", target, "/bin/sh", "-c", BASE_SCRIPT])


def fetch_repository(release: str, wanted: Sequence[str], repo: Path, scratch: Path) -> None:
    """Fill the folder `repo`, so that apt can use it as a repository, with packages that a plain host lacks.

    These are `wanted` and what they depend on. `scratch` is a work folder, as for `mounted`. Raise LabError if Debian's
    archive does not have them or cannot be reached.
    """
    with mounted([layer_path("base", release)], scratch / "fetched", scratch) as root:
        use_archive(root, release)
        install = "apt-get install -y -qq --download-only --no-install-recommends"
        chroot(root, f"apt-get update -qq && {install} {' '.join(wanted)}")
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            shutil.copy(package, repo / package.name.replace("%3a", "_"))
    listing = run(["apt-ftparchive", "packages", "."], cwd=repo).stdout
    if f"Package: {wanted[0]}\n" not in listing:
        raise LabError(f"The package index in {repo} does not name {wanted[0]}: apt-ftparchive said nothing useful.")
    (repo / "Packages").write_text(listing)


def _build_repo(release: str, target: Path) -> None:
    progress(f"{release}: fetching the packages that roles install")
    base = layer_path("base", release)
    scratch = Path(f"{target}.scratch")
    repo = target / "srv/repo"
    repo.mkdir(parents=True)
    fetch_repository(release, REPO_PACKAGES[release], repo, scratch)
    # The layer has the lists of the repository's packages: on a host `apt-get install` works without `apt-get update`.
    with mounted([base], target, scratch) as root:
        chroot(root, "apt-get update -qq && rm -f /var/cache/apt/*.bin")


def _build_baked(release: str, target: Path) -> None:
    progress(f"{release}: installing them into a layer of its own")
    scratch = Path(f"{target}.scratch")
    with mounted(layers(release, baked=False), target, scratch) as root:
        chroot(root, BAKE_SCRIPT.format(packages=" ".join(REPO_PACKAGES[release])))


def _build_podman(release: str, target: Path) -> None:
    progress(f"{release}: installing podman into a layer of its own")
    scratch = Path(f"{target}.scratch")
    with mounted(layers(release, baked=True), target, scratch) as root:
        use_archive(root, release)
        chroot(root, CONTAINER_SCRIPT.format(packages=" ".join(CONTAINER_PACKAGES)))
        forget_archive(root)


def _build_docker(release: str, target: Path) -> None:
    progress(f"{release}: installing Docker into a layer of its own")
    scratch = Path(f"{target}.scratch")
    with mounted(layers(release, baked=True, podman=True), target, scratch) as root:
        use_archive(root, release)
        packages_, units = " ".join(DOCKER_PACKAGES[release]), " ".join(DOCKER_UNITS)
        chroot(root, DOCKER_SCRIPT.format(packages=packages_, units=units))
        forget_archive(root)


def _build_switch(release: str, target: Path) -> None:
    progress(f"{release}: installing FRR into a layer of its own")
    scratch = Path(f"{target}.scratch")
    with mounted(layers(release, baked=True), target, scratch) as root:
        use_archive(root, release)
        chroot(root, INSTALL_SCRIPT.format(packages=" ".join(SWITCH_PACKAGES)))
        forget_archive(root)


_BUILDERS = {
    "base": _build_base,
    "repo": _build_repo,
    "baked": _build_baked,
    "podman": _build_podman,
    "docker": _build_docker,
    "switch": _build_switch,
}


@contextlib.contextmanager
def filled(target: Path) -> Iterator[Path]:
    """Yield an empty folder to fill, and rename it to `target` at the end unless the with block raises.

    So an interrupted build never looks complete: it stays behind as `target`.half until the next one.
    """
    half = Path(f"{target}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    half.chmod(0o755)
    yield half
    half.rename(target)


def build(
    releases: Iterable[str] = RELEASES,
    baked: bool = True,
    podman: bool = False,
    switches: bool = False,
    docker: bool = False,
) -> None:
    """Build the missing layers, two releases side by side. Bookworm is always baked, for the router.

    `baked`, `podman` and `docker` ask for those layers of each release, `switches` for that of the switches. Install
    the programs that this needs on this machine, and wait for another process that builds. Raise LabError or OSError if
    anything fails.
    """
    wanted = {release: _kinds(baked, podman, docker) for release in releases}
    here = "bookworm" in wanted
    wanted["bookworm"] = [*_kinds(True, podman and here, docker and here), *(["switch"] if switches else [])]
    _build_missing(wanted)


def build_base(release: str) -> None:
    """Build the layer of a plain Debian `release` if it is missing, as `build` does; raise what that raises."""
    _build_missing({release: ["base"]})


def _build_missing(wanted: Mapping[str, Sequence[str]]) -> None:
    """Build the layers {release: kinds from the lowest to the topmost} that are missing; see `build`."""
    if all(layer_path(kind, release).is_dir() for release, kinds in wanted.items() for kind in kinds):
        return
    packages.install(packages.IMAGES)

    def one(release: str) -> None:
        for kind in wanted[release]:
            target = layer_path(kind, release)
            if target.is_dir():
                continue
            with filled(target) as half:
                _BUILDERS[kind](release, half)

    with locked(CACHE_ROOT / ".images.lock"), ThreadPoolExecutor(2) as pool:
        list(pool.map(one, sorted(wanted)))
    progress("images are ready")


def _in_use() -> set[str]:
    """Return the names of the cache's layers and disks that labs in STATE_ROOT or running machines use."""
    texts = [path.read_text() for path in STATE_ROOT.glob("*/*/env")]
    for path in STATE_ROOT.glob("*/machine/pid"):
        with contextlib.suppress(OSError):
            texts.append(Path(f"/proc/{path.read_text().strip()}/cmdline").read_text(errors="replace"))
    return {path.name for path in CACHE_ROOT.glob("*-*-*") if any(path.name in text for text in texts)}


def drop_stale(more: Iterable[Path] = ()) -> list[Path]:
    """Remove the cache's layers and disks that nothing present names, and return their folders, sorted.

    Recipes of this file, labs (see `_in_use`) and ``more`` name some; the emulated machine's are named by the latter
    two only. Leftovers of killed builds go, too. A folder that cannot be removed causes no error, and is in the result
    as well.
    """
    wanted = {layer_path(kind, release).name for kind in _BUILDERS for release in (*RELEASES, TESTING)}
    wanted |= {path.name for path in more} | _in_use()
    gone = []
    with locked(CACHE_ROOT / ".images.lock"):
        for path in sorted(CACHE_ROOT.glob("*-*-*")):
            if path.name.split("-")[0] in (*_BUILDERS, "machine", "disk") and path.name not in wanted and path.is_dir():
                subprocess.run(["rm", "-rf", "--one-file-system", str(path)], check=False)
                gone.append(path)
    return gone
