#compdef handoff
# Completion of handoff for zsh; printed by: handoff completion zsh
# BODY
# As a file of $fpath it is called; sourced, it says whose it is.
if [[ $funcstack[1] == _handoff ]]; then
    _handoff "$@"
else
    compdef _handoff handoff
fi
