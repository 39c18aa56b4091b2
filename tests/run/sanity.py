# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ansible-test sanity` without containers. Further arguments are handed on: `sanity.py --test validate-modules`.

ansible-test insists on a folder called ansible_collections/<namespace>/<name> and resolves links, so the sources are
copied. It keeps its virtual environments under $HOME, so $HOME is a folder below .build/sanity here. To make them it
downloads pip from a server of its own, which not every network reaches: the same pip from the package index takes its
place.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from tests.run import lint

ROOT = lint.ROOT
BASE = ROOT / ".build" / "sanity"
COPY = BASE / "ansible_collections" / "baremetal" / "host_routing"
CACHE = BASE / "home" / ".ansible" / "test" / "cache"

SOAK = os.environ.get("HOST_ROUTING_SOAK") == "1"
#: The files that Ansible, systemd and people start, and those that others import in functions. ansible-test's `import`
#: imports each of them where no other library is installed, and thereby all files. With HOST_ROUTING_SOAK=1 it begins
#: with each file of the collection, which takes longer than all other tests together.
STARTED = (
    "plugins/modules/*.py",
    "plugins/action/*.py",
    "plugins/lookup/*.py",
    "plugins/module_utils/agent/daemon.py",
    "plugins/module_utils/runtimes/docker/daemon.py",
    "plugins/module_utils/runtimes/reporter/daemon.py",
    "plugins/module_utils/datastore/feed.py",
    "plugins/module_utils/datastore/gate/program.py",
    "plugins/module_utils/datastore/snapshot.py",
    "plugins/module_utils/datastore/settings.py",
    "plugins/module_utils/bgp/filter_verdict.py",
    "plugins/module_utils/node/change/command.py",
    "plugins/module_utils/node/change/verdicts/lockout_check.py",
    "plugins/module_utils/cli/command.py",
    "plugins/module_utils/cli/agent_source.py",
    "plugins/module_utils/cli/execution.py",
    "plugins/module_utils/cli/commands/refused/refusal.py",
    "plugins/module_utils/policy/documents/to_resources.py",
    "plugins/module_utils/cli/datastore_source.py",
    "plugins/module_utils/cli/render/yaml_text.py",
    "plugins/module_utils/cli/commands/*.py",
    "plugins/module_utils/cli/commands/node/*.py",
    "plugins/module_utils/cli/commands/shell/*.py",
    "plugins/module_utils/cli/commands/migration/*.py",
    "plugins/module_utils/cli/fleet/*.py",
    "plugins/module_utils/cli/connection/api_config.py",
    "plugins/module_utils/live/*.py",
)

GET_PIP = """\
import sys
sys.path.insert(0, {wheel!r})
from pip._internal.cli.main import main
more = [argument for argument in sys.argv[1:] if not argument.startswith("--no-")]
sys.exit(main(["install", "--upgrade", "--force-reinstall", "pip=={version}", *more]))
"""


def copy_sources() -> None:
    """Copy the shipped files and ansible-test's settings to COPY, a git repository, and remove all other files there.

    Tests and tools are left out: their style is checked by ruff. Raise CalledProcessError if git fails.
    """
    kept = ("tests/config.yml", "tests/sanity")
    shipped = ("bin", "plugins", "roles", "playbooks", "meta", "changelogs", "docs", "galaxy.yml", "README.md")
    wanted = {path for path in lint.sources() if path.parts[0] in shipped or str(path).startswith(kept)}
    COPY.mkdir(parents=True, exist_ok=True)
    # The copy is a repository of its own: ansible-test would otherwise ask the clone's, which ignores all of .build.
    subprocess.run(["git", "init", "--quiet"], cwd=COPY, check=True)
    for path in sorted(COPY.rglob("*"), reverse=True):
        if path.relative_to(COPY).parts[0] == ".git":
            continue
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(COPY) not in wanted:
            path.unlink()
    for path in wanted:
        (COPY / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, COPY / path)


def pip_version() -> str:
    """Return the version of the pip that this ansible-test would download; raise AttributeError if it names none."""
    import ansible_test._internal.python_requirements as requirements

    named = re.search(r"pip='([0-9.]+)'", pathlib.Path(requirements.__file__).read_text("utf-8"))
    if named is None:
        raise AttributeError(f"{requirements.__file__} names no pip='VERSION'")
    return named[1]


def provide_pip() -> None:
    version = pip_version()
    script = CACHE / f"get_pip_{version.replace('.', '_')}.py"
    wheels = BASE / "wheels"
    if script.is_file() and list(wheels.glob(f"pip-{version}-*.whl")):
        return
    download = ("pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), f"pip=={version}")
    subprocess.run([sys.executable, "-m", *download], check=True)
    wheel = next(wheels.glob(f"pip-{version}-*.whl"))
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(GET_PIP.format(wheel=str(wheel), version=version), "utf-8")


def started() -> list[str]:
    """Return the paths of the files in COPY that STARTED names, sorted for each of its patterns."""
    return [str(path.relative_to(COPY)) for pattern in STARTED for path in sorted(COPY.glob(pattern))]


def main() -> int:
    copy_sources()
    provide_pip()
    env = dict(os.environ, HOME=str(BASE / "home"), PATH=f"{lint.BIN}:{os.environ['PATH']}", LC_ALL="C.UTF-8")
    # Remove all of Ansible's variables, since some point at the clone instead of the copy.
    for name in [name for name in env if name.startswith("ANSIBLE_")]:
        del env[name]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    command = ["ansible-test", "sanity", "--local", "--python", python, "--junit", "--color", "no"]
    reports = COPY / "tests" / "output" / "junit"
    shutil.rmtree(reports, ignore_errors=True)
    runs = [sys.argv[1:]] if sys.argv[1:] or SOAK else [["--skip-test", "import"], ["--test", "import", *started()]]
    status = max(subprocess.run([*command, *more], cwd=COPY, env=env, check=False).returncode for more in runs)
    if "HOST_ROUTING_JUNIT" in os.environ and reports.is_dir():
        shutil.copytree(reports, os.environ["HOST_ROUTING_JUNIT"], dirs_exist_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
