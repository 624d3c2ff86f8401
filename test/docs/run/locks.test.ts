import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect, it } from "vitest";
import locks from "../../../docs/locks.md?raw";
import { callerWith } from "../../api/client.ts";
import { followDocument } from "./follow.ts";

it("every command of docs/locks.md prints the output under it", { timeout: 90_000 }, async () => {
  const { token, tenantId } = await callerWith();
  const name = "books/berlin";
  const stub = env.LOCK.getByName(`${tenantId}/${name}`);
  const wanted = { id: "closing", who: "closing", ttlMs: 600_000, waitMs: 0, tenantId, name };
  expect(await stub.acquire(wanted)).toMatchObject({ token: expect.any(Number) });
  await runInDurableObject(stub, (_, { storage }) => {
    const state = storage.kv.get<{ holder: object }>("state");
    storage.kv.put("state", { ...state, holder: { ...state?.holder, since: Date.now() - 11_000 } });
  });
  expect(await stub.renew("closing", 600_000)).toBe(true);
  expect(await followDocument(locks, { given: { TOKEN: token } })).toBe(4);
});
