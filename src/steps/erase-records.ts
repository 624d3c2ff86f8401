import { defineStep, type EffectCall, sql } from "millrace";
import { type Crm, crm } from "../providers/index.ts";
import { readOf } from "../systems/crm/account.ts";
import { recordsOf } from "../systems/privacy/forget.ts";

interface Input {
  tenantId: string;
  /** The pseudonym of the person to be erased. */
  person: string;
}

/**
 * Deletes a person's records in the CRM permanently. Records without a key of this app belong to other programs, and are ignored. The step
 * returns the count of deleted records and the count of ignored records.
 */
export const eraseRecords = defineStep({
  effect: "natural",
  retries: { limit: 8, delay: "5 seconds", backoff: "exponential" },
  timeout: "2 minutes",
  async run({ input, key, signal, trace, env }: EffectCall<Input>): Promise<{ erased: number; left: number }> {
    const { records, unsure } = await recordsOf({ ...input, env: env as Env });
    if (records.length + unsure.length === 0) return { erased: 0, left: 0 };
    // An id that belongs to this person in one CRM account may belong to another person in another CRM account.
    await readOf(env, input.tenantId, sql`SELECT 1`);
    const upstream = crm(env, input.tenantId);
    const options = { key, signal, trace };
    const ours = new Set([...records.map(({ key: name }) => name), ...unsure]);
    const there = await recordsThere(upstream, records, options);
    const theirs = there.filter((one) => one.key !== null && ours.has(one.key));
    const found = [...theirs.map(({ crmId }) => crmId), ...(await named(upstream, unsure, options))];
    for (const crmId of new Set(found)) await upstream.erase(crmId, options);
    return { erased: new Set(found).size, left: there.length - theirs.length };
  },
});

type Options = Parameters<Crm["read"]>[1];

async function recordsThere(upstream: Crm, records: readonly { crmId: string }[], options: Options) {
  if (records.length === 0) return [];
  const { found, refused } = await upstream.read([...new Set(records.map(({ crmId }) => crmId))], options, []);
  const [why] = refused.values();
  if (why) throw new Error(`The CRM refused to show a record that is to be erased: ${why.category}.`);
  return found.filter(({ archived }) => !archived);
}

/**
 * Finds records that an interrupted push may have created, by an upsert. The upsert returns the existing record or creates an empty record.
 * The empty record is also deleted.
 */
async function named(upstream: Crm, keys: readonly string[], options: Options): Promise<string[]> {
  if (keys.length === 0) return [];
  const outcomes = await upstream.upsert(
    "contacts",
    keys.map((key) => ({ key, properties: {} })),
    options,
  );
  return outcomes.flatMap((outcome) => (outcome.state === "done" ? [outcome.crmId] : []));
}
