import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { expect } from "vitest";
import { budgetOf } from "../../../src/systems/facts/derived/budgets.ts";
import { callerWith, fresh } from "../../api/client.ts";
import { deliver, recordedFact } from "./derived.ts";

/** A caller with an account that has a limit. */
export async function account(limit_cents?: number) {
  const caller = await callerWith();
  const name = fresh("account");
  const path = `/v1/budgets/${name}`;
  const setLimit = (cents: number) => caller.call("PUT", path, { limit_cents: cents });
  if (limit_cents !== undefined) expect((await setLimit(limit_cents)).status).toBe(200);
  const object = budgetOf(env, caller.tenantId, name);
  let charges = 0;
  return {
    caller,
    name,
    path,
    object,
    setLimit,
    state: async () => (await caller.get(path)).body,
    ask: (amount_cents: number, key = fresh("key"), more = {}) =>
      caller.post(`${path}/asks`, { amount_cents, ...more }, { "idempotency-key": key }).then(({ body }) => body),
    release: async (hold: string) => (await caller.call("DELETE", `${path}/holds/${hold}`)).body,
    /** Delivers a charge, as the account's ledger does. */
    charge: (amount_cents: number, hold?: string, sequence = ++charges) => {
      const payload = { account: name, amount_cents, ...(hold && { hold }) };
      return deliver([recordedFact(caller.tenantId, "charge", `c${sequence}`, payload, { entity: `account/${name}`, sequence })]);
    },
    /** Expires a hold. */
    expire: (hold: string) =>
      runInDurableObject(
        object,
        (_, { storage }) => void storage.sql.exec("UPDATE holds SET until = ? WHERE hold = ?", Date.now() - 1, hold),
      ),
    /** Ages all rows. */
    age: (ms: number) => runInDurableObject(object, (_, { storage }) => void storage.sql.exec("UPDATE holds SET until = until - ?", ms)),
  };
}
