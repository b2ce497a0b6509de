//! The dialect of Gitea and Forgejo: what claims use of it, written from their public
//! API documents.

use super::world::{Change, Ticket, World, now};
use super::{Answer, Request};
use serde_json::{Value, json};

/// The one repository there is.
const REPO: [&str; 3] = ["repos", "acme", "tools"];
const LOGIN: &str = "shared-bot";

pub(super) fn handle(
    world: &mut World,
    request: &Request,
    segments: &[&str],
    query: &[(String, String)],
) -> Answer {
    if segments == ["user"] {
        return Answer::json(200, &json!({"login": LOGIN}));
    }
    let Some(rest) = segments.strip_prefix(&REPO) else { return not_found() };
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            let push = !world.scopes.as_ref().is_some_and(String::is_empty);
            let permissions = if world.no_rights_told { Value::Null } else { json!({ "push": push }) };
            Answer::json(200, &json!({"permissions": permissions, "has_issues": true, "archived": false}))
        }
        ("GET", ["labels"]) => {
            let labels: Vec<Value> = world.known_labels.iter().map(|name| label(world, name)).collect();
            page(request, &labels, query, world.no_links)
        }
        ("POST", ["labels"]) => {
            let name = body["name"].as_str().unwrap_or_default().to_owned();
            if !body["color"].as_str().is_some_and(|colour| colour.starts_with('#')) {
                return Answer::json(422, &json!({"message": "bad color"}));
            }
            // Two labels may have one name.
            world.known_labels.push(name.clone());
            Answer::json(201, &label(world, &name))
        }
        ("GET", ["issues"]) => list(world, request, query),
        ("DELETE", ["issues", "comments", id]) => delete_comment(world, id),
        (_, ["issues", number, ..]) if !world.tickets.contains_key(*number) => not_found(),
        ("GET", ["issues", number]) => Answer::json(200, &issue(world, number, &world.tickets[*number])),
        ("GET", ["issues", number, "labels"]) => Answer::json(200, &labels(world, &world.tickets[*number])),
        ("POST", ["issues", number, "labels"]) => {
            // An id that nobody knows is dropped.
            let ids = body["labels"].as_array().cloned().unwrap_or_default();
            let name = |id: &Value| world.known_labels.get(usize::try_from(id.as_u64()?).ok()? - 1).cloned();
            let add: Vec<String> = ids.iter().filter_map(name).collect();
            // One comment for each.
            for label in &add {
                world.label(number, LOGIN, &[label], &[]);
            }
            Answer::json(200, &labels(world, &world.tickets[*number]))
        }
        ("DELETE", ["issues", number, "labels", id]) => {
            let id: usize = id.parse().unwrap_or(0);
            let Some(name) = id.checked_sub(1).and_then(|at| world.known_labels.get(at)).cloned() else {
                return Answer::json(422, &json!({"message": "label does not exist"}));
            };
            // Whether it was on or not.
            world.label(number, LOGIN, &[], &[&name]);
            Answer::empty(204)
        }
        ("GET", ["issues", number, "timeline"]) => {
            let mut entries: Vec<Value> = world.shown_changes(number).iter().flat_map(entries_of).collect();
            let comments = world.tickets[*number].comments.iter();
            entries.extend(
                comments.map(|comment| json!({"type": "comment", "id": comment.id, "body": comment.body})),
            );
            entries.sort_by_key(|entry| entry["id"].as_u64());
            // A page is cut first, and then loses what its reader may not see.
            let hidden =
                entries.iter().map(|entry| entry["id"].clone()).step_by(7).map(|id| json!({"hidden": id}));
            let hidden: Vec<Value> = hidden.collect();
            entries.extend(hidden);
            entries.sort_by_key(|entry| entry["id"].as_u64().or_else(|| entry["hidden"].as_u64()));
            let mut answer = page(request, &entries, query, true);
            let mut shown: Value = serde_json::from_str(&answer.body).unwrap_or_default();
            shown.as_array_mut().expect("a list").retain(|entry| entry.get("hidden").is_none());
            answer.body = shown.to_string();
            if answer.body == "[]" {
                answer.body = "null".to_owned();
            }
            answer
        }
        ("GET", ["issues", number, "comments"]) => {
            let comments = world.tickets[*number].comments.iter().map(|comment| {
                let user = json!({"login": comment.author});
                json!({"id": comment.id, "body": comment.body, "user": user, "created_at": comment.at})
            });
            Answer::json(200, &comments.collect())
        }
        ("POST", ["issues", number, "comments"]) => {
            let comment = world.add_comment(number, LOGIN, body["body"].as_str().unwrap_or_default());
            Answer::json(201, &json!({"id": comment.id}))
        }
        ("GET", ["issues", number, "dependencies"]) => {
            let blockers = world.tickets[*number].blockers.clone();
            let issues: Vec<Value> = blockers
                .iter()
                .filter_map(|key| world.tickets.get(key).map(|ticket| issue(world, key, ticket)))
                .collect();
            page(request, &issues, query, world.no_links)
        }
        _ => not_found(),
    }
}

/// The id of a label is its place among all that were made.
fn label(world: &World, name: &str) -> Value {
    let id = world.known_labels.iter().position(|known| known == name).map(|at| at + 1);
    json!({"id": id, "name": name, "color": "ededed"})
}

fn labels(world: &World, ticket: &Ticket) -> Value {
    ticket.labels.iter().map(|name| label(world, name)).collect()
}

fn list(world: &World, request: &Request, query: &[(String, String)]) -> Answer {
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    // A label that does not exist filters nothing.
    let filters = world.known_labels.iter().any(|known| known == value("labels"));
    let mut found: Vec<(u64, Value)> = world
        .listed()
        .iter()
        .filter(|(_, ticket)| !filters || ticket.labels.iter().any(|label| label == value("labels")))
        .filter(|(_, ticket)| value("state") == "all" || !ticket.closed)
        .map(|(number, ticket)| (number.parse().unwrap_or(0), issue(world, number, ticket)))
        .collect();
    // Newest first.
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    page(request, &found.into_iter().map(|(_, issue)| issue).collect::<Vec<_>>(), query, world.no_links)
}

fn page(request: &Request, items: &[Value], query: &[(String, String)], no_links: bool) -> Answer {
    let number = |name: &str, default: usize| {
        let value = query.iter().find(|(key, _)| key == name);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
    };
    let (size, page) = (number("limit", 30).min(50), number("page", 1));
    let from = (size * (page - 1)).min(items.len());
    let to = (from + size).min(items.len());
    let mut answer = Answer::json(200, &json!(items[from..to]));
    if to < items.len() && !no_links {
        let plain = request.path.split("&page=").next().unwrap_or_default();
        // By its own name for itself, which need not be ours.
        let next = format!("<https://git.internal.example{plain}&page={}>; rel=\"next\"", page + 1);
        answer.headers.push(("link".into(), next));
    }
    answer
}

fn issue(world: &World, number: &str, ticket: &Ticket) -> Value {
    let people: Vec<Value> = ticket.assignees.iter().map(|login| json!({"login": login})).collect();
    json!({
        "number": number.parse::<u64>().unwrap_or(0),
        "title": ticket.title,
        "state": if ticket.closed { "closed" } else { "open" },
        "labels": labels(world, ticket),
        "assignees": if people.is_empty() { Value::Null } else { Value::Array(people) },
        "updated_at": ticket.changes.last().map_or_else(now, |change| change.at.clone()),
        "html_url": format!("https://git.example/acme/tools/issues/{number}"),
        "pull_request": if ticket.pull_request { json!({"merged": false}) } else { Value::Null },
    })
}

fn entries_of(change: &Change) -> Vec<Value> {
    let user = json!({"login": change.actor});
    // Times with the offset of the server.
    let at = change.at.replace('Z', "+00:00");
    let entry = |body: &str, name: &String| json!({"type": "label", "body": body, "label": {"name": name}, "user": user, "created_at": at});
    let on = change.to.iter().filter(|label| !change.from.contains(label));
    let off = change.from.iter().filter(|label| !change.to.contains(label));
    let mut all: Vec<Value> = on.map(|label| entry("1", label)).collect();
    all.extend(off.map(|label| entry("", label)));
    if let Some(closed) = change.closed {
        all.push(json!({"type": if closed { "close" } else { "reopen" }, "user": user, "created_at": at}));
    }
    for (entry, id) in all.iter_mut().zip(change.id..) {
        entry["id"] = json!(id);
    }
    all
}

fn delete_comment(world: &mut World, id: &str) -> Answer {
    let mut found = false;
    for ticket in world.tickets.values_mut() {
        let before = ticket.comments.len();
        ticket.comments.retain(|comment| comment.id.to_string() != id);
        found |= ticket.comments.len() < before;
    }
    if found { Answer::empty(204) } else { not_found() }
}

fn not_found() -> Answer {
    Answer::json(404, &json!({"message": "not found"}))
}
