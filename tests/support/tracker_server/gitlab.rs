//! GitLab's dialect: what claims use of it, written from its public API documents.

use super::world::{Change, Ticket, World, now};
use super::{Answer, Request};
use serde_json::{Value, json};

/// The one project there is.
const PROJECT: &str = "acme/tools";
const LOGIN: &str = "shared-bot";

pub(super) fn handle(
    world: &mut World,
    request: &Request,
    segments: &[&str],
    query: &[(String, String)],
) -> Answer {
    let rest = match segments {
        ["user"] => return Answer::json(200, &json!({"username": LOGIN})),
        ["personal_access_tokens", "self"] => {
            let Some(scopes) = &world.scopes else { return not_found() };
            let scopes: Vec<&str> =
                scopes.split(", ").map(|one| if one == "repo" { "api" } else { one }).collect();
            if world.no_rights_told {
                return not_found();
            }
            return Answer::json(200, &json!({"scopes": scopes, "active": true}));
        }
        ["projects", project, rest @ ..] if *project == PROJECT => rest,
        _ => return not_found(),
    };
    let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            let access = json!({"project_access": {"access_level": 20}, "group_access": null});
            let permissions = if world.no_rights_told { Value::Null } else { access };
            Answer::json(200, &json!({"permissions": permissions, "issues_access_level": "enabled"}))
        }
        ("GET", ["issues"]) => list(world, query),
        (_, ["issues", iid, ..]) if !world.tickets.contains_key(*iid) => not_found(),
        ("GET", ["issues", iid]) => Answer::json(200, &issue(iid, &world.tickets[*iid])),
        ("PUT", ["issues", iid]) => {
            let words = |name: &str| -> Vec<String> {
                let text = body[name].as_str().unwrap_or_default();
                text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
            };
            let (add, remove) = (words("add_labels"), words("remove_labels"));
            if add.is_empty() && remove.is_empty() {
                return Answer::json(400, &json!({"error": "at least one parameter must be provided"}));
            }
            let add: Vec<&str> = add.iter().map(String::as_str).collect();
            let remove: Vec<&str> = remove.iter().map(String::as_str).collect();
            world.label(iid, LOGIN, &add, &remove);
            Answer::json(200, &issue(iid, &world.tickets[*iid]))
        }
        ("GET", ["issues", iid, "resource_label_events"]) => page(
            &world.shown_changes(iid).iter().flat_map(label_events).collect::<Vec<_>>(),
            query,
            world.no_links,
        ),
        ("GET", ["issues", iid, "resource_state_events"]) => {
            let changes = world.tickets[*iid].changes.iter();
            let states = changes.filter_map(|change| {
                let state = if change.closed? { "closed" } else { "reopened" };
                let user = json!({"username": change.actor});
                // Another table: the same ids mean other things.
                Some(json!({"id": change.id, "state": state, "user": user, "created_at": change.at}))
            });
            page(&states.collect::<Vec<_>>(), query, world.no_links)
        }
        ("GET", ["issues", iid, "notes"]) => {
            let system = json!({"id": 1, "body": "changed labels", "system": true, "created_at": now()});
            let notes = world.tickets[*iid].comments.iter().map(|comment| {
                let author = json!({"username": comment.author});
                json!({"id": comment.id, "body": comment.body, "author": author, "created_at": comment.at, "system": false})
            });
            page(&std::iter::once(system).chain(notes).collect::<Vec<_>>(), query, world.no_links)
        }
        ("POST", ["issues", iid, "notes"]) => {
            let note = world.add_comment(iid, LOGIN, body["body"].as_str().unwrap_or_default());
            Answer::json(201, &json!({"id": note.id}))
        }
        ("DELETE", ["issues", iid, "notes", id]) => {
            let ticket = world.tickets.get_mut(*iid).expect("checked");
            let before = ticket.comments.len();
            ticket.comments.retain(|comment| comment.id.to_string() != *id);
            if ticket.comments.len() < before { Answer::empty(204) } else { not_found() }
        }
        ("GET", ["issues", iid, "links"]) => {
            let links = world.tickets[*iid].blockers.iter().map(|blocker| {
                let closed = world.tickets.get(blocker).is_none_or(|ticket| ticket.closed);
                let state = if closed { "closed" } else { "opened" };
                json!({"iid": blocker.parse::<u64>().unwrap_or(0), "state": state, "link_type": "is_blocked_by"})
            });
            let other = json!({"iid": 99, "state": "opened", "link_type": "blocks"});
            page(&links.chain([other]).collect::<Vec<_>>(), query, world.no_links)
        }
        _ => not_found(),
    }
}

fn list(world: &World, query: &[(String, String)]) -> Answer {
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    let mut found: Vec<(u64, Value)> = world
        .listed()
        .iter()
        .filter(|(_, ticket)| ticket.labels.iter().any(|label| label == value("labels")))
        .filter(|(_, ticket)| value("state") == "all" || !ticket.closed)
        .map(|(iid, ticket)| (iid.parse().unwrap_or(0), issue(iid, ticket)))
        .collect();
    found.sort_by_key(|(iid, _)| *iid);
    page(&found.into_iter().map(|(_, issue)| issue).collect::<Vec<_>>(), query, world.no_links)
}

fn page(items: &[Value], query: &[(String, String)], no_headers: bool) -> Answer {
    let number = |name: &str, default: usize| {
        let value = query.iter().find(|(key, _)| key == name);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
    };
    let (size, page) = (number("per_page", 20), number("page", 1));
    let from = (size * (page - 1)).min(items.len());
    let to = (from + size).min(items.len());
    let mut answer = Answer::json(200, &json!(items[from..to]));
    if !no_headers {
        let next = if to < items.len() { (page + 1).to_string() } else { String::new() };
        answer.headers.push(("x-next-page".into(), next));
    }
    answer
}

fn issue(iid: &str, ticket: &Ticket) -> Value {
    let people = ticket.assignees.iter().map(|name| json!({"username": name}));
    json!({
        "iid": iid.parse::<u64>().unwrap_or(0),
        "title": ticket.title,
        "state": if ticket.closed { "closed" } else { "opened" },
        "labels": ticket.labels,
        "assignees": people.collect::<Vec<_>>(),
        "updated_at": ticket.changes.last().map_or_else(now, |change| change.at.clone()),
        "web_url": format!("https://gitlab.example/acme/tools/-/issues/{iid}"),
        "moved_to_id": null,
    })
}

fn label_events(change: &Change) -> Vec<Value> {
    let event = |action: &str, label: &String| {
        let user = json!({"username": change.actor});
        json!({"action": action, "label": {"name": label}, "user": user, "created_at": change.at})
    };
    let on = change.to.iter().filter(|label| !change.from.contains(label));
    let off = change.from.iter().filter(|label| !change.to.contains(label));
    let mut all: Vec<Value> = on.map(|label| event("add", label)).collect();
    all.extend(off.map(|label| event("remove", label)));
    for (event, id) in all.iter_mut().zip(change.id..) {
        event["id"] = json!(id);
    }
    all
}

fn not_found() -> Answer {
    Answer::json(404, &json!({"message": "404 Not Found"}))
}
