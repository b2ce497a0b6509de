// pi: marks its tmux pane at the start and the end of every turn. Made by orion-mark install; see orion-mark(1).
import { spawnSync } from "node:child_process";

// In order and one at a time: an "idle" that overtakes the next "busy" would call a run finished
// that works. A machine without orion-mark has nothing to be told, so errors are ignored.
const mark = (state: string) => {
  spawnSync("orion-mark", [state], { stdio: "ignore", timeout: 6000 });
};

export default function (pi: { on(event: string, handler: () => void): void }) {
  pi.on("agent_start", () => mark("busy"));
  pi.on("turn_start", () => mark("busy"));
  pi.on("tool_call", () => mark("busy"));
  pi.on("tool_result", () => mark("busy"));
  pi.on("agent_end", () => mark("idle"));
}
