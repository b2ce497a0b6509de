//! Jira's dialect, version 2 and 3: what claims use of it.

use super::world::{Change, Ticket, World, now};
use super::{Answer, Request};
use serde_json::{Value, json};

/// The one project there is.
const PROJECT: &str = "AB";
const USER: &str = "shared-bot";

pub(super) fn handle(
    world: &mut World,
    request: &Request,
    segments: &[&str],
    query: &[(String, String)],
) -> Answer {
    let ["rest", "api", version @ ("2" | "3"), rest @ ..] = segments else { return not_found("path") };
    let rich = *version == "3";
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    match (request.method.as_str(), rest) {
        ("GET", ["myself"]) => {
            Answer::json(200, &json!({"displayName": "Shared Bot", "accountId": USER, "name": USER}))
        }
        ("GET", ["project", project]) if *project == PROJECT => Answer::json(200, &json!({"key": PROJECT})),
        ("GET", ["mypermissions"]) if world.no_rights_told => not_found("mypermissions"),
        ("GET", ["mypermissions"]) => {
            let have = !world.scopes.as_ref().is_some_and(String::is_empty);
            let right = json!({ "havePermission": have });
            Answer::json(200, &json!({"permissions": {"EDIT_ISSUES": right, "ADD_COMMENTS": right}}))
        }
        ("GET", ["search", "jql"]) if rich => search(world, query, true),
        ("GET", ["search"]) if !rich => search(world, query, false),
        (_, ["issue", key, ..]) if !world.tickets.contains_key(*key) => not_found("Issue Does Not Exist"),
        ("GET", ["issue", key]) => {
            let mut issue = issue(world, key, &world.tickets[*key]);
            if value(query, "expand").contains("changelog") {
                let histories: Vec<Value> = world.shown_changes(key).iter().map(history).collect();
                issue["changelog"] = json!({"histories": histories});
            }
            Answer::json(200, &issue)
        }
        ("GET", ["issue", key, "changelog"]) if rich => {
            let histories: Vec<Value> = world.shown_changes(key).iter().map(history).collect();
            let (page, last) = cut(&histories, query);
            Answer::json(200, &json!({"values": page, "isLast": last, "total": histories.len()}))
        }
        ("PUT", ["issue", key]) => {
            let (mut add, mut remove) = (Vec::new(), Vec::new());
            for change in body["update"]["labels"].as_array().into_iter().flatten() {
                add.extend(change["add"].as_str());
                remove.extend(change["remove"].as_str());
            }
            if add.iter().any(|label| label.contains(' ')) {
                return Answer::json(400, &json!({"errorMessages": [], "errors": {"labels": "spaces"}}));
            }
            world.label(key, USER, &add, &remove);
            Answer::empty(204)
        }
        ("GET", ["issue", key, "comment"]) => {
            let comments: Vec<Value> = world.tickets[*key]
                .comments
                .iter()
                .map(|comment| {
                    let body = if rich { document(&comment.body) } else { json!(comment.body) };
                    let author = json!({"accountId": comment.author, "name": comment.author});
                    json!({"id": comment.id.to_string(), "body": body, "author": author, "created": comment.at})
                })
                .collect();
            let (page, _) = cut(&comments, query);
            Answer::json(200, &json!({"comments": page, "total": comments.len()}))
        }
        ("POST", ["issue", key, "comment"]) => {
            let text = if rich { plain(&body["body"]) } else { body["body"].as_str().map(str::to_owned) };
            let Some(text) = text else { return Answer::json(400, &json!({"errorMessages": ["body"]})) };
            let comment = world.add_comment(key, USER, &text);
            Answer::json(201, &json!({"id": comment.id.to_string()}))
        }
        ("DELETE", ["issue", key, "comment", id]) => {
            let ticket = world.tickets.get_mut(*key).expect("checked");
            ticket.comments.retain(|comment| comment.id.to_string() != *id);
            Answer::empty(204)
        }
        _ => not_found("nothing here"),
    }
}

fn search(world: &World, query: &[(String, String)], tokens: bool) -> Answer {
    let jql = value(query, "jql");
    let quoted: Vec<&str> = jql.split('"').skip(1).step_by(2).collect();
    let [project, label, ..] = quoted[..] else {
        return Answer::json(400, &json!({"errorMessages": ["quote every value"]}));
    };
    if project != PROJECT {
        let said = format!("The value '{project}' does not exist for the field 'project'.");
        return Answer::json(400, &json!({ "errorMessages": [said] }));
    }
    let open_only = jql.contains("statusCategory != Done");
    let found: Vec<Value> = world
        .listed()
        .iter()
        .filter(|(_, ticket)| ticket.labels.iter().any(|own| own == label) && !(open_only && ticket.closed))
        .map(|(key, ticket)| issue(world, key, ticket))
        .collect();
    if !tokens {
        let (page, _) = cut(&found, query);
        return Answer::json(200, &json!({"issues": page, "total": found.len()}));
    }
    // The token is the position, in disguise.
    let from = value(query, "nextPageToken").trim_start_matches("page-").parse().unwrap_or(0);
    let size: usize = value(query, "maxResults").parse().unwrap_or(50);
    let to = found.len().min(from + size);
    let mut answer = json!({"issues": found[from..to], "isLast": to == found.len()});
    if to < found.len() {
        answer["nextPageToken"] = json!(format!("page-{to}"));
    }
    Answer::json(200, &answer)
}

fn cut(items: &[Value], query: &[(String, String)]) -> (Vec<Value>, bool) {
    let number = |name: &str, default: usize| value(query, name).parse().unwrap_or(default);
    let from = number("startAt", 0).min(items.len());
    let to = (from + number("maxResults", 50)).min(items.len());
    (items[from..to].to_vec(), to == items.len())
}

fn issue(world: &World, key: &str, ticket: &Ticket) -> Value {
    let assignee = ticket.assignees.first().map(|name| json!({"accountId": name, "name": name}));
    let links = ticket.blockers.iter().map(|blocker| {
        let done = world.tickets.get(blocker).is_none_or(|ticket| ticket.closed);
        let category = if done { "done" } else { "new" };
        json!({
            "type": {"name": "Blocks", "inward": "is blocked by", "outward": "blocks"},
            "inwardIssue": {"key": blocker, "fields": {"status": {"statusCategory": {"key": category}}}},
        })
    });
    let category = if ticket.closed { "done" } else { "indeterminate" };
    json!({
        "key": key,
        "fields": {
            "summary": ticket.title,
            "labels": ticket.labels,
            "assignee": assignee,
            "issuelinks": links.collect::<Vec<_>>(),
            "status": {"name": "Doing", "statusCategory": {"key": category}},
            "updated": ticket.changes.last().map_or_else(now, |change| change.at.clone()),
        },
    })
}

fn history(change: &Change) -> Value {
    let mut items = Vec::new();
    if change.from != change.to {
        items.push(
            json!({"field": "labels", "fromString": change.from.join(" "), "toString": change.to.join(" ")}),
        );
    }
    // Offsets as Jira writes them.
    let created = change.at.replace('Z', ".000+0000");
    let author = json!({"accountId": change.actor});
    json!({"id": change.id.to_string(), "created": created, "author": author, "items": items})
}

fn document(text: &str) -> Value {
    let text = json!({"type": "text", "text": text});
    json!({"type": "doc", "version": 1, "content": [{"type": "paragraph", "content": [text]}]})
}

fn plain(document: &Value) -> Option<String> {
    document.pointer("/content/0/content/0/text")?.as_str().map(str::to_owned)
}

fn value<'a>(query: &'a [(String, String)], name: &str) -> &'a str {
    query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

fn not_found(what: &str) -> Answer {
    Answer::json(404, &json!({"errorMessages": [what]}))
}
