#!/usr/bin/env python3
"""A model server for tests: speaks the protocols of four kinds of agents on loopback, and plays a part.

What it answers is decided by the last word of the form PLAY:part in what the person wrote:

    turn     one sentence
    tools3   three turns with a tool each, then a sentence
    error    a server error, every time
    limit    a usage limit, every time
    slow     a first word, then silence for a long time (until the client goes away)
    bg       a command that stays in the background, then a sentence
    ask      a command that needs a permission, then a sentence
    daemon   a command that leaves a process of its own session behind, then a sentence

Usage: model_server.py PORT-FILE LOG-FILE. The port is written when it listens.
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PART = re.compile(r"PLAY:([a-z0-9]+)")
SLOW = 600.0
COMMANDS = {
    "tools3": ["echo one", "echo two", "echo three"],
    "bg": ["sleep 7777"],
    "ask": ["touch asked-for"],
    "daemon": ["setsid -f sleep 7778 >/dev/null 2>&1 </dev/null; echo left"],
}
log = None
log_lock = threading.Lock()


def note(text):
    with log_lock:
        log.write(f"{time.time():.3f} {text}\n")
        log.flush()


def texts(value):
    """Every string of a JSON value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)


def scene(messages, is_result):
    """The part that was asked for last, and how many tool results came since."""
    part, results = "turn", 0
    for message in messages:
        if is_result(message):
            results += 1
            continue
        role = message.get("role") if isinstance(message, dict) else None
        if role in ("assistant", "model"):
            continue
        found = [name for text in texts(message) for name in PART.findall(text)]
        if found:
            part, results = found[-1], 0
    return part, results


def next_command(part, results):
    commands = COMMANDS.get(part, [])
    return commands[results] if results < len(commands) else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Idle connections are closed, as real servers do.
    timeout = 15

    def log_message(self, *_):
        pass

    def body(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while True:
                size = int(self.rfile.readline().split(b";")[0] or b"0", 16)
                if size == 0:
                    self.rfile.readline()
                    break
                data += self.rfile.read(size)
                self.rfile.readline()
        else:
            data = self.rfile.read(length)
        if self.headers.get("Content-Encoding") == "zstd":
            import subprocess

            data = subprocess.run(["zstd", "-dc"], input=data, capture_output=True, check=True).stdout
        return data

    def json(self, code, value, headers=()):
        data = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
        self.wfile.flush()

    def event(self, value, name=None):
        text = (f"event: {name}\n" if name else "") + f"data: {json.dumps(value)}\n\n"
        self.chunk(text.encode())

    def finish_stream(self):
        self.chunk(b"")

    def silence(self):
        """Nothing for a long time; ends when the client does."""
        self.close_connection = True
        end = time.time() + SLOW
        self.connection.settimeout(0.5)
        while time.time() < end:
            try:
                if self.connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        note(f"GET {self.path}")
        if self.path.split("?")[0].endswith("/models"):
            models = [{"id": "play-model", "object": "model", "type": "model", "display_name": "Play"}]
            self.json(200, {"object": "list", "data": models, "models": [], "has_more": False})
        else:
            self.json(404, {"error": {"type": "not_found_error", "message": "not here"}})

    def do_POST(self):
        data = self.body()
        path = self.path.split("?")[0]
        try:
            request = json.loads(data or b"{}")
        except ValueError:
            request = {}
        try:
            if path.endswith("/messages/count_tokens"):
                self.json(200, {"input_tokens": 10})
            elif path.endswith("/messages"):
                self.anthropic(request)
            elif path.endswith("/responses"):
                self.openai_responses(request)
            elif path.endswith("/chat/completions"):
                self.completions(request)
            elif ":streamGenerateContent" in path or ":generateContent" in path:
                self.gemini(request, "stream" in path)
            elif path.endswith(":countTokens"):
                self.json(200, {"totalTokens": 10})
            else:
                note(f"POST {path} (not known)")
                self.json(404, {"error": {"type": "not_found_error", "message": "not here"}})
        except (BrokenPipeError, ConnectionResetError):
            note(f"{path}: the client went away")

    # Anthropic: POST /v1/messages

    def anthropic(self, request):
        def is_result(message):
            content = message.get("content")
            return isinstance(content, list) and any(
                isinstance(block, dict) and block.get("type") == "tool_result" for block in content
            )

        part, results = scene(request.get("messages", []), is_result)
        tools = [tool.get("name") for tool in request.get("tools", [])]
        note(f"anthropic {part} results={results} tools={len(tools)} stream={request.get('stream')}")
        if tools and part == "error":
            return self.json(
                400, {"type": "error", "error": {"type": "invalid_request_error", "message": "played error"}}
            )
        if tools and part == "limit":
            headers = [("retry-after", "3600"), ("x-should-retry", "false")]
            error = {"type": "rate_limit_error", "message": "played usage limit"}
            return self.json(429, {"type": "error", "error": error}, headers)
        command = next_command(part, results) if "Bash" in tools else None
        if not request.get("stream"):
            content = [{"type": "text", "text": "Played."}]
            return self.json(200, self.message(content, "end_turn"))
        self.stream()
        start = self.message([], None)
        self.event({"type": "message_start", "message": start}, "message_start")
        block = {"type": "text", "text": ""}
        self.event({"type": "content_block_start", "index": 0, "content_block": block}, "content_block_start")
        delta = {"type": "text_delta", "text": "Played " + part + "."}
        self.event({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")
        if tools and part == "slow":
            return self.silence()
        self.event({"type": "content_block_stop", "index": 0}, "content_block_stop")
        stop = "end_turn"
        if command:
            stop = "tool_use"
            tool = {"command": command, "description": "play"}
            if part == "bg":
                tool["run_in_background"] = True
            block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "Bash", "input": {}}
            self.event({"type": "content_block_start", "index": 1, "content_block": block}, "content_block_start")
            delta = {"type": "input_json_delta", "partial_json": json.dumps(tool)}
            self.event({"type": "content_block_delta", "index": 1, "delta": delta}, "content_block_delta")
            self.event({"type": "content_block_stop", "index": 1}, "content_block_stop")
        delta = {"stop_reason": stop, "stop_sequence": None}
        self.event({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}}, "message_delta")
        self.event({"type": "message_stop"}, "message_stop")
        return self.finish_stream()

    @staticmethod
    def message(content, stop):
        usage = {"input_tokens": 10, "output_tokens": 1}
        return {
            "id": f"msg_{time.time_ns()}",
            "type": "message",
            "role": "assistant",
            "model": "play-model",
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage,
        }

    # OpenAI: POST /v1/responses

    def openai_responses(self, request):
        def is_result(message):
            return str(message.get("type", "")).endswith("_output")

        part, results = scene(request.get("input", []), is_result)
        tools = [tool.get("name") or tool.get("type") for tool in request.get("tools", [])]
        note(f"responses {part} results={results} tools={tools}")
        if part == "error":
            error = {"error": {"type": "invalid_request_error", "message": "played error", "code": None}}
            return self.json(400, error)
        if part == "limit":
            error = {"type": "usage_limit_reached", "message": "played usage limit", "plan_type": "plus"}
            return self.json(429, {"error": error})
        command = next_command(part, results)
        self.stream()
        response = {"id": f"resp_{time.time_ns()}", "object": "response", "status": "in_progress", "output": []}
        self.event({"type": "response.created", "response": response}, "response.created")
        text = {"type": "output_text", "text": "Played " + part + ".", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        if part == "slow":
            self.silence()
            return None
        if command:
            item = self.codex_call(tools, command, part == "ask")
        added = {"type": "response.output_item.added", "output_index": 0, "item": item}
        self.event(added, "response.output_item.added")
        done = {"type": "response.output_item.done", "output_index": 0, "item": item}
        self.event(done, "response.output_item.done")
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        response.update(status="completed", output=[item], usage=usage)
        self.event({"type": "response.completed", "response": response}, "response.completed")
        return self.finish_stream()

    @staticmethod
    def codex_call(tools, command, asks):
        more = {"sandbox_permissions": "require_escalated", "justification": "to play"} if asks else {}
        call = {"type": "function_call", "id": "fc_1", "call_id": f"call_{time.time_ns()}"}
        if "exec_command" in tools:
            call.update(name="exec_command", arguments=json.dumps({"cmd": command} | more))
        elif "shell_command" in tools:
            call.update(name="shell_command", arguments=json.dumps({"command": command} | more))
        else:
            call.update(name="shell", arguments=json.dumps({"command": ["bash", "-lc", command]}))
        return call

    # OpenAI's older protocol: POST /v1/chat/completions

    def completions(self, request):
        part, results = scene(request.get("messages", []), lambda message: message.get("role") == "tool")
        names = [tool.get("function", {}).get("name") for tool in request.get("tools") or []]
        note(f"completions {part} results={results} tools={names}")
        if names and part == "error":
            return self.json(400, {"error": {"type": "invalid_request_error", "message": "played error"}})
        if names and part == "limit":
            headers = [("retry-after", "3600"), ("x-should-retry", "false")]
            return self.json(429, {"error": {"type": "insufficient_quota", "message": "played limit"}}, headers)
        command = next_command(part, results) if "bash" in names else None
        base = {"id": f"chat-{time.time_ns()}", "object": "chat.completion.chunk", "model": "play-model"}
        base["created"] = int(time.time())
        if not request.get("stream"):
            message = {"role": "assistant", "content": "Played."}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return self.json(200, dict(base, object="chat.completion", choices=[choice]))
        self.stream()

        def say(delta, finish=None):
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            self.event(dict(base, choices=[choice]))

        say({"role": "assistant", "content": "Played " + part + "."})
        if names and part == "slow":
            return self.silence()
        if command:
            arguments = json.dumps({"command": command, "description": "play"})
            function = {"name": "bash", "arguments": arguments}
            call = {"index": 0, "id": f"call_{time.time_ns()}", "type": "function", "function": function}
            say({"tool_calls": [call]})
            say({}, "tool_calls")
        else:
            say({}, "stop")
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self.event(dict(base, choices=[], usage=usage))
        self.chunk(b"data: [DONE]\n\n")
        return self.finish_stream()

    # Gemini: POST /v1beta/models/MODEL:streamGenerateContent

    def gemini(self, request, streams):
        def is_result(message):
            return any("functionResponse" in part for part in message.get("parts", []))

        part, results = scene(request.get("contents", []), is_result)
        names = [
            one.get("name") for tool in request.get("tools") or [] for one in tool.get("functionDeclarations", [])
        ]
        note(f"gemini {part} results={results} tools={len(names)} {self.path}")
        if names and part == "error":
            error = {"code": 400, "message": "played error", "status": "INVALID_ARGUMENT"}
            return self.json(400, {"error": error})
        if names and part == "limit":
            error = {"code": 429, "message": "played quota", "status": "RESOURCE_EXHAUSTED"}
            return self.json(429, {"error": error})
        command = next_command(part, results) if "run_shell_command" in names else None
        parts = [{"text": "Played " + part + "."}]
        if command:
            arguments = {"command": command, "description": "play"}
            if part == "bg":
                arguments["is_background"] = True
            parts = [{"functionCall": {"name": "run_shell_command", "args": arguments}}]
        answer = {
            "candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": parts}}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        }
        if not streams:
            schema = (request.get("generationConfig") or {}).get("responseMimeType")
            if schema == "application/json":
                parts[0] = {"text": "{}"}
            return self.json(200, answer)
        self.stream()
        if names and part == "slow":
            first = {"candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": "Played "}]}}]}
            self.event(first)
            return self.silence()
        self.event(answer)
        return self.finish_stream()


def main():
    global log
    log = open(sys.argv[2], "a", encoding="utf-8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(sys.argv[1] + ".part", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    import os

    os.rename(sys.argv[1] + ".part", sys.argv[1])
    server.serve_forever()


main()
