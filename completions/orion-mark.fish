# fish completion for orion-mark(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_mark_at
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
            case none:claim none:ready none:busy none:idle none:working none:question none:ended none:install none:check none:profile
                set sub $word
            case '*:--dir' 'install:--file' 'check:--file'
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

complete -c orion-mark -f
complete -c orion-mark -n '__orion_mark_at none 0' -a claim -d 'This pane is a run of the automation (orion-fire says it)'
complete -c orion-mark -n '__orion_mark_at none 0' -a ready -d 'The agent has started and no turn runs yet: hooks speak here'
complete -c orion-mark -n '__orion_mark_at none 0' -a busy -d 'A turn begins, or a tool begins or ends'
complete -c orion-mark -n '__orion_mark_at none 0' -a idle -d 'A turn has ended; the hooks JSON on stdin may say that work goes on'
complete -c orion-mark -n '__orion_mark_at none 0' -a working -d 'The turn has ended, and N pieces of work go on in the background'
complete -c orion-mark -n '__orion_mark_at none 0' -a question -d 'The agent waits for a person'
complete -c orion-mark -n '__orion_mark_at none 0' -a ended -d 'The agents session has ended'
complete -c orion-mark -n '__orion_mark_at none 0' -a install -d 'Add the hooks to an agents own settings, or take them out again'
complete -c orion-mark -n '__orion_mark_at none 0' -a check -d 'Are an agents hooks complete and current? 0, or 78 with what is missing'
complete -c orion-mark -n '__orion_mark_at none 0' -a profile -d 'What is known about an agent, or about all of them'
complete -c orion-mark -n '__orion_mark_at any' -l strict -d 'Exit with the code of a problem, to test hooks'
complete -c orion-mark -n '__orion_mark_at any' -l dir -x -a '(__fish_complete_directories)' -d 'State directory for the log, instead of the one orion-lock where names'
complete -c orion-mark -n '__orion_mark_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-mark -n '__orion_mark_at none' -s V -l version -d 'Print version'
complete -c orion-mark -n '__orion_mark_at install' -l project -d 'Into the settings of the project in this directory'
complete -c orion-mark -n '__orion_mark_at install' -l file -r -F -d 'Into this file'
complete -c orion-mark -n '__orion_mark_at install' -l remove -d 'Take out exactly the hooks of orion-mark'
complete -c orion-mark -n '__orion_mark_at install' -l dry-run -d 'Change nothing; show the lines that would change'
complete -c orion-mark -n '__orion_mark_at check' -l project -d 'Only in the settings of the project in this directory'
complete -c orion-mark -n '__orion_mark_at check' -l file -r -F -d 'Only in this file'
complete -c orion-mark -n '__orion_mark_at profile' -l json -d 'Print one JSON object'
