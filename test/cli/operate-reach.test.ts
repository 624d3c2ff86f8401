import { exec } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { app, caller } from "../console/stage.ts";
import { emptyFolder } from "./folder.ts";
import { millrace } from "./millrace.ts";

const LIST = ["instances", "list"];
/** The check that distinguishes an engine from other servers. */
const ENGINE: Record<string, string> = { "millrace-api": "v1" };

/**
 * A server that closes the connection for the first requests of each path, and gives the others this response. Returns its address, and
 * the number of requests per path.
 */
async function breaking(
  times: number,
  status: number,
  body: string,
  headers = ENGINE,
): Promise<{ url: string; asked: Map<string, string[]> }> {
  const asked = new Map<string, string[]>();
  const server = createServer((request, response) => {
    const path = `${request.method} ${request.url}`;
    const before = asked.get(path) ?? [];
    asked.set(path, [...before, String(request.headers["idempotency-key"])]);
    request.resume();
    if (before.length < times) request.socket.destroy();
    else response.writeHead(status, { "content-type": "application/json", ...headers }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

it("a command prints an instruction, and ends with exit code 4, when it reaches no engine or has no token", async () => {
  const port = await freePort();
  const other = await breaking(0, 404, "<h1>Apache</h1>", {});
  const none = await millrace({ token: "mr_x" })([...LIST, "--url", `http://localhost:${port}`]);
  const stranger = await millrace({ url: other.url, token: "mr_x" })(LIST);
  const unknown = await millrace({ url: `http://localhost:${port}` })(LIST);
  const elsewhere = await millrace()([...LIST, "--url", "https://shop.example"]);
  expect(none).toMatchObject({
    code: 4,
    out: "",
    err: expect.stringContaining(`http://localhost:${port} gave no answer to GET /v1/instances. Start an engine with npx millrace dev`),
  });
  expect(stranger).toMatchObject({
    code: 4,
    err: expect.stringContaining(`The server at ${other.url} is not a Millrace engine. It answered 404.`),
  });
  expect(unknown).toMatchObject({
    code: 4,
    err: expect.stringContaining(
      `There is no token for http://localhost:${port}, which is not an engine of this checkout. Set MILLRACE_TOKEN`,
    ),
  });
  expect(elsewhere).toMatchObject({ code: 4, err: expect.stringContaining("Set MILLRACE_TOKEN to a token of shop.example: ") });
});

it("a command does not send the token of a folder without a running engine to the engine of another folder", async () => {
  const folder = emptyFolder();
  mkdirSync(join(folder, ".millrace"));
  writeFileSync(join(folder, ".millrace/token"), "mr_x");
  const call = `node ${join(ROOT, "packages/millrace/cli/launch.js")} instances list`;
  const env = { ...process.env, MILLRACE_URL: "", MILLRACE_TOKEN: "" };
  const err = "No engine of this folder runs: npx millrace dev starts one.";
  await expect(promisify(exec)(call, { cwd: folder, env })).rejects.toMatchObject({ code: 4, stderr: expect.stringContaining(err) });
});

const REASON = ["--reason", "a test"];

it.each([
  ["{}", 200],
  ["[]", 200],
  ["<h1>It works!</h1>", 200],
  ['{"code":"in_progress","detail":"An engine says so."}', 409],
])("a command does not treat %s with %i as an engine: it reports no success, and ends with exit code 4", async (body, status) => {
  const { url } = await breaking(0, status, body, {});
  const say = millrace({ url, token: "mr_x" });
  const calls = [
    LIST,
    ["instances", "show", "i"],
    ["instances", "tail", "i"],
    ["instances", "cancel", "i", ...REASON, "--wait"],
    ["instances", "retry", "i", ...REASON, "--dry-run"],
    ["dead-letters", "skip", "l", ...REASON],
    ["effects", "confirm", "k", "--output", "null", ...REASON],
    ["enqueue", "order.ship", "--payload", "{}", "--wait"],
    ["queues", "list", "--json"],
  ];
  for (const call of calls) {
    const err = `\n✗ The server at ${url} is not a Millrace engine. It answered ${status}. Check the address.\n`;
    expect(await say(call), call.join(" ")).toEqual({ code: 4, out: "", err });
  }
});

it("a command prints an instruction when the engine refuses an unknown token, a missing scope, or an unknown id or type", async () => {
  const at = await app();
  const [ada, reader] = [millrace(caller(at)), millrace(caller(at, { scopes: ["read"] }))];
  const stranger = millrace({ ...at, token: `mr_${"0".repeat(16)}_${"x".repeat(43)}` });
  const refused = [
    [stranger, LIST, `The token is from MILLRACE_TOKEN. Set MILLRACE_TOKEN to one of ${at.url}`],
    [reader, ["instances", "retry", "x", "--reason", "a test"], "operate"],
    [ada, ["instances", "show", "nope"], "There is no instance nope.\nList them: npx millrace instances list"],
    [ada, ["dead-letters", "skip", "nope", "--reason", "a test"], "List them: npx millrace dead-letters list"],
    [ada, ["enqueue", "research.requestd", "--payload", "{}"], 'Did you mean "research.requested"?'],
    [ada, ["instances", "show", "latest"], "There is no instance yet."],
  ] as const;
  for (const [say, args, what] of refused) expect(await say(args)).toMatchObject({ code: 1, out: "", err: expect.stringContaining(what) });
});

it("a command repeats reads and keyed requests when it gets no response; an action is sent once", async () => {
  const accepted = { instance_id: "i", replayed: true, instance_status: "complete", due_at: null, correlation_id: "c" };
  const { url, asked } = await breaking(2, 200, JSON.stringify({ ...accepted, items: [], next_cursor: null }));
  const say = millrace({ url, token: "mr_x" });
  const listed = await say(LIST);
  const sent = await say(["enqueue", "order.ship", "--payload", "{}", "--key", "order-7"]);
  const acted = await say(["instances", "retry", "i", ...REASON]);
  expect(listed).toMatchObject({ code: 0, err: "None.\n" });
  expect(sent).toMatchObject({ code: 0, out: "i\n" });
  expect(acted).toMatchObject({
    code: 4,
    out: "",
    err: expect.stringContaining("The result is unknown: check before you repeat the command."),
  });
  expect(asked).toEqual(
    new Map([
      ["GET /v1/instances", ["undefined", "undefined", "undefined"]],
      ["POST /v1/commands", ['"order-7"', '"order-7"', '"order-7"']],
      ["POST /v1/instances/i/retry", ["undefined"]],
    ]),
  );
});

it("a command continues after the last event when the stream of an instance breaks off", async () => {
  const step = (name: string) => ({ type: "attempt_completed", step: name, count: 1, attempt: 1, at: "2026-11-25T08:00:00.000Z" });
  const end = {
    workflow: "ship-order",
    subject: "order-7",
    status: "complete",
    error: null,
    waiting_for: [],
    retrying: null,
    sleeping: null,
  };
  const heard: string[] = [];
  const server = createServer((request, response) => {
    const last = String(request.headers["last-event-id"]);
    heard.push(last);
    response.writeHead(200, { "content-type": "text/event-stream", ...ENGINE });
    const tell = (id: string, event: string, data: object) =>
      response.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    if (last !== "1") tell("1", "step", step("reserve stock"));
    else {
      tell("2", "step", step("book courier"));
      tell("3.end", "end", end);
    }
    setTimeout(() => request.socket.destroy(), 50);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, out, err } = await millrace({ url, token: "mr_x" })(["instances", "tail", "i"]);
  expect(code, err).toBe(0);
  expect(out.replaceAll(/^\S+ {2}/gm, "")).toBe("reserve stock: done\nbook courier: done\n");
  expect(err).toBe("ship-order of order-7 is complete.\n");
  expect(heard).toEqual(["undefined", "1"]);
});

it("enqueue --wait prints for a failed attempt its number, the limit, its error, and when the next attempt begins", async () => {
  const instance = { workflow: "ship-order", subject: "order-7", status: "errored", error: null, waiting_for: [], result: null };
  const attempt = (second: number, type: string, more: object = {}) =>
    `event: step\ndata: ${JSON.stringify({ type: `attempt_${type}`, step: "book courier", count: 1, at: `2026-11-25T08:00:0${second}.000Z`, ...more })}\n\n`;
  const error = { name: "Error", message: 'Step threw an Error with message "Error: The courier answered 503."' };
  const stream = [
    attempt(0, "started", { attempt: 1 }),
    attempt(2, "errored", { attempt: 1, max_attempts: 3, error, retry_delay_ms: 0 }),
    attempt(2, "errored", { attempt: 2, max_attempts: 3, error, retry_delay_ms: 8100 }),
    attempt(3, "errored", { attempt: 3, max_attempts: 3, error, retry_delay_ms: null }),
    attempt(4, "errored", { attempt: 4, max_attempts: null, error: null, retry_delay_ms: 90_000 }),
    `id: 1.end\nevent: end\ndata: ${JSON.stringify(instance)}\n\n`,
  ];
  const answers: Record<string, [type: string, body: string]> = {
    "/v1/commands": ["application/json", JSON.stringify({ instance_id: "i", replayed: false, instance_status: "queued", due_at: null })],
    "/v1/instances/i": ["application/json", JSON.stringify(instance)],
    "/v1/instances/i/stream": ["text/event-stream", stream.join("")],
  };
  const server = createServer(({ url = "" }, response) => {
    const [type, body] = answers[url] ?? [];
    response.writeHead(body === undefined ? 404 : 200, { "content-type": type, ...ENGINE }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { code, err } = await millrace({ url, token: "mr_x" })(["enqueue", "order.ship", "--payload", "{}", "--wait"]);
  expect(code, err).toBe(3);
  expect(err.match(/(?<= {2}book courier: ).*/g)).toEqual([
    "attempt 1 of 3 failed after 2 s: The courier answered 503; next attempt in 0 ms",
    "attempt 2 of 3 failed: The courier answered 503; next attempt in 8.1 s",
    "attempt 3 of 3 failed: The courier answered 503; no further attempt",
    "attempt 4 failed: no message; next attempt in 90 s",
  ]);
});

/** A command with this payload, exactly as typed. */
const typed = (payload: string) => ["enqueue", "order.ship", "--payload", payload];

it.each([
  [["instances"], "A verb is missing after instances. Verbs: cancel, causes, close,"],
  [["instances", "lst"], 'There is no "instances lst". Did you mean list?'],
  [
    ["instances", "list", "--staus", "errored"],
    "Unknown option '--staus'. Did you mean --status? Usage: npx millrace instances list --help",
  ],
  [["instances", "retry"], "ID is missing: npx millrace instances retry ID."],
  [["instances", "show", "a", "b"], 'There is one argument too many, "b": npx millrace instances show ID.'],
  [
    ["instances", "list", "--since", "soon"],
    '--since is a time such as 2026-11-25T08:00:00Z, or a length such as 30m, 12h, 7d; got "soon".',
  ],
  [["enqueue", "order.ship", "--order", "7"], `Unknown option '--order'. A field is part of --payload '{"order":…}'. Usage:`],
  [["enqueue", "order.ship"], "--payload is missing: The payload, by the schema of the command."],
  [["enqueue", "order.ship", "--payload", "{order: 7}"], "--payload is not valid JSON: "],
  [["enqueue", "order.ship", "--payload", "@nowhere.json"], "--payload: nowhere.json cannot be read: "],
  [["enqueue", "order.ship", "--payload", "{}", "--key", "ü"], "--key is 1 to 500 printable ASCII characters."],
  [typed('{"x":1e-400}'), "--payload: Refused at payload.x: 1e-400, which would be read as 0: send it as text."],
  [typed('{"x":{"y":1,"y":2}}'), "--payload: Refused at payload.x.y: occurs twice: send it once."],
  [typed('{"x":9007199254740993}'), "--payload: Refused at payload.x: 9007199254740993, which is beyond ±9007199254740991"],
  [typed('{"x":"\\ud800"}'), "--payload: Refused at payload.x: half of a surrogate pair: send well-formed Unicode."],
  [typed('1,"x":2'), "--payload is not valid JSON: "],
  [["effects", "confirm", "k", "--output", "1e400", ...REASON], "--output: Refused at output: Infinity, which is no number in JSON: "],
  [["dead-letters", "replay", "l", "--body", '{"a":1,"a":2}', ...REASON], "--body: Refused at body.a: occurs twice: send it once."],
  [
    ["queues", "list", "--url", "ftp://ada:secret@shop.example"],
    "--url contains a user name or a password. Remove them and set MILLRACE_TOKEN.",
  ],
  [
    ["queues", "list", "--url", "http://ada:secret@[shop"],
    '--url must be an address, such as http://localhost:8787; got "http://…@[shop".',
  ],
  [["queues", "list", "--url", "ada:secret@localhost:1"], '--url must be an address, such as http://localhost:8787; got "…@localhost:1".'],
  [["queues", "list", "--url", "localhost:8787"], '--url must be an address, such as http://localhost:8787; got "localhost:8787".'],
])("the wrong call %s makes no request to an engine, and prints the correct form: exit code 2", async (args, said) => {
  const say = millrace({ url: "http://localhost:1", token: "mr_x" });
  expect(await say(args)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(said) });
});

it("a dash is shown for an unknown number of a queue, and 0 for a known zero", async () => {
  const unknown = { depth: null, oldest_seconds: null, lag_seconds: null, in_per_minute: 0, out_per_minute: 0, retry_share: null };
  const rest = { dead_letters_open: 0, processing_p50_seconds: null, processing_p99_seconds: null };
  const { url } = await breaking(0, 200, JSON.stringify({ items: [{ queue: "order-commands", ...unknown, ...rest }], next_cursor: null }));
  const { out } = await millrace({ url, token: "mr_x" })(["queues", "list"]);
  expect(out.trim().split("\n").at(-1)?.split(/\s+/)).toEqual(["order-commands", ..."–––00–0–"]);
});

it("a command accepts no JSON file that is not in UTF-8", async () => {
  const file = join(emptyFolder(), "payload.json");
  writeFileSync(file, Buffer.from('{"x":"caf\xe9"}', "latin1"));
  const err = expect.stringMatching(/--payload: \S+payload\.json cannot be read: The encoded data was not valid/);
  expect(await millrace({ url: "http://localhost:1", token: "mr_x" })(typed(`@${file}`))).toMatchObject({ code: 2, out: "", err });
});

it.each(["mr_x\nmr_y", "mr_x mr_y", "mr_☃"])(
  "a command refuses a token that is not a valid header value, and does not show it",
  async (token) => {
    const said = await millrace({ url: "http://localhost:1", token })(LIST);
    expect(said).toMatchObject({ code: 2, out: "", err: expect.stringContaining("MILLRACE_TOKEN does not hold a token: ") });
    expect(said.err).not.toContain("mr_");
  },
);

it.skipIf(!existsSync("/dev/full"))("a command does not end with 0 when its output cannot be written", async () => {
  const accepted = {
    instance_id: "i",
    replayed: false,
    instance_status: "accepted",
    due_at: null,
    correlation_id: "c",
    items: [],
    next_cursor: null,
  };
  const { url } = await breaking(0, 200, JSON.stringify(accepted));
  const env = { ...process.env, MILLRACE_URL: url, MILLRACE_TOKEN: "mr_x" };
  const run = promisify(exec);
  const ended = (line: string) =>
    run(`"${process.execPath}" packages/millrace/cli/launch.js ${line} >/dev/full`, { cwd: ROOT, env }).then(
      () => ({ code: 0 }),
      (error: unknown) => error,
    );
  const lost = { code: 1, stderr: expect.stringContaining("The output could not be written (ENOSPC: no space left on device, write)") };
  for (const line of ["instances list --json", "enqueue order.ship --payload {}"]) expect(await ended(line), line).toMatchObject(lost);
});
