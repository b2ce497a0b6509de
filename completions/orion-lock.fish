# fish completion for orion-lock(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_lock_at
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
            case none:run none:acquire none:release none:verify none:tick none:status none:wait none:list none:hold none:pause none:resume none:stop none:break none:log none:timeline none:check none:metrics none:prune none:where none:doctor none:init
                set sub $word
            case '*:--dir' '*:--via' 'run:-w' 'run:--wait' 'run:--max-waiting' 'run:--slots' 'run:--once' 'run:--once-ok' 'run:--cooldown' 'run:-E' 'run:--busy-code' 'run:--max-run' 'run:--kill-after' 'run:--status-file' 'run:--note' 'run:--grace' 'run:--fence' 'run:--frozen' 'acquire:--owner' 'acquire:--for' 'acquire:-w' 'acquire:--wait' 'acquire:--max-waiting' 'acquire:--slots' 'acquire:--once' 'acquire:--cooldown' 'acquire:-E' 'acquire:--busy-code' 'acquire:--note' 'release:--token' 'release:--owner' 'verify:--token' 'verify:--owner' 'tick:--token' 'tick:--owner' 'tick:--every' 'status:--user' 'wait:-w' 'wait:--wait' 'wait:--slots' 'list:--user' 'hold:-w' 'hold:--wait' 'hold:--max-waiting' 'hold:-E' 'hold:--busy-code' 'hold:--note' 'pause:--for' 'pause:--note' 'stop:--token' 'stop:-w' 'stop:--wait' 'stop:--kill-after' 'break:--token' 'log:--user' 'log:-n' 'log:--lines' 'log:--at' 'log:--since' 'log:--until' 'log:--event' 'timeline:--user' 'timeline:--since' 'timeline:--until' 'timeline:--html' 'timeline:--lease' 'check:--held-longer' 'check:--skips' 'check:--last-run-within' 'check:--waiting-longer' 'metrics:--most' 'prune:--older' 'where:--pulse' 'init:--grant' 'init:--max-grace'
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

# Locks that were ever held in the directory of this command line.
function __orion_lock_names
    set -l words (commandline -opc)
    set -l dir
    if set -l at (contains -i -- --dir $words)
        set dir --dir $words[(math $at + 1)]
    end
    orion-lock $dir list --names 2>/dev/null
end

complete -c orion-lock -f
complete -c orion-lock -n '__orion_lock_at none 0' -a run -d 'Take the lock and become the command; the lock ends with it'
complete -c orion-lock -n '__orion_lock_at none 0' -a acquire -d 'Take the lock for a process that lives on'
complete -c orion-lock -n '__orion_lock_at none 0' -a release -d 'Give it back'
complete -c orion-lock -n '__orion_lock_at none 0' -a verify -d 'Check that it is still yours; run it just before publishing results'
complete -c orion-lock -n '__orion_lock_at none 0' -a tick -d 'Report progress; --every DUR promises the next report in time'
complete -c orion-lock -n '__orion_lock_at none 0' -a status -d 'Who holds it (0 free, 75 held, 76 stuck, 69 cannot tell)'
complete -c orion-lock -n '__orion_lock_at none 0' -a wait -d 'Wait until it is free, without taking it'
complete -c orion-lock -n '__orion_lock_at none 0' -a list -d 'Every lock, one row each'
complete -c orion-lock -n '__orion_lock_at none 0' -a hold -d 'Keep it by hand until Ctrl-C'
complete -c orion-lock -n '__orion_lock_at none 0' -a pause -d 'Let no new run begin until resume, or for a time'
complete -c orion-lock -n '__orion_lock_at none 0' -a resume -d 'End a pause'
complete -c orion-lock -n '__orion_lock_at none 0' -a stop -d 'End the holder; free nothing'
complete -c orion-lock -n '__orion_lock_at none 0' -a break -d 'Free it by hand when nobody can tell whether its owner lives'
complete -c orion-lock -n '__orion_lock_at none 0' -a log -d 'What happened, and why a run was skipped'
complete -c orion-lock -n '__orion_lock_at none 0' -a timeline -d 'A picture of what was held when, one row a lock'
complete -c orion-lock -n '__orion_lock_at none 0' -a check -d 'Say what needs a person (76), or nothing (0): for crons mail'
complete -c orion-lock -n '__orion_lock_at none 0' -a metrics -d 'Print the state of all locks for a monitoring system (OpenMetrics)'
complete -c orion-lock -n '__orion_lock_at none 0' -a prune -d 'Remove the files of names that nobody has and nobody used for long'
complete -c orion-lock -n '__orion_lock_at none 0' -a where -d 'Which directory, and why that one'
complete -c orion-lock -n '__orion_lock_at none 0' -a doctor -d 'Self-test on this host as this user (run it from cron once, too)'
complete -c orion-lock -n '__orion_lock_at none 0' -a init -d 'With --via: set up the database, once'
complete -c orion-lock -n '__orion_lock_at any' -l dir -x -a '(__fish_complete_directories)' -d 'State directory, instead of the one where names'
complete -c orion-lock -n '__orion_lock_at any' -l via -x -d 'The lock of many machines: a databases URL, or its NAME in /etc/orion/via (default: ORION_VIA)'
complete -c orion-lock -n '__orion_lock_at any' -l json -d 'Print one JSON object'
complete -c orion-lock -n '__orion_lock_at any' -l utc -d 'Show times in UTC instead of local time'
complete -c orion-lock -n '__orion_lock_at any' -s q -l quiet -d 'Do not print refusals'
complete -c orion-lock -n '__orion_lock_at any' -s v -l verbose -d 'Explain each decision'
complete -c orion-lock -n '__orion_lock_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-lock -n '__orion_lock_at none' -s V -l version -d 'Print version'
complete -c orion-lock -n '__orion_lock_at run' -s n -l nonblock -d 'Do not wait (the default; accepted for flock lines)'
complete -c orion-lock -n '__orion_lock_at run' -s w -l wait -x -d 'Wait that long for it: 90s, 10m, 0, or forever'
complete -c orion-lock -n '__orion_lock_at run' -l max-waiting -x -d 'With -w: exit at once if N wait for it already'
complete -c orion-lock -n '__orion_lock_at run' -l slots -x -d 'At most N runs at a time; ORION_LOCK_SLOT has the number'
complete -c orion-lock -n '__orion_lock_at run' -s s -l shared -d 'Share it with all but an exclusive run'
complete -c orion-lock -n '__orion_lock_at run' -l once -x -d 'Exit 75 if the last run of NAME that began had this KEY: --once $(date +%F-%H%M)'
complete -c orion-lock -n '__orion_lock_at run' -l once-ok -x -d 'As --once; only a run that ended with 0 counts. For run it implies --tree'
complete -c orion-lock -n '__orion_lock_at run' -l cooldown -x -d 'Exit 75 if the last run of NAME ended less than DUR ago'
complete -c orion-lock -n '__orion_lock_at run' -s E -l busy-code -x -d 'Exit with N instead of 75 for a skip (0: success)'
complete -c orion-lock -n '__orion_lock_at run' -l tree -d 'Hold it until everything the command started has ended'
complete -c orion-lock -n '__orion_lock_at run' -l max-run -x -d 'End all of it after that time (TERM); implies --tree'
complete -c orion-lock -n '__orion_lock_at run' -l kill-after -x -d 'Kill what is still there that long after the TERM of --max-run'
complete -c orion-lock -n '__orion_lock_at run' -s x -l exclusive -d 'Hold it alone (the default; accepted for flock lines)'
complete -c orion-lock -n '__orion_lock_at run' -s F -l no-fork -d 'Become the command (the default; accepted for flock lines)'
complete -c orion-lock -n '__orion_lock_at run' -l replace -d 'End the holder first (TERM); waits for it -w, or 30s'
complete -c orion-lock -n '__orion_lock_at run' -s o -l owner-only -d 'Do not let what the command leaves behind hold the lock'
complete -c orion-lock -n '__orion_lock_at run' -l reentrant -d 'Go ahead when an ancestor of ours holds it already'
complete -c orion-lock -n '__orion_lock_at run' -l status-file -r -F -d 'Write one JSON line per fact there (/dev/fd/3 works)'
complete -c orion-lock -n '__orion_lock_at run' -l note -x -d 'A word about this run, shown by status'
complete -c orion-lock -n '__orion_lock_at run' -l grace -x -d 'With --via: so long after this host lost the database nobody else begins (60s; 15s up to 60s, or never)'
complete -c orion-lock -n '__orion_lock_at run' -l fence -x -d 'With --via: so long without the database the run works on, then it is stopped (grace less 3s or a tenth)'
complete -c orion-lock -n '__orion_lock_at run' -l frozen -x -d 'With --via: so long a stopped run waits for the database before it is killed (1h)'
complete -c orion-lock -n '__orion_lock_at run 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at run 1' -a '(__fish_complete_command)'
complete -c orion-lock -n '__orion_lock_at run 2-' -F
complete -c orion-lock -n '__orion_lock_at acquire' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, a caller of this: its pid ($$) or unique name'
complete -c orion-lock -n '__orion_lock_at acquire' -l for -x -a '(__fish_complete_pids)' -d 'The owner: any process of this user'
complete -c orion-lock -n '__orion_lock_at acquire' -s n -l nonblock -d 'Do not wait (the default; accepted for flock lines)'
complete -c orion-lock -n '__orion_lock_at acquire' -s w -l wait -x -d 'Wait that long for it: 90s, 10m, 0, or forever'
complete -c orion-lock -n '__orion_lock_at acquire' -l max-waiting -x -d 'With -w: exit at once if N wait for it already'
complete -c orion-lock -n '__orion_lock_at acquire' -l slots -x -d 'At most N runs at a time; ORION_LOCK_SLOT has the number'
complete -c orion-lock -n '__orion_lock_at acquire' -s s -l shared -d 'Share it with all but an exclusive run'
complete -c orion-lock -n '__orion_lock_at acquire' -l once -x -d 'Exit 75 if the last run of NAME that began had this KEY'
complete -c orion-lock -n '__orion_lock_at acquire' -l cooldown -x -d 'Exit 75 if the last run of NAME ended less than DUR ago'
complete -c orion-lock -n '__orion_lock_at acquire' -s E -l busy-code -x -d 'Exit with N instead of 75 for a skip'
complete -c orion-lock -n '__orion_lock_at acquire' -l short-lived -d 'Allow a one-shot shell (sh -c) as the owner'
complete -c orion-lock -n '__orion_lock_at acquire' -l pulse-stdin -d 'Standard input is NAME.pulse: let everything that has it open hold the lock'
complete -c orion-lock -n '__orion_lock_at acquire' -l note -x -d 'A word about this run, shown by status'
complete -c orion-lock -n '__orion_lock_at acquire' -l print-token -d 'Print the token'
complete -c orion-lock -n '__orion_lock_at acquire' -l reentrant -d 'Go ahead when this owner, or an ancestors exported token, holds it already'
complete -c orion-lock -n '__orion_lock_at acquire' -l dry-run -d 'Only say who would own it'
complete -c orion-lock -n '__orion_lock_at acquire 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at release' -l token -x -d 'The token that acquire printed'
complete -c orion-lock -n '__orion_lock_at release' -l owner -x -a '(__fish_complete_pids)' -d 'The owners pid ($$), a caller of this command'
complete -c orion-lock -n '__orion_lock_at release 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at verify' -l token -x -d 'The token; default: the one that run exported for this name'
complete -c orion-lock -n '__orion_lock_at verify' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, by pid or unique name'
complete -c orion-lock -n '__orion_lock_at verify' -l orphan-ok -d 'Fine also when only something the owner started still lives'
complete -c orion-lock -n '__orion_lock_at verify 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at tick' -l token -x -d 'The token; default: the one that run exported for this name'
complete -c orion-lock -n '__orion_lock_at tick' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, by pid or unique name'
complete -c orion-lock -n '__orion_lock_at tick' -l every -x -d 'Promise the next tick within that time (0: no promise)'
complete -c orion-lock -n '__orion_lock_at tick 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at status' -l user -x -a '(__fish_complete_users)' -d 'Another users locks'
complete -c orion-lock -n '__orion_lock_at status' -l all-users -d 'Every users locks'
complete -c orion-lock -n '__orion_lock_at status 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at wait' -s w -l wait -x -d 'At most that long (90s, 10m, 0); without it, for ever'
complete -c orion-lock -n '__orion_lock_at wait' -l slots -x -d 'At most N runs at a time; ORION_LOCK_SLOT has the number'
complete -c orion-lock -n '__orion_lock_at wait' -s s -l shared -d 'Share it with all but an exclusive run'
complete -c orion-lock -n '__orion_lock_at wait 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at list' -l user -x -a '(__fish_complete_users)' -d 'Another users locks'
complete -c orion-lock -n '__orion_lock_at list' -l all-users -d 'Every users locks'
complete -c orion-lock -n '__orion_lock_at list' -l all -d 'Also free ones, where a terminal has no room for all'
complete -c orion-lock -n '__orion_lock_at hold' -s n -l nonblock -d 'Do not wait (the default; accepted for flock lines)'
complete -c orion-lock -n '__orion_lock_at hold' -s w -l wait -x -d 'Wait that long for it: 90s, 10m, 0, or forever'
complete -c orion-lock -n '__orion_lock_at hold' -l max-waiting -x -d 'With -w: exit at once if N wait for it already'
complete -c orion-lock -n '__orion_lock_at hold' -s E -l busy-code -x -d 'Exit with N instead of 75 for a skip'
complete -c orion-lock -n '__orion_lock_at hold' -l note -x -d 'A word about why, shown by status'
complete -c orion-lock -n '__orion_lock_at hold 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at pause' -l for -x -d 'End the pause by itself after that time'
complete -c orion-lock -n '__orion_lock_at pause' -l note -x -d 'A word about why, shown to everybody who is refused'
complete -c orion-lock -n '__orion_lock_at pause' -l all -d 'Everything that keeps its state in this directory: locks, fires and tickets'
complete -c orion-lock -n '__orion_lock_at pause 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at resume' -l all -d 'End the pause of everything; names that were paused one by one stay paused'
complete -c orion-lock -n '__orion_lock_at resume 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at stop' -l token -x -d 'The token of the holder that is meant'
complete -c orion-lock -n '__orion_lock_at stop' -s w -l wait -x -d 'Wait that long for its end (30s, plus --kill-after)'
complete -c orion-lock -n '__orion_lock_at stop' -l kill-after -x -d 'Kill what is still there that long after the TERM'
complete -c orion-lock -n '__orion_lock_at stop 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at break' -l token -x -d 'The token of the record that is meant'
complete -c orion-lock -n '__orion_lock_at break' -l owner-is-alive -d 'Also when its owner is proved to live; nothing is ended'
complete -c orion-lock -n '__orion_lock_at break' -l yes -d 'Do not ask'
complete -c orion-lock -n '__orion_lock_at break 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at log' -l user -x -a '(__fish_complete_users)' -d 'Another users locks'
complete -c orion-lock -n '__orion_lock_at log' -l all-users -d 'Every users locks'
complete -c orion-lock -n '__orion_lock_at log' -s n -l lines -x -d 'Only the last N'
complete -c orion-lock -n '__orion_lock_at log' -l at -x -d 'The story around that moment: holder, skips, who came next'
complete -c orion-lock -n '__orion_lock_at log' -l since -x -d 'Only from then on (90m, 09:45, 2026-11-29, RFC 3339)'
complete -c orion-lock -n '__orion_lock_at log' -l until -x -d 'Only until then'
complete -c orion-lock -n '__orion_lock_at log' -l event -x -d 'Only this kind of event: skipped, refused, acquired, ended, … (repeat it)'
complete -c orion-lock -n '__orion_lock_at log 0' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at timeline' -l user -x -a '(__fish_complete_users)' -d 'Another users locks'
complete -c orion-lock -n '__orion_lock_at timeline' -l all-users -d 'Every users locks'
complete -c orion-lock -n '__orion_lock_at timeline' -l since -x -d 'Where it begins (90m, 09:45, RFC 3339)'
complete -c orion-lock -n '__orion_lock_at timeline' -l until -x -d 'Where it ends; now, if not given'
complete -c orion-lock -n '__orion_lock_at timeline' -l html -r -F -d 'Write it to FILE as a page that needs nothing else'
complete -c orion-lock -n '__orion_lock_at timeline' -l claims -d 'Tickets that were claimed on this machine have rows too'
complete -c orion-lock -n '__orion_lock_at timeline' -l lease -r -F -d 'The server of STORE has a row too (orion-lease; repeat it)'
complete -c orion-lock -n '__orion_lock_at timeline 0-' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at check' -l held-longer -x -d 'Trouble: held for longer than that'
complete -c orion-lock -n '__orion_lock_at check' -l skips -x -d 'Trouble: N skips in a row because of one holder'
complete -c orion-lock -n '__orion_lock_at check' -l last-run-within -x -d 'Trouble: no run began within that time'
complete -c orion-lock -n '__orion_lock_at check' -l waiting-longer -x -d 'Trouble: somebody has waited for longer than that'
complete -c orion-lock -n '__orion_lock_at check 0-' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at metrics' -l most -x -d 'At most N names; the number left out is a metric'
complete -c orion-lock -n '__orion_lock_at metrics 0-' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at prune' -l older -x -d 'Only names that nobody used for so long'
complete -c orion-lock -n '__orion_lock_at prune' -l dry-run -d 'Only say what would be removed'
complete -c orion-lock -n '__orion_lock_at prune' -l logs -d 'Remove their logs too'
complete -c orion-lock -n '__orion_lock_at prune 0-' -a '(__orion_lock_names)'
complete -c orion-lock -n '__orion_lock_at where' -l mark-private -d 'Mark the directory as used by one container at a time'
complete -c orion-lock -n '__orion_lock_at where' -l mark-network -d 'Mark the directory as shared between machines'
complete -c orion-lock -n '__orion_lock_at where' -l pulse -x -a '(__orion_lock_names)' -d 'Make NAMEs pulse file and print its path, for --pulse-stdin'
complete -c orion-lock -n '__orion_lock_at init' -l print -d 'Only print what would be run, for psql'
complete -c orion-lock -n '__orion_lock_at init' -l grant -x -d 'Who may use the locks; repeat it for more'
complete -c orion-lock -n '__orion_lock_at init' -l max-grace -x -d 'The longest grace that a run may promise (60s)'
