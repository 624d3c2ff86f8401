import { env } from "cloudflare:workers";
import { atomically, type Commit, type Envelope, type Steps } from "millrace";
import { writeContacts } from "../../../src/systems/contacts/contact.ts";
import { takeChange } from "../../../src/systems/crm/change.ts";
import { syncChunk } from "../../../src/systems/crm/chunk.ts";
import { commandsFrom, eventsIn } from "../../../src/systems/crm/notices.ts";
import { syncContact } from "../../../src/workflows/sync-contact.ts";
import { type Caller, fresh, type Json } from "../../api/client.ts";
import { event } from "./crm.ts";

/** All contacts belong to one tenant: no two contacts have one record. */
let ids = 1000;

/** A CRM in memory, with the part of HubSpot's format that a sync of people without companies needs. */
class MemoryCrm {
  readonly records = new Map<string, { key: string; properties: Record<string, string>; updatedAt: number }>();

  async answer(request: Request): Promise<Response> {
    const { idProperty, inputs } = (await request.json()) as {
      idProperty?: string;
      inputs: { id: string; objectWriteTraceId?: string; properties: Record<string, string> }[];
    };
    if (request.url.endsWith("/read")) {
      const results = inputs.flatMap(({ id: asked }) => {
        const id = idProperty === undefined ? asked : (this.#named(asked) ?? "");
        const record = this.records.get(id);
        return record ? [{ id, properties: { ...record.properties }, updatedAt: new Date(record.updatedAt).toISOString() }] : [];
      });
      return Response.json({ results });
    }
    const results = inputs.map(({ id: key, objectWriteTraceId, properties }) => {
      const found = this.#named(key) ?? String(++ids);
      this.write(found, properties, key);
      return { id: found, new: false, objectWriteTraceId, properties };
    });
    return Response.json({ results });
  }

  #named(key: string): string | undefined {
    return [...this.records].find(([, record]) => record.key === key)?.[0];
  }

  write(id: string, properties: Record<string, string>, key?: string): void {
    const before = this.records.get(id);
    this.records.set(id, {
      key: key ?? before?.key ?? "",
      properties: { ...before?.properties, ...properties },
      updatedAt: Math.max(Date.now(), (before?.updatedAt ?? 0) + 1),
    });
  }
}

/** A worker on the contact: it runs step by step, and each step waits for a gate. */
type Actor = (at: (gate: string) => Promise<void>, env: Cloudflare.Env) => Promise<void>;

interface Waiting {
  gate: string;
  go: () => void;
}

/** Chooses the next worker by index. */
export type Choose = (count: number) => number;

const never = new Promise<never>(() => undefined);

/** One contact of a tenant, in the engine and in a CRM, and its workers in a given order. */
export class Stage {
  readonly crm = new MemoryCrm();
  readonly #caller: Caller;
  readonly #contact = fresh("c");
  readonly #names = new Set<string>();

  constructor(caller: Caller) {
    this.#caller = caller;
  }

  get #envelope(): Envelope {
    return { tenant_id: this.#caller.tenantId } as Envelope;
  }

  /** Both sides have the contact, with equal values. */
  async begin(): Promise<void> {
    await this.#write({ phone: "0", city: "0" });
    await this.#syncOnce(this.#env());
  }

  /** Syncs all contacts, of which only this one has changed. */
  readonly sync: Actor = async (at, env) => {
    await this.#commits(at, () => this.#chunk(env, this.#name()));
  };

  /** Syncs this one. */
  readonly one: Actor = async (at, env) => {
    const instanceId = this.#name();
    const step = { commit: (_name: string, make: () => Promise<Commit<unknown>>) => this.#commits(at, make) } as unknown as Steps;
    const payload = { contact_id: this.#contact, occasion: instanceId };
    await syncContact.run({ payload, step, env, envelope: this.#envelope, instanceId, deployment: { signalled: new Set() } });
  };

  /** A file changes the contact in the engine. */
  here(properties: Json): Actor {
    return async (at) => {
      await at("change here");
      await this.#write(properties);
    };
  }

  /** A user changes the contact in the CRM, and the webhook is delivered. */
  there(properties: Record<string, string>): Actor {
    return async (at, env) => {
      await at("change there");
      const [id] = [...this.crm.records.keys()];
      this.crm.write(id ?? "", properties);
      const events = Object.entries(properties).map(([propertyName, propertyValue]) => event(id ?? "", { propertyName, propertyValue }));
      await at("notice");
      for (const { payload } of await commandsFrom(env, this.#caller.tenantId, eventsIn(events).events)) {
        const instanceId = this.#name();
        await this.#commits(at, () =>
          takeChange({ env, envelope: this.#envelope, instanceId, notice: { ...(payload as object), merged: [] } as never }),
        );
      }
    };
  }

  /** Runs all workers, one gate at a time, in the order of `choose`; the worker `dies` never passes that gate. Returns a readable log. */
  async play(actors: Readonly<Record<string, Actor>>, choose: Choose, dies?: { actor: string; gate: number }): Promise<string[]> {
    const waiting = new Map<string, Waiting>();
    const course: string[] = [];
    let working = 0;
    let rest = Promise.withResolvers<void>();
    const arrive = () => {
      if (--working === 0) rest.resolve();
    };
    const failures: unknown[] = [];
    for (const [name, actor] of Object.entries(actors)) {
      let gates = 0;
      const at = (gate: string) => {
        if (dies?.actor === name && gates++ === dies.gate) {
          course.push(`${name} dies before ${gate}`);
          void this.#expire().then(arrive);
          return never;
        }
        return new Promise<void>((go) => {
          waiting.set(name, { gate, go });
          arrive();
        });
      };
      working++;
      void actor(at, this.#env(at))
        .catch((error) => failures.push(error))
        .finally(arrive);
    }
    for (;;) {
      await rest.promise;
      if (failures.length > 0) throw failures[0];
      const names = [...waiting.keys()].sort();
      if (names.length === 0) return course;
      const name = names[choose(names.length)] ?? "";
      const { gate, go } = waiting.get(name) as Waiting;
      waiting.delete(name);
      course.push(`${name}: ${gate}`);
      rest = Promise.withResolvers();
      working++;
      go();
    }
  }

  /** All messages are delivered, dead workers are aborted, and one more sync runs. Returns the state of each side. */
  async settled(): Promise<{ here: Json; there: Json; pending: boolean }> {
    await this.#expire();
    await this.#syncOnce(this.#env());
    const key = [this.#caller.tenantId, this.#contact];
    const row = await env.DB.prepare(
      `SELECT c.properties, c.revision <> l.revision AS pending FROM contacts c JOIN crm_links l USING (tenant_id, contact_id)
       WHERE tenant_id = ?1 AND contact_id = ?2`,
    )
      .bind(...key)
      .first<{ properties: string; pending: number }>();
    const [record] = [...this.crm.records.values()];
    const both = ({ phone, city }: Json) => ({ phone, city });
    return { here: both(JSON.parse(row?.properties ?? "{}")), there: both(record?.properties ?? {}), pending: row?.pending !== 0 };
  }

  #name(): string {
    const name = crypto.randomUUID().replaceAll("-", "");
    this.#names.add(name);
    return name;
  }

  #chunk(over: Cloudflare.Env, instanceId: string) {
    return syncChunk(
      { env: over, envelope: this.#envelope, instanceId, syncId: instanceId, scope: "changed" },
      { after: "", waiting: 0, mayCut: false },
    );
  }

  async #syncOnce(over: Cloudflare.Env): Promise<void> {
    await atomically(env.DB, (await this.#chunk(over, this.#name())).statements ?? []);
  }

  /** A step's function: its write, and a repeat of the whole step if the write is refused. Returns its output. */
  async #commits(at: (gate: string) => Promise<void>, step: () => Promise<Commit<unknown>>): Promise<unknown> {
    for (let tries = 0; ; tries++) {
      const { statements = [], output } = await step();
      await at("commit");
      const refusal = await atomically(env.DB, statements).catch((error: unknown) => error);
      if (Array.isArray(refusal)) return output;
      if (tries > 5 || !String(refusal).includes("contact_changed_meanwhile")) throw refusal;
    }
  }

  async #write(properties: Json): Promise<void> {
    const now = await env.DB.prepare("SELECT properties FROM contacts WHERE tenant_id = ?1 AND contact_id = ?2")
      .bind(this.#caller.tenantId, this.#contact)
      .first<{ properties: string }>();
    const row = {
      contact_id: this.#contact,
      email: `${this.#contact}@${this.#caller.tenantId}.example.com`,
      name: "",
      properties: { ...JSON.parse(now?.properties ?? "{}"), ...properties },
    };
    await atomically(env.DB, [writeContacts(this.#caller.tenantId, "a file", JSON.stringify([row]))]);
  }

  /** Simulates passing time, for dead workers that hold contacts. */
  async #expire(): Promise<void> {
    await env.DB.prepare("UPDATE crm_sends SET until = 0 WHERE tenant_id = ?1").bind(this.#caller.tenantId).run();
  }

  /** The deployment, with gates before each effect visible from outside: reads and records in the engine, and every call to the CRM. */
  #env(at?: (gate: string) => Promise<void>): Cloudflare.Env {
    const texts = new WeakMap<object, string>();
    const gateOf = (text: string) =>
      /INSERT INTO crm_sends|UPDATE crm_sends/.test(text)
        ? "record"
        : /c\.contact_id, c\.email|AS expired FROM/.test(text)
          ? "read here"
          : undefined;
    const DB = {
      prepare: (text: string) => ({
        bind: (...values: unknown[]) => {
          const bound = env.DB.prepare(text).bind(...values);
          texts.set(bound, text);
          return bound;
        },
      }),
      batch: async (statements: D1PreparedStatement[]) => {
        const gate = gateOf(texts.get(statements[0] as object) ?? "");
        if (gate) await at?.(gate);
        return env.DB.batch(statements);
      },
    };
    const fetch = async (request: Request) => {
      await at?.(request.url.endsWith("/read") ? "read there" : "upsert");
      return this.crm.answer(request);
    };
    return { ...env, DB, EMBEDDED_CRM: { fetch }, CRM_BURST: "1000000", CRM_DAILY: "1000000" } as unknown as Cloudflare.Env;
  }
}
