import * as z from "zod";
import { inDevelopment } from "../../contract/development.ts";
import { durationMs } from "../../contract/duration.ts";
import { MillraceError } from "../../contract/errors.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { laneIn } from "../../contract/queue.ts";
import { component, listOf } from "../../contract/row.ts";
import { CheckedMessage, checkMessage, MessageDraft } from "../../inspect/check-message.ts";
import { SEEN_INSTANCES, Seen, seenSteps } from "../../inspect/seen-steps.ts";
import { asRefusal } from "../../intake/accept/enqueue.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { messagesIn, queuesIn } from "../../topology/described.ts";
import { jsonSchema } from "../body.ts";
import { needs, operation } from "../operation.ts";
import { ProblemSchema, problemOf } from "../problem.ts";

const KINDS = ["command", "event"] as const;

const MessageSchema = component("CatalogMessage", {
  type: z.string(),
  kind: z.enum(KINDS),
  version: z.int().describe("Of its payload."),
  queue: z.string().describe("The queue or lane of the message."),
  access: z
    .object({
      scope: z.string().nullable().describe("The scope required to send it; null if no token may send it."),
      route: z.string().describe("The route for this message."),
    })
    .nullable()
    .describe("How the message arrives from outside; null if only this deployment emits it."),
  payload_schema: z.looseObject({}).describe("The JSON Schema of the payload, with `examples` if the definition has any."),
  workflow: z.string().nullable().describe("The workflow that handles a command."),
  targets: listOf({
    do: z.enum(["start", "send", "signal", "project", "call"]),
    workflow: z.string().nullable().describe("Of `start`."),
    type: z.string().nullable().describe("For `send`: the command."),
  }).describe("The targets of an event."),
});

const QueueSchema = component("CatalogQueue", {
  name: z.string(),
  is_lane: z.boolean().describe("Messages of one key are processed in order."),
  kind: z.enum(["commands", "events"]),
  retries: z.object({ limit: z.int(), initial_seconds: z.number(), max_seconds: z.number() }),
  batch_size: z.int(),
  batch_wait_seconds: z.number().describe("The longest wait of a batch for more messages."),
  concurrency: z.int().describe("Concurrent batches; for a lane, concurrent instances of one key."),
  has_priorities: z.boolean(),
  is_external: z.boolean().describe("Another Worker consumes it."),
  dead_letter_queue: z.string().nullable().describe("Null for a lane."),
  messages: z.array(z.string()).describe("Their types."),
  workflows: z.array(z.string()).describe("Started by its messages."),
  producers: listOf({ by: z.enum(["request", "route", "workflow"]), name: z.string() }).describe(
    "HTTP routes, events with a route that sends, and observed workflows.",
  ),
});

const WorkflowSchema = component("CatalogWorkflow", {
  name: z.string(),
  on: z.object({ kind: z.enum(KINDS), type: z.string() }).describe("The command or event that starts it."),
  deadline_seconds: z.number().nullable().describe("An instance that runs longer is overdue; null without a deadline."),
  step_mode: z.enum(["platform", "inline"]).describe("The default step mode."),
  ...Seen.shape,
});

const CatalogSchema = component("Catalog", {
  messages: z.array(MessageSchema),
  queues: z.array(QueueSchema),
  workflows: z.array(WorkflowSchema),
  seen_instances: z.int().describe("The number of newest instances that `steps` and `emits` are based on."),
  first_command: z
    .object({ type: z.string(), payload: z.unknown(), why: z.string() })
    .nullable()
    .describe("A first command to try, on a development engine."),
});

const CheckedSchema = CheckedMessage.extend({
  refused: z.union([ProblemSchema, z.null()]).describe("The problem that would be returned, if `refused`."),
}).meta({ id: "CheckedMessage" });

type QueueView = z.infer<typeof QueueSchema>;
type WorkflowView = z.infer<typeof WorkflowSchema>;

/** The first request builds the messages and queues of a catalog. */
const declared = new WeakMap<Catalog, Pick<z.infer<typeof CatalogSchema>, "messages" | "queues">>();

function declaredIn(catalog: Catalog) {
  const known = declared.get(catalog);
  if (known) return known;
  const messages = messagesIn(catalog).map(({ definition: { type, kind, version, queue, access, payload }, workflow, targets }) => ({
    ...{ type, kind, version, workflow },
    queue: laneIn(queue.name) ?? queue.name,
    access: access ? { ...access } : null,
    payload_schema: jsonSchema(payload),
    targets: targets.map((one) => ({ ...one })),
  }));
  const made = { messages, queues: queuesIn(catalog).map((queue) => ({ ...queue, workflows: [] })) };
  declared.set(catalog, made);
  return made;
}

/** Adds to a queue the workflows that its messages start, and the workflows that were observed to send them. */
function withObserved(queue: QueueView, workflows: readonly WorkflowView[]): QueueView {
  const carries = ({ type }: { type: string }) => queue.messages.includes(type);
  const senders = workflows.filter(({ emits }) => emits.some(carries));
  return {
    ...queue,
    workflows: workflows.filter(({ on }) => carries(on)).map(({ name }) => name),
    producers: [...queue.producers, ...senders.map(({ name }) => ({ by: "workflow" as const, name }))],
  };
}

function workflowsIn({ workflows }: Catalog, seen: ReadonlyMap<string, z.infer<typeof Seen>>): WorkflowView[] {
  return workflows.map(({ name, on: { kind, type }, deadline, steps: step_mode = "platform" }) => {
    const { steps = [], emits = [] } = seen.get(name) ?? {};
    const deadline_seconds = deadline === undefined ? null : durationMs(deadline) / 1000;
    return { name, on: { kind, type }, deadline_seconds, step_mode, steps, emits };
  });
}

export const catalogRoutes = [
  operation("get", "/v1/catalog", "getCatalog", "catalog show", {
    summary: "Get the catalog of messages, queues and workflows",
    description:
      "Returns the declarations of the deployed code. Steps and emitted messages are known only after a run; they come from the newest instances of your tenant.",
    answer: ["The catalog", CatalogSchema],
    async run({ env, by, catalog, engine: { firstCommand } }) {
      const { messages, queues } = declaredIn(catalog);
      const workflows = workflowsIn(catalog, await seenSteps(env, by));
      const first_command = firstCommand && inDevelopment(env) ? { ...firstCommand } : null;
      return {
        messages,
        queues: queues.map((one) => withObserved(one, workflows)),
        workflows,
        seen_instances: SEEN_INSTANCES,
        first_command,
      };
    },
  }),
  operation("post", "/v1/catalog/check", "checkMessage", "catalog check", {
    summary: "Check a message without sending it",
    description:
      "Returns the derived key and subject, and the holder of the key. It does not check whether your token may send the message.",
    ...needs("enqueue"),
    body: MessageDraft,
    limits: { maxBytes: INTAKE_LIMITS.maxBytes },
    answer: ["The result of the check", CheckedSchema],
    async run({ env, by, catalog, body, context }) {
      const checked = await checkMessage(env, catalog, by, body).catch(asRefusal);
      if (!(checked instanceof MillraceError)) return { ...checked, refused: null };
      return { key: null, subject: null, outcome: "refused" as const, holder: null, refused: problemOf(checked, context.var.problems) };
    },
  }),
];
