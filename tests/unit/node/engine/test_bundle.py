# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the engine that nodes get: it is complete in itself, and installed whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import marshal
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import typing as t
import zlib

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import (
    bundle,
    carried_start,
    engine_start,
)
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.store import atomic_file

from tests.fakes.forged_engine import forged, whole_engine

REMEDY = (
    "It was damaged on the way here. Run again; if it happens twice, look at the disk of the node and of the "
    "controller."
)
SOURCE = str(pathlib.Path(bundle.__file__).resolve().parents[2])


@pytest.fixture
def source(tmp_path):
    """The Path of a small engine: files in every folder that a node needs, and in `fleet`, which it does not."""
    folder = tmp_path / "source"
    for name in ("", *bundle.ROOMS, "fleet"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "__init__.py").write_text("")
    (folder / "fleet" / "compiler.py").write_text("")
    (folder / "agent" / "daemon.py").write_text("def main(argv):\n    print('agent', *argv)\n    return 3\n")
    for name in ("change", "engine"):
        (folder / "node" / name).mkdir()
    (folder / "node" / "change" / "command.py").write_text(
        "def main(argv):\n    print('engine 1', *argv)\n    return 7\n"
    )
    shutil.copy(pathlib.Path(SOURCE) / "node" / "engine" / "engine_start.py", folder / "node" / "engine")
    return folder


def install(source, root):
    return bundle.install(bundle.build(str(source)), bundle.bundle_digest(str(source)), str(root))


def test_equal_code_is_an_equal_bundle_and_other_code_another(source):
    first = bundle.build(str(source))
    digest = bundle.bundle_digest(str(source))
    (source / "node" / "__pycache__").mkdir()
    (source / "node" / "__pycache__" / "x.py").write_text("1")
    os.utime(source / "node" / "change" / "command.py", (1, 1))
    (source / "fleet" / "compiler.py").write_text("not a room of a node")
    assert bundle.build(str(source)) == first
    assert bundle.bundle_digest(str(source)) == digest
    (source / "dataplane" / "new.py").write_text("x = 1\n")
    assert bundle.build(str(source)) != first
    assert bundle.bundle_digest(str(source)) != digest


def test_byte_code_that_arrives_for_this_interpreter_is_installed(source, tmp_path):
    packed = bundle.build(str(source))
    root = tmp_path / "lib"
    assert bundle.install(packed, bundle.bundle_digest(str(source)), str(root)) is True
    arrived = carried_start.unpack(packed.data).byte_code
    assert arrived
    for name, code in arrived.items():
        path = root / "current" / name
        assert pathlib.Path(importlib.util.cache_from_source(str(path))).read_bytes() == code
        # PEP 552: byte code that Python runs without a look at its source, and the hash of that.
        assert code[:16] == importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + importlib.util.source_hash(path.read_bytes())
    code = marshal.loads(arrived["host_routing/node/change/command.py"][16:])
    digest = bundle.bundle_digest(str(source))
    assert code.co_filename == f"/usr/local/lib/calico/{digest}/host_routing/node/change/command.py"


def test_byte_code_has_the_docstrings_of_classes_and_not_of_functions(source, tmp_path):
    """A dataclass without a docstring would make one of its signature at each start, which takes longer."""
    (source / "node" / "change" / "command.py").write_text(
        '"""Module."""\n'
        "class Shown:\n"
        '    """Class."""\n'
        "    def name(self):\n"
        '        """Method."""\n'
        "        return 'shown'\n"
        "def empty():\n"
        '    """Function."""\n'
        "async def later():\n"
        '    """Coroutine."""\n'
        "    return 'later'\n"
    )
    code = carried_start.unpack(bundle.build(str(source)).data).byte_code["host_routing/node/change/command.py"]
    found: dict[str, t.Any] = {}
    exec(marshal.loads(code[16:]), found)
    assert (found["__doc__"], found["Shown"].__doc__) == ("Module.", "Class.")
    assert [found["Shown"].name.__doc__, found["empty"].__doc__, found["later"].__doc__] == [None, None, None]
    assert (found["Shown"]().name(), found["empty"]()) == ("shown", None)


def test_an_engine_of_another_interpreter_is_compiled_here(source, tmp_path):
    own = bundle.build(str(source))
    digest = bundle.bundle_digest(str(source))
    root = tmp_path / "lib"
    useless = dict.fromkeys(carried_start.unpack(own.data).sources, b"of no use here")
    assert bundle.install(forged(own, "cpython-399 0123abcd", byte_code=useless), digest, str(root)) is True
    assert bundle.damage(str(root)) == ()
    for name in useless:
        path = root / "current" / name
        code = pathlib.Path(importlib.util.cache_from_source(str(path))).read_bytes()
        assert code[:16] == importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + importlib.util.source_hash(path.read_bytes())
        assert marshal.loads(code[16:]).co_filename == str(root / digest / name)
    command = [sys.executable, "-I", str(root / "current"), "apply"]
    assert subprocess.run(command, capture_output=True, check=False).stdout == b"engine 1 apply\n"


def test_it_runs_without_anything_around_it(source, tmp_path):
    root = tmp_path / "lib"
    assert install(source, root) is True
    run = subprocess.run(
        [sys.executable, "-I", str(root / "current"), "apply"], capture_output=True, text=True, check=False, cwd="/"
    )
    assert (run.returncode, run.stdout, run.stderr) == (7, "engine 1 apply\n", "")
    run = subprocess.run(
        [sys.executable, "-I", str(root / "current"), "agent", "--x"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (run.returncode, run.stdout, run.stderr) == (3, "agent --x\n", "")


def test_installing_it_again_changes_nothing(source, tmp_path):
    root = tmp_path / "lib"
    assert install(source, root) is True
    assert install(source, root) is False


def test_the_one_before_is_kept_and_older_ones_go(source, tmp_path):
    root = tmp_path / "lib"
    digests = []
    for number in range(3):
        (source / "node" / "version.py").write_text(f"NUMBER = {number}\n")
        install(source, root)
        digests.append(bundle.installed_digest(str(root)))
    assert sorted(os.listdir(root)) == sorted([*digests[1:], "current", "manifests", "start"])
    assert sorted(os.listdir(root / "manifests")) == sorted(f"{digest}.json" for digest in digests[1:])
    assert os.readlink(root / "current") == digests[2]


def two_engines(source, root):
    """Install an engine and then another one; return the digests of both. The first one stays beside it."""
    install(source, root)
    first = bundle.bundle_digest(str(source))
    (source / "node" / "engine" / "engine_start.py").write_text("# the start of the second one\n")
    install(source, root)
    return first, bundle.bundle_digest(str(source))


def test_the_one_before_is_used_again_without_being_sent(source, tmp_path):
    """After a return to an older release and an upgrade, the controller finds its engine on the node."""
    first, second = two_engines(source, tmp_path / "root")
    own = (pathlib.Path(SOURCE) / "node" / "engine" / "engine_start.py").read_text("utf-8")
    assert bundle.use(first, str(tmp_path / "root"))
    assert bundle.installed_digest(str(tmp_path / "root")) == first
    assert (tmp_path / "root" / "start").read_text("utf-8") == own
    assert bundle.damage(str(tmp_path / "root")) == ()
    assert not bundle.use(first, str(tmp_path / "root"))
    assert bundle.use(second, str(tmp_path / "root"))
    assert bundle.installed_digest(str(tmp_path / "root")) == second
    assert sorted(path.name for path in (tmp_path / "root").iterdir() if path.is_dir()) == sorted(
        ["current", first, second, "manifests"]
    )


def test_one_before_that_was_changed_is_not_used_again(source, tmp_path):
    root = tmp_path / "root"
    first, second = two_engines(source, root)
    (root / first / "host_routing" / "node" / "change" / "command.py").write_text("")
    with pytest.raises(bundle.BundleError) as caught:
        bundle.use(first, str(root))
    assert str(caught.value) == (
        f"the engine {first} in {root} cannot be used: host_routing/node/change/command.py was changed or added. The "
        "engine in use stays. Run again: the controller then sends the engine."
    )
    shutil.rmtree(root / first)
    with pytest.raises(bundle.BundleError) as caught:
        bundle.use(first, str(root))
    assert str(caught.value) == (
        f"the engine {first} in {root} cannot be used: {root / first} cannot be read: No such file or directory. The "
        "engine in use stays. Run again: the controller then sends the engine."
    )
    assert bundle.installed_digest(str(root)) == second


def test_one_before_is_not_used_again_below_a_folder_that_others_may_replace(source, tmp_path):
    root = tmp_path / "open" / "lib"
    first, second = two_engines(source, root)
    root.parent.chmod(0o777)
    with pytest.raises(bundle.BundleError) as caught:
        bundle.use(first, str(root))
    assert f"the engine cannot be put into {root}: {root.parent} may be written by others (mode 0777)." in str(
        caught.value
    )
    assert bundle.installed_digest(str(root)) == second


def test_one_before_is_not_used_again_if_the_disk_refuses(source, tmp_path, monkeypatch):
    root = tmp_path / "root"
    first, second = two_engines(source, root)

    def full(path, data, mode):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(bundle.replacement, "replace", full)
    with pytest.raises(atomic_file.FileError) as caught:
        bundle.use(first, str(root))
    assert str(caught.value) == (
        f"the engine {first} in {root} could not be made the one in use: No space left on device. Make room or correct "
        "the file system, then run again."
    )
    assert bundle.installed_digest(str(root)) == second


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_all_may_read_and_root_alone_may_write_whatever_the_umask(source, tmp_path, umask):
    root = tmp_path / "lib"
    before = os.umask(umask)
    try:
        install(source, root)
    finally:
        os.umask(before)
    modes = {
        stat.S_IMODE(path.lstat().st_mode)
        for path in (root, *root.rglob("*"))
        if path.is_dir() and not path.is_symlink()
    }
    assert modes == {0o755}
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*") if path.is_file()} == {0o644}


def test_an_engine_that_lost_its_byte_code_runs_from_its_sources_and_not_the_one_before(source, tmp_path):
    """A power failure may empty byte code, which is not synced: the engine in use starts without it all the same."""
    root = tmp_path / "lib"
    install(source, root)
    (source / "node" / "change" / "command.py").write_text("def main(argv):\n    print('engine 2')\n")
    install(source, root)
    digest = bundle.bundle_digest(str(source))
    path = "host_routing/node/change/__pycache__/command.*.pyc"
    (lost,) = (root / digest).glob(path)
    lost.write_bytes(b"")
    assert engine_start.choose(str(root)) == engine_start.EngineChoice(
        digest,
        False,
        f"the engine {digest} in {root} is not as it was installed: {lost.relative_to(root / digest)} was changed or "
        "added. It was started from its sources alone. Run site.yml, which installs it again, and find out who changed "
        "it.",
    )
    (root / "current" / "host_routing" / "node" / "change" / "command.py").write_bytes(b"")
    assert (engine_start.choose(str(root)).digest != digest, engine_start.choose(str(root)).byte_code) == (True, True)


def test_a_damaged_engine_is_reported_and_installed_again(source, tmp_path):
    root = tmp_path / "lib"
    install(source, root)
    (root / "current" / "host_routing" / "node" / "change" / "command.py").write_text("print('other')\n")
    assert bundle.damage(str(root)) == ("host_routing/node/change/command.py was changed or added",)
    assert install(source, root) is True
    assert bundle.damage(str(root)) == ()
    assert install(source, root) is False
    (root / "start").write_text("print('other')\n")
    assert bundle.damage(str(root)) == (f"{root}/start is another file",)
    assert install(source, root) is True
    assert bundle.damage(str(root)) == ()
    assert sorted(os.listdir(root)) == sorted([bundle.installed_digest(str(root)), "current", "manifests", "start"])


def test_modes_and_owners_around_an_engine_are_repaired(source, tmp_path):
    root = tmp_path / "lib"
    install(source, root)
    digest = bundle.installed_digest(str(root))
    manifest = root / "manifests" / f"{digest}.json"
    for path in (root, root / "manifests", root / "start", manifest):
        os.chown(path, 65534, 65534)
        path.chmod(0o777)
    os.chown(root / "current", 65534, 65534, follow_symlinks=False)
    assert bundle.damage(str(root)) == (
        *(
            text
            for path in (root, root / "manifests", root / "start")
            for text in (f"{path} may be written by others (mode 0777)", f"{path} belongs to user 65534")
        ),
        f"{root}/current belongs to user 65534",
        f"{manifest} may be written by others (mode 0777)",
        f"{manifest} belongs to user 65534",
    )
    assert install(source, root) is True
    assert bundle.damage(str(root)) == ()
    assert install(source, root) is False


def test_an_engine_is_put_into_no_folder_that_others_may_replace(source, tmp_path):
    root = tmp_path / "open" / "lib"
    root.parent.mkdir()
    root.parent.chmod(0o777)
    with pytest.raises(bundle.BundleError) as error:
        install(source, root)
    assert str(error.value) == (
        f"the engine cannot be put into {root}: {root.parent} may be written by others (mode 0777). Users who may "
        "write there can replace what root runs. Have root own these folders, take the right to write from group "
        "and others (chmod go-w), then run again. What was there before stands unchanged."
    )
    assert not root.exists()
    # In a sticky folder nobody else can rename root's folders.
    root.parent.chmod(0o1777)
    assert install(source, root) is True


@pytest.mark.parametrize(("group", "harmless"), [(50, True), (65534, False)])
def test_group_staff_may_write_the_folders_above_as_debian_allows(source, tmp_path, group, harmless):
    root = tmp_path / "local" / "lib"
    root.parent.mkdir()
    os.chown(root.parent, 0, group)
    root.parent.chmod(0o2775)
    assert (engine_start.above(str(root)) == []) is harmless
    root.parent.chmod(0o2777)
    assert [one.text for one in engine_start.above(str(root))] == [
        f"{root.parent} may be written by others (mode 2777)"
    ]


def test_a_link_to_the_engines_is_followed(source, tmp_path):
    """If the engines' folder is a link, the engine is put into its target, whose parent folders are checked, too."""
    root = tmp_path / "link"
    (tmp_path / "other").mkdir()
    root.symlink_to(tmp_path / "other" / "lib")
    (tmp_path / "other" / "lib").mkdir()
    assert install(source, root) is True
    assert bundle.damage(str(root)) == ()
    (tmp_path / "other").chmod(0o777)
    assert bundle.damage(str(root)) == (f"{tmp_path}/other may be written by others (mode 0777)",)


def test_a_damaged_bundle_is_refused_and_the_engine_in_use_stays(source, tmp_path):
    root = tmp_path / "lib"
    install(source, root)
    before = bundle.installed_digest(str(root))
    (source / "node" / "change" / "command.py").write_text("pass\n")
    packed = bundle.build(str(source))
    with pytest.raises(bundle.BundleError) as error:
        bundle.install(packed, "0123456789abcdef", str(root))
    digest = bundle.bundle_digest(str(source))
    assert str(error.value) == f"the engine that arrived is {digest} and should be 0123456789abcdef. {REMEDY}"
    with pytest.raises(bundle.BundleError) as error:
        bundle.install(packed._replace(data=packed.data[:40]), digest, str(root))
    found = hashlib.sha256(packed.data[:40]).hexdigest()
    assert str(error.value) == f"the engine that arrived is {found} and should be {packed.sha256}. {REMEDY}"
    assert bundle.installed_digest(str(root)) == before


def listed(name, source, byte_code):
    return json.dumps({"interpreter": "", "files": [[name, source, byte_code]]}).encode() + b"\n"


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        (b"no line", "it cannot be unpacked: subsection not found"),
        (b"{}\n", "it cannot be unpacked: 'files'"),
        (b"[]\n", "it cannot be unpacked: list indices must be integers or slices, not str"),
        (listed("a.py", 4, 2) + b"12345", "it cannot be unpacked: 52 bytes in the place of 53"),
        (listed("a.py", 4, 2) + b"1234567", "it cannot be unpacked: 54 bytes in the place of 53"),
        (listed("a.py", -1, 1), "it holds 'a.py', which is no file of an engine"),
        *(
            (listed(name, 0, 0), f"it holds {name!r}, which is no file of an engine")
            for name in ("/etc/x.py", "a/../x.py", "a//x.py", "./x.py", "x.so", "__pycache__/x.pyc", "")
        ),
    ],
)
def test_data_that_is_no_engine_is_refused(tmp_path, plain, reason):
    packed = bundle.PackedEngine.from_data(zlib.compress(plain))
    with pytest.raises(bundle.BundleError) as caught:
        bundle.install(packed, "0123456789abcdef", str(tmp_path / "root"))
    assert str(caught.value) == f"the engine that arrived is not one: {reason}. {REMEDY}"


def test_data_that_is_not_compressed_is_refused(tmp_path):
    with pytest.raises(bundle.BundleError, match="not one: it cannot be unpacked: Error -3 while decompressing data"):
        bundle.install(bundle.PackedEngine.from_data(b"x" * 40), "0123456789abcdef", str(tmp_path / "root"))


def test_a_failed_sync_of_the_folder_is_an_error_and_the_engine_is_in_use(source, tmp_path, monkeypatch):
    install(source, tmp_path / "root")
    (source / "base" / "more.py").write_text("MORE = 1\n")
    digest = bundle.bundle_digest(str(source))

    def fail_at_the_end(folder):
        if bundle.installed_digest(str(tmp_path / "root")) == digest:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(bundle.folders, "sync", fail_at_the_end)
    with pytest.raises(atomic_file.FileError) as caught:
        install(source, tmp_path / "root")
    assert str(caught.value) == (
        f"engine {digest} was put into {tmp_path / 'root'} and is in use, but the folder could not be synced to the "
        "disk: Input/output error. A power failure may undo it. Correct the file system, then run again."
    )
    assert bundle.installed_digest(str(tmp_path / "root")) == digest


@pytest.mark.parametrize("unlisted", ["", "manifests"])
def test_an_engine_is_installed_even_if_older_ones_cannot_be_listed(source, tmp_path, monkeypatch, unlisted):
    root = tmp_path / "lib"
    listdir = os.listdir

    def failing(folder):
        if folder == os.path.join(str(root), unlisted).rstrip("/"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return listdir(folder)

    monkeypatch.setattr(bundle.os, "listdir", failing)
    assert install(source, root)
    monkeypatch.undo()
    assert bundle.installed_digest(str(root)) == bundle.bundle_digest(str(source))


def test_a_full_disk_leaves_the_engine_in_use(source, tmp_path, monkeypatch):
    root = tmp_path / "lib"
    install(source, root)
    before = bundle.installed_digest(str(root))
    (source / "node" / "change" / "command.py").write_text("pass\n")

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(bundle.os, "fsync", full)
    with pytest.raises(atomic_file.FileError) as error:
        install(source, root)
    monkeypatch.undo()
    assert str(error.value) == (
        f"the engine could not be put into {root}: No space left on device. What was there before stands "
        f"unchanged. Make "
        "room or correct the file system, then run again."
    )
    assert bundle.installed_digest(str(root)) == before
    assert sorted(os.listdir(root)) == sorted([before, "current", "manifests", "start"])
    assert bundle.damage(str(root)) == ()


def test_the_collections_own_engine_needs_no_room_that_it_lacks(tmp_path):
    """Every module of the bundle can be imported in an interpreter that has only it and the standard library."""
    root = tmp_path / "lib"
    bundle.install(whole_engine(), bundle.bundle_digest(SOURCE), str(root))
    names = sorted(
        str(path.relative_to(root / "current").with_suffix("")).replace("/", ".").replace(".__init__", "")
        for path in (root / "current").rglob("host_routing/**/*.py")
    )
    assert "host_routing.node.change.command" in names
    code = f"import sys; sys.path.insert(0, {str(root / 'current')!r})\nfor n in {names!r}: __import__(n)"
    run = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
