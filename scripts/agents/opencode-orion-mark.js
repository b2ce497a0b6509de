// opencode: marks its tmux pane at the start and the end of every turn. Made by orion-mark install; see orion-mark(1).
import { spawnSync } from "node:child_process";

// In order and one at a time: an "idle" that overtakes the next "busy" would call a run finished that works. A
// machine without orion-mark has nothing to be told, so errors are ignored.
const mark = (...words) => {
  spawnSync("orion-mark", words, { stdio: "ignore", timeout: 6000 });
};

// Sessions of sub-agents have a parent; the ends of their turns are not the end of the run's.
const children = new Set();

export const OrionMark = async () => {
  mark("ready");
  return {
    event: async ({ event }) => {
      const properties = event.properties ?? {};
      const session = properties.sessionID ?? properties.info?.id;
      switch (event.type) {
        case "session.created":
        case "session.updated":
          if (properties.info?.parentID) children.add(properties.info.id);
          break;
        case "session.status":
          if (children.has(session)) break;
          if (properties.status?.type === "idle") mark("idle");
          else mark("busy");
          break;
        case "session.idle":
        case "session.error":
          if (!children.has(session)) mark("idle");
          break;
        case "permission.asked":
        case "permission.updated":
          mark("question");
          break;
        case "permission.replied":
          mark("busy");
          break;
      }
    },
    "chat.message": async () => mark("busy"),
    "tool.execute.before": async () => mark("busy"),
    "tool.execute.after": async () => mark("busy"),
  };
};
