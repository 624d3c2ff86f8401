import { env } from "cloudflare:workers";
import { counterOf } from "millrace/counters";
import { laneOf } from "millrace/lanes";
import { limitOf } from "millrace/limits";
import { withLock } from "millrace/locks";
import { roomOf } from "millrace/rooms";
import { describe, expect, it } from "vitest";
import type { CounterEnv } from "../../../packages/millrace/src/counters/client.ts";
import { acceptCommand } from "../../../packages/millrace/src/intake/accept/enqueue.ts";
import type { LimitEnv } from "../../../packages/millrace/src/limits/client.ts";
import type { LockEnv } from "../../../packages/millrace/src/locks/client.ts";
import { blocking } from "../../probe/lanes.ts";
import { desk } from "../../probe/rooms.ts";
import { blocked } from "../../probe/turns.ts";
import { app } from "../../probe/worker.ts";
import { fresh, probeEnv, rows } from "../harness.ts";
import { laneEnv } from "../lanes/lab.ts";
import { roomEnv } from "../rooms/lab.ts";

const refusal = (work: () => unknown) =>
  (async () => work())().then(
    () => expect.unreachable("It was not refused."),
    (error) => error,
  );

// Cloudflare's documentation: an object with a longer name cannot read its own name, and so not its tenant.
describe("a name beyond the 1,024 bytes of an object name is refused, and nothing is stored", () => {
  it.each([
    ["a lane's key of 500 characters that need three bytes each", () => laneOf(laneEnv, blocking, "鍵".repeat(500)).send({ n: 0 })],
    [
      "a room's key of characters that are escaped as six bytes each",
      () => roomOf(roomEnv, desk, "\u0001".repeat(200), "acme").send({ text: "" }),
    ],
    ["a limit's name", () => limitOf(env as unknown as LimitEnv, "l".repeat(1025), [{ limit: 1, periodMs: 1000 }]).take()],
  ])("%s", async (_, work) => {
    const { code, message } = await refusal(work);
    expect({ code, message }).toMatchObject({ code: "invalid_payload", message: expect.stringContaining("1024") });
  });

  it("a lane's key with a name of 1,024 bytes is accepted", async () => {
    const left = 1024 - JSON.stringify([blocking.name, null, ""]).length;
    const key = fresh("k").padEnd(30, "x") + "鍵".repeat(Math.floor((left - 30) / 3));
    expect(await laneOf(laneEnv, blocking, key).send({ n: 0 })).toMatchObject({ duplicate: false });
    expect((await refusal(() => laneOf(laneEnv, blocking, `${key}鍵`).send({ n: 0 }))).code).toBe("invalid_payload");
  });

  it("a command is refused, and not stored, when the name of its lane would be too long", async () => {
    const by = { tenantId: fresh("tenant").toLowerCase(), source: "test" };
    const payload = { key: "鍵".repeat(400), name: "run" };
    const { code, detail } = await refusal(() => acceptCommand(probeEnv, app, by, { type: blocked.command.type, payload }));
    expect({ code, detail }).toMatchObject({ code: "invalid_payload", detail: { issues: [{ path: "subject" }] } });
    expect(await rows("SELECT 1 FROM millrace_instances WHERE tenant_id = ?1", by.tenantId)).toEqual([]);
  });
});

it("names with half of a surrogate pair are refused, because two such names would address the same object", async () => {
  const lock = (name: string) => refusal(() => withLock(env as unknown as LockEnv, name, {}, () => undefined));
  for (const half of ["\ud800", "\ud801"]) {
    expect((await lock(`a${half}`)).code).toBe("config_invalid");
    expect((await refusal(() => counterOf(env as unknown as CounterEnv, `a${half}`).add())).code).toBe("config_invalid");
  }
});
