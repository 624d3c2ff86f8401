import { defineStep, type EffectCall, sql } from "millrace";
import { type Crm, crm } from "../providers/index.ts";
import { readOf } from "../systems/crm/account.ts";
import { recordsOf } from "../systems/privacy/forget.ts";

interface Input {
  tenantId: string;
  /** The person's pseudonym. */
  person: string;
}

/**
 * Erases a person's records in the CRM for good. A record that does not bear our name is somebody else's by now, and is left. Answers how
 * many went, and how many were left.
 */
export const eraseRecords = defineStep({
  effect: "natural",
  retries: { limit: 8, delay: "5 seconds", backoff: "exponential" },
  timeout: "2 minutes",
  async run({ input, key, signal, trace, env }: EffectCall<Input>): Promise<{ erased: number; left: number }> {
    const { records, unsure } = await recordsOf({ ...input, env: env as Env });
    if (records.length + unsure.length === 0) return { erased: 0, left: 0 };
    // The ids of one account are other people's in another.
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

/** What a push that died may have made is found by making it: that answers the record there is, or an empty one, which goes as well. */
async function named(upstream: Crm, keys: readonly string[], options: Options): Promise<string[]> {
  if (keys.length === 0) return [];
  const outcomes = await upstream.upsert(
    "contacts",
    keys.map((key) => ({ key, properties: {} })),
    options,
  );
  return outcomes.flatMap((outcome) => (outcome.state === "done" ? [outcome.crmId] : []));
}
