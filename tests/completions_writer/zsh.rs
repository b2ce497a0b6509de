//! For zsh, by `_arguments`.

use super::{Flag, Node, Value, function};
use std::fmt::Write;

pub(super) fn script(tool: &str, root: &Node) -> String {
    let name = function(tool);
    let mut out = format!(
        "#compdef {tool}\n# zsh completion for {tool}(1); written from its options, see CONTRIBUTING.md.\n\n"
    );
    if root.wants(&Value::Locks) {
        let _ = write!(
            out,
            "_{name}_names() {{\n    local -a names expl\n    local at=${{opt_args[--dir]:-$dir}}\n    \
             names=(\"${{(@f)$(_call_program names orion-lock ${{at:+--dir $at}} list --names 2>/dev/null)}}\")\n    \
             [[ -n $names[1] ]] || return 1\n    _wanted locks expl lock compadd -a names\n}}\n\n"
        );
    }
    for sub in &root.subs {
        let _ = write!(out, "_{name}_{}() {{\n    typeset -A opt_args\n", function(&sub.name));
        out.push_str(&arguments(sub, &name, "-s"));
        out.push_str("}\n\n");
    }
    let _ = writeln!(out, "_{name}() {{");
    if root.subs.is_empty() {
        out.push_str(&arguments(root, &name, "-s"));
    } else {
        out.push_str("    local context state state_descr line\n    typeset -A opt_args\n    local -a subcommands\n    subcommands=(\n");
        for sub in &root.subs {
            let _ = writeln!(out, "        '{}:{}'", sub.name, sub.help.replace(':', "\\:"));
        }
        out.push_str("    )\n    _arguments -s -A '-*' -C \\\n");
        for flag in &root.flags {
            let _ = writeln!(out, "        {} \\", option(flag, &name));
        }
        let _ = write!(
            out,
            "        '1:command:->command' \\\n        '*::argument:->argument' && return\n    \
             case $state in\n        command) _describe -t commands command subcommands ;;\n        argument)\n            \
             local dir=$opt_args[--dir]\n            case $words[1] in\n"
        );
        for sub in &root.subs {
            let _ = writeln!(out, "                {}) _{name}_{} ;;", sub.name, function(&sub.name));
        }
        out.push_str("            esac\n            ;;\n    esac\n");
    }
    let _ = write!(out, "}}\n\n_{name} \"$@\"\n");
    out
}

fn arguments(node: &Node, name: &str, switches: &str) -> String {
    let mut lines: Vec<String> = node.flags.iter().map(|flag| option(flag, name)).collect();
    for (index, place) in node.places.iter().enumerate() {
        let action = action(&place.value, name);
        lines.push(match (place.rest, &place.value) {
            // From here on it is another command's line.
            (true, Value::Program) => {
                format!(
                    "'(-){}:{}:_command_names -e' \\\n        '*::argument:_normal'",
                    index + 1,
                    place.name
                )
            }
            (true, _) => format!("'*:{}:{action}'", place.name),
            (false, _) => format!("'{}:{}:{action}'", index + 1, place.name),
        });
    }
    format!("    _arguments {switches} \\\n        {}\n", lines.join(" \\\n        "))
}

/// `'(-w --wait)'{-w,--wait}'[help]:DUR:action'`
fn option(flag: &Flag, name: &str) -> String {
    let spellings = flag.spellings();
    let value =
        flag.value.as_ref().map_or_else(String::new, |value| format!(":value:{}", action(value, name)));
    // "+" and "=": the value may also stand in the same word.
    let spelled: Vec<String> = spellings
        .iter()
        .map(|word| match (flag.value.is_some(), word.starts_with("--")) {
            (true, true) => format!("{word}="),
            (true, false) => format!("{word}+"),
            (false, _) => word.clone(),
        })
        .collect();
    let help = flag.help.replace(':', "\\:");
    let before = if flag.repeats { "'*'".to_owned() } else { format!("'({})'", spellings.join(" ")) };
    match &spelled[..] {
        [one] => format!("{before}'{one}[{help}]{value}'"),
        many => format!("{before}{{{}}}'[{help}]{value}'", many.join(",")),
    }
}

fn action(value: &Value, name: &str) -> String {
    match value {
        Value::Locks => format!("_{name}_names"),
        Value::Users => "_users".into(),
        Value::Directory => "_files -/".into(),
        Value::File => "_files".into(),
        Value::Program => "_command_names -e".into(),
        Value::Pid => "_pids".into(),
        Value::Words(words) => format!("({})", words.join(" ").replace(':', "\\:")),
        Value::Free => " ".into(),
    }
}
