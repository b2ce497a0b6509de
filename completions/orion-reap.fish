# fish completion for orion-reap(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_reap_at
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
            case '*:--runner' '*:--automation' '*:--idle' '*:--settle' '*:--idle-match' '*:--tmux-socket' '*:--resident' '*:--job-quiet' '*:--interrupted' '*:--keep-output' '*:--deadline' '*:--dir'
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

complete -c orion-reap -f
complete -c orion-reap -n '__orion_reap_at any' -l runner -x -a 'tmux orca command:' -d 'Who keeps the terminals: tmux, orca, or command:PROG'
complete -c orion-reap -n '__orion_reap_at any' -l automation -x -d 'Only runs of this one: exact name or id; repeat for more'
complete -c orion-reap -n '__orion_reap_at any' -l idle -x -d 'Silent, and alive, for so long'
complete -c orion-reap -n '__orion_reap_at any' -l settle -x -d 'Wait this long for the processes of closed terminals to go'
complete -c orion-reap -n '__orion_reap_at any' -l idle-match -x -d 'tmux: a pane without a mark is idle if one of its last lines matches'
complete -c orion-reap -n '__orion_reap_at any' -l trust-screen -d 'Yes, believe what --idle-match sees on a screen'
complete -c orion-reap -n '__orion_reap_at any' -l tmux-socket -r -F -d 'tmux: a server by socket name, or by path if it has a slash (repeat for more)'
complete -c orion-reap -n '__orion_reap_at any' -l resident -x -d 'A process of this name belongs to an idle agent, an MCP server say (repeat for more)'
complete -c orion-reap -n '__orion_reap_at any' -l job-quiet -x -d 'A job left by a turn keeps its terminal until it has done nothing at all for this long'
complete -c orion-reap -n '__orion_reap_at any' -l interrupted -x -d 'Close also runs whose turn began, never ended, and showed no sign for this long'
complete -c orion-reap -n '__orion_reap_at any' -l end-survivors -d 'Send TERM to processes that outlive the close of their terminal, and KILL after DUR where it is given'
complete -c orion-reap -n '__orion_reap_at any' -l close-newest -d 'Close also the newest terminal of an automation that reuses its session'
complete -c orion-reap -n '__orion_reap_at any' -l keep-output -x -a '(__fish_complete_directories)' -d 'Save the text of each terminal here (mode 0600) before it is closed'
complete -c orion-reap -n '__orion_reap_at any' -l force -d 'Allow --idle under 1m'
complete -c orion-reap -n '__orion_reap_at any' -l deadline -x -d 'Be done by then, whatever hangs'
complete -c orion-reap -n '__orion_reap_at any' -l dry-run -d 'Close nothing; show each condition and its evidence'
complete -c orion-reap -n '__orion_reap_at any' -l log -d 'Close nothing; print what earlier passes decided'
complete -c orion-reap -n '__orion_reap_at any' -l dir -x -a '(__fish_complete_directories)' -d 'State directory for the log and for what passes remember, instead of the one orion-lock where names'
complete -c orion-reap -n '__orion_reap_at any' -l strict -d 'Exit with the code of a problem, to test a configuration'
complete -c orion-reap -n '__orion_reap_at any' -l json -d 'Print one JSON object'
complete -c orion-reap -n '__orion_reap_at any' -s q -l quiet -d 'Print only the summary'
complete -c orion-reap -n '__orion_reap_at any' -s v -l verbose -d 'Print each condition and its evidence'
complete -c orion-reap -n '__orion_reap_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-reap -n '__orion_reap_at any' -s V -l version -d 'Print version'
