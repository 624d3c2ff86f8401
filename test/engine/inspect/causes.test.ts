import { MillraceError, upstreamRefused } from "millrace";
import { deadLetters, instances } from "millrace/operate";
import { expect, it } from "vitest";
import { app } from "../../probe/worker.ts";
import { deliver, event, fresh, operator, probeEnv, reaches, rows, until } from "../harness.ts";
import { reader } from "../intake/letter.ts";
import { runLab } from "../lab.ts";

const letterCauses = async (tenantId: string, filter = {}) =>
  (await deadLetters.causes(probeEnv, { ...reader, tenantId, scopes: [] }, filter)).items;

/** Delivers a message of a tenant that is captured as a dead letter with this text. */
const refused = (tenantId: string, wrong: object) => ({
  ...event("probe.routed", fresh(), {}),
  tenant_id: tenantId,
  payload_inline: wrong,
});

it("dead letters with the same error share one cause, which shows their number, the first time and the newest dead letter", async () => {
  const tenantId = fresh("tenant");
  const nameless = [1, 2, 3].map((part) => refused(tenantId, { name: part }));
  await deliver("probe-events", nameless.slice(0, 2));
  await deliver("probe-events", [nameless[2], refused(tenantId, { name: "x", parts: 7 }), nameless[0]]);
  const causes = await letterCauses(tenantId);
  expect(causes.map(({ count, message }) => [count, message]).sort()).toEqual([
    [1, expect.stringContaining("parts")],
    [3, expect.stringContaining("name")],
  ]);
  const [cause] = causes.filter(({ count }) => count === 3);
  expect(cause).toMatchObject({ queue: "probe-events", message_type: "probe.routed", step: null, reason: "invalid_payload" });
  const { items } = await deadLetters.list(probeEnv, { ...reader, tenantId }, { cause: cause?.id ?? "" });
  expect(items).toHaveLength(3);
  expect(items[0]?.id).toBe(cause?.dead_letter_id);
  expect([cause?.first_at, cause?.last_at]).toEqual([items.at(-1)?.captured_at, items[0]?.captured_at]);
});

it("a cause counts open dead letters: a settled one is subtracted once, and the cause ends with the last one", async () => {
  const tenantId = fresh("tenant");
  await deliver("probe-events", [refused(tenantId, { name: 1 }), refused(tenantId, { name: 2 })]);
  const { items } = await deadLetters.list(probeEnv, { ...reader, tenantId }, {});
  const skip = (id = "") => deadLetters.skip(probeEnv, app, { ...reader, tenantId }, id, "of no use");
  await Promise.all([skip(items[0]?.id), skip(items[0]?.id)]);
  expect(await letterCauses(tenantId)).toMatchObject([{ count: 1, dead_letter_id: items[1]?.id }]);
  await skip(items[1]?.id);
  expect(await letterCauses(tenantId)).toEqual([]);
});

it("a cause is not shared between tenants", async () => {
  const [one, other] = [fresh("tenant"), fresh("tenant")];
  await deliver("probe-events", [refused(one, { name: 1 }), refused(other, { name: 2 }), refused(other, { name: 3 })]);
  const [[ofOne], [ofOther]] = await Promise.all([letterCauses(one), letterCauses(other)]);
  expect(ofOne).toMatchObject({ id: ofOther?.id, count: 1 });
  expect(ofOther?.count).toBe(2);
});

it("errored instances with the same error share one cause, and leave it after a successful retry", async () => {
  const said = fresh().replaceAll(/\d/g, "x");
  let broken = true;
  const fails = (what: () => Error) =>
    runLab(async ({ step }) => {
      await step.commit(
        "pay",
        () => {
          if (broken) throw what();
          return {};
        },
        { retries: { limit: 0, delay: 10 } },
      );
    });
  const [one, two, third] = await Promise.all([
    fails(() => upstreamRefused(`${said}: order 4711 answered 503`, 503)),
    fails(() => upstreamRefused(`${said}: order 17 answered 500`, 500)),
    fails(() => new MillraceError("not_retryable", `${said}: order 9 answered 500`)),
  ]);
  for (const { instanceId } of [one, two, third]) await reaches(instanceId, "errored");
  const found = async () =>
    (await instances.causes(probeEnv, operator, { workflow: "lab", limit: 200 })).items.filter(({ message }) => message.startsWith(said));
  expect((await found()).map(({ code, step, count }) => [code, step, count]).sort()).toEqual([
    ["not_retryable", "pay", 1],
    ["upstream_refused", "pay", 2],
  ]);
  const [cause] = (await found()).filter(({ count }) => count === 2);
  const ofCause = async () => (await instances.list(probeEnv, operator, { cause: cause?.id ?? "" })).items.map(({ id }) => id).sort();
  expect(await ofCause()).toEqual([one.instanceId, two.instanceId].sort());
  broken = false;
  await instances.act(probeEnv, operator, "retry", one.instanceId, { reason: "mended" });
  await reaches(one.instanceId, "complete");
  expect(await ofCause()).toEqual([two.instanceId]);
  expect((await found()).find(({ id }) => id === cause?.id)?.count).toBe(1);
});

it("the count of a cause equals its rows after any change of them", async () => {
  const wrong = await until(
    () =>
      rows(`SELECT c.* FROM millrace_causes c WHERE c.count <> iif(c.kind = 'letter',
        (SELECT count(*) FROM millrace_dead_letters d WHERE coalesce(d.tenant_id, '') = c.tenant_id AND d.cause = c.id AND d.state = 'open'),
        (SELECT count(*) FROM millrace_instances i WHERE i.tenant_id = c.tenant_id AND i.cause = c.id AND i.status = 'errored'))`),
    (found) => found.length === 0,
  );
  expect(wrong).toEqual([]);
});
