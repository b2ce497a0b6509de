# fish completion for orion-lease(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_lease_at
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
            case run.0
            case 'run.*'
                set inside 1
        end
        if test $inside = 1
            set place (math $place + 1)
            continue
        end
        switch "$sub:$word"
            case none:path none:run none:probe none:tick none:takeover
                set sub $word
            case 'run:-w' 'run:--wait' 'run:-E' 'run:--busy-code' 'run:--surface' 'run:--takeover' 'run:--kill-after' 'run:--stuck-after' 'run:--build-file' 'run:--revision' 'probe:--stuck-after' 'takeover:-w' 'takeover:--wait' 'takeover:--kill-after' 'takeover:--stuck-after'
                set skip 1
            case '*:-*'
            case '*'
                set place (math $place + 1)
        end
    end
    switch "$sub.$place"
            case run.0
            case 'run.*'
                set inside 1
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

complete -c orion-lease -f
complete -c orion-lease -n '__orion_lease_at none 0' -a path -d 'Print the lock file of a store'
complete -c orion-lease -n '__orion_lease_at none 0' -a run -d 'Take the role and run the command under it'
complete -c orion-lease -n '__orion_lease_at none 0' -a probe -d 'Who serves it (0 free, 75 held, 76 stuck, 69 cannot tell)'
complete -c orion-lease -n '__orion_lease_at none 0' -a tick -d 'Report progress; from the holder or its command only'
complete -c orion-lease -n '__orion_lease_at none 0' -a takeover -d 'End a stuck holder and leave the role free'
complete -c orion-lease -n '__orion_lease_at any' -l json -d 'Print one JSON object'
complete -c orion-lease -n '__orion_lease_at any' -l utc -d 'Show times in UTC instead of local time'
complete -c orion-lease -n '__orion_lease_at any' -s q -l quiet -d 'Do not print refusals'
complete -c orion-lease -n '__orion_lease_at any' -s v -l verbose -d 'Explain each decision'
complete -c orion-lease -n '__orion_lease_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-lease -n '__orion_lease_at none' -s V -l version -d 'Print version'
complete -c orion-lease -n '__orion_lease_at path 0' -a '(__fish_complete_path)'
complete -c orion-lease -n '__orion_lease_at run' -s n -l nonblock -d 'Do not wait (the default; accepted for flock lines)'
complete -c orion-lease -n '__orion_lease_at run' -s w -l wait -x -d 'Wait that long for it: 90s, 10m, 0, or forever'
complete -c orion-lease -n '__orion_lease_at run' -s E -l busy-code -x -d 'Exit with N instead of 75 for a skip (0: success)'
complete -c orion-lease -n '__orion_lease_at run' -l surface -x -d 'Where this process comes from, shown to others: chat, wake, api'
complete -c orion-lease -n '__orion_lease_at run' -l takeover -x -a 'stuck newer' -d 'End a holder that is stuck, or of an older build'
complete -c orion-lease -n '__orion_lease_at run' -l kill-after -x -d 'KILL a holder that did not end within DUR'
complete -c orion-lease -n '__orion_lease_at run' -l stuck-after -x -d 'Stuck: no tick for so long in time awake; at least 1s'
complete -c orion-lease -n '__orion_lease_at run' -l build-file -r -F -d 'The file whose time and size are the builds, instead of the commands own'
complete -c orion-lease -n '__orion_lease_at run' -l revision -x -d 'The builds revision: a commit, a version'
complete -c orion-lease -n '__orion_lease_at run' -l exec -d 'Become the command instead of watching it: for programs that tick by themselves'
complete -c orion-lease -n '__orion_lease_at run 0' -a '(__fish_complete_path)'
complete -c orion-lease -n '__orion_lease_at run 1' -a '(__fish_complete_command)'
complete -c orion-lease -n '__orion_lease_at run 2-' -F
complete -c orion-lease -n '__orion_lease_at probe' -l up -d 'As a health check: 0 serving, 76 stuck, 69 nobody'
complete -c orion-lease -n '__orion_lease_at probe' -l stuck-after -x -d 'Stuck: no tick for so long in time awake; at least 1s'
complete -c orion-lease -n '__orion_lease_at probe 0' -a '(__fish_complete_path)'
complete -c orion-lease -n '__orion_lease_at tick 0' -a '(__fish_complete_path)'
complete -c orion-lease -n '__orion_lease_at takeover' -s w -l wait -x -d 'Wait that long for the holders end'
complete -c orion-lease -n '__orion_lease_at takeover' -l kill-after -x -d 'KILL it if it is still there after DUR'
complete -c orion-lease -n '__orion_lease_at takeover' -l stuck-after -x -d 'Stuck: no tick for so long in time awake; at least 1s'
complete -c orion-lease -n '__orion_lease_at takeover' -l dry-run -d 'Say what would be done and do nothing'
complete -c orion-lease -n '__orion_lease_at takeover 0' -a '(__fish_complete_path)'
