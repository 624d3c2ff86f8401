import pRetry from "p-retry";
import type { crmLinks } from "../../../../../src/api/crm-links.ts";
import type { crmSyncs } from "../../../../../src/api/crm-syncs.ts";
import { apiOf, askerOf, type Instance, type Output } from "../../api-client.ts";
import { Refusal } from "../../command.ts";

export type Sync = Output<ReturnType<typeof crmSyncs>, "/v1/crm/syncs/:id", "$get">;
type FailurePage = Output<ReturnType<typeof crmSyncs>, "/v1/crm/syncs/:id/failures", "$get">;
type LinkPage = Output<ReturnType<typeof crmLinks>, "/v1/crm/links", "$get">;

/** A record as the embedded CRM shows it. */
export interface CrmRecord {
  id: string;
  key: string | null;
  properties: Record<string, string>;
  archived: boolean;
}

/** What the embedded CRM was asked. */
interface Calls {
  calls: { path: string; inputs: number; status: number }[];
  total: number;
  refused_by_limit: number;
  most_in_10_seconds: number;
}

/** A rule by which the embedded CRM fails. */
interface CrmFault {
  match: string;
  key?: string;
  status: number;
  category?: string;
  remaining: number | null;
  retryAfter?: number;
}

/** Everything asked for here bears repetition. A machine with much to do answers late. */
const PATIENCE = { retries: 3, minTimeout: 500 };

/** What the story needs of an engine's API, and of the CRM behind it. */
export function crmApi(url: string, token: string) {
  const once = askerOf(url, token);
  const ask: typeof once = (method, path, body, headers) => pRetry(() => once(method, path, body, headers), PATIENCE);
  const { batch, importCsv, appendFacts, enqueue, instance, retry } = apiOf(url, token);
  /** Asks for work. Answers its instance. */
  async function command(type: string, payload: object): Promise<string> {
    const [result] = await pRetry(() => enqueue([{ type, payload }]), PATIENCE);
    if (!result || "problem" in result) throw new Refusal(`${type} was refused: ${result?.problem.detail}`);
    return result.instance_id;
  }
  return {
    batch,
    importCsv: (id: string, dataset: string, text: string) => pRetry(() => importCsv(id, dataset, text), PATIENCE),
    appendFacts: (facts: Parameters<typeof appendFacts>[0]) => pRetry(() => appendFacts(facts), PATIENCE),
    sync: (id: string) => command("contacts.sync", { sync_id: id }),
    command,
    instance: (id: string) => pRetry(() => instance(id), PATIENCE),
    retry: (id: string, reason: string) => pRetry(() => retry(id, reason), PATIENCE),
    /** Asked once: whoever follows a sync asks again by himself. */
    syncState: (id: string) => once<Sync>("GET", `/v1/crm/syncs/${id}`),
    failures: async (id: string) => (await ask<FailurePage>("GET", `/v1/crm/syncs/${id}/failures?limit=1000`)).items,
    link: async (contact: string) => (await ask<LinkPage>("GET", `/v1/crm/links?contact_id=${contact}`)).items[0],
    /** The looks that the CRM's notices asked for. */
    looks: async () => (await ask<{ items: Instance[] }>("GET", "/v1/instances?workflow=take-crm-change&limit=200")).items,
    contact: async (id: string) =>
      (
        await ask<{ items: { contact_id: string; properties: Record<string, unknown>; revision: number }[] }>(
          "GET",
          `/v1/contacts?contact_id=${id}`,
        )
      ).items[0],
    knownAs: async (id: string) => (await ask<{ canonical_id: string }>("GET", `/v1/contacts/${id}`)).canonical_id,
    /** Forgets a person, or only says what would go. */
    forget: (id: string, isDry: boolean) =>
      ask<{ found: Record<string, number>; instance_id: string }>("POST", "/v1/contacts/forget", {
        contact_id: id,
        reason: "asked for it",
        dry_run: isDry,
      }),
    setFaults: (faults: CrmFault[]) => ask<void>("PUT", "/embedded/crm/faults", faults),
    edit: (id: string, properties: Record<string, string>) => ask<CrmRecord>("POST", "/embedded/crm/edits", { id, properties }),
    calls: () => ask<Calls>("GET", "/embedded/crm/calls"),
    records: async () => (await ask<{ records: CrmRecord[] }>("GET", "/embedded/crm/contacts")).records,
    deliveries: () =>
      ask<{ deliveries: { events: number[]; status: number | null }[]; waiting: number }>("GET", "/embedded/crm/deliveries"),
  };
}

export type CrmApi = ReturnType<typeof crmApi>;
