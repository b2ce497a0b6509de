# fish completion for orion-precheck(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_precheck_at
    set -l words (commandline -opc)
    set -l sub none
    set -l place 0
    set -l skip 0
    set -l inside 0
    for word in $words[2..-1]
        if test $skip = 1
            set skip 0
            continue
        end
        switch "$sub.$place"
        end
        if test $inside = 1
            set place (math $place + 1)
            continue
        end
        switch "$sub:$word"
            case '*:--dir' '*:--via' '*:--deadline' '*:-E' '*:--busy-code' '*:--slots' '*:--once' '*:--once-ok' '*:--cooldown' '*:--runner' '*:--automation' '*:--idle' '*:--settle' '*:--idle-match' '*:--tmux-socket' '*:--resident' '*:--job-quiet' '*:--interrupted' '*:--keep-output'
                set skip 1
            case '*:-*'
            case '*'
                set place (math $place + 1)
        end
    end
    switch "$sub.$place"
    end
    test "$argv[1]" = any -o "$sub" = "$argv[1]"; or return 1
    switch "$argv[2]"
        case ''
            test $inside = 0
        case '*-'
            test $place -ge (string trim -c - -- $argv[2])
        case '*'
            test $place = $argv[2]
    end
end

# Locks that were ever held in the directory of this command line.
function __orion_precheck_names
    set -l words (commandline -opc)
    set -l dir
    if set -l at (contains -i -- --dir $words)
        set dir --dir $words[(math $at + 1)]
    end
    orion-lock $dir list --names 2>/dev/null
end

complete -c orion-precheck -f
complete -c orion-precheck -n '__orion_precheck_at any' -l dir -x -a '(__fish_complete_directories)' -d 'State directory, instead of the one orion-lock where names'
complete -c orion-precheck -n '__orion_precheck_at any' -l via -x -d 'The locks of many machines: a databases URL, or its NAME in /etc/orion/via (default: ORION_VIA)'
complete -c orion-precheck -n '__orion_precheck_at any' -l deadline -x -d 'Go ahead when there is no answer by then'
complete -c orion-precheck -n '__orion_precheck_at any' -s E -l busy-code -x -d 'Exit with N instead of 75 (not 0: there is --observe)'
complete -c orion-precheck -n '__orion_precheck_at any' -l observe -d 'Always exit 0, and log what would have been said'
complete -c orion-precheck -n '__orion_precheck_at any' -l dry-run -d 'Change nothing: no log, and nothing is reaped'
complete -c orion-precheck -n '__orion_precheck_at any' -l strict -d 'Exit with the code of a problem, to test a configuration'
complete -c orion-precheck -n '__orion_precheck_at any' -l json -d 'Print one JSON object'
complete -c orion-precheck -n '__orion_precheck_at any' -s q -l quiet -d 'Say nothing about skips'
complete -c orion-precheck -n '__orion_precheck_at any' -s v -l verbose -d 'Explain each decision, and name what was never held here'
complete -c orion-precheck -n '__orion_precheck_at any' -l slots -x -d 'At most N runs at a time; ORION_LOCK_SLOT has the number'
complete -c orion-precheck -n '__orion_precheck_at any' -s s -l shared -d 'Share it with all but an exclusive run'
complete -c orion-precheck -n '__orion_precheck_at any' -l once -x -d 'Exit 75 if the last run of NAME that began had this KEY: --once $(date +%F-%H%M)'
complete -c orion-precheck -n '__orion_precheck_at any' -l once-ok -x -d 'As --once; only a run that ended with 0 counts. For run it implies --tree'
complete -c orion-precheck -n '__orion_precheck_at any' -l cooldown -x -d 'Exit 75 if the last run of NAME ended less than DUR ago'
complete -c orion-precheck -n '__orion_precheck_at any' -l reap -d 'First close terminals of finished runs, as orion-reap does'
complete -c orion-precheck -n '__orion_precheck_at any' -l busy-is-held -d 'A terminal of a named automation that the runner proves busy is a live owner too'
complete -c orion-precheck -n '__orion_precheck_at any' -l runner -x -a 'tmux orca command:' -d 'Who keeps the terminals: tmux, orca, or command:PROG'
complete -c orion-precheck -n '__orion_precheck_at any' -l automation -x -d 'Only runs of this one: exact name or id; repeat for more'
complete -c orion-precheck -n '__orion_precheck_at any' -l idle -x -d 'Silent, and alive, for so long'
complete -c orion-precheck -n '__orion_precheck_at any' -l settle -x -d 'Wait this long for the processes of closed terminals to go'
complete -c orion-precheck -n '__orion_precheck_at any' -l idle-match -x -d 'tmux: a pane without a mark is idle if one of its last lines matches'
complete -c orion-precheck -n '__orion_precheck_at any' -l trust-screen -d 'Yes, believe what --idle-match sees on a screen'
complete -c orion-precheck -n '__orion_precheck_at any' -l tmux-socket -r -F -d 'tmux: a server by socket name, or by path if it has a slash (repeat for more)'
complete -c orion-precheck -n '__orion_precheck_at any' -l resident -x -d 'A process of this name belongs to an idle agent, an MCP server say (repeat for more)'
complete -c orion-precheck -n '__orion_precheck_at any' -l job-quiet -x -d 'A job left by a turn keeps its terminal until it has done nothing at all for this long'
complete -c orion-precheck -n '__orion_precheck_at any' -l interrupted -x -d 'Close also runs whose turn began, never ended, and showed no sign for this long'
complete -c orion-precheck -n '__orion_precheck_at any' -l end-survivors -d 'Send TERM to processes that outlive the close of their terminal, and KILL after DUR where it is given'
complete -c orion-precheck -n '__orion_precheck_at any' -l close-newest -d 'Close also the newest terminal of an automation that reuses its session'
complete -c orion-precheck -n '__orion_precheck_at any' -l keep-output -x -a '(__fish_complete_directories)' -d 'Save the text of each terminal here (mode 0600) before it is closed'
complete -c orion-precheck -n '__orion_precheck_at any' -l force -d 'Allow --idle under 1m'
complete -c orion-precheck -n '__orion_precheck_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-precheck -n '__orion_precheck_at any' -s V -l version -d 'Print version'
complete -c orion-precheck -n '__orion_precheck_at none 0-' -a '(__orion_precheck_names)'
