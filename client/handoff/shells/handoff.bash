# Completion of handoff for bash; printed by: handoff completion bash
_handoff() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command='' options='' words='' kind='' found
    ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]}
    case $command in
    @NESTED@) ((COMP_CWORD > 2)) && command="$command ${COMP_WORDS[2]}" ;;
    esac
    case $command in
# WORDS
    esac
    case "$command $before" in
# VALUES
    *) [[ $word == -* ]] && words=$options kind='' ;;
    esac
    COMPREPLY=()
    while IFS= read -r found; do
        COMPREPLY+=("$found")
    done < <(
        [[ -n $words ]] && compgen -W "$words" -- "$word"
        [[ $kind == directory ]] && compgen -d -- "$word"
        [[ $kind == file ]] && compgen -f -- "$word"
    )
    # Older than bash 4 there is no such command, and no slash behind a directory.
    [[ -z $kind ]] || compopt -o filenames 2>/dev/null
}
complete -F _handoff handoff
