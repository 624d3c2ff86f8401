import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { letters } from "../console/letters.ts";
import { app, caller, shop } from "../console/stage.ts";
import { emptyFolder } from "./folder.ts";
import { millrace } from "./millrace.ts";

const fresh = () => randomBytes(4).toString("hex");
const research = (keyword: string) => ["enqueue", "research.requested", "--payload", JSON.stringify({ brand: "acme", keyword })];
const idIn = (out: string) => /^[0-9a-f]{32}$/m.exec(out)?.[0] ?? "";

interface Found {
  items: { id: string }[];
}

/** A user of the app, with the command. */
async function operator() {
  const ada = caller(await app());
  return { ...ada, say: millrace(ada) };
}

it("the CLI sends a command, shows its steps as they happen, and then the instance, with only its id on stdout", async () => {
  const { say, ask } = await operator();
  const keyword = `tea ${fresh()}`;
  const asked = await say([...research(keyword), "--wait"]);
  expect(asked.code, asked.err).toBe(0);
  const id = idIn(asked.out);
  expect(asked.out).toBe(`${id}\n`);
  expect(asked.err).toMatch(/^Accepted\.\n(.*\n)*\d\d:\d\d:\d\d {2}search the web: done, [\d.]+ m?s\n/);
  expect(asked.err).toContain(`research-keyword of acme/${keyword} is complete.\nResult: {"`);

  const listed = await say(["instances", "list", "--workflow", "research-keyword", "--status", "complete", "--since", "5m"]);
  const shown = await say(["instances", "show", id]);
  const json = await say(["instances", "show", id, "--json"]);
  expect(listed.out).toMatch(/^id +status +workflow +subject +accepted\n/);
  expect(listed.out).toMatch(new RegExp(`^${id} +complete +research-keyword +acme/${keyword} +.* ago$`, "m"));
  expect(shown.out).toContain(`payload   {"brand":"acme","keyword":"${keyword}","cycle":"first"}`);
  expect(shown.out).toMatch(/^ {2}search the web +complete +1 +[\d.]+ m?s$/m);
  expect(json.err).toBe("");
  expect(JSON.parse(json.out)).toEqual(await ask("GET", `/v1/instances/${id}`));
});

it("the CLI reports a repeated command, and a key that another payload uses, and a dry run shows which result a command would have", async () => {
  const { say } = await operator();
  const call = research(`mint ${fresh()}`);
  const [check, first] = [await say([...call, "--key", 'spring, "one"', "--dry-run"]), await say([...call, "--key", 'spring, "one"'])];
  expect(check).toMatchObject({ code: 0, out: expect.stringContaining("Dry run: new: the key is free: it would start.") });
  const again = await say([...call, "--key", 'spring, "one"', "--json"]);
  expect(JSON.parse(again.out)).toMatchObject({ instance_id: idIn(first.out), replayed: true });

  const other = [...research(`sage ${fresh()}`), "--key", 'spring, "one"'];
  expect(await say([...other, "--dry-run"])).toMatchObject({ code: 1, out: expect.stringContaining("Dry run: reused: ") });
  expect(await say(other)).toMatchObject({ code: 1, out: "", err: expect.stringContaining("✗ The idempotency key is in use: ") });
});

it("the CLI ends with 3 when it repeats a command with a failed instance, and prints the status and the next command", async () => {
  const { say } = await operator();
  const call = research(`ristretto ${fresh()} fails once`);
  const first = await say([...call, "--wait"]);
  expect(first.code, first.err).toBe(3);
  const again = await say(call);
  expect(again).toMatchObject({ code: 3, out: `${idIn(first.out)}\n` });
  expect(again.err).toContain("so nothing started. Its instance is errored.");
  expect(again.err).toContain(`instances show ${idIn(first.out)}`);
});

it("the CLI ends with 3 when the instance fails, shows the dry run of a retry, and retries the instance until it completes", async () => {
  const { say, ask } = await operator();
  const failed = await say([...research(`espresso ${fresh()} fails once`), "--wait", "--json"]);
  expect(failed.code, failed.err).toBe(3);
  const instance = JSON.parse(failed.out) as { id: string; status: string };
  expect(instance).toMatchObject({ status: "errored", error: { step: "search the web" } });
  const path = `/v1/instances/${instance.id}`;
  expect(failed.err).toMatch(/ {2}search the web: attempt 1 of 6 failed after [\d.]+ m?s: .+; no further attempt$/m);
  expect(failed.err).toContain(`npx millrace instances retry ${instance.id} --reason …`);

  const plan = await say(["instances", "retry", "latest", "--dry-run"]);
  expect(plan.code, plan.err).toBe(0);
  expect(plan.err).toContain(`latest is ${instance.id}`);
  expect(plan.out).toMatch(/^Dry run: no change was made\.\nThe run starts from search the web\./);
  expect(plan.out).toMatch(/^ {2}decide +kept +it happened and is kept$/m);
  expect(plan.out).toMatch(/^ {2}search the web +runs +it runs, or runs again$/m);
  expect(await ask("GET", path)).toMatchObject({ status: "errored" });
  expect(await ask("GET", `/v1/audit?instance=${instance.id}`)).toMatchObject({ items: [] });
  expect(await say(["instances", "pause", instance.id, "--dry-run"])).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^It would be refused now: .*\nIf it were not refused:\n/m),
  });

  expect((await say(["instances", "retry", instance.id])).err).toContain("--reason is missing");
  const retried = await say(["instances", "retry", instance.id, "--reason", "the search is available again", "--wait"]);
  expect(retried.code, retried.err).toBe(0);
  expect(retried.err).toContain("It runs again.\n");
  expect(await ask("GET", path)).toMatchObject({ status: "complete" });
  const { items } = await ask<{ items: unknown[] }>("GET", `/v1/audit?instance=${instance.id}`);
  expect(items).toMatchObject([{ verb: "retry", reason: "the search is available again", result: "applied" }]);
  expect(await say(["instances", "retry", instance.id, "--reason", "again"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("The instance is complete"),
  });
});

it("the CLI answers the question of an instance, and the instance completes with the answer", async () => {
  const { say, ask } = await operator();
  await ask("PUT", "/v1/brands/tearoom", { approval: "required", approval_timeout: "2 days", approval_default: "reject" });
  await ask("POST", "/v1/commands", { type: "research.requested", payload: { brand: "tearoom", keyword: `oolong ${fresh()}` } });
  const asking = async () => (await ask<Found>("GET", "/v1/instances?workflow=publish-article&status=waiting")).items;
  await expect.poll(async () => (await asking()).length).toBe(1);
  const [{ id = "" } = {}] = await asking();
  const shown = await say(["instances", "show", id]);
  expect(shown.out).toMatch(/^publish-article of .* is waiting: “.*” asks an operator\.?$/m);
  const [, question = ""] = /^Answer it: npx millrace approvals approve (\S+) --reason …, or reject$/m.exec(shown.err) ?? [];
  expect((await say(["approvals", "list"])).out).toMatch(new RegExp(`^${question} +pending +publish-article +`, "m"));
  const answered = await say(["approvals", "approve", "latest", "publish-article", "--reason", "it is right", "--wait"]);
  expect(answered.code, answered.err).toBe(0);
  expect(answered.err).toContain(`latest is ${question}: publish-article, `);
  expect(answered.err).toMatch(/^publish-article of .* is complete\.$/m);

  const undone = await say(["instances", "undo", id, "--reason", "it is off", "--wait"]);
  expect(undone.code, undone.err).toBe(0);
  expect(undone.err).toMatch(/^publish-article of .* is terminated: undone$/m);
  expect(await say(["instances", "close", id, "--reason", "for good"])).toMatchObject({ code: 0, err: "It is closed.\n" });
});

it("the CLI pauses an instance, resumes it, and cancels it", async () => {
  const { say, ask } = await operator();
  const late = { type: "research.requested", payload: { brand: "acme", keyword: `late ${fresh()}` }, delay_seconds: 3600 };
  const { instance_id: id } = await ask<{ instance_id: string }>("POST", "/v1/commands", late);
  const act = (...args: string[]) => say(["instances", ...args, "--reason", "a test"]);
  expect(await act("pause", id)).toMatchObject({ code: 0, err: "It is paused.\n" });
  expect(await say(["instances", "show", id])).toMatchObject({
    code: 0,
    err: `It continues with: npx millrace instances resume ${id} --reason …\n`,
  });
  expect(await act("skip", id, "--step", "decide", "--output", "null")).toMatchObject({ code: 1, err: expect.stringContaining("paused") });
  expect(await act("cancel", id, "--no-undo", "--wait")).toMatchObject({ code: 0, err: expect.stringContaining("is terminated") });
});

it("the CLI shows an unknown outcome and the possible answers, and continues with the answer", async () => {
  const ada = caller(await shop());
  const say = millrace(ada);
  const order = `order-${fresh()}`;
  const lost = await say(["enqueue", "order.change", "--payload", JSON.stringify({ order, change: 1, lost: true }), "--wait"]);
  expect(lost.code, lost.err).toBe(3);
  expect(lost.err).toContain(`change-order of ${order} is in_doubt.`);
  expect(lost.err).toMatch(/^\d\d:\d\d:\d\d {2}write to the customer: in doubt: unknown whether it happened$/m);
  expect(lost.err).not.toContain("write to the customer: done");
  expect(lost.err).toMatch(/may have happened: .*[.!?] Check the upstream, then decide:\n/);
  expect(lost.err).toContain("  it did not happen; send it now: npx millrace effects reject ");
  const [, key = ""] = /npx millrace effects confirm (\S+) --reason … --output …/.exec(lost.err) ?? [];
  expect((await say(["effects", "list"])).out).toMatch(new RegExp(`^${key} +in_doubt +write to the customer +once `, "m"));
  expect(await say(["effects", "confirm", key, "--reason", "they have it"])).toMatchObject({
    code: 2,
    err: expect.stringContaining("--output is missing"),
  });
  for (const place of ["…", '"…"', " … ", "..."]) {
    const copied = await say(["effects", "reject", key, "--reason", place]);
    expect(copied).toMatchObject({ code: 2, err: expect.stringContaining("is a placeholder: give the reason") });
  }
  const confirmed = await say(["effects", "confirm", key, "--output", '{"sent":true}', "--reason", "they have it", "--wait"]);
  expect(confirmed.code, confirmed.err).toBe(0);
  expect(confirmed.err).toContain(`change-order of ${order} is complete.`);
  expect((await say(["instances", "effects", "latest", "change-order"])).out).toMatch(/^\S+ +done +write to the customer /m);
});

it("the CLI shows the known result of an effect with an unknown outcome, ready to be confirmed, and how to end it; a rejection is refused", async () => {
  const ada = caller(await shop());
  const say = millrace(ada);
  const order = `order-${fresh()}`;
  const torn = await say(["enqueue", "order.change", "--payload", JSON.stringify({ order, change: 1, torn: true }), "--wait"]);
  expect(torn.code, torn.err).toBe(3);
  expect(torn.err).toContain(
    '“write to the customer” happened, but the rows recorded with it were refused. The effect happened and returned {"sent":true}.',
  );
  expect(torn.err).not.toContain("is unknown");
  expect(torn.err).not.toContain("effects reject");
  const [, key = ""] = /confirm (\S+) --reason … --output '\{"sent":true\}'$/m.exec(torn.err) ?? [];
  const [, id = ""] = /npx millrace instances cancel (\S+) --no-undo --reason …$/m.exec(torn.err) ?? [];
  expect(torn.err).toContain(`to run it a second time: npx millrace effects retry ${key} --reason …`);
  expect(await say(["effects", "reject", key, "--reason", "their log is slow"])).toMatchObject({
    code: 1,
    err: expect.stringContaining("The effect happened"),
  });
  expect(await say(["instances", "cancel", id, "--no-undo", "--reason", "no page left", "--wait"])).toMatchObject({ code: 0 });
});

it("the CLI shows a dead letter and the dry run of its replay, and replays it with a corrected payload", async () => {
  const at = await app();
  const ada = caller(at);
  const say = millrace(ada);
  const seeded = (key: string, payload: object) => ({ key, payload, cause: "c".repeat(32), error: "payload.keyword is missing" });
  const [id = "", other = ""] = await letters(ada, [seeded("mint-7", { brand: "acme" }), seeded("mint-8", { brand: "acme" })], at);
  expect((await say(["dead-letters", "list"])).out).toMatch(
    new RegExp(`^${id} +open +gatherfeed-commands +research.requested +\\S+ \\S+ ago +invalid_payload$`, "m"),
  );
  expect((await say(["dead-letters", "show", id])).out).toMatch(/replay +refused: .*payload\.keyword is missing/);
  const asItCame = await say(["dead-letters", "replay", id, "--reason", "as it came"]);
  expect(asItCame).toMatchObject({ code: 1, out: "", err: expect.stringContaining("payload.keyword is missing") });

  const corrected = ["dead-letters", "replay", id, "--payload", '{"brand":"acme","keyword":"mint"}'];
  expect(await say([...corrected, "--dry-run"])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^Dry run: no change was made\.\noutcome +starts$/m),
  });
  expect(await ada.ask("GET", `/v1/dead-letters/${id}`)).toMatchObject({ state: "open" });
  const replayed = await say([...corrected, "--reason", "the keyword was lost", "--json"]);
  const { instance_id: instance } = JSON.parse(replayed.out) as { instance_id: string };
  const status = () =>
    ada.ask<{ status: string }>("GET", `/v1/instances/${instance}`).then(
      (one) => one.status,
      () => "not there",
    );
  await expect.poll(status).toBe("complete");
  expect(await say([...corrected, "--reason", "a second click"])).toMatchObject({
    code: 0,
    err: expect.stringContaining("No change"),
  });

  expect(await say(["dead-letters", "escalate", other, "--reason", "who knows it?"])).toMatchObject({ code: 0 });
  expect(await say(["dead-letters", "skip", other, "--reason", "nobody"])).toMatchObject({
    code: 0,
    err: "Skipped, or already settled.\n",
    out: "skipped  true\n",
  });
});

it("the CLI shows an unattributed dead letter only to a token with the scope, and prints how to fix such a dead letter", async () => {
  const at = await app();
  const [plain, ada] = [caller(at, { scopes: ["read", "operate"] }), caller(at)];
  const seeded = { payload: {}, cause: "d".repeat(32), error: "schema_version is missing", reason: "invalid_envelope" };
  const [id = ""] = await letters(ada, [{ ...seeded, key: "plain-1", plain: { tenant_id: ada.tenant } }], at);
  const none = await millrace(plain)(["dead-letters", "list", "--reason", "invalid_envelope"]);
  expect(none.err).toBe("No such dead letter is shown to your token. Dead letters without a tenant need the scope unattributed.\n");
  const unseen = await millrace(plain)(["dead-letters", "show", "0".repeat(32)]);
  expect(unseen.err).toContain("requires the scope `unattributed`).\nList them: npx millrace dead-letters list");

  const say = millrace(ada);
  const shown = await say(["dead-letters", "show", id]);
  expect(shown.err).toContain(`npx millrace dead-letters replay ${id} --reason … --body JSON, with the whole corrected message`);
  expect(shown.err).toContain("A corrected message needs the scope of its type, such as enqueue, in addition to operate.");
  const of = { cause: "e".repeat(32), error: "payload.keyword is missing" };
  const [lost = "", good = ""] = await letters(
    ada,
    [
      { ...of, key: "lost-1", payload: { brand: "acme" } },
      { ...of, key: "good-1", payload: { brand: "acme", keyword: "mint" }, reason: "exhausted" },
    ],
    at,
  );
  expect((await say(["dead-letters", "show", lost])).err).toContain(`replay ${lost} --reason … --payload JSON, or skip it`);
  expect((await say(["dead-letters", "show", good])).err).toBe(
    `Replay it: npx millrace dead-letters replay ${good} --reason …, or skip it: npx millrace dead-letters skip ${good} --reason …\n`,
  );

  const { body } = await ada.ask<{ body: object }>("GET", `/v1/dead-letters/${lost}`);
  const whole = JSON.stringify({
    ...body,
    idempotency_key: "plain-1",
    subject: "acme/plain",
    payload_inline: { brand: "acme", keyword: "plain" },
  });
  expect(await say(["dead-letters", "replay", id, "--body", whole, "--reason", "its envelope was lost"])).toMatchObject({
    code: 0,
    err: expect.stringContaining("on its queue again"),
  });
});

it("the CLI escapes the text of a payload for a terminal", async () => {
  const { say } = await operator();
  const evil = `a\u001b[2J\u009b31m\u202e${fresh()}\u0007\u2028b`;
  const file = join(emptyFolder(), "evil.json");
  writeFileSync(file, JSON.stringify({ brand: "acme", keyword: evil, "x\u001b[2Jy": 1 }));
  const refused = await say(["enqueue", "research.requested", "--payload", `@${file}`]);
  expect(refused.code).toBe(1);
  const asked = await say([...research(evil), "--wait"]);
  const id = idIn(asked.out);
  const all = [refused, asked];
  for (const args of [["list"], ["list", "--json"], ["show", id], ["show", id, "--json"], ["tail", id]])
    all.push(await say(["instances", ...args]));
  for (const { out, err } of all) expect(`${out}${err}`).not.toMatch(/[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--\n]/v);
  expect(JSON.parse(all[5]?.out ?? "")).toMatchObject({ payload: { keyword: evil } });
});

it("the CLI reports a retried step with its attempt and its error, and a delayed command with its due time", async () => {
  const { whyOf } = await import("../../packages/millrace/cli/operate/instance-words.ts");
  const whyIs = (instance: object) => whyOf({ error: null, waiting_for: [], ...instance } as unknown as Parameters<typeof whyOf>[0]);
  const retrying = { step: "send mail", attempt: 2, error: "The mail service answered 503." };
  expect(whyIs({ retrying })).toBe("“send mail” failed at attempt 2 and will be retried: The mail service answered 503.");
  expect(whyIs({ status: "accepted", due_at: "2026-10-01T09:30:00.000Z" })).toBe("due 2026-10-01 09:30:00Z");
});
