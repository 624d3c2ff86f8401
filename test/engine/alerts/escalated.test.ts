import { deadLetters } from "millrace/operate";
import { expect, it } from "vitest";
import { app } from "../../probe/worker.ts";
import { deliver, fresh, operator, probeEnv } from "../harness.ts";
import { firstLetter, reader } from "../intake/letter.ts";
import { alerts, calmly, pass, receiver, round, saidIn } from "./raising.ts";

calmly();

async function letter(): Promise<string> {
  const key = fresh("key");
  await deliver("probe-events", [{ tenant_id: operator.tenantId, idempotency_key: key }]);
  return (await firstLetter(key)).id;
}

/** The notifications that the receiver has got about one escalated dead letter. */
const told = (received: Parameters<typeof saidIn>[0][], id: string) =>
  received.map(saidIn).filter(({ data }) => data.rule === "dead_letter_escalated" && data.examples.includes(id));

it("an escalated dead letter raises one alert with the note and its author; the alert is resolved when the dead letter is settled", async () => {
  const { requests } = await receiver();
  const [one, other] = [await letter(), await letter()];
  const escalate = (id: string, note: string) => deadLetters.escalate(probeEnv, reader, id, note);
  const both = await Promise.all([escalate(one, "Who owns <this>?"), escalate(one, "A second click.")]);
  expect(both.map(({ escalated }) => escalated).sort()).toEqual([false, true]);
  await escalate(other, "And this?");
  const note = both[0].escalated ? "Who owns <this>?" : "A second click.";
  await round();
  await round();
  const seen = await requests(3);
  expect(told(seen, one)).toMatchObject([
    {
      type: "alert.firing",
      data: { labels: { dead_letter: one, queue: "probe-events", reason: "invalid_envelope" }, note: { by: "tess", text: note } },
    },
  ]);
  expect(told(seen, other)).toMatchObject([{ type: "alert.firing", data: { note: { text: "And this?" } } }]);

  await deadLetters.skip(probeEnv, app, reader, one, "seen to");
  await round();
  await pass(120_000);
  await round();
  expect(await alerts("rule = 'dead_letter_escalated' AND state = 'resolved'")).toMatchObject([{ examples: JSON.stringify([one]) }]);
  await expect
    .poll(async () => told(await requests(), one).map(({ type }) => type), { timeout: 20_000 })
    .toEqual(["alert.firing", "alert.resolved"]);
  expect(told(await requests(), other)).toHaveLength(1);
});
