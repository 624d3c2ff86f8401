import * as z from "zod";
import { chosenName } from "../../contract/chosen-name.ts";
import { inDevelopment } from "../../contract/development.ts";
import { MillraceError } from "../../contract/errors.ts";
import { INTAKE_LIMITS } from "../../contract/limits.ts";
import { laneIn } from "../../contract/queue.ts";
import { type Checked, checkMessage } from "../../inspect/check-message.ts";
import { SEEN_INSTANCES, type Seen, seenSteps } from "../../inspect/seen-steps.ts";
import { asRefusal } from "../../intake/accept/enqueue.ts";
import { RECORDED_CLASSES } from "../../store/inbox/classes.ts";
import { INSTANCE_STATUSES } from "../../store/instances/status.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { type DescribedMessage, type DescribedQueue, deadlinesIn, messagesIn, queuesIn } from "../../topology/described.ts";
import { needs } from "../auth.ts";
import { jsonBody, jsonSchema, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import type { FirstCommand } from "../first-command.ts";
import { MAX_KEY_CHARACTERS } from "../idempotency-key.ts";
import { ProblemSchema, problemOf } from "../problem.ts";
import type { Problems } from "../problems.ts";
import { changes, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const KINDS = ["command", "event"] as const;

const MessageSchema = z
  .object({
    type: z.string(),
    kind: z.enum(KINDS),
    version: z.int().meta({ description: "Of its payload." }),
    queue: z.string().meta({ description: "The queue or lane of the message." }),
    door: z
      .object({
        scope: z.string().nullable().meta({ description: "The scope required to send it; null if no token may send it." }),
        route: z.string().meta({ description: "The route for this message." }),
      })
      .nullable()
      .meta({ description: "How the message arrives from outside; null if only this deployment emits it." }),
    payload_schema: z.looseObject({}).meta({ description: "The JSON Schema of the payload, with `examples` if the definition has any." }),
    performer: z.string().nullable().meta({ description: "The workflow that handles a command." }),
    follows: z
      .array(
        z.object({
          do: z.enum(["start", "send", "signal", "project", "call"]),
          workflow: z.string().nullable().meta({ description: "Of `start`." }),
          type: z.string().nullable().meta({ description: "For `send`: the command." }),
        }),
      )
      .meta({ description: "The targets of an event." }),
  })
  .meta({ id: "CatalogMessage" });

const QueueSchema = z
  .object({
    name: z.string(),
    is_lane: z.boolean().meta({ description: "Messages of one key are processed in order." }),
    carries: z.enum(["commands", "events"]),
    retries: z.object({ limit: z.int(), initial_seconds: z.number(), max_seconds: z.number() }),
    batch_size: z.int(),
    batch_wait_seconds: z.number().meta({ description: "The longest wait of a batch for more messages." }),
    concurrency: z.int().meta({ description: "Concurrent batches; for a lane, concurrent instances of one key." }),
    has_priorities: z.boolean(),
    is_elsewhere: z.boolean().meta({ description: "Another Worker consumes it." }),
    dead_letter_queue: z.string().nullable().meta({ description: "Null for a lane." }),
    messages: z.array(z.string()).meta({ description: "Their types." }),
    workflows: z.array(z.string()).meta({ description: "Started by its messages." }),
    producers: z
      .array(z.object({ by: z.enum(["request", "route", "workflow"]), name: z.string() }))
      .meta({ description: "HTTP routes, events with a route that sends, and observed workflows." }),
  })
  .meta({ id: "CatalogQueue" });

const WorkflowSchema = z
  .object({
    name: z.string(),
    on: z.object({ kind: z.enum(KINDS), type: z.string() }).meta({ description: "The command or event that starts it." }),
    deadline_seconds: z.number().nullable().meta({ description: "An instance that runs longer is overdue; null without a deadline." }),
    step_mode: z.enum(["platform", "lean"]).meta({ description: "The default step mode." }),
    steps: z
      .array(z.object({ name: z.string(), class: z.enum(RECORDED_CLASSES) }))
      .meta({ description: "Observed steps with an effect, each with its effect class." }),
    emits: z.array(z.object({ kind: z.enum(KINDS), type: z.string() })).meta({ description: "Observed emitted messages." }),
  })
  .meta({ id: "CatalogWorkflow" });

const CatalogSchema = z
  .object({
    messages: z.array(MessageSchema),
    queues: z.array(QueueSchema),
    workflows: z.array(WorkflowSchema),
    seen_instances: z.int().meta({ description: "The number of newest instances that `steps` and `emits` are based on." }),
    first_command: z
      .object({ type: z.string(), payload: z.unknown(), why: z.string() })
      .nullable()
      .meta({ description: "A first command to try, on a development engine." }),
  })
  .meta({ id: "Catalog" });

const show = createRoute({
  ...at("get", "/v1/catalog", "getCatalog", "catalog show"),
  summary: "Get the catalog of messages, queues and workflows",
  description:
    "Returns the declarations of the deployed code. Steps and emitted messages are known only after a run; they come from the newest instances of your tenant.",
  ...needs("read"),
  request: { query: z.strictObject({}) },
  responses: reads("The catalog", CatalogSchema),
});

type QueueView = z.infer<typeof QueueSchema>;
type WorkflowView = z.infer<typeof WorkflowSchema>;

const draftSchema = z.strictObject({
  kind: z.enum(KINDS).default("command"),
  type: z.string().min(1).max(100).meta({ description: "The type of the command or event, such as `content.publish`." }),
  payload: z.unknown().meta({ description: "The payload, by the schema of the type." }),
  idempotency_key: chosenName(MAX_KEY_CHARACTERS)
    .optional()
    .meta({ description: "Default: the key that the command derives from its payload." }),
});

const CheckedSchema = z
  .object({
    key: z.string().nullable().meta({ description: "The key; null for an event sent without its required `idempotency_key`." }),
    subject: z.string().nullable(),
    outcome: z.enum(["new", "repeat", "reused", "refused"]).meta({
      description: [
        "`new`: the key is free. `repeat`: the same message was sent before, and a repeat starts nothing.",
        "`reused`: another payload has the key; the message would be refused. `refused`: the message is not valid.",
      ].join(" "),
    }),
    holder: z
      .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned", "stated"]) })
      .nullable()
      .meta({ description: "The holder of the key: an instance, the tombstone of one, or an event." }),
    refused: z.union([ProblemSchema, z.null()]).meta({ description: "The problem that would be returned, if `refused`." }),
  })
  .meta({ id: "CheckedMessage" });

const check = createRoute({
  ...at("post", "/v1/catalog/check", "checkMessage", "catalog check"),
  summary: "Check a message without sending it",
  description: "Returns the derived key and subject, and the holder of the key. It does not check whether your token may send the message.",
  ...needs("enqueue"),
  request: { body: jsonBody(draftSchema) },
  responses: changes("The result of the check", CheckedSchema),
});

/** Builds the routes of the catalog. `first` is the command that the console suggests to a new user. */
export function catalogRoutes(catalog: Catalog, first?: FirstCommand) {
  let said: Pick<z.infer<typeof CatalogSchema>, "messages" | "queues"> | undefined;
  return new Routes<HttpEnv>()
    .openapi(show, async ({ env, var: { caller }, json }) => {
      const seen = await seenSteps(env, caller);
      said ??= { messages: messagesIn(catalog).map(messageView), queues: queuesIn(catalog).map(queueView) };
      const workflows = workflowViews(catalog, seen);
      const queues = said.queues.map((queue) => withObserved(queue, workflows));
      const first_command = first && inDevelopment(env) ? { ...first } : null;
      return json({ ...said, queues, workflows, seen_instances: SEEN_INSTANCES, first_command }, 200);
    })
    .openapi(check, async ({ env, req, var: { caller, problems: known }, json }) => {
      const { kind, type, payload, idempotency_key } = await readBody(req, draftSchema, { maxBytes: INTAKE_LIMITS.maxBytes });
      const checked = await checkMessage(env, catalog, caller, { kind, type, payload, idempotencyKey: idempotency_key }).catch(asRefusal);
      return json(checked instanceof MillraceError ? refusedView(checked, known) : checkedView(checked), 200);
    });
}

function messageView({ definition, performer, follows }: DescribedMessage): z.infer<typeof MessageSchema> {
  const { type, kind, version, queue, door, payload } = definition;
  return {
    ...{ type, kind, version, performer },
    queue: laneIn(queue.name) ?? queue.name,
    door: door ? { ...door } : null,
    payload_schema: jsonSchema(payload),
    follows: follows.map((one) => ({ ...one })),
  };
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

function queueView({
  name,
  isLane,
  carries,
  retries,
  batchSize,
  batchWaitSeconds,
  concurrency,
  hasPriorities,
  isElsewhere,
  messages,
  producers,
}: DescribedQueue): QueueView {
  return {
    ...{ name, is_lane: isLane, carries, concurrency, has_priorities: hasPriorities },
    ...{ batch_size: batchSize, batch_wait_seconds: batchWaitSeconds },
    ...{ is_elsewhere: isElsewhere, dead_letter_queue: isLane ? null : `${name}-dlq`, messages, producers, workflows: [] },
    retries: { limit: retries.limit, initial_seconds: retries.initialMs / 1000, max_seconds: retries.maxMs / 1000 },
  };
}

function workflowViews(catalog: Catalog, seen: ReadonlyMap<string, Seen>): z.infer<typeof WorkflowSchema>[] {
  const deadlines = deadlinesIn(catalog);
  return catalog.workflows.map(({ name, on: { kind, type }, steps: mode = "platform" }) => {
    const deadline = deadlines.get(name) ?? null;
    const { steps = [], emits = [] } = seen.get(name) ?? {};
    return {
      ...{ name, on: { kind, type }, deadline_seconds: deadline === null ? null : deadline / 1000 },
      ...{ step_mode: mode, steps: [...steps], emits: [...emits] },
    };
  });
}

function checkedView({ key, subject, outcome, holder }: Checked): z.infer<typeof CheckedSchema> {
  return { key, subject, outcome, holder: holder ? { id: holder.id, status: holder.status } : null, refused: null };
}

function refusedView(error: MillraceError, known: Problems): z.infer<typeof CheckedSchema> {
  return { key: null, subject: null, outcome: "refused", holder: null, refused: problemOf(error, known) };
}
