# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generated pages of the reference: playbooks, calicoctl's commands, modules and roles, files that pages show."""

from __future__ import annotations

import dataclasses
import pathlib
import re
import sys
import textwrap
import typing as t

import yaml

_COMMAND = re.compile(r"(?P<command>ansible-playbook \S.*?)(?:(?: {2,})(?P<about>\S.*))?$")
_LANGUAGES = {".yml": "yaml", ".yaml": "yaml", ".py": "python", ".json": "json", ".sh": "sh", ".conf": "ini"}
#: A title of build.adapted: "probe module -- Send probes", or "probe" alone for one that was removed.
_TITLE = re.compile(r"^(?P<name>\w+)(?: (?P<kind>module|lookup|role|filter) -- (?P<about>.+))?\n\+\++$", re.MULTILINE)


#: The playbooks of daily life, in the order of the page; others come after them.
_FIRST = (
    *("site", "validate", "status", "explain", "switch_pool_mode", "switch_topology", "rollback"),
    *("remove_node", "teardown", "sync_workloads", "scale", "resources"),
)


@dataclasses.dataclass
class Example:
    """A command line, "" for text alone, and what it does. `beside`: its text began on the command's own line."""

    command: str
    about: str = ""
    beside: bool = False


def cell(text: str) -> str:
    """Return `text` for a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def examples(comment: t.Iterable[str]) -> list[Example]:
    """Return the command lines of a playbook's `comment`, and the sentences that follow each.

    A line that begins with a small letter continues the one before; any other begins a text of its own.
    """
    found: list[Example] = []
    text = False
    for line in comment:
        match = _COMMAND.match(line)
        if match:
            found.append(Example(match["command"], match["about"] or "", bool(match["about"])))
            text = False
        elif found and (text or line[:1].islower() or found[-1].about == ""):
            found[-1].about += f" {line}"
        else:
            found.append(Example("", line))
            text = True
    return found


def sentence(text: str) -> str:
    """Return `text` with a capital letter and a full stop, and options as code: -e strict=true."""
    text = text.strip()
    text = f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", ":")) else ".") if text else ""
    return re.sub(r"(?<![\w`])(-e \w+=(?:(?![,.;:](?:\s|$))[^\s)])+)", r"`\1`", text)


def playbooks(root: pathlib.Path) -> str:
    """Return the page of all playbooks below `root`: their commands, and their options with defaults."""
    lines = [
        "# Playbooks",
        "",
        "Run a playbook of the installed collection by name: `baremetal.host_routing.site` is `playbooks/site.yml`.",
        "Options are given as `-e NAME=VALUE`. This page is made from the playbooks themselves.",
    ]
    found = {path.stem: path for path in sorted((root / "playbooks").glob("*.yml"))}
    for path in [found[name] for name in dict.fromkeys((*_FIRST, *found)) if name in found]:
        text = path.read_text("utf-8")
        plays = yaml.safe_load(text)
        comment = re.search(r"SPDX-License-\w+: \S+\n((?:#.*\n)*)", text)
        lines += ["", f"## {path.name}", "", f"{sentence(plays[0]['name'] if len(plays) == 1 else purpose(plays))}"]
        said = [line[1:].strip() for line in (comment[1] if comment else "").splitlines()]
        for example in examples(said or [f"ansible-playbook playbooks/{path.name} -i inventories/prod"]):
            about = ["", sentence(example.about)] if example.about else []
            if example.beside:
                lines += [*about[:-1], about[-1] if ". " in about[-1] else f"{about[-1][:-1]}:"]
            if example.command:
                lines += ["", "```sh", example.command, "```"]
            lines += [] if example.beside else about
        options = plays[0].get("vars", {})
        if options:
            lines += ["", "| option | default |", "|---|---|"]
            lines += [f"| `{name}` | {default(value)} |" for name, value in options.items()]
    return "\n".join(lines) + "\n"


def purpose(plays: list[dict[str, t.Any]]) -> str:
    """Return what a playbook of several plays is for: the names of its plays."""
    return "; ".join(dict.fromkeys(str(play["name"])[:1].lower() + str(play["name"])[1:] for play in plays))


def default(value: t.Any) -> str:
    """Return a default as YAML in code, or "none" for an empty text."""
    return "none" if value == "" else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def calicoctl(root: pathlib.Path) -> str:
    """Return the page of all commands of calicoctl and their options, from its own parser."""
    sys.path.insert(0, str(root / "plugins"))
    from module_utils.cli.parser import build

    lines = [
        "# calicoctl: all commands and options",
        "",
        "This page is what `calicoctl help COMMAND` shows.",
        "[calicoctl](../docs/reference/calicoctl.md) shows each command at work.",
    ]
    _commands(build(), lines)
    return "\n".join(lines) + "\n"


def _commands(parser: t.Any, lines: list[str]) -> None:
    """Add the sections of all commands below `parser` to `lines`."""
    for _name, command in parser.subparsers():
        below = list(command.subparsers())
        if not below and command.prog.endswith(" help"):
            continue
        if not below:
            usage = " ".join(command.format_usage().removeprefix("usage: ").split())
            usage = usage.replace("[-h] [--allow-version-mismatch]", "").replace("  ", " ")
            # An option and its value stay on one line.
            usage = re.sub(r"(?<=-)(\S+) (?=[A-Z]+\b)", "\\1\N{NO-BREAK SPACE}", usage)
            lines += ["", f"## {command.prog.partition(' ')[2]}", "", " ".join(command.description.split())]
            lines += ["", "```text", *_wrapped(usage), "```"]
            rows = [row for row in map(_row, command._actions) if row]
            if rows:
                lines += ["", "| argument | meaning |", "|---|---|", *rows]
        _commands(command, lines)


def _wrapped(usage: str) -> list[str]:
    lines = textwrap.wrap(usage, 76, subsequent_indent="    ", break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _row(action: t.Any) -> str:
    """Return the row of one argument, "" for those that every command has."""
    if action.dest in ("help", "allow_version_mismatch"):
        return ""
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    names = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar or action.dest}`"
    if action.option_strings:
        names = f"{names[:-1]}{value}`"
    return f"| {names} | {cell(action.help or '')} |"


def file_page(path: str, text: str, repository: str) -> str:
    """Return the page that shows the file `path`, with a link to the `repository`."""
    fence = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 3)
    language = _LANGUAGES.get(pathlib.PurePosixPath(path).suffix, "text")
    return (
        f"---\norphan: true\n---\n# {path}\n\nA file of [the repository]({repository}/blob/main/{path}).\n\n"
        f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
    )


def folder_page(folder: str, files: t.Iterable[str]) -> str:
    """Return the page that lists `files`, all of `folder`, which have pages of their own."""
    rows = [f"- [{name[len(folder) + 1 :]}]({name[len(folder) + 1 :]}.md)" for name in files]
    return "\n".join(["---", "orphan: true", "---", f"# {folder}", "", *rows]) + "\n"


def plugins(pages: dict[str, str]) -> str:
    """Return the page that lists what antsibull-docs wrote: {name of the page: its text}."""
    kinds: dict[str, list[tuple[str, str, str]]] = {"module": [], "lookup": [], "filter": [], "": []}
    for page, text in sorted(pages.items()):
        title = _TITLE.search(text)
        if title is None:
            raise ValueError(f"{page}: no title of a plugin. antsibull-docs writes other titles now.")
        if title["kind"] != "role":
            kinds[title["kind"] or ""].append((title["name"], page, title["about"] or ""))
    lines = [
        "# Modules and plugins",
        "",
        "The playbooks use these modules. Your own playbooks can use them by their full",
    ]
    lines += ["names, such as `baremetal.host_routing.probe`."]
    captions = {"module": "Modules", "lookup": "Lookup plugins", "filter": "Filters", "": "Removed"}
    for kind, found in kinds.items():
        if found:
            lines += ["", f"## {captions[kind]}", "", "| name | purpose |", "|---|---|"]
            lines += [f"| [{name}]({page}) | {cell(about)} |" for name, page, about in found]
            lines += ["", "```{toctree}", ":hidden:", ""]
            lines += [f"{name} <{page.removesuffix('.rst')}>" for name, page, _about in found]
            lines += ["```"]
    return "\n".join(lines) + "\n"


def roles(root: pathlib.Path, pages: t.Collection[str], folder: str) -> str:
    """Return the page that lists the roles. `pages` are those of antsibull-docs in `folder`, with the variables."""
    lines = [
        "# Roles",
        "",
        "The playbooks apply these roles; [site.yml](../playbooks/index.md#siteyml) is the usual way.",
    ]
    lines += ["", "| role | variables | purpose |", "|---|---|---|"]
    names = sorted(path.parent.name for path in (root / "roles").glob("*/README.md"))
    for name in names:
        variables = f"[variables](../{folder}/{name}_role.rst)" if f"{name}_role.rst" in pages else "none"
        readme = (root / "roles" / name / "README.md").read_text("utf-8")
        first = re.search(r"^# .+\n\n((?:.+\n)+)", readme, re.M)
        about = " ".join(first[1].split()).partition(". ")[0].rstrip(".") if first else ""
        lines += [f"| [{name}]({name}/README.md) | {variables} | {cell(about)} |"]
    lines += ["", "```{toctree}", ":hidden:", ""]
    for name in names:
        lines += [f"{name}/README"]
    for page in sorted(page for page in pages if page.endswith("_role.rst")):
        lines += [f"Variables of {page.removesuffix('_role.rst')} <../{folder}/{page.removesuffix('.rst')}>"]
    return "\n".join([*lines, "```"]) + "\n"
