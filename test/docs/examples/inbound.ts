import { defineWorkflow, millrace, sql } from "millrace";
import { type InboundSource, inboundRoutes, webhooks } from "millrace/http";
import * as z from "zod";

const invoice = z.object({ id: z.string().min(1), amount_paid: z.int() });

/** Records a payment. Its schema names the fields that it needs of the sender's event; the others are not stored. */
export const recordPayment = defineWorkflow({
  name: "record-payment",
  input: z.object({ data: z.object({ object: invoice }) }),
  async run({ input, step, envelope: { tenant_id } }) {
    const { id, amount_paid } = input.data.object;
    const row = sql`INSERT INTO paid_invoices (tenant_id, id, amount, at) VALUES (${tenant_id}, ${id}, ${amount_paid}, ${sql.now})`;
    await step.commit("record", () => ({ statements: [row] }));
  },
});

export const buildSite = defineWorkflow({
  name: "build-site",
  input: z.object({ ref: z.string().min(1) }),
  async run({ input, step }) {
    return step.commit("build", () => ({ output: { built: input.ref } }));
  },
});

const slashCommand = z.object({ text: z.string() });

export const sources: readonly InboundSource[] = [
  {
    name: "stripe",
    scheme: webhooks.stripe,
    // Both are valid during a rotation.
    secrets: ["STRIPE_SECRET", "STRIPE_SECRET_OLD"],
    tenantId: "acme",
    map: ({ type, body }) => (type === "invoice.paid" ? { command: recordPayment.command, payload: body } : undefined),
  },
  {
    name: "github",
    scheme: webhooks.github,
    secrets: ["GITHUB_SECRET"],
    tenantId: "acme",
    map: ({ type, body }) => (type === "push" ? { command: buildSite.command, payload: body } : undefined),
  },
  {
    name: "slack",
    scheme: webhooks.slack,
    secrets: ["SLACK_SIGNING_SECRET"],
    tenantId: "acme",
    map({ type, body }) {
      if (type !== "/build") return undefined;
      return { command: buildSite.command, payload: { ref: slashCommand.parse(body).text } };
    },
  },
  {
    name: "shop",
    scheme: webhooks.standard,
    secrets: ["SHOP_SECRET"],
    tenantId: "acme",
    map: ({ type, body }) => (type === "invoice.paid" ? { command: recordPayment.command, payload: body } : undefined),
  },
];

export const { catalog, handler, Runs, Recorder, Keeper } = millrace({
  workflows: [recordPayment, buildSite],
  http: { routes: [inboundRoutes(sources)] },
});
export default handler;
