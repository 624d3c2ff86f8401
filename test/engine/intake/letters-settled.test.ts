import { env } from "cloudflare:workers";
import type { Envelope } from "millrace";
import { deadLetters } from "millrace/operate";
import { describe, expect, it } from "vitest";
import { app } from "../../probe/worker.ts";
import { deliver, envelopeOf, event, fresh, keeperRound, probeEnv, reaches, rows, start, statusOf, until } from "../harness.ts";
import { platformOf, runLab } from "../lab.ts";
import { firstLetter, kept, type Letter, reader } from "./letter.ts";

describe("Skips", () => {
  it("I16 a skipped dead letter ends its command permanently: the keeper does not start it", async () => {
    let ran = 0;
    const { instanceId } = await runLab(async () => void ran++, { delaySeconds: 600 });
    await deliver("probe-commands", [{ ...(await envelopeOf(instanceId)), schema_version: 99 }]);
    const [letter] = await rows<{ id: string }>("SELECT id FROM millrace_dead_letters WHERE instance_id = ?1", instanceId);
    await deadLetters.skip(probeEnv, app, reader, letter?.id ?? "", "we do without");
    await keeperRound();
    await env.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1").bind(instanceId).run();
    await keeperRound();
    expect(await statusOf(instanceId)).toBe("skipped");
    expect((await platformOf(instanceId)).status).toBe("unknown");
    expect(ran).toBe(0);
  });

  it("I16 a skip of an invalid copy does not end the command that the API has accepted under the same key", async () => {
    let ran = 0;
    const name = fresh("lab");
    const outdated = {
      ...event("probe.signal", name, { name, note: "" }, name),
      kind: "command",
      message_type: "lab.requested",
      schema_version: 99,
    } as const;
    const copy = outdated as unknown as Envelope;
    await deliver("probe-commands", [copy]);
    await deadLetters.skip(probeEnv, app, reader, (await firstLetter(name)).id, "the shop sends it again");
    const { instanceId } = await runLab(async () => void ran++, { name, delaySeconds: 600 });
    await deliver("probe-commands", [copy]);
    expect(await statusOf(instanceId)).toBe("accepted");
    await rows("UPDATE millrace_instances SET due_at = accepted_at WHERE id = ?1 RETURNING id", instanceId);
    await keeperRound();
    expect(await reaches(instanceId, "complete", "dead")).toBe("complete");
    expect(ran).toBe(1);
  });

  it.each([1, 2])(
    "A03 an accepted command runs although an invalid copy of its message arrived first and became a dead letter (delivery %i)",
    async (attempts) => {
      const watched: boolean[] = [];
      const isWatched = async (id: string) =>
        (await rows("SELECT 1 FROM millrace_instances WHERE id = ?1 AND check_at > unixepoch() * 1000", id)).length === 1;
      const { instanceId } = await runLab(async ({ instanceId: id }) => void watched.push(await isWatched(id)), { delaySeconds: 600 });
      const message = await envelopeOf(instanceId);
      await deliver("probe-commands", [{ ...message, schema_version: 99 }]);
      await env.DB.prepare("UPDATE millrace_instances SET check_at = 0 WHERE id = ?1").bind(instanceId).run();
      await keeperRound();
      expect([await statusOf(instanceId), await isWatched(instanceId)]).toEqual(["dead", false]);
      expect(await deliver("probe-commands", [message], attempts)).toEqual({ acked: 1, retried: 0 });
      expect(await reaches(instanceId, "complete")).toBe("complete");
      expect(watched).toEqual([true]);
    },
  );

  it("A09 a skip also settles copies of the message with a creation time in the future", async () => {
    const name = fresh();
    const message = { ...event("probe.done", name, { name: 7 }, name), created_at: new Date(Date.now() + 3_600_000).toISOString() };
    await deliver("probe-events", [message]);
    await deadLetters.skip(probeEnv, app, reader, (await firstLetter(name)).id, "nonsense");
    const before = await rows("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    expect(await deliver("probe-events", [message])).toEqual({ acked: 1, retried: 0 });
    expect(await rows("SELECT id FROM millrace_dead_letters WHERE idempotency_key = ?1", name)).toEqual(before);
  });
});

describe("Replays", () => {
  it.each([
    ["key", { idempotency_key: "another" }, "invalid_envelope"],
    ["tenant", { tenant_id: "globex" }, "forbidden"],
  ])("T01 a replay that changes the %s of its message is refused, and the dead letter remains open", async (_, change, code) => {
    const name = fresh();
    const message = { ...event("probe.done", name, { name: 7 }, name), kind: "command", message_type: "probe.requested" } as const;
    await deliver("probe-commands", [message]);
    const letter = await firstLetter(name);
    const body = { ...message, payload_inline: { name, steps: [] }, schema_version: 2, ...change };
    await expect(deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "r", body })).rejects.toMatchObject({ code });
    expect((await deadLetters.get(probeEnv, reader, letter.id)).state).toBe("open");
    expect(await rows("SELECT id FROM millrace_instances WHERE subject = ?1", name)).toEqual([]);
  });

  it.each([
    ["another message type of the same queue", { message_type: "probe.routed" }, "invalid_envelope"],
    ["a message type of another queue", { message_type: "lab.requested", kind: "command" }, "unknown_message_type"],
  ])("a replay that changes the type of its message to %s is refused, and the dead letter remains open", async (_, change, code) => {
    const name = fresh();
    const message = event("probe.signal", name, { about: 7 });
    await deliver("probe-events", [message]);
    const letter = await firstLetter(message.idempotency_key);
    const body = { ...message, payload_inline: { name }, ...change };
    await expect(deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "r", body })).rejects.toMatchObject({ code });
    expect((await deadLetters.get(probeEnv, reader, letter.id)).state).toBe("open");
    expect(await rows("SELECT id FROM millrace_instances WHERE idempotency_key = ?1", message.idempotency_key)).toEqual([]);
  });

  it("a replay may correct the type of a message that its queue does not know", async () => {
    const name = fresh();
    const message = event("probe.routed", name, { name });
    await deliver("probe-events", [{ ...message, message_type: "probe.rooted" }]);
    const letter = await firstLetter(message.idempotency_key);
    expect(letter.reason).toBe("unknown_message_type");
    expect(await deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "r", body: message })).toMatchObject({ sent: true });
    expect(
      await until(
        () => kept(name),
        (found) => found.length === 1,
      ),
    ).toHaveLength(1);
  });

  it("T01 a message with another tenant in its payload is processed for the tenant of its envelope", async () => {
    const name = fresh();
    await deliver("probe-events", [event("lab.event" as never, name, { name, note: "globex" })]);
    expect(await rows("SELECT tenant_id FROM millrace_instances WHERE subject = ?1", name)).toEqual([{ tenant_id: "acme" }]);
  });

  it("Q06 a replay with an invalid payload reference is refused, and a later replay is accepted", async () => {
    const name = fresh();
    const refused = { ...event("probe.done", name, 7, `${name}/key`), kind: "command", message_type: "probe.requested", schema_version: 2 };
    await deliver("probe-commands", [refused]);
    const letter = await firstLetter(name);
    const { payload_inline: _, ...rest } = refused;
    const body = { ...rest, payload_ref: `r2://payloads/acme/${name}/mistyped` };
    await expect(deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "mended", body })).rejects.toMatchObject({
      code: "invalid_envelope",
      detail: { issues: [{ path: "payload_ref" }] },
    });
    expect((await deadLetters.get(probeEnv, reader, letter.id)).state).toBe("open");
    const mended = { ...refused, payload_inline: { name, steps: [] } };
    expect(await deadLetters.replay(probeEnv, app, reader, letter.id, { reason: "mended", body: mended })).toMatchObject({ sent: true });
  });

  it("I16 a replay of a message with another command's key is refused, and does not change the row of that command", async () => {
    const name = fresh();
    const { instanceId } = await start(name, [{ do: "keyed", name: "charge" }], { delaySeconds: 600 });
    const reused = { ...(await envelopeOf(instanceId)), payload_inline: { name, steps: [{ do: "keyed", name: "other" }], note: "" } };
    await deliver("probe-commands", [reused]);
    const [letter] = await rows<Letter>("SELECT id, reason FROM millrace_dead_letters WHERE idempotency_key = ?1", name);
    await env.DB.prepare("UPDATE millrace_instances SET status = 'dead', check_at = NULL WHERE id = ?1").bind(instanceId).run();
    await expect(deadLetters.replay(probeEnv, app, reader, letter?.id ?? "", { reason: "again" })).rejects.toMatchObject({
      code: "idempotency_key_reused",
    });
    await deadLetters.skip(probeEnv, app, reader, letter?.id ?? "", "not wanted");
    expect(await statusOf(instanceId)).toBe("dead");
  });
});
