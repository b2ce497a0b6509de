//! For bash 4.4 and later.

use super::{Flag, Node, Value, function};

/// Which subcommand the cursor is in, and at which place; `=` breaks words (`--dir = /x`).
const WALK: &str = r#"
_@name@() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local at=''@local@ place=0 options='' i word
    COMPREPLY=()
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
@command@        case $at:$word in
@subs@@valued@            *:-*) ;;
            *) place=$((place + 1)) ;;
        esac
    done
"#;

const VALUED: &str = r"            @patterns@)
                i=$((i + 1))
                [[ ${COMP_WORDS[i]} != = ]] || i=$((i + 1))
@dir@                ;;
";

/// What follows the name belongs to the command that is run.
const COMMAND: &str = r"        if [[ $at == @sub@ && $place -ge @from@ ]]; then
            place=$((place + 1))
            continue
        fi
";

const NAMES: &str = r#"
# Locks that were ever held in the directory of this command line, as they are to be typed.
_@name@_names() {
    local lock
    COMPREPLY=()
    while IFS= read -r lock; do
        [[ $lock != "$cur"* ]] || {
            printf -v lock %q "$lock"
            COMPREPLY+=("$lock")
        }
    done < <(orion-lock ${dir:+--dir "$dir"} list --names 2>/dev/null)
}
"#;

pub(super) fn script(tool: &str, root: &Node) -> String {
    let name = function(tool);
    let mut out = format!(
        "# bash completion for {tool}(1); written from its options, see CONTRIBUTING.md.\n# shellcheck shell=bash\n"
    );
    if root.wants(&Value::Locks) {
        out.push_str(&NAMES.replace("@name@", &name));
    }
    out.push_str(&walk(root, &name));
    out.push_str(&values(root, &name));
    out.push_str(&options(root));
    out.push_str(&places(root, &name));
    out.push_str(&format!("}}\n\ncomplete -o bashdefault -F _{name} {tool}\n"));
    out
}

fn walk(root: &Node, name: &str) -> String {
    let subs: Vec<String> = root.subs.iter().map(|sub| format!(":{}", sub.name)).collect();
    let subs = if subs.is_empty() {
        String::new()
    } else {
        format!("            {}) at=$word ;;\n", subs.join(" | "))
    };
    let valued = root.patterns(|flag| flag.value.is_some());
    let valued =
        if valued.is_empty() { String::new() } else { VALUED.replace("@patterns@", &valued.join(" | ")) };
    let commands: String = commands(root)
        .map(|(sub, from)| COMMAND.replace("@sub@", sub).replace("@from@", &from.to_string()))
        .collect();
    // The names of locks depend on the directory; nothing else does.
    let (local, dir) = if root.wants(&Value::Locks) {
        (" dir=''", "                [[ $word != --dir ]] || dir=${COMP_WORDS[i]-}\n")
    } else {
        ("", "")
    };
    WALK.replace("@name@", name)
        .replace("@command@", &commands)
        .replace("@subs@", &subs)
        .replace("@valued@", &valued)
        .replace("@local@", local)
        .replace("@dir@", dir)
}

/// Subcommands that run another command, and the place it begins at.
fn commands(root: &Node) -> impl Iterator<Item = (&str, usize)> {
    root.all().filter_map(|node| node.command_from().map(|from| (node.name.as_str(), from)))
}

/// The word before is an option that takes a value.
fn values(root: &Node, name: &str) -> String {
    let mut arms = String::new();
    for (value, action) in actions(root, name) {
        let patterns = root.patterns(|flag| flag.value.as_ref() == Some(&value));
        if !patterns.is_empty() {
            arms.push_str(&format!(
                "            {})\n                {action}\n                return\n                ;;\n",
                patterns.join(" | ")
            ));
        }
    }
    let inside: Vec<String> =
        commands(root).map(|(sub, from)| format!("$at != {sub} || $place -le {from}")).collect();
    let condition = if inside.is_empty() { "-n $prev".to_owned() } else { inside.join(" && ") };
    format!("    if [[ {condition} ]]; then\n        case $at:$prev in\n{arms}        esac\n    fi\n")
}

fn options(root: &Node) -> String {
    let mut arms = String::new();
    for node in root.all() {
        let words: Vec<String> = node.flags.iter().flat_map(Flag::spellings).collect();
        let key = match node.command_from() {
            _ if node.name.is_empty() => "'':*".to_owned(),
            Some(from) => {
                (0..from).map(|place| format!("{}:{place}", node.name)).collect::<Vec<_>>().join(" | ")
            }
            None => format!("{}:*", node.name),
        };
        arms.push_str(&format!("        {key}) options='{}' ;;\n", words.join(" ")));
    }
    format!(
        "    case $at:$place in\n{arms}    esac\n    if [[ $cur == -* ]]; then\n        \
         mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n        return\n    fi\n"
    )
}

fn places(root: &Node, name: &str) -> String {
    let mut arms = String::new();
    if !root.subs.is_empty() {
        let subs: Vec<&str> = root.subs.iter().map(|sub| sub.name.as_str()).collect();
        arms.push_str(&format!("        :0) {} ;;\n", fill(&format!("-W '{}'", subs.join(" ")))));
    }
    for (value, action) in actions(root, name) {
        let patterns: Vec<String> = root
            .all()
            .flat_map(|node| {
                let places = node.places.iter().enumerate().filter(|(_, place)| place.value == value);
                places.map(|(index, place)| {
                    let all = place.rest && value != Value::Program;
                    format!("{}:{}", node.name, if all { "*".to_owned() } else { index.to_string() })
                })
            })
            .collect();
        if !patterns.is_empty() && value != Value::Free {
            arms.push_str(&format!("        {}) {action} ;;\n", patterns.join(" | ")));
        }
    }
    let rest: Vec<String> = commands(root).map(|(sub, _)| format!("{sub}:*")).collect();
    if !rest.is_empty() {
        arms.push_str(&format!("        {}) {} ;;\n", rest.join(" | "), fill("-f")));
    }
    format!("    case $at:$place in\n{arms}    esac\n")
}

fn fill(what: &str) -> String {
    format!("mapfile -t COMPREPLY < <(compgen {what} -- \"$cur\")")
}

/// How each kind of value that occurs is filled in.
fn actions(root: &Node, name: &str) -> Vec<(Value, String)> {
    let mut actions = vec![
        (Value::Locks, format!("_{name}_names")),
        (Value::Users, fill("-u")),
        (Value::Directory, fill("-d")),
        (Value::File, fill("-f")),
        (Value::Program, fill("-c")),
        (Value::Pid, fill("-W \"$(ps -u \"$EUID\" -o pid= 2>/dev/null)\"")),
        // Nothing is better than a wrong guess.
        (Value::Free, ":".to_owned()),
    ];
    for node in root.all() {
        let values = node.flags.iter().filter_map(|flag| flag.value.as_ref());
        for value in values.chain(node.places.iter().map(|place| &place.value)) {
            if let Value::Words(words) = value
                && !actions.iter().any(|(known, _)| known == value)
            {
                actions.push((value.clone(), fill(&format!("-W '{}'", words.join(" ")))));
            }
        }
    }
    actions
}
