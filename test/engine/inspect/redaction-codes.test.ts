import { createExecutionContext } from "cloudflare:test";
import { defineStep, MillraceError, notRetryable } from "millrace";
import { engineRoutes } from "millrace/http";
import { tokens } from "millrace/operate";
import { settleCounts } from "millrace/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Json } from "../../api/client.ts";
import { labCalls } from "../../probe/lab.ts";
import { app } from "../../probe/worker.ts";
import { deliver, event, fresh, probeEnv, reaches, rows, until } from "../harness.ts";
import { errorOf, runLab } from "../lab.ts";
import { ONCE } from "../operate/operating.ts";
import { lettered, REDACTED, reader } from "./told.ts";

/** The log lines of the engine about attempts and ends, from now on. */
function linesFromNow(logs = "attempt|ended"): () => Json[] {
  const spies = (["log", "warn", "error"] as const).map((level) => vi.spyOn(console, level));
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore();
  });
  const said = () => spies.flatMap((spy) => spy.mock.calls.map(([line]) => String(line)));
  return () => said().flatMap((line) => (new RegExp(`^\\{"log":"(${logs})"`).test(line) ? [JSON.parse(line)] : []));
}

const letters = () => fresh("a").replaceAll(/[^a-z]/g, "q");
const MODES = ["inline", "platform"] as const;
const SECRETS = [
  { what: "that has no form of a code", email: () => `Lovelace of ${letters()}` },
  { what: "that has the form of a code", email: () => `lovelace_${letters()}` },
];
const CASES = MODES.flatMap((steps) => SECRETS.map((secret) => ({ ...secret, steps })));

/** The log lines, the cause and every view of a run with this secret, after its end or in doubt. */
async function shownOf(effect: "natural" | "once", email: string, steps: "inline" | "platform", run: (email: string) => Promise<never>) {
  const [by, lines] = [await reader(), linesFromNow()];
  const definition = defineStep({ effect, ...ONCE, run: ({ input }: { input: string }) => run(input) });
  const { instanceId: id } = await runLab(({ step, payload }) => step.effect("write", definition, payload.person?.email ?? "", { steps }), {
    person: { email, city: "London" },
  });
  await reaches(id, effect === "once" ? "in_doubt" : "errored");
  const own = () => lines().filter((line) => line.instance_id === id);
  await until(async () => own().length >= (effect === "once" ? 1 : 2), Boolean);
  const paths = [`/v1/instances/${id}`, `/v1/instances/${id}/steps`, `/v1/instances/${id}/effects`];
  const pages = await Promise.all(paths.map(async (path) => (await by.get(path)).body));
  const { items } = (await by.get("/v1/instances/causes?workflow=lab&limit=200")).body;
  const cause = items.find(({ instance_id }: Json) => instance_id === id);
  expect(JSON.stringify([own(), pages, cause]).toLowerCase()).not.toContain(email.toLowerCase());
  return { id, lines: own(), cause };
}

describe("Sensitive error codes", () => {
  it.each(CASES)("an error code with a sensitive value $what is shown nowhere ($steps)", async ({ email, steps }) => {
    const secret = email();
    const { id, lines, cause } = await shownOf("natural", secret, steps, () =>
      Promise.reject(new MillraceError(secret, "No mailbox.", { upstreamStatus: 404 })),
    );
    const said = { code: "step_failed", upstream_status: 404, error: "No mailbox." };
    expect(lines).toMatchObject([
      { log: "attempt", ...said },
      { log: "ended", ...said },
    ]);
    expect(cause).toMatchObject({ code: "step_failed", message: "No mailbox." });
    expect(await errorOf(id)).toMatchObject({ step: "write", code: "step_failed", message: "No mailbox.", attempts: 1 });
    expect(await rows("SELECT id FROM millrace_causes WHERE code = ?1", secret)).toEqual([]);
  });

  it("a sensitive value in the reason of a dead letter is hidden, also in the cause of the dead letter", async () => {
    const [by, email] = [await reader(), `lovelace_${letters()}`];
    const { id } = await lettered({ name: 7, person: { email, city: "London" } });
    await rows("UPDATE millrace_causes SET code = ?2 WHERE id = (SELECT cause FROM millrace_dead_letters WHERE id = ?1)", id, email);
    await rows("UPDATE millrace_dead_letters SET reason = ?2 WHERE id = ?1", id, email);
    expect((await by.get(`/v1/dead-letters/${id}`)).body).toMatchObject({ reason: "step_failed", body: { payload_inline: { name: 7 } } });
    const lists = await Promise.all(["", "/causes"].map((path) => by.get(`/v1/dead-letters${path}?limit=100`)));
    expect(lists.map(({ status }) => status)).toEqual([200, 200]);
    expect(JSON.stringify(lists.map(({ body }) => body))).not.toContain(email);
  });

  it.each(CASES)(
    "an error code with a sensitive value $what is in no log line about an unknown outcome ($steps)",
    async ({ email, steps }) => {
      const secret = email();
      const { lines } = await shownOf("once", secret, steps, () => Promise.reject(new MillraceError(secret, `Said ${secret}.`)));
      expect(lines).toMatchObject([{ log: "attempt", outcome: "in_doubt", code: "step_failed", error: `Said ${REDACTED}.` }]);
    },
  );
});

describe("Sensitive route errors", () => {
  const SAID = {
    words: (email: string) => notRetryable(`No mailbox ${email}.`, 404),
    code: (email: string) => new MillraceError(email, "No.", { terminal: true }),
    step: (email: string) => new MillraceError("not_retryable", "No.", { step: `mail ${email}` }),
  };
  const PLACES = Object.keys(SAID) as (keyof typeof SAID)[];
  // The first delivery is retried when its error permits a retry. The last delivery becomes a dead letter.
  const CASES = PLACES.flatMap((place) => [1, 6].map((attempt) => ({ place, attempt })));

  it.each(CASES)(
    "a sensitive value in the $place of a route's error is in no log line, dead letter, cause or metric (delivery $attempt)",
    async ({ place, attempt }) => {
      const [by, name, email, lines] = [await reader(), fresh("lab"), `lovelace_${letters()}`, linesFromNow("[a-z_]+")];
      labCalls.set(name, () => Promise.reject(SAID[place](email)));
      await deliver("probe-events", [event("lab.event", name, { name, row: name, person: { email, city: "London" } })], attempt);
      const deliveries = lines().filter(({ log, subject }) => log === "delivery" && subject === name);
      expect(deliveries).toHaveLength(1);
      const stored = await rows("SELECT reason, step, cause FROM millrace_dead_letters WHERE body LIKE ?1", `%${name}%`);
      const pages = await Promise.all(["", "/causes"].map((path) => by.get(`/v1/dead-letters${path}`)));
      expect(pages.map(({ status }) => status)).toEqual([200, 200]);
      await settleCounts(probeEnv);
      const headers = { authorization: `Bearer ${await tokens.mint(probeEnv, { tenantId: "acme", actor: "tess", scopes: ["observe"] })}` };
      const metrics = await engineRoutes(app).fetch(
        new Request("http://localhost/metrics", { headers }),
        probeEnv,
        createExecutionContext(),
      );
      expect(JSON.stringify([lines(), stored, pages.map(({ body }) => body), await metrics.text()])).not.toContain(email);
      if (place === "words") expect(deliveries[0]).toMatchObject({ code: "not_retryable", error: `No mailbox ${REDACTED}.` });
      if (place === "code") expect(deliveries[0]).toMatchObject({ code: "step_failed", error: "No." });
    },
  );

  it("the texts of a route's error are all hidden when the payload is stored by reference", async () => {
    const [name, email, lines] = [fresh("lab"), `lovelace_${letters()}`, linesFromNow("delivery")];
    labCalls.set(name, () => Promise.reject(notRetryable(`No mailbox ${email}.`)));
    const payload = { name, row: name, person: { email, city: "London" } };
    const { payload_inline: _, ...envelope } = event("lab.event", name, null);
    const path = `payloads/acme/${name}/payload`;
    await probeEnv.PAYLOADS.put(path, JSON.stringify(payload));
    await deliver("probe-events", [{ ...envelope, payload_ref: `r2://${path}` }]);
    const ours = lines().filter(({ message_type: type, code }) => type === "lab.event" && code === "not_retryable");
    expect(ours).toMatchObject([{ subject: REDACTED, error: REDACTED }]);
  });
});

describe("Sensitive function names", () => {
  it.each(MODES)("a sensitive value in the name of a function is hidden in the logged stack of its error (%s)", async (steps) => {
    const secret = letters();
    const named = { [secret]: () => Promise.reject(new TypeError("The address is invalid.")) };
    const { lines } = await shownOf("natural", secret, steps, async () => named[secret]?.() as never);
    expect(lines[0]?.stack).toContain(REDACTED);
  });
});

it("a sensitive value in the step name of an error is in no log line", async () => {
  const [secret, lines] = [letters(), linesFromNow()];
  const { instanceId: id } = await runLab(
    ({ payload }) => Promise.reject(new MillraceError("card_declined", "No.", { step: `write to ${payload.person?.email}` })),
    { person: { email: secret, city: "London" } },
  );
  await reaches(id, "errored");
  const own = () => lines().filter((line) => line.instance_id === id);
  await until(
    async () => own(),
    (found) => found.length > 0,
  );
  expect(own()).toMatchObject([{ log: "ended", step: "", at: `write to ${REDACTED}` }]);
});

it.each(MODES)("a MillraceError with an invalid code ends its step at once when it is `terminal` (%s)", async (steps) => {
  let tried = 0;
  const run = async () => {
    tried++;
    throw new MillraceError("Card declined", "No.", { terminal: true });
  };
  const pay = defineStep({ effect: "natural", retries: { limit: 2, delay: 10 }, run });
  const { instanceId } = await runLab(({ step }) => step.effect("pay", pay, {}, { steps }));
  await reaches(instanceId, "errored");
  expect([tried, await errorOf(instanceId)]).toEqual([
    1,
    { step: "pay", code: "step_failed", message: "No.", attempts: 1, effect: "unknown" },
  ]);
});

it.each(MODES)("a MillraceError with an unreadable detail fails its own step (%s)", async (steps) => {
  const odd = Object.defineProperty(new MillraceError("card_declined", "No."), "detail", {
    get: () => {
      throw new Error("It cannot be read.");
    },
  });
  const pay = defineStep({ effect: "natural", ...ONCE, run: () => Promise.reject(odd) });
  const { instanceId } = await runLab(({ step }) => step.effect("pay", pay, {}, { steps }));
  await reaches(instanceId, "errored");
  expect(await errorOf(instanceId)).toEqual({ step: "pay", code: "card_declined", message: "No.", attempts: 1, effect: "unknown" });
});
