import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";
import { askerOf } from "../../packages/millrace/cli/api-client.ts";
import { useDatabase } from "../../packages/millrace/cli/local/database.ts";
import { freePort } from "../../packages/millrace/cli/local/ports.ts";
import { ROOT } from "../../packages/millrace/cli/local/wrangler.ts";
import { emptyFolder } from "../cli/folder.ts";
import { fencesOf } from "../docs/markdown.ts";

const MILLRACE = join(ROOT, "packages/millrace/millrace.js");
const run = promisify(execFile);

interface Listed<Item> {
  items: Item[];
}

/** A copy of an example, which `millrace dev` runs. */
interface Running {
  ask: ReturnType<typeof askerOf>;
  /** Reads its database. */
  rows(sql: string): object[];
  /** Runs the commands of the README's next block, and compares the exit codes and outputs with the comments below them. */
  follow(): Promise<void>;
}

/** Copies an example, and starts the copy with the first command of its README. Its upstream is the counting server. */
async function example(name: string, upstream?: ReturnType<typeof counting>): Promise<Running> {
  const folder = emptyFolder();
  cpSync(join(ROOT, "examples", name), folder, { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "dir");
  const port = String(await freePort());
  const url = `http://localhost:${port}`;
  writeFileSync(join(folder, ".dev.vars"), `MILLRACE_KEY=test\n${upstream ? `${upstream.variable}=${await upstream.at(url)}\n` : ""}`);
  const [dev, ...blocks] = fencesOf(readFileSync(join(folder, "README.md"), "utf8")).map((fence) => fence.text);
  const { scripts } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  expect([dev, scripts]).toEqual(["npm run dev\n", { dev: "millrace dev" }]);
  await started(folder, port);
  return {
    ask: askerOf(url, readFileSync(join(folder, ".millrace/token"), "utf8").trim()),
    rows: (sql) => useDatabase(join(folder, ".millrace/state"), (db) => db.prepare(sql).all()),
    async follow() {
      const block = (blocks.shift() ?? "").replaceAll("http://localhost:8787", url);
      const commands = [...block.matchAll(/^([^#].*)\n((?:# .*\n)*)/gm)].map(([, command = "", comments = ""]) => {
        const lines = comments.split("\n").flatMap((line) => (line === "" ? [] : [line.slice(2)]));
        const code = lines.find((line) => line.startsWith("exit code "))?.slice("exit code ".length) ?? "0";
        return { command, code, says: lines.filter((line) => !line.startsWith("exit code ")) };
      });
      expect(commands.length).toBeGreaterThan(0);
      const output = emptyFolder();
      const script = [
        `npx() { shift; "${process.execPath}" "${MILLRACE}" "$@"; }`,
        ...commands.map(({ command }, nth) => `{ ${command}\n} >"${output}/${nth}" 2>&1; echo $? >"${output}/${nth}.code"`),
      ].join("\n");
      await run("bash", ["-c", script], { cwd: folder });
      for (const [nth, { command, code, says }] of commands.entries()) {
        const said = readFileSync(join(output, String(nth)), "utf8");
        for (const part of says) expect(said, command).toContain(part);
        expect(readFileSync(join(output, `${nth}.code`), "utf8").trim(), `${command}\n${said}`).toBe(code);
      }
    },
  };
}

/** Runs `millrace dev` in a folder until the test ends. */
async function started(folder: string, port: string): Promise<void> {
  const child = spawn(process.execPath, [MILLRACE, "dev", "--port", port], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(async () => {
    expect(said).not.toContain("starting again");
    if (child.exitCode !== null) return;
    child.kill("SIGINT");
    await once(child, "exit");
  });
  let said = "";
  await new Promise<void>((resolve, reject) => {
    const hear = (chunk: Buffer) => {
      said += chunk;
      if (said.includes("Millrace runs at")) resolve();
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("exit", () => reject(new Error(`millrace dev ended: ${said}`)));
  });
}

/** A request that reached an upstream. */
interface Call {
  path: string;
  key: string;
  body: Record<string, unknown>;
  at: number;
  status: number;
}

/** An upstream in this process: it counts the calls and refuses some; the example's own stand-in answers the others. */
function counting(variable: string) {
  const calls: Call[] = [];
  const refused = { by: (_: Omit<Call, "status">): boolean => false };
  async function at(standIn: string): Promise<string> {
    const server = createServer(async (request, response) => {
      const said = await text(request);
      const call = { path: request.url ?? "", key: String(request.headers["idempotency-key"]), body: JSON.parse(said), at: Date.now() };
      const headers = { "idempotency-key": call.key };
      const answer = refused.by(call)
        ? new Response("not now", { status: 422 })
        : await fetch(standIn + call.path, { method: "POST", headers, body: said });
      calls.push({ ...call, status: answer.status });
      response.writeHead(answer.status).end(await answer.text());
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.close();
      server.closeAllConnections();
    });
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }
  return { variable, at, calls, refused };
}

it("the example hello greets a name once, refuses a misspelt field, and starts no second instance", async () => {
  const { follow, ask } = await example("hello");
  await follow();
  await follow();
  const { items } = await ask<Listed<{ subject: string }>>("GET", "/v1/instances");
  expect(items.map(({ subject }) => subject)).toEqual(["Ada"]);
});

it("the example order undoes in reverse order on a cancel, refunds a refused order, and charges once through a retry", async () => {
  const shop = counting("SHOP_URL");
  const { follow, ask } = await example("order", shop);
  const sleeping = { status: "running", sleeping: { step: "time to cancel" } };
  await follow();
  const [placed] = (await ask<Listed<{ id: string }>>("GET", "/v1/instances")).items;
  await expect.poll(() => ask("GET", `/v1/instances/${placed?.id}`)).toMatchObject(sleeping);
  await follow();
  await follow();
  const paths = () => shop.calls.map(({ path, status }) => `${path} ${status}`);
  const cancelled = ["/charges 200", "/bookings 200", "/returns 200", "/refunds 200"];
  const undone = ["/charges 200", "/bookings 422", "/refunds 200"];
  expect(paths()).toEqual([...cancelled, ...undone]);
  const [charged, , , refund] = shop.calls;
  expect(refund?.body).toEqual({ id: charged?.key });
  const { items } = await ask<Listed<{ step: string; class: string }>>("GET", `/v1/instances/${placed?.id}/effects`);
  expect(items.filter(({ step }) => step.startsWith("undo")).map((one) => one.class)).toEqual(["keyed", "keyed"]);

  shop.refused.by = ({ path }) => path === "/bookings";
  const payload = { order: "A-3", cents: 700, address: "3 Weir Street" };
  const { instance_id: id } = await ask<{ instance_id: string }>("POST", "/v1/commands", { type: "order", payload });
  const instance = () => ask<object>("GET", `/v1/instances/${id}`);
  await expect.poll(instance).toMatchObject({ status: "errored" });
  shop.refused.by = () => false;
  await ask("POST", `/v1/instances/${id}/retry`, { reason: "the courier is available again" });
  await expect.poll(instance).toMatchObject(sleeping);
  expect(paths().slice(7)).toEqual(["/charges 200", "/bookings 422", "/bookings 200"]);
});

it("the example rate-limit sends letters in each reader's order, never above the mailer's limit, and continues after a repair", async () => {
  const mailer = counting("MAILER_URL");
  mailer.refused.by = ({ body }) => body.reader === "bob" && body.number === 2;
  const { follow, ask } = await example("rate-limit", mailer);
  await follow();
  const sent = () => mailer.calls.filter(({ status }) => status === 200);
  // The other four lanes are complete. Bob's lane waits for his second letter.
  await expect.poll(() => sent().length, { timeout: 60_000 }).toBe(17);
  const failed = () => ask<Listed<{ id: string; status: string }>>("GET", "/v1/instances?workflow=send-letter&status=errored");
  await expect.poll(async () => (await failed()).items.length).toBe(1);
  mailer.refused.by = () => false;
  const [bob] = (await failed()).items;
  await ask("POST", `/v1/instances/${bob?.id}/retry`, { reason: "the address is right now" });
  await expect.poll(() => sent().length, { timeout: 60_000 }).toBe(20);
  const complete = () => ask<Listed<object>>("GET", "/v1/instances?workflow=send-letter&status=complete");
  await expect.poll(async () => (await complete()).items.length, { timeout: 60_000 }).toBe(20);
  await follow();

  const order = Map.groupBy(sent(), ({ body }) => body.reader);
  expect([...order].map(([reader, calls]) => [reader, calls.map(({ body }) => body.number)]).toSorted()).toEqual(
    ["ada", "bob", "cy", "dan", "eve"].map((reader) => [reader, [1, 2, 3, 4]]),
  );
  const times = mailer.calls.map(({ at }) => at).toSorted((one, other) => one - other);
  const mostInASecond = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1000).length));
  expect(mostInASecond).toBeLessThanOrEqual(5);
});

it("the example import inserts all rows except a failed one, and inserts that one after the repair", async () => {
  const { follow, rows } = await example("import");
  await follow();
  expect(rows("SELECT name, country FROM people ORDER BY name")).toEqual([
    { name: "Ada", country: "AT" },
    { name: "Bob", country: "FR" },
    { name: "Cy", country: "DE" },
  ]);
});
