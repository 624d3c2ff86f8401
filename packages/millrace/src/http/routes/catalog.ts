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
import { BODY_REFUSALS } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, jsonSchema, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import type { FirstCommand } from "../first-command.ts";
import { MAX_KEY_CHARACTERS } from "../idempotency-key.ts";
import { ProblemSchema, problemOf, problems } from "../problem.ts";
import type { Problems } from "../problems.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";

const KINDS = ["command", "event"] as const;

const MessageSchema = z
  .object({
    type: z.string(),
    kind: z.enum(KINDS),
    version: z.int().meta({ description: "Of its payload." }),
    queue: z.string().meta({ description: "The queue or the lane that it travels on." }),
    door: z
      .object({
        scope: z.string().nullable().meta({ description: "What a token needs to send it; null: no token may." }),
        route: z.string().meta({ description: "The route that is made for it." }),
      })
      .nullable()
      .meta({ description: "How it comes from outside; null: only this deployment says it." }),
    payload_schema: z.looseObject({}).meta({ description: "Its payload, as JSON Schema; with `examples` where its definition has some." }),
    performer: z.string().nullable().meta({ description: "The workflow that performs a command." }),
    follows: z
      .array(
        z.object({
          do: z.enum(["start", "send", "signal", "project", "call"]),
          workflow: z.string().nullable().meta({ description: "Of `start`." }),
          type: z.string().nullable().meta({ description: "Of `send`: the command." }),
        }),
      )
      .meta({ description: "What its route leads an event to." }),
  })
  .meta({ id: "CatalogMessage" });

const QueueSchema = z
  .object({
    name: z.string(),
    is_lane: z.boolean().meta({ description: "One message after another for each key." }),
    carries: z.enum(["commands", "events"]),
    retries: z.object({ limit: z.int(), initial_seconds: z.number(), max_seconds: z.number() }),
    batch_size: z.int(),
    batch_wait_seconds: z.number().meta({ description: "So long a batch waits for more messages." }),
    concurrency: z.int().meta({ description: "Batches at one moment; of a lane, instances of one key." }),
    has_priorities: z.boolean(),
  })
  .meta({ id: "CatalogQueue" });

const WorkflowSchema = z
  .object({
    name: z.string(),
    on: z.object({ kind: z.enum(KINDS), type: z.string() }).meta({ description: "The command that it performs, or the event it follows." }),
    deadline_seconds: z.number().nullable().meta({ description: "Longer than this, an instance is overdue; null where it says nothing." }),
    step_mode: z.enum(["platform", "lean"]).meta({ description: "How it takes its steps, but for those that say otherwise." }),
    steps: z
      .array(z.object({ name: z.string(), class: z.enum(RECORDED_CLASSES) }))
      .meta({ description: "Guarded steps that were seen, each with its effect class." }),
    emits: z.array(z.object({ kind: z.enum(KINDS), type: z.string() })).meta({ description: "Messages that were seen to be emitted." }),
  })
  .meta({ id: "CatalogWorkflow" });

const CatalogSchema = z
  .object({
    messages: z.array(MessageSchema),
    queues: z.array(QueueSchema),
    workflows: z.array(WorkflowSchema),
    seen_instances: z.int().meta({ description: "Of how many of your newest instances `steps` and `emits` tell, at most." }),
    first_command: z
      .object({ type: z.string(), payload: z.unknown(), why: z.string() })
      .nullable()
      .meta({ description: "What to try first, on a development machine that has something to try." }),
  })
  .meta({ id: "Catalog" });

const show = createRoute({
  method: "get",
  path: "/v1/catalog",
  operationId: "getCatalog",
  summary: "Describe the messages, queues and workflows, and what follows from what",
  description:
    "As the deployed code declares them. Which steps a workflow takes, and what these emit, its code says only as it runs: that is what your tenant's newest instances did.",
  ...needs("read"),
  request: { query: z.strictObject({}) },
  responses: { 200: answers("The catalog", CatalogSchema), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const draftSchema = z.strictObject({
  kind: z.enum(KINDS).default("command"),
  type: z.string().min(1).max(100).meta({ description: "Which command or event, such as `content.publish`." }),
  payload: z.unknown().meta({ description: "What its own schema asks for." }),
  idempotency_key: chosenName(MAX_KEY_CHARACTERS).optional().meta({ description: "Default what a command derives from its payload." }),
});

const CheckedSchema = z
  .object({
    key: z.string().nullable().meta({ description: "Names the work; null for an event without `idempotency_key`, which needs one." }),
    subject: z.string().nullable(),
    outcome: z.enum(["new", "repeat", "reused", "refused"]).meta({
      description: [
        "`new`: nobody has the key; `repeat`: the same was asked for before, and nothing new would follow;",
        "`reused`: something else was, and it would be refused; `refused`: it is no such message.",
      ].join(" "),
    }),
    holder: z
      .object({ id: z.string(), status: z.enum([...INSTANCE_STATUSES, "pruned", "stated"]) })
      .nullable()
      .meta({ description: "Who has the key: an instance, what is left of one, or an event." }),
    refused: z.union([ProblemSchema, z.null()]).meta({ description: "What it would be answered, where it is `refused`." }),
  })
  .meta({ id: "CheckedMessage" });

const check = createRoute({
  method: "post",
  path: "/v1/catalog/check",
  operationId: "checkMessage",
  summary: "Say what would come of a message, without sending it",
  description:
    "Its key and its subject, as its definition derives them, and who has that key. Whether your token may send this one is not asked.",
  ...needs("enqueue"),
  request: { body: jsonBody(draftSchema) },
  responses: { 200: answers("What would come of it", CheckedSchema), ...problems(...BODY_REFUSALS) },
});

/** What a deployment is made of. `first` is what a new user is shown to try. */
export function catalogRoutes(catalog: Catalog, first?: FirstCommand) {
  let said: Pick<z.infer<typeof CatalogSchema>, "messages" | "queues"> | undefined;
  return new Routes<HttpEnv>()
    .openapi(show, async ({ env, var: { caller }, json }) => {
      const seen = await seenSteps(env, caller);
      said ??= { messages: messagesIn(catalog).map(messageView), queues: queuesIn(catalog).map(queueView) };
      const workflows = workflowViews(catalog, seen);
      const first_command = first && inDevelopment(env) ? { ...first } : null;
      return json({ ...said, workflows, seen_instances: SEEN_INSTANCES, first_command }, 200);
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

function queueView({
  name,
  isLane,
  carries,
  retries,
  batchSize,
  batchWaitSeconds,
  concurrency,
  hasPriorities,
}: DescribedQueue): z.infer<typeof QueueSchema> {
  return {
    ...{ name, is_lane: isLane, carries, concurrency, has_priorities: hasPriorities },
    ...{ batch_size: batchSize, batch_wait_seconds: batchWaitSeconds },
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
