# Completion of handoff for fish; printed by: handoff completion fish
function __handoff_on --description 'Tell whether just these words were typed behind handoff'
    set -l words (commandline -opc)[2..]
    test "$words" = "$argv"
end
function __handoff_below --description 'Tell whether these words were typed first behind handoff'
    set -l words (commandline -opc)[2..]
    set -l number (count $argv)
    test "$words[1..$number]" = "$argv"
end
complete -c handoff -f
# BODY
