import { defineCommand, defineConsumer, defineEvent, defineQueue, defineWorkflow, on, query, type Routed, sendEach, sql } from "millrace";
import * as z from "zod";
import { sendMail } from "./steps.ts";

const queue = defineQueue({ name: "digest-commands" });
const events = defineQueue({ name: "digest-events" });
const digest = z.object({ list: z.string().min(1), issue: z.string().min(1).default("by hand") });
const copy = z.object({ issue: z.string(), reader: z.string(), email: z.email() });
const subject = ({ list }: { list: string }) => list;

/** A digest is due. A schedule names each issue by its time; by hand, `issue` does. */
const DigestDue = defineCommand({ type: "digest.due", payload: digest, key: ({ issue }) => issue, subject, queue });
const DigestBegun = defineEvent({ type: "digest.begun", payload: digest, subject, queue: events });
export const DigestMail = defineCommand({
  type: "digest.mail",
  payload: copy,
  key: ({ issue, reader }) => `${issue}/${reader}`,
  subject: ({ reader }) => reader,
  queue,
});

export const sendDigest = defineWorkflow({
  name: "send-digest",
  on: DigestDue,
  run: ({ payload: { list }, instanceId, step }) => step.commit("begin", () => ({ emit: [DigestBegun.from({ list, issue: instanceId })] })),
});

export const mailDigest = defineWorkflow({
  name: "mail-digest",
  on: DigestMail,
  run: ({ payload: { email }, step }) => step.effect("mail", sendMail, { to: email, text: "What was new this week" }),
});

const copies = ({ payload: { list, issue }, env }: Routed<z.infer<typeof digest>>) =>
  query<z.infer<typeof copy>>(env.DB, sql`SELECT ${issue} AS issue, id AS reader, email FROM readers WHERE list = ${list} ORDER BY id`);

export const digestConsumers = [
  defineConsumer({ queue, batch: { size: 50, waitSeconds: 0 }, starts: [sendDigest, mailDigest] }),
  defineConsumer({ queue: events, routes: [on(DigestBegun, sendEach(DigestMail, copies, undefined, { ratePerSecond: 50 }))] }),
];
