# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Models of how programs split their input, after their sources: into commands, rules or statements."""

from __future__ import annotations

import functools
import re
import typing as t

_SPACE = " \t\n\v\f\r"


def read_lines(text: str, size: int) -> list[str]:
    """Return lines as fgets(3) reads them into a buffer of `size` bytes, without their line feeds.

    A line of more than `size` - 1 bytes is several, and of each what follows a NUL is lost. The rest after the last
    line feed is a line too, also if it is empty.
    """
    found = []
    for line in text.encode("utf-8", "surrogatepass").split(b"\n"):
        for start in range(0, max(len(line), 1), size - 1):
            found.append(line[start : start + size - 1].split(b"\0")[0].decode("utf-8", "surrogateescape"))
    return found


def ipset_commands(text: str) -> list[list[str]]:
    """Return the words of each line of `text`, for a model of `ipset restore`; empty lines and # comments are left out.

    A line of more than 1023 bytes is several, and NUL ends one (fgets). All of isspace separates words. Unlike in
    ipset, quotes are characters like others, and COMMIT is a command.
    """
    commands = []
    for line in read_lines(text, 1024):
        words = [word for word in re.split(f"[{_SPACE}]+", line) if word]
        if words and not words[0].startswith("#"):
            commands.append(words)
    return commands


def check_ipset(text: str) -> None:
    """Raise AssertionError unless each command has the form of those that our driver gives."""
    sizes = {"create": (7,), "add": (3,), "del": (3,), "flush": (2,), "swap": (3,), "destroy": (2,)}
    for words in ipset_commands(text):
        assert len(words) in sizes.get(words[0], ()), words
        assert re.fullmatch(r"cali[46][0t][A-Za-z0-9_:.=-]{1,25}", words[1]), words
        assert not any(word.startswith("-") for word in words), words
        if words[0] == "create":
            assert words[3] == "family" and words[5] == "maxelem", words
        if words[0] in ("add", "del"):
            assert re.match(r"[0-9a-f:.]+(/[0-9]+)?(,|$)", words[2]), words


def iptables_tokens(line: str) -> list[str]:
    """Return the arguments of a line of iptables-restore's input (xtables: add_param_to_argv).

    A quoted argument keeps its quotes, and a backslash in it stands for the character after it. Raise AssertionError if
    a quote is not closed.
    """
    found: list[str] = []
    current, quoted, escaped = "", False, False
    for character in line + "\n":
        if quoted:
            if escaped:
                current, escaped = current + character, False
            elif character == "\\":
                escaped = True
            elif character == '"':
                quoted = False
                found.append(f'"{current}"')
                current = ""
            else:
                current += character
        elif character == '"':
            quoted = True
        elif character in " \t\n":
            if current:
                found.append(current)
            current = ""
        else:
            current += character
    assert not quoted, line
    return found


#: Options of iptables that drivers of ours use, and how many arguments each has.
_OPTIONS = {
    **dict.fromkeys(["-s", "-d", "-p", "-i", "-o", "-j", "-g", "-m"], 1),
    "--match-set": 2,
    **dict.fromkeys(
        ["--dport", "--sport", "--dports", "--sports", "--mark", "--set-xmark", "--ctstate", "--dst-type", "--src-type",
         "--icmp-type", "--icmpv6-type", "--limit", "--limit-burst", "--nflog-group", "--nflog-size",
         "--nflog-prefix", "--comment"], 1,
    ),
    **dict.fromkeys(["--random-fully", "--limit-iface-out", "--notrack", "--validmark", "--invert"], 0),
}  # fmt: skip
_ONCE = ("-s", "-d", "-p", "-i", "-o")
_BUILTIN = re.compile(r"-j (cali-[A-Z]+|ACCEPT)")


def check_iptables(text: str) -> None:
    """Raise AssertionError unless the text has the form that our driver writes, IndexError if it or a line is short.

    Allowed is one transaction on one table: chains of ours, and hooks in other chains.
    """
    lines = [line for line in read_lines(text, 10240) if line]
    assert lines[0].startswith("*") and lines[0][1:] in ("filter", "nat", "mangle", "raw"), lines[0]
    assert lines[-1] == "COMMIT"
    for line in lines[1:-1]:
        check_iptables_line(line)


@functools.lru_cache(maxsize=1 << 16)  # Most lines of an attacked state are those of the harmless one.
def check_iptables_line(line: str) -> None:
    """Raise AssertionError unless a transaction's line has the form of our driver's, IndexError for a short one."""
    if line.startswith(":"):
        assert re.fullmatch(r":cali-[^ ]{1,23} - \[0:0\]", line), line
        return
    words = iptables_tokens(line)
    command, chain, rule = words[0], words[1], words[2:]
    assert command in ("-A", "-I", "-D", "-R", "-F", "-X"), line
    if command in ("-F", "-X") or (command == "-D" and rule and rule[0].isdigit()):
        assert len(rule) <= 1 and chain.startswith("cali-"), line
        return
    if rule[0].isdigit():
        rule = rule[1:]
    if not chain.startswith("cali-"):
        assert re.fullmatch(r"[A-Za-z0-9_.:][A-Za-z0-9_.:/=+~@-]*", chain) and _BUILTIN.search(line), line
    check_rule(rule, line)


def check_rule(rule: t.Sequence[str], line: str) -> None:
    """Raise AssertionError unless the tokens `rule` have the form of our driver's rules; `line` is for the message."""
    options: list[str] = []
    position = 0
    while position < len(rule):
        word = rule[position]
        if word != "!":
            assert word in _OPTIONS, (word, line)
            options.append(word)
            arguments = rule[position + 1 : position + 1 + _OPTIONS[word]]
            assert len(arguments) == _OPTIONS[word], line
            assert not any(one.startswith("-") or (word != "--comment" and '"' in one) for one in arguments), line
            position += _OPTIONS[word]
        position += 1
    assert all(options.count(one) <= 1 for one in _ONCE), line
    assert options.count("-j") + options.count("-g") == 1, line
    assert options.count("--comment") == 1 and options[-1] == "--comment", line


_BIRD = re.compile(
    r"(?P<space>\s+|#[^\n]*|/\*.*?\*/)|(?P<string>\"[^\"\n]*\")|(?P<quoted>'[^'\n]*')"
    r"|(?P<number>[0-9a-fA-F:.]*[0-9][0-9a-fA-F:.]*)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<mark>.)",
    re.DOTALL,
)


@functools.lru_cache(maxsize=64)
def bird_shape(text: str) -> tuple[str, ...]:
    """Return a bird.cfg's tokens without white space and comments (conf/cf-lex.l).

    Words and marks are themselves; a text or a number is only the name of its kind: string, quoted or number.
    """
    shape = []
    for found in _BIRD.finditer(text):
        if found.lastgroup != "space":
            shape.append(found.group() if found.lastgroup in ("word", "mark") else t.cast(str, found.lastgroup))
    return tuple(shape)
