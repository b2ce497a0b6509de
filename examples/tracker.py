#!/usr/bin/env python3
"""A tracker for orion-claim (command:/PATH/tracker.py): tickets in one JSON file."""
import fcntl, json, os, sys

ask = json.load(sys.stdin)
with open(os.environ["TICKETS"], "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    tickets = json.load(file)  # {"A-1": {"title": "…", "labels": ["orion-queue"], "events": []}}
    op, ticket = ask["op"], tickets.get(ask.get("key"))

    def show(key):
        return {"key": key, "closed": False, "title": key, **tickets[key]}

    def listed(label):
        return {"tickets": [show(key) for key in sorted(tickets) if label in tickets[key]["labels"]]}

    if op == "hello":  # "conditional": our swap checks and writes in one step
        answer = {"capabilities": {"remote": False, "event_ids": True, "conditional": True}}
    elif op in ("queue", "in_flight"):
        answer = listed(ask["labels"]["queue" if op == "queue" else "working"])
    elif ticket is None:
        answer = {"error": {"kind": "no_ticket", "message": "no ticket " + str(ask.get("key"))}}
    elif op == "ticket":
        answer = {"ticket": show(ask["key"])}
    elif op == "events":
        answer = {"events": ticket["events"]}
    elif op in ("write", "swap"):
        want, labels, events = ask.get("expect", {}), ticket["labels"], ticket["events"]
        on = [e["id"] for e in events if e["event"] == "labeled" and e["label"] == want.get("mark_label")]
        if not (set(want.get("has", [])) <= set(labels) and not set(want.get("lacks", [])) & set(labels)
                and want.get("mark") in (None, (on or [""])[-1])):
            answer = {"swapped": "changed", "why": "labels " + " ".join(labels)}
        else:
            for event, names in (("unlabeled", ask["remove"]), ("labeled", ask["add"])):
                for name in [n for n in names if (n in labels) == (event == "unlabeled")]:
                    (labels.remove if event == "unlabeled" else labels.append)(name)
                    events.append({"id": str(len(events) + 1), "event": event, "label": name,
                                   "actor": ask.get("signature", "")})
            file.seek(0), json.dump(tickets, file), file.truncate()
            answer = {"swapped": "done"}
    else:
        answer = {"error": {"kind": "refused", "message": "this tracker has no " + op}}
json.dump(answer, sys.stdout)
