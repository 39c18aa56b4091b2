# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""bird.cfg in place: checked first, written completely or not at all, readable for BIRD's user, and never twice."""

from __future__ import annotations

import os
import pathlib
import re
import socket
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, secrets_file
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import (
    BirdError,
    ConfigurationRefused,
    NotAnswering,
    ReloadNotFinished,
)

OLD = "router id 1.1.1.1;\n"
NEW = "router id 2.2.2.2;\n"
# CHECKER refuses any file with the word nonsense, and always names its third line, in BIRD 2's form.
BROKEN = 'router id 2.2.2.2;\nprotocol bgp x {\n  nonsense; password "secret";\n}\n'
CHECKER = """#!/bin/sh
grep -q nonsense "$3" || exit 0
echo "bird: $3:3:3 syntax error, unexpected CF_SYM_UNDEFINED" >&2
exit 1
"""
STATUS = b"1011-Last reconfiguration on %s\n0013 Daemon is up and running\n"
BUSY = b"0013 Reconfiguration in progress\n"
DONE = b"0002-Reading configuration from /etc/calico/bird.cfg\n0003 Reconfigured\n"


@pytest.fixture
def checker(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "bird"
    path.write_text(CHECKER)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def config(tmp_path: pathlib.Path) -> str:
    folder = tmp_path / "etc"
    folder.mkdir()
    path = folder / "bird.cfg"
    path.write_text(OLD)
    return str(path)


def at(seconds: float) -> bytes:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    return STATUS % f"{stamp}.000".encode()


def test_a_change_is_written_and_read(bird, checker: str, config: str) -> None:
    bird.answers["configure"] = [[DONE]]
    outcome = configuration.apply(NEW, config, bird.path, checker)
    assert outcome == configuration.Outcome(True, True, OLD, NEW)
    assert configuration.current(config) == NEW
    assert bird.asked == ["configure"]
    assert os.stat(config).st_mode & 0o777 == 0o640
    assert os.listdir(os.path.dirname(config)) == ["bird.cfg"]


def written(path: str) -> tuple[int, int, int]:
    """Return what changes when a file is written or replaced, but not when it is read."""
    found = os.stat(path)
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def test_no_change_is_no_write_and_no_reload(bird, checker: str, config: str) -> None:
    bird.answers["show status"] = [[at(time.time() + 60)]]
    before = written(config)
    assert configuration.apply(OLD, config, bird.path, checker) == configuration.Outcome(False, False, OLD, OLD)
    assert written(config) == before
    assert "configure" not in bird.asked


def test_a_run_that_was_stopped_before_the_reload_is_completed(bird, checker: str, config: str) -> None:
    bird.answers["show status"] = [[at(time.time() - 3600)]]
    bird.answers["configure"] = [[DONE]]
    assert configuration.unread(config, bird.path)
    assert configuration.apply(OLD, config, bird.path, checker) == configuration.Outcome(False, True, OLD, OLD)


def test_the_first_one_is_for_a_bird_that_does_not_run_yet(tmp_path: pathlib.Path, checker: str) -> None:
    path = str(tmp_path / "etc" / "calico" / "bird.cfg")
    outcome = configuration.apply(NEW, path, str(tmp_path / "bird.ctl"), checker)
    assert outcome == configuration.Outcome(True, False, "", NEW)
    assert not configuration.unread(path, str(tmp_path / "bird.ctl"))


def test_a_socket_left_behind_is_no_bird(tmp_path: pathlib.Path, checker: str, config: str) -> None:
    path = str(tmp_path / "bird.ctl")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.close()
    assert configuration.apply(NEW, config, path, checker) == configuration.Outcome(True, False, OLD, NEW)


def test_a_bird_that_hangs_up_is_not_taken_for_none(bird) -> None:
    bird.answers["configure"] = [[b"0002-Reading configuration\n", b"hang up"]]
    with pytest.raises(NotAnswering):
        configuration.reload(bird.path)


def test_an_unparsable_configuration_is_not_installed(bird, checker: str, config: str) -> None:
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.apply(BROKEN, config, bird.path, checker)
    assert str(caught.value) == (
        "BIRD cannot read its new configuration: syntax error, unexpected CF_SYM_UNDEFINED. "
        f'It is for {config}, line 3 (`nonsense; password "...";`). '
        "The one in force was left as it is; correct the variable that the line comes from and run again."
    )
    assert configuration.current(config) == OLD
    assert os.listdir(os.path.dirname(config)) == ["bird.cfg"]
    assert bird.asked == []


def test_a_check_alone_leaves_nothing(checker: str, config: str) -> None:
    configuration.check(NEW, config, checker)
    with pytest.raises(ConfigurationRefused, match=r"line 3"):
        configuration.check(BROKEN, config, checker)
    assert configuration.current(config) == OLD


def test_bird_3_words_its_errors_otherwise(tmp_path: pathlib.Path, checker: str, config: str) -> None:
    pathlib.Path(checker).write_text(
        "#!/bin/sh\n"
        'echo "bird: 2026-11-21 07:16:32.530 [0000] <FATAL> $3:2:62 EBGP requires explicit import policy" >&2\n'
        "exit 1\n"
    )
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.check(BROKEN, config, checker)
    assert (caught.value.line, caught.value.reason) == (2, "EBGP requires explicit import policy")
    assert caught.value.source == "protocol bgp x {"


def test_warnings_are_not_what_bird_refuses_for(tmp_path: pathlib.Path, checker: str, config: str) -> None:
    program = tmp_path / "bird3"
    program.write_text(
        "#!/bin/sh\n"
        'echo "bird: $3:1:9 Missing authentication option, assuming MD5" >&2\n'
        'echo "bird: $3:2:1 Multihop BGP with BFD requires specified local address" >&2\n'
        "exit 1\n"
    )
    program.chmod(0o755)
    with pytest.raises(ConfigurationRefused, match=r"Multihop BGP .* line 2 "):
        configuration.check("one\ntwo\n", config, str(program))


def test_a_refusal_of_the_running_bird_brings_the_old_file_back(bird, checker: str, config: str) -> None:
    bird.answers["configure"] = [[b"0002-Reading configuration\n8002 /etc/calico/bird.cfg:1:1 no such thing\n"]]
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.apply(NEW, config, bird.path, checker)
    assert caught.value.reason == "/etc/calico/bird.cfg:1:1 no such thing"
    assert configuration.current(config) == OLD


def test_a_refusal_without_words_has_its_code(bird, checker: str, config: str) -> None:
    bird.answers["configure"] = [[b"8002 \n"]]
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.apply(NEW, config, bird.path, checker)
    assert caught.value.reason == "code 8002"
    assert configuration.current(config) == OLD


def test_without_bird_nothing_can_be_checked(tmp_path: pathlib.Path, config: str) -> None:
    missing = str(tmp_path / "no-bird")
    with pytest.raises(BirdError) as caught:
        configuration.install(NEW, config, missing)
    assert str(caught.value) == (
        f"BIRD could not be asked to check its configuration. `{missing} -p -c {config}`: "
        f"[Errno 2] No such file or directory: '{missing}'. Install the package bird2 of Debian 12 or 13."
    )
    assert configuration.current(config) == OLD


@pytest.mark.parametrize(
    "first", [b"0004 Reconfiguration in progress\n", b"0005 Reconfiguration already in progress\n"]
)
def test_a_reload_is_waited_for(bird, first: bytes) -> None:
    bird.answers["configure"] = [[b"0002-Reading configuration\n", first]]
    bird.answers["show status"] = [[BUSY], [BUSY], [at(time.time())]]
    assert configuration.reload(bird.path) is True
    assert bird.asked == ["configure", "show status", "show status", "show status"]


def test_a_reload_without_an_end(bird) -> None:
    bird.answers["configure"] = [[b"0004 Reconfiguration in progress\n"]]
    bird.answers["show status"] = [[BUSY]]
    with pytest.raises(ReloadNotFinished) as caught:
        configuration.reload(bird.path, 0.2)
    assert str(caught.value) == (
        "BIRD has not finished reading its new configuration after 0.2 s. "
        f"Its control socket is {bird.path}. Look at `birdc -s {bird.path} show protocols` for a protocol that is in "
        "state `stop`, and run again."
    )


SECRETS = {"tor-a:password": "hunter2", "mesh:password": "hunter1"}
# A fake BIRD that appends bird.secrets.conf, which must be beside the given file, to {log}. It refuses the given file
# if it names a password that bird.secrets.conf does not define.
READER = """#!/bin/sh
folder=$(dirname "$3")
cat "$folder/bird.secrets.conf" >> {log}
for name in $(sed -n "s/^password '\\(.*\\)';/\\1/p" "$3"); do
  grep -q "define '$name'" "$folder/bird.secrets.conf" && continue
  echo "bird: $3:1:1 syntax error, unexpected CF_SYM_UNDEFINED" >&2; exit 1
done
"""


class TestPasswords:
    @pytest.fixture
    def reader(self, tmp_path: pathlib.Path) -> str:
        path = tmp_path / "reader"
        path.write_text(READER.format(log=tmp_path / "read"))
        path.chmod(0o755)
        return str(path)

    def config_with(self, name: str) -> str:
        return f"{NEW}include \"bird.secrets.conf\";\npassword 'calico_secret_{name}';\n"

    def test_they_stand_in_a_file_of_their_own_that_bird_alone_may_read(self, bird, reader, config) -> None:
        bird.answers["configure"] = [[DONE]]
        text = self.config_with("tor-a:password")
        outcome = configuration.apply(text, config, bird.path, reader, passwords=SECRETS)
        assert (outcome.changed, outcome.reloaded) == (True, True)
        file = pathlib.Path(config).parent / "bird.secrets.conf"
        assert secrets_file.current(config) == SECRETS
        assert file.stat().st_mode & 0o777 == 0o640
        assert "hunter" not in configuration.current(config) + repr(outcome)
        assert sorted(os.listdir(file.parent)) == ["bird.cfg", "bird.secrets.conf"]

    def test_a_check_of_bird_cfg_reads_no_real_password(self, reader, config, tmp_path) -> None:
        configuration.check(self.config_with("tor-a:password"), config, reader, ["tor-a:password"])
        assert "tor-a:password" in (tmp_path / "read").read_text()
        assert "hunter" not in (tmp_path / "read").read_text()
        with pytest.raises(ConfigurationRefused):
            configuration.check(self.config_with("tor-a:password"), config, reader, ["mesh:password"])

    def test_a_changed_password_alone_reloads_bird(self, bird, reader, config) -> None:
        bird.answers["configure"] = [[DONE]]
        bird.answers["show status"] = [[at(time.time() + 60)]]
        configuration.apply(NEW, config, bird.path, reader, passwords=SECRETS)
        again = configuration.apply(NEW, config, bird.path, reader, passwords=SECRETS)
        assert (again.changed, again.reloaded) == (False, False)
        other = configuration.apply(NEW, config, bird.path, reader, passwords={**SECRETS, "tor-a:password": "x"})
        assert (other.changed, other.reloaded) == (True, True)
        assert bird.asked.count("configure") == 2

    def test_unused_passwords_are_removed_and_leave_nothing_unread(self, bird, reader, config) -> None:
        bird.answers["configure"] = [[DONE]]
        configuration.apply(self.config_with("tor-a:password"), config, bird.path, reader, passwords=SECRETS)
        bird.answers["show status"] = [[at(time.time() + 60)]]
        configuration.apply(NEW, config, bird.path, reader, passwords={})
        assert not os.path.exists(secrets_file.beside(config))
        assert not configuration.unread(config, bird.path)

    def test_a_file_that_others_can_read_is_closed(self, bird, reader, config) -> None:
        bird.answers["configure"] = [[DONE]]
        configuration.apply(NEW, config, bird.path, reader, passwords=SECRETS)
        os.chmod(secrets_file.beside(config), 0o644)
        assert secrets_file.open_to_others(config) == "0644"
        configuration.apply(NEW, config, bird.path, reader, passwords=SECRETS)
        assert secrets_file.open_to_others(config) is None

    def test_on_the_way_both_files_fit_whichever_bird_cfg_is_there(self, bird, reader, config, tmp_path) -> None:
        bird.answers["configure"] = [[DONE]]
        configuration.apply(
            self.config_with("mesh:password"), config, bird.path, reader, passwords={"mesh:password": "hunter1"}
        )
        (tmp_path / "read").write_text("")
        configuration.apply(
            self.config_with("tor-a:password"), config, bird.path, reader, passwords={"tor-a:password": "hunter2"}
        )
        assert {"mesh:password", "tor-a:password"} <= set(
            re.findall(r"secret_([^']+)", (tmp_path / "read").read_text())
        )
        assert secrets_file.current(config) == {"tor-a:password": "hunter2"}

    @pytest.mark.parametrize("refused_by", ["parser", "running BIRD"])
    def test_a_refusal_brings_the_old_passwords_back(self, bird, reader, config, refused_by: str) -> None:
        bird.answers["configure"] = [[DONE]]
        configuration.apply(NEW, config, bird.path, reader, passwords=SECRETS)
        if refused_by == "running BIRD":
            bird.answers["configure"] = [[b"0002-Reading configuration\n8002 bird.cfg:1:1 no such thing\n"]]
        name = "missing:x" if refused_by == "parser" else "tor-a:password"
        with pytest.raises(ConfigurationRefused):
            configuration.apply(
                self.config_with(name), config, bird.path, reader, passwords={"tor-a:password": "other"}
            )
        assert secrets_file.current(config) == SECRETS
        assert configuration.current(config) == NEW

    def test_a_run_that_was_stopped_before_the_reload_is_completed(self, bird, reader, config) -> None:
        os.utime(config, (time.time() - 7200, time.time() - 7200))
        bird.answers["show status"] = [[at(time.time() - 3600)]]
        assert not configuration.unread(config, bird.path)
        secrets_file.install(config, SECRETS)
        assert configuration.unread(config, bird.path)


def test_a_file_that_is_not_utf_8_is_read(tmp_path: pathlib.Path) -> None:
    """Bytes that are not UTF-8 are replaced: the file differs from the wanted one, and the next run writes it."""
    path = tmp_path / "bird.cfg"
    path.write_bytes(b"# Stra\xdfe\nrouter id 10.10.1.11;\n")
    assert configuration.current(str(path)) == "# Stra\ufffde\nrouter id 10.10.1.11;\n"
