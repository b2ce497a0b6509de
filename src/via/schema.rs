//! What `init` runs: the schema, and who may use it.

const SCHEMA: &str = include_str!("schema.sql");

/// The transaction as text: idempotent, and fit for psql(1).
pub(crate) fn text(max_grace_ms: u64, roles: &[String]) -> String {
    let mut text = SCHEMA.replace(":max_grace_ms", &max_grace_ms.to_string());
    for role in roles {
        let (name, text_name) = (identifier(role), literal(role));
        text.push_str(&format!(
            "\ngrant usage on schema orion to {name};\n\
             do $do$ declare f regprocedure; begin\n  \
             for f in select oid::regprocedure from pg_catalog.pg_proc\n      \
             where pronamespace = 'orion'::regnamespace and proname !~ '_$' loop\n    \
             execute format('grant execute on function %s to %I', f, {text_name});\n  \
             end loop;\nend $do$;\n"
        ));
    }
    text.push_str("\ncommit;\n");
    text
}

/// A quoted identifier (PostgreSQL, 4.1.1).
fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A quoted string, whatever `standard_conforming_strings` says (4.1.2).
pub(crate) fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { " E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// As [`literal`], or null.
pub(crate) fn nullable(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), literal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_stays_text() {
        assert_eq!(literal("a'b"), "'a''b'");
        assert_eq!(literal("a\\'b"), " E'a\\\\''b'");
        assert_eq!(identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(nullable(None), "null");
    }
}
