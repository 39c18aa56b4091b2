# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's own snippets: a change is noticed, and errors name file and line."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird import configuration, snippets
from ansible_collections.baremetal.host_routing.plugins.module_utils.bird.errors import (
    ConfigurationRefused,
    SnippetRefused,
)

# A fake BIRD that checks the given file, then the files that this includes.
CHECKER = """#!/bin/sh
for file in "$3" $(sed -n 's/^include "\\(.*\\)";$/\\1/p' "$3"); do
  test -e "$file" || continue
  line=$(grep -an nonsense "$file" | cut -d: -f1)
  test -z "$line" || { echo "bird: $file:$line:1 syntax error, unexpected CF_SYM_UNDEFINED" >&2; exit 1; }
done
"""
LONG_AGO = time.time() - 7200


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    made = tmp_path / "bird.d"
    made.mkdir()
    return made


@pytest.fixture
def checker(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "bird"
    path.write_text(CHECKER)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def config(tmp_path: pathlib.Path, folder: pathlib.Path) -> str:
    path = tmp_path / "bird.cfg"
    path.write_text(including(folder))
    age(path, folder)
    return str(path)


def including(folder: pathlib.Path) -> str:
    return f'router id 1.1.1.1;\ninclude "bird.secrets.conf";\ninclude "{folder.parent}/[b]ird.d/*.conf";\n'


def age(*paths: pathlib.Path) -> None:
    for path in paths:
        os.utime(path, (LONG_AGO, LONG_AGO))


def read_an_hour_ago(bird) -> None:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - 3600))
    bird.answers["show status"] = [
        [f"1011-Last reconfiguration on {stamp}.000\n0013 Daemon is up and running\n".encode()]
    ]
    bird.answers["configure"] = [[b"0002-Reading configuration from /etc/calico/bird.cfg\n0003 Reconfigured\n"]]


def test_only_patterns_are_snippets(folder: pathlib.Path) -> None:
    assert snippets.patterns(including(folder)) == (f"{folder.parent}/[b]ird.d/*.conf",)
    assert snippets.last_touched("router id 1.1.1.1;\n") == 0.0


def test_without_the_folder_there_is_nothing_to_read(tmp_path: pathlib.Path) -> None:
    assert snippets.last_touched(including(tmp_path / "nowhere" / "bird.d")) == 0.0


def test_a_snippet_of_long_ago_is_read_already(bird, config: str, folder: pathlib.Path) -> None:
    (folder / "a.conf").write_text("# mine\n")
    age(folder / "a.conf", folder)
    read_an_hour_ago(bird)
    assert not configuration.unread(config, bird.path)


def test_one_that_was_changed_by_hand_is_read(bird, config: str, checker: str, folder: pathlib.Path) -> None:
    (folder / "a.conf").write_text("# mine\n")
    age(folder)
    read_an_hour_ago(bird)
    assert configuration.unread(config, bird.path)
    text = including(folder)
    assert configuration.apply(text, config, bird.path, checker) == configuration.Outcome(False, True, text, text)


def test_a_deleted_snippet_is_noticed(bird, config: str, folder: pathlib.Path) -> None:
    read_an_hour_ago(bird)
    (folder / "a.conf").write_text("")
    (folder / "a.conf").unlink()
    assert configuration.unread(config, bird.path)


def test_one_that_bird_cannot_read_is_named_and_changes_nothing(
    bird, config: str, checker: str, folder: pathlib.Path
) -> None:
    read_an_hour_ago(bird)
    snippet = folder / "mine.conf"
    snippet.write_text('# mine\nnonsense password "hunter2"\n')
    said = (
        "BIRD cannot read a snippet of its configuration: syntax error, unexpected CF_SYM_UNDEFINED. It stands in "
        f'{snippet}, line 2 (`nonsense password "..."`). The configuration in force was left as it is; correct that '
        "file, or take it away, and run again."
    )
    before = configuration.current(config)
    for text in (before, before + "# more\n"):
        with pytest.raises(SnippetRefused) as caught:
            configuration.apply(text, config, bird.path, checker)
        assert str(caught.value) == said
        with pytest.raises(SnippetRefused) as caught:
            configuration.check(text, config, checker)
        assert str(caught.value) == said
    assert configuration.current(config) == before
    assert "configure" not in bird.asked


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('password "geheim;', 'password "...";'),
        ('password "geheim', 'password "..."'),
        ('password "ge"heim";', 'password "...";'),
        ("password geheim;", 'password "...";'),
        ("password 'geheim';", 'password "...";'),
        ('password"geheim";', 'password "...";'),
        ('description "tor; password "geheim";', 'description "tor; password "...";'),
        ('secret "geheim"', 'secret "..."'),
        ('define Tor_Secret1 = "geheim";', 'define Tor_Secret1 "...";'),
        ("define 'tor:password-1' = \"geheim\";", 'define \'tor:password "...";'),
        ('password/* tor */"geheim";', 'password "...";'),
        ('include "bird.secrets.conf";', 'include "bird.secrets.conf";'),
        ("password;", "password;"),
    ],
)
def test_a_secret_of_a_refused_line_is_hidden(
    config: str, checker: str, folder: pathlib.Path, line: str, shown: str
) -> None:
    """Its quotes may be the very fault: one may be missing, or too many, or there may be none."""
    snippet = folder / "mine.conf"
    snippet.write_text(f"# mine\nnonsense {line}\n")
    with pytest.raises(SnippetRefused) as caught:
        configuration.check(configuration.current(config), config, checker)
    assert str(caught.value) == (
        "BIRD cannot read a snippet of its configuration: syntax error, unexpected CF_SYM_UNDEFINED. It stands in "
        f"{snippet}, line 2 (`nonsense {shown}`). The configuration in force was left as it is; correct that file, or "
        "take it away, and run again."
    )


def test_a_snippet_that_is_not_utf_8_is_named(bird, config: str, checker: str, folder: pathlib.Path) -> None:
    """A byte of the refused line that is not UTF-8 is shown as U+FFFD."""
    snippet = folder / "mine.conf"
    snippet.write_bytes(b"# mine\nnonsense \xe4;\n")
    with pytest.raises(SnippetRefused) as caught:
        configuration.check(configuration.current(config), config, checker)
    assert f"It stands in {snippet}, line 2 (`nonsense \ufffd;`)." in str(caught.value)


def test_bytes_that_bird_quotes_need_not_be_utf_8(config: str, checker: str, folder: pathlib.Path) -> None:
    """BIRD quotes the name of a missing file from a snippet's include as it is; U+FFFD is shown for such a byte."""
    snippet = folder / "mine.conf"
    snippet.write_bytes(b'include "\xe4.conf";\n')
    pathlib.Path(checker).write_text(
        "#!/bin/sh\n"
        f"printf 'bird: {snippet}:1:10 Unable to open included file {folder}/\\344.conf: No such file\\n' >&2\n"
        "exit 1\n"
    )
    with pytest.raises(SnippetRefused) as caught:
        configuration.check(configuration.current(config), config, checker)
    assert str(caught.value) == (
        f"BIRD cannot read a snippet of its configuration: Unable to open included file {folder}/\ufffd.conf: No such "
        f'file. It stands in {snippet}, line 1 (`include "\ufffd.conf";`). The configuration in force was left as it '
        "is; correct that file, or take it away, and run again."
    )


def test_an_error_in_our_own_lines_is_not_blamed_on_a_snippet(config: str, checker: str) -> None:
    with pytest.raises(ConfigurationRefused) as caught:
        configuration.check(configuration.current(config) + "nonsense;\n", config, checker)
    assert not isinstance(caught.value, SnippetRefused)
    assert (caught.value.path, caught.value.line) == (config, 4)
