# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Attacks by a local user, on the files of the engine that root runs."""

from __future__ import annotations

import importlib.util
import json
import marshal
import os
import pathlib
import py_compile
import shutil
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import (
    bundle,
    carried_start,
    engine_start,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine.carried_start import PackedEngine

from tests.fakes.forged_engine import forged
from tests.unit.roles.test_engine_commands import engine_commands

SOURCE = pathlib.Path(bundle.__file__).resolve().parents[2]
APPLY = "host_routing/node/change/command.py"
RUNTIMES = ("runtimes/docker", "runtimes/reporter")


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """The folder of two engines, as on a node after an upgrade: 1, and 2, which is in use."""
    return install_both(tmp_path)


def install_both(folder: pathlib.Path) -> pathlib.Path:
    for number in (1, 2):
        source = folder / f"source{number}"
        for room in ("", "agent", "cli", "node", "node/change", "node/engine", "runtimes", *RUNTIMES):
            (source / room).mkdir(exist_ok=True)
            (source / room / "__init__.py").write_text("")
        for program in ("agent/daemon", "cli/command", *(f"{room}/daemon" for room in RUNTIMES)):
            (source / f"{program}.py").write_text(f"def main(arguments):\n    print('engine {number}')\n")
        (source / "node" / "change" / "command.py").write_text(
            f"def main(argv):\n    print('engine {number}', *argv)\n"
        )
        shutil.copy(SOURCE / "node" / "engine" / "engine_start.py", source / "node" / "engine")
        bundle.install(bundle.build(str(source)), bundle.bundle_digest(str(source)), str(folder / "lib"))
    return folder / "lib"


def start(root: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Run `start apply` as the boot unit does, with the paths of this test; return the finished process.

    Raise subprocess.TimeoutExpired after 60 seconds.
    """
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE / 'node' / 'engine')!r}); import engine_start; "
        f"sys.exit(engine_start.main(['apply'], {str(root)!r}, {str(root / 'alarm.json')!r}))"
    )
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False, timeout=60)


def alarm(root: pathlib.Path) -> str:
    path = root / "alarm.json"
    return json.loads(path.read_text())["alarm"] if path.exists() else ""


def current(root: pathlib.Path) -> pathlib.Path:
    return root / os.readlink(root / "current")


def change_source(root: pathlib.Path) -> str:
    (current(root) / APPLY).write_text("def main(argv):\n    print('ATTACK')\n")
    return f"{APPLY} was changed or added"


def change_byte_code(root: pathlib.Path) -> str:
    (path,) = (current(root) / "host_routing/node/change/__pycache__").glob("command.*.pyc")
    source = current(root) / APPLY
    times = source.stat()
    hostile = root.parent / "hostile.py"
    # hostile.py gets the size and time of the source, so that Python accepts its byte code as the source's.
    text = "def main(argv):\n    print('ATTACK')\n"
    hostile.write_text(text + "#" * (times.st_size - len(text) - 1) + "\n")
    os.utime(hostile, (times.st_atime, times.st_mtime))
    py_compile.compile(str(hostile), cfile=str(path))
    return f"{path.relative_to(current(root))} was changed or added"


def add_extension_module(root: pathlib.Path) -> str:
    (current(root) / "host_routing/node/command.so").write_bytes(b"\x7fELF")
    return "host_routing/node/command.so was changed or added"


def remove_source(root: pathlib.Path) -> str:
    (current(root) / APPLY).unlink()
    return f"{APPLY} is missing"


def link_elsewhere(root: pathlib.Path) -> str:
    (current(root) / APPLY).unlink()
    (current(root) / APPLY).symlink_to(root.parent / "source1" / "node" / "change" / "command.py")
    return f"{APPLY} is a symbolic link"


def open_to_all(root: pathlib.Path) -> str:
    (current(root) / APPLY).chmod(0o666)
    return f"{APPLY} may be written by others (mode 0666)"


def give_away(root: pathlib.Path) -> str:
    os.chown(current(root) / APPLY, 65534, 65534)
    return f"{APPLY} belongs to user 65534"


def open_root(root: pathlib.Path) -> str:
    root.chmod(0o777)
    return f"{root} may be written by others (mode 0777)"


def give_root_away(root: pathlib.Path) -> str:
    os.chown(root, 65534, 65534)
    return f"{root} belongs to user 65534"


def open_above(root: pathlib.Path) -> str:
    root.parent.chmod(0o775)
    return f"{root.parent} may be written by others (mode 0775)"


def give_above_away(root: pathlib.Path) -> str:
    os.chown(root.parent, 65534, 65534)
    return f"{root.parent} belongs to user 65534"


def open_start(root: pathlib.Path) -> str:
    (root / "start").chmod(0o664)
    return f"{root}/start may be written by others (mode 0664)"


def open_manifests(root: pathlib.Path) -> str:
    (root / "manifests").chmod(0o1777)
    return f"{root}/manifests may be written by others (mode 1777)"


def give_manifest_away(root: pathlib.Path) -> str:
    path = root / "manifests" / f"{current(root).name}.json"
    os.chown(path, 65534, 65534)
    return f"{path} belongs to user 65534"


def link_manifests(root: pathlib.Path) -> str:
    (root / "manifests").rename(root.parent / "elsewhere")
    (root / "manifests").symlink_to(root.parent / "elsewhere")
    return f"{root}/manifests is a symbolic link"


def give_current_away(root: pathlib.Path) -> str:
    os.chown(root / "current", 65534, 65534, follow_symlinks=False)
    return f"{root}/current belongs to user 65534"


@pytest.mark.parametrize("damage", [
    open_root, give_root_away, open_above, give_above_away, open_start, open_manifests, link_manifests,
    give_current_away,
])  # fmt: skip
def test_engine_that_others_could_replace_is_not_run(
    root: pathlib.Path, damage: t.Callable[[pathlib.Path], str]
) -> None:
    """Use a folder, link or file on the path to the engine that users other than root can write.

    `damage` makes it so, and returns the reason that is to be reported.

    Gain: Code that runs as root at each boot, by an engine with a digest and a manifest of its own.
    Precedent: CWE-732, CWE-426 (untrusted search path).
    Closed: 0.2.0
    Result: The previous engine runs; the journal and a file name what others may write.
    """
    assert (start(root).stdout, alarm(root)) == ("engine 2 apply\n", "")
    found = damage(root)
    done = start(root)
    previous = next(name for name in os.listdir(root) if len(name) == 16 and name != current(root).name)
    assert done.stdout == "engine 1 apply\n"
    assert alarm(root) == (
        f"the engine {current(root).name} in {root} is not as it was installed: {found}. It was started as the engine "
        f"{previous}. Run site.yml, which installs it again, and find out who changed it."
    )
    assert done.stderr == f"<1>{alarm(root)}\n"
    assert bundle.damage(str(root)) == (found,)


@pytest.mark.parametrize(
    "damage",
    [change_source, add_extension_module, remove_source, link_elsewhere, open_to_all, give_away],
)
def test_changed_engine_is_not_run(root: pathlib.Path, damage: t.Callable[[pathlib.Path], str]) -> None:
    """Change a file of the engine that the boot unit and the agent run.

    `damage` changes it, and returns the reason that is to be reported.

    Gain: code that runs as root at each boot.
    Precedent: CWE-494 (download of code without integrity check), CWE-732.
    Closed: 0.2.0
    Result: The previous engine runs; the journal and a file name what was changed.
    """
    assert (start(root).stdout, alarm(root)) == ("engine 2 apply\n", "")
    found = damage(root)
    done = start(root)
    previous = next(name for name in os.listdir(root) if len(name) == 16 and name != current(root).name)
    assert done.stdout == "engine 1 apply\n"
    assert alarm(root).startswith(f"the engine {current(root).name} in {root} is not as it was installed: {found}")
    assert alarm(root).endswith(
        f" It was started as the engine {previous}. Run site.yml, which installs it again, and find out who changed it."
    )
    assert done.stderr == f"<1>{alarm(root)}\n"
    assert found in ", ".join(bundle.damage(str(root)))


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_umask_of_root_opens_nothing(tmp_path: pathlib.Path, umask: int) -> None:
    """Wait for a run by root with umask 000, then write into the engine; umask 077 must not close it to readers.

    Gain: code that runs as root.
    Precedent: CWE-276 (incorrect default permissions).
    Closed: 0.2.0
    Result: No file or folder is writable by others or a group, and all users can read all of them.
    """
    before = os.umask(umask)
    try:
        root = install_both(tmp_path)
    finally:
        os.umask(before)
    (tmp_path / "lib").parent.chmod(0o755)
    found = [path for path in (root, *root.rglob("*")) if not path.is_symlink()]
    assert found and not [path for path in found if path.stat().st_mode & 0o022]
    assert not [path for path in found if not path.stat().st_mode & 0o004]


def alone(root: pathlib.Path) -> None:
    """Remove the engine that is not in use."""
    for name in os.listdir(root):
        if len(name) == 16 and name != current(root).name:
            shutil.rmtree(root / name)


@pytest.mark.parametrize("others", [lambda root: None, alone], ids=["with the previous engine", "alone"])
@pytest.mark.parametrize("damage", [change_byte_code, give_manifest_away])
def test_byte_code_alone_is_passed_over(
    root: pathlib.Path, damage: t.Callable[[pathlib.Path], str], others: t.Callable[[pathlib.Path], None]
) -> None:
    """Change the byte code of the engine, or replace the manifest that lists its files.

    `damage` does so, and returns the reason that is to be reported.

    Gain: Code that runs as root, an older engine at each boot, or a node that does not come up after a reboot.
    Precedent: CWE-494.
    Closed: 0.2.0
    Result: The engine is compiled from its sources, which are intact, and the alarm says so.
    """
    others(root)
    found = damage(root)
    done = start(root)
    assert done.stdout == "engine 2 apply\n"
    assert alarm(root) == (
        f"the engine {current(root).name} in {root} is not as it was installed: {found}. It was started from its "
        "sources alone. Run site.yml, which installs it again, and find out who changed it."
    )
    assert done.stderr == f"<1>{alarm(root)}\n"
    assert bundle.damage(str(root)) == (found,)


def test_nothing_whole_is_nothing_run(root: pathlib.Path) -> None:
    """Change all engines of a node.

    Gain: code that runs as root.
    Precedent: CWE-494.
    Closed: 0.2.0
    Result: Nothing is started, and the error names the file and the remedy.
    """
    digest = current(root).name
    for name in os.listdir(root):
        if len(name) == 16:
            (root / name / APPLY).write_text("print('ATTACK')\n")
    done = start(root)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"<1>the engine {digest} in {root} is not as it was installed: {APPLY} was changed or added. No other engine "
        "there is whole, and nothing was started. Run site.yml, which installs it again, and find out who changed it.\n"
    )
    assert engine_start.in_use(str(root)) == digest


HOSTILE = "def main(argv):\n    print('ATTACK')\n"
#: Byte code with a head that this interpreter accepts without a look at the source (PEP 552).
ATTACK = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8) + marshal.dumps(compile(HOSTILE, "command.py", "exec"))


def packed_and_digest(folder: pathlib.Path) -> tuple[PackedEngine, str]:
    """Return a packed third engine, and its digest."""
    source = folder / "source2"
    (source / "node" / "change" / "command.py").write_text("def main(argv):\n    print('engine 3', *argv)\n")
    return bundle.build(str(source)), bundle.bundle_digest(str(source))


def exchange_byte_code(packed: PackedEngine) -> tuple[PackedEngine, str]:
    other = forged(packed, byte_code={APPLY: ATTACK})
    return packed._replace(data=other.data), f"is {other.sha256} and should be {packed.sha256}"


def add_byte_code(packed: PackedEngine) -> tuple[PackedEngine, str]:
    added = forged(packed, byte_code={"host_routing/node/more.py": ATTACK})
    content = carried_start.unpack(added.data).sources
    return added, f"is {engine_start.sources_digest(content)} and should be "


def add_byte_code_alone(packed: PackedEngine) -> tuple[PackedEngine, str]:
    name = "host_routing/node/more.pyc"
    return forged(packed, byte_code={name: ATTACK}), f"is not one: it holds {name!r}, which is no file of an engine"


@pytest.mark.parametrize("forge", [exchange_byte_code, add_byte_code, add_byte_code_alone])
def test_exchanged_byte_code_is_not_installed(
    root: pathlib.Path, forge: t.Callable[[PackedEngine], tuple[PackedEngine, str]]
) -> None:
    """Replace the packed engine in Ansible's temporary folder, or add byte code without a source to it.

    `forge` does so, and returns a part of the error.

    Gain: Code that runs as root at each boot, with a manifest that confirms it.
    Precedent: CWE-494 (download of code without integrity check), CWE-367.
    Closed: 0.2.0
    Result: The installation ends with an error, and the engine in use stays.
    """
    packed, digest = packed_and_digest(root.parent)
    hostile, words = forge(packed)
    before = current(root).name
    with pytest.raises(bundle.BundleError) as caught:
        bundle.install(hostile, digest, str(root))
    assert f"the engine that arrived {words}" in str(caught.value)
    assert current(root).name == before and not (root / digest).exists()
    assert (start(root).stdout, alarm(root)) == ("engine 2 apply\n", "")


def test_byte_code_of_another_interpreter_is_not_run(root: pathlib.Path) -> None:
    """Have byte code of another Python interpreter installed under the name for this interpreter.

    Gain: A process of root loads code for another interpreter, and crashes or runs something else.
    Precedent: CWE-843 (access of resource using incompatible type).
    Closed: 0.2.0
    Result: The node compiles the sources, and the engine runs the result.
    """
    packed, digest = packed_and_digest(root.parent)
    other = f"{sys.implementation.cache_tag} 0123abcd"
    assert bundle.install(forged(packed, other, byte_code={APPLY: ATTACK}), digest, str(root)) is True
    assert (start(root).stdout, alarm(root)) == ("engine 3 apply\n", "")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a mount namespace")
@pytest.mark.parametrize("place", sorted(engine_commands()))
def test_every_program_of_the_system_runs_a_checked_engine(root: pathlib.Path, place: str) -> None:
    """Change the engine's first file, then start each unit and program of the role that runs the engine.

    Gain: Code that runs as root, from the one unit that does not check.
    Precedent: CWE-353 (missing support for integrity check), CWE-829.
    Closed: 0.3.0
    Result: Each of them runs the previous engine instead, and raises an alarm.
    """
    (current(root) / engine_start.MAIN).write_text("print('ATTACK')\n")
    command = engine_commands()[place].replace("%i", "web").replace("$CALICO_OPTIONS", "")
    script = f"""
        mount -t tmpfs -o mode=755 none /run && mount -t tmpfs -o mode=755 none /usr/local/lib &&
        mkdir /usr/local/lib/calico && cp -a {root}/. /usr/local/lib/calico && {command} && cat {engine_start.ALARM}
    """
    words = ["unshare", "--mount", "sh", "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    said, raised = done.stdout.splitlines()
    assert said.startswith("engine 1")
    assert "__main__.py was changed or added. It was started as the engine " in json.loads(raised)["alarm"]
