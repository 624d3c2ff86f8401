import { deadLetters, SCOPES } from "millrace/operate";
import { deliverTo } from "millrace/testing";
import { catalog, dispatch } from "millrace/worker";
import { expect, it } from "vitest";
import { acceptCommands } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import { routesOf, startsOf } from "../../probe/consumers.ts";
import { app } from "../../probe/worker.ts";
import { followProbe, probe, whenDone } from "../../probe/workflows.ts";
import { deliver, event, fresh, probeEnv, rows, until } from "../harness.ts";

const lettersAbout = (name: string) =>
  rows<{ id: string; reason: string; error: string; message_type: string; state: string; body: string }>(
    "SELECT id, reason, error, message_type, state, body FROM millrace_dead_letters WHERE body LIKE ?1 ORDER BY first_at",
    `%"${name}"%`,
  );
const instancesOf = (names: readonly string[]) =>
  rows<{ idempotency_key: string }>(
    "SELECT idempotency_key FROM millrace_instances WHERE idempotency_key IN (SELECT value FROM json_each(?1))",
    JSON.stringify(names),
  );
const operator = { tenantId: "acme", actor: "tess", scopes: SCOPES } as never;

it("a circular chain of commands runs three times and becomes a dead letter that names its path; a replay permits three more runs", async () => {
  const names = Array.from({ length: 6 }, () => fresh());
  const [first = "", ...others] = names;
  await acceptCommands(probeEnv, app, { tenantId: "acme", source: "test" }, [
    { type: "shared.asked", payload: { name: first, asks: others } },
  ]);
  const fourth = names[3] ?? "";
  const [letter] = await until(
    () => lettersAbout(fourth),
    (found) => found.some(({ reason }) => reason === "too_many_hops"),
  );
  expect(letter).toMatchObject({
    reason: "too_many_hops",
    message_type: "shared.told",
    error:
      '"shared.told" is at the end of a chain of 4 instances, and maxHops is 3: tell-shared → tell-shared → tell-shared → tell-shared → tell-shared. ' +
      "The chain is circular: end it in the code, or increase maxHops in the catalog; then replay this message.",
  });
  expect(await instancesOf(names)).toHaveLength(4);
  expect(await rows("SELECT id FROM millrace_outbox WHERE body LIKE ?1", `%"${fourth}"%`)).toEqual([]);

  expect(await deadLetters.replay(probeEnv, app, operator, letter?.id ?? "", { reason: "it may" })).toMatchObject({ sent: true });
  expect(
    await until(
      () => instancesOf(names),
      (found) => found.length === 6,
    ),
  ).toHaveLength(6);
});

const behind = (count: number, more: object) => ({ ...more, path: Array.from({ length: count }, (_, index) => `run-${index + 1}`) });
const done = (name: string) => event("probe.done", name, { name, step: "one" });
const requested = (name: string) =>
  ({
    ...event("probe.done", name, { name, steps: [], note: "" }, name),
    kind: "command",
    message_type: "probe.requested",
    schema_version: 2,
  }) as const;

it.each([
  ["an event that starts a run", "probe-events", done, "count-done"],
  ["a command", "probe-commands", requested, "probe"],
])("%s is accepted after three earlier runs, and becomes a dead letter with its path after four", async (_, queue, make, workflow) => {
  const [near, far] = [fresh(), fresh()];
  expect(await deliver(queue, [behind(3, make(near)), behind(4, make(far))])).toEqual({ acked: 2, retried: 0 });
  expect(await lettersAbout(near)).toEqual([]);
  expect(await lettersAbout(far)).toMatchObject([
    { reason: "too_many_hops", error: expect.stringContaining(`run-1 → run-2 → run-3 → run-4 → ${workflow}. Make the chain shorter`) },
  ]);
  expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", far)).toEqual([]);
  expect((await rows("SELECT id FROM millrace_instances WHERE subject = ?1", near)).length).toBeGreaterThan(0);
});

it("a catalog sets the maximum length of its chains, and an invalid maximum is refused", async () => {
  const consumers = [startsOf(probe, followProbe), routesOf(whenDone)];
  const consume = dispatch(catalog({ consumers, maxHops: 5 }));
  const [near, far] = [fresh(), fresh()];
  const bodies = [behind(5, requested(near)), behind(6, requested(far))];
  await deliverTo((batch) => consume(batch, probeEnv as never), "probe-commands", bodies);
  expect([(await lettersAbout(near)).length, (await lettersAbout(far)).length]).toEqual([0, 1]);
  for (const maxHops of [0, 1.5, 100]) {
    expect(() => catalog({ consumers, maxHops })).toThrow(expect.objectContaining({ code: "config_invalid" }));
  }
});
