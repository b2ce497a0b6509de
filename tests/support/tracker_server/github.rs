//! GitHub's dialect: what claims use of it.

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
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            let mut repo = json!({"permissions": {"push": true}, "has_issues": true});
            if world.no_rights_told {
                repo = json!({"has_issues": true});
            }
            let mut answer = Answer::json(200, &repo);
            answer.headers.extend(world.scopes.clone().map(|scopes| ("x-oauth-scopes".to_owned(), scopes)));
            answer
        }
        ("GET", ["labels"]) => {
            Answer::json(200, &world.known_labels.iter().map(|name| json!({"name": name})).collect())
        }
        ("POST", ["labels"]) => {
            let body = parse(&request.body);
            let name = body["name"].as_str().unwrap_or_default().to_owned();
            if world.known_labels.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
                return Answer::json(422, &json!({"message": "already_exists"}));
            }
            world.known_labels.push(name.clone());
            Answer::json(201, &json!({"name": name}))
        }
        ("GET", ["issues"]) => list(world, request, query),
        ("DELETE", ["issues", "comments", id]) => delete_comment(world, id),
        (_, ["issues", number, ..]) if !world.tickets.contains_key(*number) => not_found(),
        ("GET", ["issues", number]) => Answer::json(200, &issue(world, number, &world.tickets[*number])),
        ("GET", ["issues", number, "events"]) => {
            let changes = world.shown_changes(number);
            page(request, &changes.iter().flat_map(events).collect::<Vec<_>>(), query, world.no_links)
        }
        ("GET", ["issues", number, "comments"]) => {
            let comments = world.tickets[*number].comments.iter().map(|comment| {
                let user = json!({"login": comment.author});
                json!({"id": comment.id, "body": comment.body, "user": user, "created_at": comment.at})
            });
            page(request, &comments.collect::<Vec<_>>(), query, world.no_links)
        }
        ("POST", ["issues", number, "comments"]) => {
            let body = parse(&request.body);
            let comment = world.add_comment(number, LOGIN, body["body"].as_str().unwrap_or_default());
            Answer::json(201, &json!({"id": comment.id}))
        }
        ("POST", ["issues", number, "labels"]) => {
            let add = wanted(&request.body);
            if world.strict_labels && add.iter().any(|label| !world.known_labels.contains(label)) {
                return Answer::json(422, &json!({"message": "Validation Failed"}));
            }
            let add: Vec<&str> = add.iter().map(String::as_str).collect();
            world.label(number, LOGIN, &add, &[]);
            Answer::json(200, &labels(&world.tickets[*number]))
        }
        ("DELETE", ["issues", number, "labels", name]) => {
            if !world.tickets[*number].labels.iter().any(|label| label == name) {
                return Answer::json(404, &json!({"message": "Label does not exist"}));
            }
            world.label(number, LOGIN, &[], &[name]);
            Answer::json(200, &labels(&world.tickets[*number]))
        }
        _ => not_found(),
    }
}

/// The labels of the issue a request is about, as it is now.
pub(super) fn labels_of(world: &World, segments: &[&str]) -> Vec<String> {
    segments.get(4).map(|number| world.labels(number)).unwrap_or_default()
}

/// Writes what was read before, with the new ones, over whatever is there now.
pub(super) fn leaky_add(world: &mut World, segments: &[&str], mut old: Vec<String>, body: &str) -> Answer {
    let Some(number) = segments.get(4) else { return not_found() };
    for label in wanted(body) {
        if !old.contains(&label) {
            old.push(label);
        }
    }
    world.set_labels(number, LOGIN, old);
    Answer::json(200, &labels(&world.tickets[*number]))
}

fn list(world: &World, request: &Request, query: &[(String, String)]) -> Answer {
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
    let mut found: Vec<(u64, Value)> = world
        .listed()
        .iter()
        .filter(|(_, ticket)| ticket.labels.iter().any(|label| label == value("labels")))
        .filter(|(_, ticket)| value("state") == "all" || !ticket.closed)
        .map(|(number, ticket)| (number.parse().unwrap_or(0), issue(world, number, ticket)))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    page(request, &found.into_iter().map(|(_, issue)| issue).collect::<Vec<_>>(), query, world.no_links)
}

fn page(request: &Request, items: &[Value], query: &[(String, String)], no_links: bool) -> Answer {
    let number = |name: &str, default: usize| {
        let value = query.iter().find(|(key, _)| key == name);
        value.and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
    };
    let (size, page) = (number("per_page", 30), number("page", 1));
    let from = (size * (page - 1)).min(items.len());
    let to = (from + size).min(items.len());
    let mut answer = Answer::json(200, &json!(items[from..to]));
    if to < items.len() && !no_links {
        let host = request.host();
        let plain: String = request.path.split("&page=").next().unwrap_or_default().to_owned();
        let next = format!("<{host}{plain}&page={}>; rel=\"next\"", page + 1);
        answer.headers.push(("link".into(), next));
    }
    answer
}

fn issue(world: &World, number: &str, ticket: &Ticket) -> Value {
    let updated = ticket.changes.last().map_or_else(now, |change| change.at.clone());
    let mut issue = json!({
        "number": number.parse::<u64>().unwrap_or(0),
        "title": ticket.title,
        "state": if ticket.closed { "closed" } else { "open" },
        "labels": labels(ticket),
        "updated_at": updated,
        "html_url": format!("https://github.example/acme/tools/issues/{number}"),
    });
    let people = ticket.assignees.iter().map(|login| json!({"login": login}));
    issue["assignees"] = people.collect();
    if !ticket.blockers.is_empty() {
        let all = ticket.blockers.len();
        issue["issue_dependencies_summary"] =
            json!({"blocked_by": world.open_blockers(number).len(), "total_blocked_by": all});
    }
    if ticket.pull_request {
        issue["pull_request"] = json!({"url": "x"});
    }
    issue
}

fn labels(ticket: &Ticket) -> Value {
    ticket.labels.iter().map(|label| json!({"name": label, "color": "ededed"})).collect()
}

fn events(change: &Change) -> Vec<Value> {
    let actor = json!({"login": change.actor});
    let event = |kind: &str, label: &String| json!({"event": kind, "label": {"name": label}, "actor": actor, "created_at": change.at});
    let off = change.from.iter().filter(|label| !change.to.contains(label));
    let on = change.to.iter().filter(|label| !change.from.contains(label));
    let mut all: Vec<Value> = off.map(|label| event("unlabeled", label)).collect();
    all.extend(on.map(|label| event("labeled", label)));
    if let Some(closed) = change.closed {
        let kind = if closed { "closed" } else { "reopened" };
        all.push(json!({"event": kind, "actor": actor, "created_at": change.at}));
    }
    for (event, id) in all.iter_mut().zip(change.id..) {
        event["id"] = json!(id);
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

fn wanted(body: &str) -> Vec<String> {
    let body = parse(body);
    let labels = body["labels"].as_array().cloned().unwrap_or_default();
    labels.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn parse(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_default()
}

fn not_found() -> Answer {
    Answer::json(404, &json!({"message": "Not Found"}))
}
