# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands about an inventory, which run a playbook of the collection on the controller.

Only Ansible can read an inventory with its files, plugins, templates and vaults. The playbook writes its answer into a
file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import typing as t

from ..base import terminal_text
from ..files import bounded
from .errors import NoVerdict
from .render import structured

_PROGRAM = "ansible-playbook"
#: Ansible's setting to fail, with the reasons, at a source or a file of the inventory that no plugin can parse.
_STRICT = "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED"
#: Ansible's setting that names the plugins for inventories, and those of its default in a quicker order. By default
#: `auto` parses each YAML file in search of a plugin's settings, and then `yaml` parses it again. No file suits both.
_PLUGINS, _QUICKER = "ANSIBLE_INVENTORY_ENABLED", "host_list,script,yaml,auto,ini,toml"
_IN_FILE = b"enable_plugins"  # the same setting in a configuration file of Ansible, such as _FILES
_FILES = ("ansible.cfg", "~/.ansible.cfg", "/etc/ansible/ansible.cfg")
_MOST_SETTINGS = 1 << 20  # bytes of such a file
#: The beginning of Ansible's error then, which has no remedy.
_NOT_PARSED = "Completely failed to parse inventory source"
#: Where the playbook's lookup says what is wrong with the inventory.
_LOOKUP = re.compile(r"fleet_hosts' failed: (.*?)\n?Origin: ", re.DOTALL)
_REMEDY = "Put hosts and groups there as Ansible reads them, or take it out of the inventory."
#: What Ansible says if it cannot decrypt a file of the inventory: without a password, and with none that fits.
_NOT_DECRYPTED = ("no vault secrets found", "no vault secrets were found that could decrypt")
#: The collection's folder, three above the folder of this file, which is <collection>/plugins/module_utils/cli.
COLLECTION = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))

Data = dict[str, t.Any]


def ask(playbook: str, inventories: t.Sequence[str], told: t.Mapping[str, t.Any], vault_password: str = "") -> Data:
    """Run playbooks/`playbook` with the extra variables `told` and return the object that it writes as its answer.

    Wait for its end without a time limit. In the answer, `lines` are the texts to print and `answer` is the same as
    data. `inventories` are as `ansible-playbook -i` takes them, and `vault_password` is the path that
    --vault-password-file takes, "" for none. Raise NoVerdict on a node, without Ansible, and if the inventory or the
    playbook gives no answer. Raise OSError if the program cannot be started or temporary files cannot be written.
    """
    path = os.path.join(COLLECTION, "playbooks", playbook)
    program = shutil.which(_PROGRAM)
    if not os.path.exists(path):
        raise NoVerdict("-i is for the controller: this is a node, which has no inventory. Leave -i out here.")
    if program is None:
        raise NoVerdict(f"{_PROGRAM} is not found. -i has Ansible read the inventory: run this where Ansible is.")
    for inventory in inventories:
        if "," not in inventory and not os.path.exists(inventory):
            raise NoVerdict(f"-i {inventory} does not exist. Write where it is, seen from {os.getcwd()}.")
    with tempfile.TemporaryDirectory(prefix="calicoctl-") as folder:
        file = os.path.join(folder, "answer.json")
        vault = ["--vault-password-file", vault_password] if vault_password else []
        words = [word for inventory in inventories for word in ("-i", inventory)]
        done = subprocess.run(
            [program, path, *words, "-e", json.dumps({**told, "output": "none", "answer_file": file}), *vault],
            env={**_order(), **os.environ, _STRICT: "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        try:
            answer: Data = bounded.read_json(file)
        except ValueError:
            raise NoVerdict(
                f"{_PROGRAM} wrote an answer that is not JSON: its disk may be full. Run it again."
            ) from None
        except FileNotFoundError:
            raise _no_answer(done, vault_password) from None
    if "error" in answer:
        raise NoVerdict(answer["error"])
    return answer


def _order() -> dict[str, str]:
    """Return the setting for a quicker order of inventory plugins, {} if Ansible's configuration may name plugins."""
    own = os.environ.get("ANSIBLE_CONFIG", "")
    for path in (own, os.path.join(own, "ansible.cfg"), *_FILES):
        with contextlib.suppress(OSError, bounded.TooLarge):
            if _IN_FILE in bounded.read(os.path.expanduser(path), _MOST_SETTINGS):
                return {}
    return {_PLUGINS: _QUICKER}


def _no_answer(done: subprocess.CompletedProcess[bytes], vault_password: str) -> NoVerdict:
    """Return, not raise, the error of a playbook that has ended without an answer: why, or all of its output."""
    said = done.stdout.decode("utf-8", "replace").strip() or f"it ended with exit status {done.returncode}"
    if any(text in said for text in _NOT_DECRYPTED):
        which = f"the password in {vault_password} does not fit" if vault_password else "no password that fits is known"
        return NoVerdict(
            f"a file of the inventory is encrypted by ansible-vault, and {which}. Name the file that has it: "
            "--vault-password-file FILE."
        )
    by_lookup = _LOOKUP.search(said)
    if by_lookup:
        return NoVerdict(by_lookup.group(1).strip())
    remedy = f"\n{_REMEDY}" if _NOT_PARSED in said else ""
    return NoVerdict(f"{_PROGRAM} could not ask the inventory:\n{said}{remedy}")


def show(answer: Data, output: str) -> None:
    """Print an answer of `ask` to stdout: its data as JSON if `output` is "json", otherwise its lines."""
    if not structured.written(output, answer["answer"]):
        sys.stdout.write(terminal_text.lines(answer["lines"]))
