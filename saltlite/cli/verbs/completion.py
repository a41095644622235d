"""`saltlite completion`: the scripts for bash, zsh and fish, which call `saltlite __complete`.

None of them evaluates a word of the answer: bash reads it into an array, and zsh and fish quote what they insert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


BASH = r"""# Completion of saltlite in bash. To use it now:    source <(saltlite completion bash)
# To have it always:    saltlite completion bash > /etc/bash_completion.d/saltlite
_saltlite() {
    local program=$1 rest=${COMP_LINE:0:COMP_POINT} head= piece line index
    local -a asked=()
    # Bash cuts words at `=` and `:`. What stands together on the line is one word again here, and `head` is the
    # part of the last one that bash does not replace.
    for ((index = 0; index <= COMP_CWORD; index++)); do
        piece=${COMP_WORDS[index]}
        if ((index == 0)) || [[ $rest == [[:blank:]]* ]]; then
            rest=${rest#"${rest%%[![:blank:]]*}"}
            asked+=("")
            head=
        else
            head=${asked[-1]}
        fi
        ((index == COMP_CWORD)) && piece=$rest
        asked[-1]+=$piece
        rest=${rest#"$piece"}
    done
    [[ $piece == [=:]* ]] && head=${asked[-1]}
    asked=("${asked[@]:1}")
    if [[ ${program##*/} == saltlite-key ]]; then
        program=${program%-key}
        asked=(__key "${asked[@]}")
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o default ;;
            :folders) compopt -o dirnames ;;
            :nospace) compopt -o nospace ;;
            *)
                line=${line%%$'\t'*}
                COMPREPLY+=("${line#"$head"}")
                ;;
        esac
    done < <("$program" __complete -- "${asked[@]}" 2>/dev/null)
}
complete -o nosort -F _saltlite saltlite saltlite-key
"""

ZSH = r"""#compdef saltlite saltlite-key
# Completion of saltlite in zsh. To use it now:    source <(saltlite completion zsh)
# To have it always:    saltlite completion zsh > "${fpath[1]}/_saltlite"
_saltlite() {
    local program=${(Q)words[1]} line place=
    local -a asked names shown suffix
    asked=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    if [[ ${program:t} == saltlite-key ]]; then
        program=${program%-key}
        asked=(__key "${asked[@]}")
    fi
    while IFS= read -r line; do
        case $line in
            :files | :folders) place=$line ;;
            :nospace) suffix=(-S '') ;;
            *)
                names+=("${line%%$'\t'*}")
                shown+=("${line/$'\t'/  -- }")
                ;;
        esac
    done < <("$program" __complete -- "${asked[@]}" 2>/dev/null)
    if [[ -n $place ]]; then
        compset -P '--*='
        if [[ $place == :folders ]]; then _files -/; else _files; fi
        return
    fi
    compadd -l -V saltlite "${suffix[@]}" -d shown -a names
}
if [[ ${funcstack[1]-} == _saltlite ]]; then
    _saltlite "$@"
else
    compdef _saltlite saltlite saltlite-key
fi
"""

FISH = r"""# Completion of saltlite in fish. To use it now:    saltlite completion fish | source
# To have it always:    saltlite completion fish > ~/.config/fish/completions/saltlite.fish
function __saltlite_complete
    set -l asked (commandline -opc) (commandline -ct)
    set -l program $asked[1]
    set -e asked[1]
    if string match -q -- '*saltlite-key' $program
        set program (string replace -r -- '-key$' '' $program)
        set -p asked __key
    end
    for line in (command $program __complete -- $asked 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct)
            case ':*'
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c saltlite -k -f -a '(__saltlite_complete)'
complete -c saltlite-key -k -f -a '(__saltlite_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def run(argv: Sequence[str], console: Console) -> int:
    """Print the script of one shell; its first lines say how to use it."""
    parsed = command_table("completion").parse(argv)
    if len(parsed.words) != 1 or parsed.words[0] not in SCRIPTS:
        raise UsageError(f"say for which shell: saltlite completion {'|'.join(SCRIPTS)}")
    console.data(SCRIPTS[parsed.words[0]])
    return exitcodes.OK
