# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of Ansible in a copy of a process that has imported Ansible: importing it is half of a short run.

From the second run on the process has also imported the collection's action plugins, which the program imports anew
for each task of each host. The copy runs the program's own entry point with the same arguments, environment, folder,
umask and namespaces. The suites of molecule, `make demo` and the pages of the documentation run the programs
themselves.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import typing as t

#: Processes kept in one pytest process, each for one environment, folder and set of namespaces.
KEPT = 2

_prepared: collections.OrderedDict[tuple[t.Any, ...], subprocess.Popen[bytes]] = collections.OrderedDict()


def run(
    command: t.Sequence[t.Union[str, pathlib.Path]],
    cwd: pathlib.Path,
    environment: t.Mapping[str, str],
    timeout: float,
    inside: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run `command`, whose first word is a program of Ansible or its path; return the finished process.

    `inside` are the words of a program that runs another one elsewhere, such as `ip netns exec`. The exit status of the
    finished process need not be 0. Raise subprocess.TimeoutExpired after `timeout` seconds.
    """
    words = [str(word) for word in command]
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("stdout", "stderr")]
        for path in paths:
            path.touch()
        mask = re.findall(r"^Umask:\s*(\d+)$", pathlib.Path("/proc/self/status").read_text("utf-8", "replace"), re.M)[0]
        request = json.dumps([words, int(mask, 8), *map(str, paths)]).encode() + b"\n"
        plain = {name: value for name, value in environment.items() if name != "PYTEST_CURRENT_TEST"}
        process = _process(cwd, plain, inside)
        assert process.stdin
        process.stdin.write(request)
        deadline = time.monotonic() + timeout
        copy = int(_line(process, deadline + 60))
        try:
            status = _line(process, deadline)
        except TimeoutError:
            os.kill(copy, signal.SIGKILL)
            _line(process, deadline + 60)
            raise subprocess.TimeoutExpired(words, timeout, *(path.read_bytes() for path in paths)) from None
        return subprocess.CompletedProcess(words, int(status), *(path.read_text("utf-8") for path in paths))


def _process(cwd: pathlib.Path, environment: t.Mapping[str, str], inside: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """Return the prepared process for a place, an environment and the caller's namespaces, started if need be."""
    spaces = tuple(os.readlink(f"/proc/thread-self/ns/{name}") for name in ("net", "mnt", "uts"))
    key = (str(cwd), tuple(sorted(environment.items())), spaces, inside)
    if key not in _prepared:
        while len(_prepared) >= KEPT:
            _end(_prepared.popitem(last=False)[1])
        _prepared[key] = subprocess.Popen(
            [*inside, sys.executable, __file__], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            cwd=cwd, env=dict(environment),
        )  # fmt: skip
    _prepared.move_to_end(key)
    return _prepared[key]


def _line(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the next line that a prepared process writes; raise TimeoutError if there is none at the deadline."""
    assert process.stdout
    line = b""
    while not line.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        read = process.stdout.read(100)
        assert read, "the process that has imported Ansible has ended"
        line += read
    return line


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin and process.stdout
    process.stdin.close()
    process.wait()
    process.stdout.close()


@atexit.register
def _end_all() -> None:
    while _prepared:
        _end(_prepared.popitem()[1])


def _import_collection() -> None:
    """Import the collection's action plugins and what they import, which each task of each host would do otherwise.

    Without the collection nothing is imported. The finder of collections is removed again, since each copy has its own.
    """
    import importlib
    import pkgutil

    from ansible import constants
    from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

    finder = _AnsibleCollectionFinder(constants.COLLECTIONS_PATHS, False)
    finder._install()
    with contextlib.suppress(ModuleNotFoundError):
        actions = importlib.import_module("ansible_collections.baremetal.host_routing.plugins.action")
        for module in pkgutil.iter_modules(actions.__path__):
            importlib.import_module(f"{actions.__name__}.{module.name}")
    finder._remove()


def _serve() -> None:
    """Run each request of stdin in a copy of this process; write the copy's id and its exit status to stdout."""
    import gc
    import importlib

    import ansible.cli.playbook  # noqa: F401 - the program that most requests are for
    from ansible import constants
    from ansible.utils.path import cleanup_tmp_file

    # A run looks a thousand times a second for results of its tasks, which takes a tenth of a processor.
    constants.DEFAULT_INTERNAL_POLL_INTERVAL = 0.01

    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    for number, line in enumerate(requests):
        if number == 1:  # importing the collection takes longer than it saves in one run of few tasks
            _import_collection()
        if number < 2:
            gc.collect()
            gc.freeze()
        copy = os.fork()
        if copy:
            print(copy, file=answers, flush=True)
            status = os.waitpid(copy, 0)[1]
            print(os.waitstatus_to_exitcode(status), file=answers, flush=True)
            continue
        sys.argv, mask, *outputs = json.loads(line)
        os.umask(mask)
        for number, path in enumerate(outputs, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_APPEND), number)
        for number in (requests.fileno(), answers.fileno()):
            os.close(number)
        # The folder of Ansible's temporary files is one for all copies, and goes with this process.
        atexit.unregister(cleanup_tmp_file)
        program = pathlib.Path(sys.argv[0]).name
        name = "adhoc" if program == "ansible" else program.removeprefix("ansible-")
        status = 1
        try:
            importlib.import_module(f"ansible.cli.{name}").main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


if __name__ == "__main__":
    _serve()
