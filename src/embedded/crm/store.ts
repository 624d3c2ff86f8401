import { DurableObject } from "cloudflare:workers";
import { EMBEDDED_TOKEN, ID_PROPERTY, PORTAL_ID } from "../../providers/credentials.ts";
import { crmWebhookSecret } from "../../providers/hubspot-signature.ts";
import { type CrmAnswer, errorAnswer, Refused } from "./answers.ts";
import { associate, type Desk, erase, merge, read, update, upsert } from "./batches.ts";
import { type CallReport, Calls } from "./calls.ts";
import { Deliveries, type Delivery, type Target } from "./deliveries.ts";
import { type CrmFault, Faults } from "./faults.ts";
import type { CrmObjectName } from "./properties.ts";
import { propertiesOf, type RecordRow, Records } from "./records.ts";
import { SCHEMA } from "./schema.ts";

/** The variables of the embedded CRM: the variables of the CRM connector, and the target of the CRM's messages. */
export interface CrmVars {
  MILLRACE_KEY: string;
  PUBLIC_URL?: string;
  CRM_URL?: string;
  CRM_TOKEN?: string;
  CRM_ACCOUNT?: string;
  CRM_ID_PROPERTY?: string;
  CRM_BURST?: string;
  CRM_DAILY?: string;
  CRM_WEBHOOK_URL?: string;
  CRM_WEBHOOK_SECRET?: string;
}

export interface CrmCall {
  method: string;
  path: string;
  authorization: string | null;
  body: string;
}

/** The form in which the control routes return a record to tests and drills. */
export interface ShownRecord {
  id: string;
  object: CrmObjectName;
  key: string | null;
  properties: Record<string, string>;
  archived: boolean;
  merged_into: string | null;
}

/** Pause between two messages of the embedded CRM, so that other code runs on the shared thread in between. */
const PAUSE_MS = 50;
/** The default path to which the embedded CRM sends webhooks. The path names the tenant of a local engine's own token. */
const WEBHOOK_PATH = "/crm/hubspot/webhooks/acme";
const LOCAL_URL = "http://localhost:8787";

type Route = (desk: Desk, body: unknown) => CrmAnswer;

const ROUTES: Record<string, Route> = {
  "POST /crm/v3/objects/contacts/batch/upsert": (desk, body) => upsert(desk, "contacts", body),
  "POST /crm/v3/objects/companies/batch/upsert": (desk, body) => upsert(desk, "companies", body),
  "POST /crm/v3/objects/contacts/batch/update": update,
  "POST /crm/v3/objects/contacts/batch/read": (desk, body) => read(desk, "contacts", body),
  "POST /crm/v3/objects/companies/batch/read": (desk, body) => read(desk, "companies", body),
  "POST /crm/v3/objects/contacts/merge": merge,
  "POST /crm/v3/objects/contacts/gdpr-delete": erase,
  "POST /crm/v4/associations/contacts/companies/batch/associate/default": associate,
};

/**
 * The state of the embedded CRM. Every call to the store is synchronous SQL in one transaction, so calls cannot interleave. A refused call
 * changes nothing except the record of calls. The Durable Object's alarm sends the messages about changes, which are in the same storage.
 */
export class EmbeddedCrmStore extends DurableObject<CrmVars> {
  readonly #sql = this.ctx.storage.sql;
  readonly #idProperty = this.env.CRM_ID_PROPERTY || ID_PROPERTY;
  readonly #records = new Records(this.#sql, this.#idProperty, Number(this.env.CRM_ACCOUNT || PORTAL_ID));
  readonly #faults = new Faults(this.#sql);
  readonly #calls = new Calls(this.#sql, this.env);
  readonly #deliveries = new Deliveries(this.#sql);

  constructor(ctx: DurableObjectState, env: CrmVars) {
    super(ctx, env);
    this.#sql.exec(SCHEMA);
  }

  async call(call: CrmCall): Promise<CrmAnswer> {
    const at = Date.now();
    const correlationId = crypto.randomUUID();
    const body = jsonOf(call.body);
    const { headers, refused } = this.#calls.limit(at, correlationId);
    const fault = refused ? undefined : this.#faults.takeCall(`${call.path}\n${call.body}`);
    const withheld = fault && {
      ...errorAnswer(fault.refused, correlationId),
      ...(fault.retryAfter !== null && { headers: { "retry-after": String(fault.retryAfter) } }),
    };
    const done = refused ?? (withheld && !fault.afterEffect ? withheld : this.#answer(call, body, correlationId));
    const answer = withheld ?? done;

    const inputs = inputsOf(body);
    const lost = fault?.afterEffect ? 1 : 0;
    const { method, path } = call;
    this.#calls.record({ at, method, path, inputs, status: answer.status, failed: done.failed ?? 0, lost, correlation_id: correlationId });
    await this.#arm();
    return { ...answer, headers: { ...headers, ...answer.headers } };
  }

  setFaults(faults: CrmFault[]): void {
    this.#faults.set(faults);
  }

  /** Sets the target of messages about changes. With null the configured target applies. */
  setWebhookUrl(url: string | null): void {
    this.ctx.storage.kv.put("webhook_url", url);
  }

  callReport(match?: string): CallReport {
    return this.#calls.report(match);
  }

  deliveryReport(): { deliveries: Delivery[]; waiting: number } {
    return this.#deliveries.report();
  }

  list(object: CrmObjectName): ShownRecord[] {
    return this.#sql.exec<RecordRow>("SELECT * FROM records WHERE object = ? ORDER BY id", object).toArray().map(shown);
  }

  associations(): { contact: string; company: string }[] {
    const rows = this.#sql.exec<{ contact: number; company: number }>("SELECT contact, company FROM associations ORDER BY 1, 2").toArray();
    return rows.map(({ contact, company }) => ({ contact: String(contact), company: String(company) }));
  }

  /**
   * Makes a person's edit in the CRM. The edit creates a contact (no id), changes a contact, or removes a contact (no properties). The
   * method returns undefined for an unknown contact, and the reason if the edit is refused.
   */
  async edit(id: string | null, properties: Record<string, string> | null): Promise<ShownRecord | string | undefined> {
    try {
      const row = id === null ? undefined : this.#records.find("contacts", id);
      if (id !== null && !row) return undefined;
      const edited = this.ctx.storage.transactionSync(() => {
        if (!row) return this.#records.create("contacts", properties ?? {}, "CRM_UI");
        if (properties) return this.#records.change(row, properties, "CRM_UI");
        this.#records.archive(row, "CRM_UI");
        return { ...row, archived: 1 };
      });
      await this.#arm();
      return shown(edited);
    } catch (error) {
      if (error instanceof Refused) return error.message;
      throw error;
    }
  }

  override async alarm(): Promise<void> {
    try {
      await this.#deliveries.sendDue(this.#target());
    } finally {
      await this.#arm();
    }
  }

  #answer({ method, path, authorization }: CrmCall, body: unknown, correlationId: string): CrmAnswer {
    const desk = { sql: this.#sql, records: this.#records, faults: this.#faults, idProperty: this.#idProperty, correlationId };
    try {
      if (authorization !== `Bearer ${this.env.CRM_TOKEN || EMBEDDED_TOKEN}`) {
        throw new Refused(
          401,
          "INVALID_AUTHENTICATION",
          "Authentication credentials not found. This API supports OAuth 2.0 authentication.",
        );
      }
      const route = ROUTES[`${method} ${path}`];
      if (!route) throw new Refused(404, "OBJECT_NOT_FOUND", `The embedded CRM has no ${method} ${path}.`);
      return this.ctx.storage.transactionSync(() => route(desk, body));
    } catch (error) {
      if (error instanceof Refused) return errorAnswer(error, correlationId);
      throw error;
    }
  }

  async #arm(): Promise<void> {
    const nextAt = this.#deliveries.nextAt();
    if (nextAt === undefined) return;
    const set = await this.ctx.storage.getAlarm();
    if (set === null || set > nextAt) await this.ctx.storage.setAlarm(Math.max(nextAt, Date.now() + PAUSE_MS));
  }

  /**
   * The receiver of the embedded CRM's messages. By default the receiver is this Worker, which the CRM calls directly but with the Worker's
   * public URL.
   */
  #target(): Target {
    const secret = () => crmWebhookSecret(this.env);
    const here = (this.env.PUBLIC_URL || LOCAL_URL).replace(/\/+$/, "");
    const url = this.ctx.storage.kv.get<string | null>("webhook_url") || this.env.CRM_WEBHOOK_URL || here + WEBHOOK_PATH;
    const own = (this.ctx.exports as unknown as { default: Fetcher }).default;
    return { url, secret, fetch: (request) => (url.startsWith(`${here}/`) ? own.fetch(request) : fetch(request)) };
  }
}

function shown(row: RecordRow): ShownRecord {
  const { id, object, key, archived, merged_into } = row;
  return {
    id: String(id),
    object,
    key,
    properties: propertiesOf(row),
    archived: archived === 1,
    merged_into: merged_into === null ? null : String(merged_into),
  };
}

function inputsOf(body: unknown): number {
  const inputs = typeof body === "object" && body !== null && "inputs" in body ? body.inputs : [];
  return Array.isArray(inputs) ? inputs.length : 0;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
