# fish completion for orion-claim(1); written from its options, see CONTRIBUTING.md.

# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __orion_claim_at
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
            case watch.0
            case 'watch.*'
                set inside 1
        end
        if test $inside = 1
            set place (math $place + 1)
            continue
        end
        switch "$sub:$word"
            case none:init none:next none:acquire none:run none:tick none:stage none:verify none:release none:list none:log none:timeline none:metrics none:where none:status none:pause none:resume none:reconcile none:watch none:free
                set sub $word
            case '*:--tracker' '*:--arbiter' '*:--config' '*:--dir' 'acquire:--owner' 'acquire:--for' 'acquire:--branch' 'acquire:--worktree' 'run:--stage' 'run:--on-success' 'run:--max-run' 'run:--keep-output' 'run:--kill-after' 'run:--every' 'run:--branch' 'run:--worktree' 'tick:--token' 'tick:--owner' 'tick:--every' 'stage:--token' 'stage:--owner' 'stage:--branch' 'stage:--worktree' 'verify:--token' 'verify:--owner' 'release:--to' 'release:--token' 'release:--owner' 'log:-n' 'log:--lines' 'log:--at' 'log:--since' 'log:--until' 'log:--event' 'timeline:--since' 'timeline:--until' 'timeline:--html' 'where:--pulse' 'pause:--for' 'pause:--note' 'watch:--every' 'watch:--max' 'watch:--stage' 'watch:--on-success' 'watch:--max-run' 'watch:--keep-output' 'watch:--kill-after' 'watch:--quick' 'watch:--trip' 'watch:--retry-after' 'free:--host'
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
            case watch.0
            case 'watch.*'
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

complete -c orion-claim -f
complete -c orion-claim -n '__orion_claim_at none 0' -a init -d 'Create labels and directories that are missing, or only report'
complete -c orion-claim -n '__orion_claim_at none 0' -a next -d 'The next ticket that may be claimed (75: none)'
complete -c orion-claim -n '__orion_claim_at none 0' -a acquire -d 'Claim a ticket for a process that lives on'
complete -c orion-claim -n '__orion_claim_at none 0' -a run -d 'Claim a ticket, run the command, hand over by its exit status'
complete -c orion-claim -n '__orion_claim_at none 0' -a tick -d 'Report progress; --every DUR promises the next report in time'
complete -c orion-claim -n '__orion_claim_at none 0' -a stage -d 'Say which actor is on it'
complete -c orion-claim -n '__orion_claim_at none 0' -a verify -d 'Check that it is still yours; run it just before pushing or writing'
complete -c orion-claim -n '__orion_claim_at none 0' -a release -d 'Hand a ticket over'
complete -c orion-claim -n '__orion_claim_at none 0' -a list -d 'Tickets in the queue and in flight'
complete -c orion-claim -n '__orion_claim_at none 0' -a log -d 'What happened to the claims of this machine, or to one tickets'
complete -c orion-claim -n '__orion_claim_at none 0' -a timeline -d 'A picture of who had which ticket when'
complete -c orion-claim -n '__orion_claim_at none 0' -a metrics -d 'Numbers for monitoring (OpenMetrics)'
complete -c orion-claim -n '__orion_claim_at none 0' -a where -d 'The directory of this machines claims'
complete -c orion-claim -n '__orion_claim_at none 0' -a status -d 'Who holds a ticket (0 free, 75 held, 76 stuck, 69 cannot tell)'
complete -c orion-claim -n '__orion_claim_at none 0' -a pause -d 'Let no ticket be taken until resume, or for a time'
complete -c orion-claim -n '__orion_claim_at none 0' -a resume -d 'End the pause of this tracker'
complete -c orion-claim -n '__orion_claim_at none 0' -a reconcile -d 'One pass over everything in flight: heal what a dead run left'
complete -c orion-claim -n '__orion_claim_at none 0' -a watch -d 'Until stopped: reconcile, claim, start the command'
complete -c orion-claim -n '__orion_claim_at none 0' -a free -d 'For a person who knows that nobody works on it any more'
complete -c orion-claim -n '__orion_claim_at any' -l tracker -x -d 'file:/DIR, github:OWNER/REPO, gitlab:HOST/PATH, gitea:HOST/OWNER/REPO, jira:URL/PROJECT or command:/PROG'
complete -c orion-claim -n '__orion_claim_at any' -l arbiter -x -d 'Who decides a race: guard, label-gate, comment-order, git-ref, none, or a PostgreSQL by URL'
complete -c orion-claim -n '__orion_claim_at any' -l single-machine -d 'Only this machine claims from that tracker'
complete -c orion-claim -n '__orion_claim_at any' -l ignore-assignee -d 'Offer tickets that are assigned to somebody else too'
complete -c orion-claim -n '__orion_claim_at any' -l config -r -F -d 'Settings file, instead of claim.toml in the state directory'
complete -c orion-claim -n '__orion_claim_at any' -l dir -x -a '(__fish_complete_directories)' -d 'State directory, instead of the one orion-lock where names'
complete -c orion-claim -n '__orion_claim_at any' -l json -d 'Print one JSON object'
complete -c orion-claim -n '__orion_claim_at any' -l utc -d 'Show times in UTC instead of local time'
complete -c orion-claim -n '__orion_claim_at any' -s q -l quiet -d 'Do not print refusals'
complete -c orion-claim -n '__orion_claim_at any' -s v -l verbose -d 'Explain each decision'
complete -c orion-claim -n '__orion_claim_at any' -s h -l help -d 'Print help (see more with --help)'
complete -c orion-claim -n '__orion_claim_at none' -l print-config -d 'Show the settings in force and where each came from'
complete -c orion-claim -n '__orion_claim_at none' -s V -l version -d 'Print version'
complete -c orion-claim -n '__orion_claim_at init' -l check -d 'Only report'
complete -c orion-claim -n '__orion_claim_at acquire' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, a caller of this: its pid ($$) or unique name'
complete -c orion-claim -n '__orion_claim_at acquire' -l for -x -a '(__fish_complete_pids)' -d 'The owner: any process of this user'
complete -c orion-claim -n '__orion_claim_at acquire' -l short-lived -d 'Allow a one-shot shell (sh -c) as the owner'
complete -c orion-claim -n '__orion_claim_at acquire' -l pulse-stdin -d 'Standard input is KEYs pulse file: whatever has it open keeps the claim'
complete -c orion-claim -n '__orion_claim_at acquire' -l print-token -d 'Print the token'
complete -c orion-claim -n '__orion_claim_at acquire' -l branch -x -d 'The branch of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at acquire' -l worktree -x -a '(__fish_complete_directories)' -d 'The working directory of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at run' -l stage -x -d 'The actor that begins, for the stage label'
complete -c orion-claim -n '__orion_claim_at run' -l on-success -x -a 'ready ci-wait' -d 'Where exit status 0 leads, instead of ready'
complete -c orion-claim -n '__orion_claim_at run' -l max-run -x -d 'End all of it after that time (TERM); leads to failed'
complete -c orion-claim -n '__orion_claim_at run' -l owner-only -d 'Hand over when the command has ended, whatever it leaves running (a daemon)'
complete -c orion-claim -n '__orion_claim_at run' -l keep-output -x -a '(__fish_complete_directories)' -d 'Write the commands stderr into a file of DIR, of which the last 4 KiB stay'
complete -c orion-claim -n '__orion_claim_at run' -l comment -d 'Write on the ticket how the command ended, and after how long'
complete -c orion-claim -n '__orion_claim_at run' -l kill-after -x -d 'KILL what is left so long after a signal, or --max-run'
complete -c orion-claim -n '__orion_claim_at run' -l every -x -d 'Leave a ticket alone that long after the command said 75, doubling to an hour (default 60s)'
complete -c orion-claim -n '__orion_claim_at run' -l branch -x -d 'The branch of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at run' -l worktree -x -a '(__fish_complete_directories)' -d 'The working directory of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at run 1' -a '(__fish_complete_command)'
complete -c orion-claim -n '__orion_claim_at run 2-' -F
complete -c orion-claim -n '__orion_claim_at tick' -l token -x -d 'The token; default: ORION_CLAIM_TOKEN'
complete -c orion-claim -n '__orion_claim_at tick' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, by pid or unique name'
complete -c orion-claim -n '__orion_claim_at tick' -l every -x -d 'The promise: the next one comes within that time'
complete -c orion-claim -n '__orion_claim_at stage' -l token -x -d 'The token; default: ORION_CLAIM_TOKEN'
complete -c orion-claim -n '__orion_claim_at stage' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, by pid or unique name'
complete -c orion-claim -n '__orion_claim_at stage' -l branch -x -d 'The branch of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at stage' -l worktree -x -a '(__fish_complete_directories)' -d 'The working directory of this work, for whoever must resume it'
complete -c orion-claim -n '__orion_claim_at verify' -l token -x -d 'The token; default: ORION_CLAIM_TOKEN'
complete -c orion-claim -n '__orion_claim_at verify' -l owner -x -a '(__fish_complete_pids)' -d 'The owner, by pid or unique name'
complete -c orion-claim -n '__orion_claim_at release' -l to -x -a 'ready ci-wait queue failed' -d 'Where the ticket goes'
complete -c orion-claim -n '__orion_claim_at release' -l token -x -d 'The token that acquire printed'
complete -c orion-claim -n '__orion_claim_at release' -l owner -x -a '(__fish_complete_pids)' -d 'The owners pid ($$), a caller of this command'
complete -c orion-claim -n '__orion_claim_at log' -s n -l lines -x -d 'So many of the last lines (default 50)'
complete -c orion-claim -n '__orion_claim_at log' -l at -x -d 'The story around that moment: whose it was, who came next'
complete -c orion-claim -n '__orion_claim_at log' -l since -x -d 'Only from then on (90m, 09:45, 2026-11-29, RFC 3339)'
complete -c orion-claim -n '__orion_claim_at log' -l until -x -d 'Only until then'
complete -c orion-claim -n '__orion_claim_at log' -l event -x -d 'Only this kind of event: acquired, released, refused, … (repeat it)'
complete -c orion-claim -n '__orion_claim_at timeline' -l since -x -d 'Where it begins (90m, 09:45, RFC 3339)'
complete -c orion-claim -n '__orion_claim_at timeline' -l until -x -d 'Where it ends; now, if not given'
complete -c orion-claim -n '__orion_claim_at timeline' -l html -r -F -d 'Write it to FILE as a page that needs nothing else'
complete -c orion-claim -n '__orion_claim_at where' -l pulse -x -d 'Make KEYs pulse file and print its path, for --pulse-stdin'
complete -c orion-claim -n '__orion_claim_at pause' -l for -x -d 'End the pause by itself after that time'
complete -c orion-claim -n '__orion_claim_at pause' -l note -x -d 'A word about why, shown to everybody who is refused'
complete -c orion-claim -n '__orion_claim_at reconcile' -l dry-run -d 'Only say what would be done'
complete -c orion-claim -n '__orion_claim_at watch' -l every -x -d 'Time between two passes (default 60s)'
complete -c orion-claim -n '__orion_claim_at watch' -l max -x -d 'Tickets at a time (default 1)'
complete -c orion-claim -n '__orion_claim_at watch' -l stage -x -d 'The actor that begins, for the stage label'
complete -c orion-claim -n '__orion_claim_at watch' -l on-success -x -a 'ready ci-wait' -d 'Where exit status 0 leads, instead of ready'
complete -c orion-claim -n '__orion_claim_at watch' -l max-run -x -d 'End all of it after that time (TERM); leads to failed'
complete -c orion-claim -n '__orion_claim_at watch' -l owner-only -d 'Hand over when the command has ended, whatever it leaves running (a daemon)'
complete -c orion-claim -n '__orion_claim_at watch' -l keep-output -x -a '(__fish_complete_directories)' -d 'Write the commands stderr into a file of DIR, of which the last 4 KiB stay'
complete -c orion-claim -n '__orion_claim_at watch' -l comment -d 'Write on the ticket how the command ended, and after how long'
complete -c orion-claim -n '__orion_claim_at watch' -l kill-after -x -d 'KILL what is left so long after a signal, or --max-run'
complete -c orion-claim -n '__orion_claim_at watch' -l quick -x -d 'A run that ends within this time counts for the breaker (default 30s; 0: no breaker)'
complete -c orion-claim -n '__orion_claim_at watch' -l quick-success -d 'Exit status 0 within --quick counts as well'
complete -c orion-claim -n '__orion_claim_at watch' -l trip -x -d 'After so many quick endings of different tickets in a row nothing is claimed (default 3)'
complete -c orion-claim -n '__orion_claim_at watch' -l retry-after -x -d 'Then try one ticket after this time, doubling to 30 minutes (default 1m)'
complete -c orion-claim -n '__orion_claim_at watch 0' -a '(__fish_complete_command)'
complete -c orion-claim -n '__orion_claim_at watch 1-' -F
complete -c orion-claim -n '__orion_claim_at free' -l host -x -d 'The machine that the tickets host label names'
complete -c orion-claim -n '__orion_claim_at free' -l yes -d 'You have made sure that nobody works on it'
