//! For fish 3 and later.

use super::{Flag, Node, Value, function};

/// Which subcommand the cursor is in, and at which place.
const AT: &str = r#"
# Is the cursor in subcommand $argv[1] ("any": in any), behind $argv[2] words of its own ("2-": two or
# more; none given: where options may stand)?
function __@name@_at
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
@command@        end
        if test $inside = 1
            set place (math $place + 1)
            continue
        end
        switch "$sub:$word"
@subs@@valued@            case '*:-*'
            case '*'
                set place (math $place + 1)
        end
    end
    switch "$sub.$place"
@command@    end
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
"#;

const NAMES: &str = r#"
# Locks that were ever held in the directory of this command line.
function __@name@_names
    set -l words (commandline -opc)
    set -l dir
    if set -l at (contains -i -- --dir $words)
        set dir --dir $words[(math $at + 1)]
    end
    orion-lock $dir list --names 2>/dev/null
end
"#;

pub(super) fn script(tool: &str, root: &Node) -> String {
    let name = function(tool);
    let mut out =
        format!("# fish completion for {tool}(1); written from its options, see CONTRIBUTING.md.\n");
    out.push_str(&at(root, &name));
    if root.wants(&Value::Locks) {
        out.push_str(&NAMES.replace("@name@", &name));
    }
    out.push_str(&format!("\ncomplete -c {tool} -f\n"));
    let mut line = |at: &str, what: &str| {
        out.push_str(&format!("complete -c {tool} -n '__{name}_at {at}' {what}\n"));
    };
    for sub in &root.subs {
        line("none 0", &format!("-a {} -d '{}'", sub.name, sub.help));
    }
    for flag in root.flags.iter().filter(|flag| root.everywhere(flag)) {
        line("any", &option(flag, &name));
    }
    for node in root.all() {
        let at = if node.name.is_empty() { "none" } else { &node.name };
        for flag in node.flags.iter().filter(|flag| !root.everywhere(flag)) {
            line(at, &option(flag, &name));
        }
        for (index, place) in node.places.iter().enumerate() {
            match &place.value {
                Value::Free => {}
                Value::Program => {
                    line(&format!("{at} {index}"), "-a '(__fish_complete_command)'");
                    line(&format!("{at} {}-", index + 1), "-F");
                }
                value => {
                    let more = if place.rest { "-" } else { "" };
                    line(&format!("{at} {index}{more}"), &format!("-a '{}'", fill(value, &name)));
                }
            }
        }
    }
    out
}

fn at(root: &Node, name: &str) -> String {
    let case = |words: Vec<String>, action: &str| {
        if words.is_empty() {
            return String::new();
        }
        format!("            case {}\n                {action}\n", words.join(" "))
    };
    let subs = root.subs.iter().map(|sub| format!("none:{}", sub.name)).collect();
    let valued: Vec<String> = root
        .patterns(|flag| flag.value.is_some())
        .iter()
        .map(|pattern| match pattern.strip_prefix(':') {
            Some(word) => format!("none:{word}"),
            // What holds a wildcard is quoted, or fish looks for such files.
            None => format!("'{pattern}'"),
        })
        .collect();
    // Behind the name everything belongs to the command that is run.
    let commands: String = root
        .all()
        .filter_map(|node| node.command_from().map(|from| (node, from)))
        .map(|(node, from)| {
            let before: Vec<String> = (0..from).map(|place| format!("{}.{place}", node.name)).collect();
            format!(
                "            case {}\n            case '{}.*'\n                set inside 1\n",
                before.join(" "),
                node.name
            )
        })
        .collect();
    AT.replace("@name@", name)
        .replace("@command@", &commands)
        .replace("@subs@", &case(subs, "set sub $word"))
        .replace("@valued@", &case(valued, "set skip 1"))
}

fn option(flag: &Flag, name: &str) -> String {
    let mut words = Vec::new();
    words.extend(flag.short.map(|short| format!("-s {short}")));
    words.extend(flag.long.as_ref().map(|long| format!("-l {long}")));
    match &flag.value {
        None => {}
        Some(Value::File) => words.push("-r -F".to_owned()),
        Some(Value::Free) => words.push("-x".to_owned()),
        Some(value) => words.push(format!("-x -a '{}'", fill(value, name))),
    }
    words.push(format!("-d '{}'", flag.help));
    words.join(" ")
}

fn fill(value: &Value, name: &str) -> String {
    match value {
        Value::Locks => format!("(__{name}_names)"),
        Value::Users => "(__fish_complete_users)".into(),
        Value::Directory => "(__fish_complete_directories)".into(),
        Value::File => "(__fish_complete_path)".into(),
        Value::Program => "(__fish_complete_command)".into(),
        Value::Pid => "(__fish_complete_pids)".into(),
        Value::Words(words) => words.join(" "),
        Value::Free => String::new(),
    }
}
