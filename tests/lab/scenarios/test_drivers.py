# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers' tests in the emulated machine, for tunl0, which this machine's kernel may lack."""

from __future__ import annotations

import importlib.util
import io
import tarfile
from pathlib import Path

import pytest

from tests.lab.handle import BaseLab

from .conftest import MACHINE, ROOT

#: The libraries that the tests need, all pure Python, so that the controller's copies run on any host.
_LIBRARIES = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments", "pyroute2")
_OURS = (
    "plugins/__init__.py",
    "plugins/module_utils",
    "tests/conftest.py",
    "tests/long_form.py",
    "tests/fakes",
    "tests/unit/dataplane",
    "tests/integration/conftest.py",
    "tests/integration/host_under_test.py",
    "tests/integration/dataplane",
)


def bundle() -> bytes:
    """Return a gzipped tar with the tests, the code they test and, below site/, the libraries they need.

    A path of _OURS that does not exist is left out. Raise AssertionError if a library is not installed here.
    """
    stream = io.BytesIO()

    def wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if "__pycache__" in member.name else member

    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in _OURS:
            if (ROOT / name).exists():
                tar.add(ROOT / name, name, filter=wanted)
        for name in _LIBRARIES:
            spec = importlib.util.find_spec(name)
            assert spec is not None and spec.origin is not None, name
            origin = Path(spec.origin)
            source = origin.parent if origin.name == "__init__.py" else origin
            tar.add(source, f"site/{source.name}", filter=wanted)
    return stream.getvalue()


@pytest.mark.skipif(MACHINE == "native", reason="the suite runs on this machine's kernel in tests/integration")
def test_tunl0_on_this_kernel(lab: BaseLab, tmp_path: Path) -> None:
    (tmp_path / "suite.tar.gz").write_bytes(bundle())
    lab.put("node1", tmp_path / "suite.tar.gz", "/tmp/suite.tar.gz")
    lab.exec("node1", "rm -rf /tmp/suite && mkdir /tmp/suite && tar -C /tmp/suite -xzf /tmp/suite.tar.gz", timeout=120)
    done = lab.exec(
        "node1",
        "cd /tmp/suite && PYTHONPATH=site python3 -m pytest -c /dev/null --rootdir . --import-mode=importlib"
        " -o pythonpath=. -o 'markers=root: needs root' -p no:cacheprovider -q -rA -k tunl0"
        " tests/integration/dataplane/test_drivers.py",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "3 passed" in done.stdout, done.stdout[-4000:]
    assert "skipped" not in done.stdout, done.stdout[-4000:]
