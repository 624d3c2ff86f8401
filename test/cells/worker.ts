import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, millrace, on, project, sql, start } from "millrace";
import { defineLaneQueue, engineLanes } from "millrace/lanes";
import { AlertChanged, entrypoint } from "millrace/worker";
import * as z from "zod";

// A Worker with five databases, of which four are cells. Each order writes a row, and its event writes another.

const Ordered = defineEvent({
  type: "cells.ordered",
  payload: z.object({ id: z.string() }),
  subject: ({ id }) => id,
  queue: defineQueue({ name: "cell-events" }),
});

const INTO = "INSERT INTO probe_rows (id, kind, name)";

const row = (kind: string, tenant: string, id: string) =>
  sql`${sql.fragment(INTO)} VALUES (${`${kind}/${tenant}/${id}`}, ${kind}, ${tenant})`;

/** A repeated statement of `project` must change nothing. */
const projected = (tenant: string, id: string) => ({
  text: `${INTO} SELECT value->>'id', 'event', value->>'tenant' FROM json_each(?1) WHERE true ON CONFLICT DO NOTHING`,
  row: { id: `event/${tenant}/${id}`, tenant },
});

const order = defineWorkflow({
  name: "order",
  input: z.object({ id: z.string() }),
  key: ({ id }) => id,
  async run({ input: { id }, step, envelope: { tenant_id: tenant } }) {
    await step.commit("write", () => ({ statements: [row("order", tenant, id)], emit: [Ordered.from({ id })] }));
    return tenant;
  },
});

/** Fails while the database of its cell has its row. */
const strict = defineWorkflow({
  name: "strict",
  input: z.object({ id: z.string() }),
  key: ({ id }) => id,
  async run({ input: { id }, step, env, envelope: { tenant_id: tenant } }) {
    const { DB } = env as unknown as { DB: D1Database };
    const found = await DB.prepare("SELECT 1 FROM probe_rows WHERE id = ?").bind(`strict/${tenant}/${id}`).first();
    if (found !== null) throw new Error("The row exists.");
    await step.commit("write", () => ({ statements: [row("strict", tenant, id)] }));
  },
});

/** Waits for an event that the tests never send. */
const patient = defineWorkflow({
  name: "patient",
  input: z.object({ id: z.string() }),
  key: ({ id }) => id,
  async run({ step, input: { id } }) {
    await step.waitFor("ordered", Ordered, { subject: `never-${id}`, timeout: "1 day" });
  },
});

const ship = defineWorkflow({
  name: "ship",
  on: defineCommand({
    type: "cells.ship",
    payload: z.object({ id: z.string() }),
    key: ({ id }) => id,
    subject: () => "harbour",
    queue: defineLaneQueue({ name: "ships" }),
  }),
  async run({ payload: { id }, step, envelope: { tenant_id: tenant } }) {
    await step.commit("write", () => ({ statements: [row("ship", tenant, id)] }));
  },
});

/** Writes a row for each notice of an alert. */
const noted = defineWorkflow({
  name: "noted",
  on: AlertChanged,
  async run({ payload: { alert_id: id, rule }, step }) {
    await step.commit("write", () => ({ statements: [row("notice", rule, id)] }));
  },
});

const { catalog, handler, ...classes } = millrace({
  workflows: [order, noted, patient, strict],
  consumers: [
    defineConsumer({ queue: AlertChanged.queue, routes: [on(AlertChanged, start(noted))] }),
    defineConsumer({ queue: ship.on.queue, starts: [ship], concurrency: 1, onFailure: "block" }),
    defineConsumer({
      queue: Ordered.queue,
      routes: [
        on(
          Ordered,
          project(({ payload: { id }, envelope: { tenant_id: tenant } }) => projected(tenant, id)),
        ),
      ],
    }),
  ],
});
export const { Runs, Recorder, Keeper } = classes;
export class Lanes extends engineLanes(catalog) {}
export class Ship extends entrypoint(ship, catalog) {}
export { handler as default };
