# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`calicoctl completion bash|zsh|fish`: a script for the shell, which asks this program for the words at each Tab.

The scripts have no words of their own and evaluate none: a word of the answer is text that the shell inserts.
"""

from __future__ import annotations

import argparse
import sys
import typing as t

from ...errors import DONE
from .asked_words import ASK, FILES

SHELLS = ("bash", "zsh", "fish")

_BASH = f"""\
# Completion of calicoctl for bash. For this shell alone: source <(calicoctl completion bash)
_calicoctl() {{
    local -a lines
    local line
    COMPREPLY=()
    mapfile -t lines < <("$1" {ASK} "${{COMP_WORDS[@]:1:COMP_CWORD}}" </dev/null 2>/dev/null)
    if [[ ${{#lines[@]}} -eq 1 && ${{lines[0]}} == {FILES} ]]; then
        compopt -o default
        return
    fi
    for line in "${{lines[@]}}"; do
        [[ $line =~ ^[A-Za-z0-9_-][A-Za-z0-9_.:/@=,+%-]*$ ]] && COMPREPLY+=("$line")
    done
    if [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *= ]]; then
        compopt -o nospace
    fi
}}
complete -F _calicoctl calicoctl
"""
_ZSH = f"""\
#compdef calicoctl
# Completion of calicoctl for zsh. Save it as _calicoctl in a folder of $fpath, or: source <(calicoctl completion zsh)
_calicoctl() {{
    setopt localoptions extendedglob
    local -a lines unfinished
    lines=("${{(@f)$("$words[1]" {ASK} "${{(@)words[2,CURRENT]}}" </dev/null 2>/dev/null)}}")
    if [[ $#lines -eq 1 && $lines[1] == {FILES} ]]; then
        [[ $PREFIX != --*=* ]] || compset -P '*='
        _files
        return
    fi
    lines=("${{(@M)lines:#[A-Za-z0-9_-][A-Za-z0-9_.:/@=,+%-]#}}")
    unfinished=("${{(@M)lines:#*=}}")
    lines=("${{(@)lines:#*=}}")
    (( ! $#lines )) || compadd -- "$lines[@]"
    (( ! $#unfinished )) || compadd -S '' -- "$unfinished[@]"
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _calicoctl "$@"
else
    compdef _calicoctl calicoctl
fi
"""
_FISH = f"""\
# Completion of calicoctl for fish. Save it as ~/.config/fish/completions/calicoctl.fish
function __calicoctl_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    command -q $words[1]; or return
    set -l lines ($words[1] {ASK} $words[2..-1] "$current" </dev/null 2>/dev/null)
    if test (count $lines) -eq 1; and test "$lines[1]" = {FILES}
        set -l option (string match -r -- '^--[a-z-]+=' "$current")
        set -l paths (__fish_complete_path (string replace -- "$option" '' "$current"))
        printf '%s\\n' "$option"$paths
        return
    end
    string match -r -- '^[A-Za-z0-9_-][A-Za-z0-9_.:/@=,+%-]*$' $lines
end
complete -c calicoctl -f -a "(__calicoctl_words)"
"""
_SCRIPTS = dict(zip(SHELLS, (_BASH, _ZSH, _FISH)))


def script(shell: str) -> str:
    return _SCRIPTS[shell]


def run(arguments: argparse.Namespace, dummy: t.Any) -> int:
    sys.stdout.write(script(arguments.shell))
    return DONE
