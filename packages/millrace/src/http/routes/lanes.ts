import * as z from "zod";
import { describeLane, groupLanes, listLanes, NOTED_STATES, type NotedLane } from "../../inspect/lanes.ts";
import { LANE_VERBS, type LaneStanding, type LaneVerb } from "../../lanes/turns-stub.ts";
import { steerLane } from "../../operate/steer-lane.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { createRoute, Routes } from "../router.ts";
import { iso, isoOrNull, timestamp } from "../time.ts";

const HeadSchema = z
  .object({
    id: z.string(),
    type: z.string().nullable(),
    idempotency_key: z.string().nullable().meta({ description: "The message's own: its instance and its dead letter have it too." }),
    sent_at: timestamp,
    attempts: z.int().meta({ description: "Deliveries that it had." }),
    error: z.string().nullable().meta({ description: "What its last try failed of." }),
    next_at: timestamp.nullable().meta({ description: "When it is tried next; null for as soon as it is its turn." }),
  })
  .meta({ id: "LaneHead" });

const LaneSchema = z
  .object({
    lane: z.string(),
    key: z.string(),
    state: z.enum(["empty", "moving", "waiting", "retrying", "delayed", "paused", "held", "unknown"]),
    why: z.string().nullable().meta({ description: "Why it stands still; null when it does not." }),
    depth: z.int().meta({ description: "Messages that wait." }),
    oldest_at: timestamp.nullable(),
    head: HeadSchema.nullable(),
    ahead: z
      .array(z.object({ instance_id: z.string(), since: timestamp, failed: z.string().nullable() }))
      .meta({ description: "The instances that have had their turn and are not over." }),
  })
  .meta({ id: "Lane" });

const NotedSchema = LaneSchema.extend({ noted_at: timestamp }).meta({ id: "NotedLane" });

const SteeredSchema = z
  .object({
    action_id: z.string(),
    message_id: z.string().nullable().meta({ description: "The head that it was done to." }),
    instance_ids: z.array(z.string()).meta({ description: "Instances that keep nobody from their turn any more." }),
  })
  .meta({ id: "LaneSteered" });

const params = z.object({ lane: z.string(), key: z.string().meta({ description: "The subject of its messages, percent-encoded." }) });
const steering = reasoned.extend({
  id: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .meta({ description: "The head, or the instance, that is meant: refused if it is another by now." }),
});

const stands = z.enum(NOTED_STATES);

const GroupSchema = z
  .object({
    lane: z.string(),
    state: stands,
    cause: z.string().nullable().meta({ description: "Of the instances that they stand still for: an `id` of `/v1/instances/causes`." }),
    keys: z.int().meta({ description: "Lanes, each of one key." }),
    waiting: z.int().meta({ description: "Messages that wait in them." }),
    since: timestamp.meta({ description: "When the oldest of these was sent." }),
    key: z.string().meta({ description: "The one that has stood still for longest." }),
    why: z.string().nullable().meta({ description: "Why that one stands still." }),
    failed: z.string().nullable().meta({ description: "What the instance failed of that it stands still for." }),
  })
  .meta({ id: "LaneGroup" });

const causes = createRoute({
  method: "get",
  path: "/v1/lanes/causes",
  operationId: "listLaneCauses",
  summary: "Count the lanes that do not flow, by lane, state and cause",
  description: "Those with the most keys first, 50 at most.",
  ...needs("read"),
  responses: {
    200: answers(
      "Groups of lanes",
      z.object({
        items: z.array(GroupSchema),
        more: z.boolean().meta({ description: "True where there are more lanes than are counted, 10,000." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const list = createRoute({
  method: "get",
  path: "/v1/lanes",
  operationId: "listLanes",
  summary: "List the lanes that do not flow, by lane and key",
  description:
    "Those that are held or paused, and those whose oldest message has waited for ten seconds, as each was noted last. By `state` or `cause` a page may be short, and still have a next one.",
  ...needs("read"),
  request: {
    query: z.strictObject({
      lane: z.string().max(63).optional(),
      state: stands.optional().meta({ description: "`blocked`: it waits for an instance that has failed." }),
      cause: z
        .string()
        .max(500)
        .optional()
        .meta({ description: "An `id` of `/v1/instances/causes`: of the instance that it stands still for." }),
      ...nameQuery(50, 200),
    }),
  },
  responses: { 200: answers("A page of lanes", pageOf(NotedSchema)), ...problems("unauthorized", "forbidden", "invalid_payload") },
});

const show = createRoute({
  method: "get",
  path: "/v1/lanes/{lane}/{key}",
  operationId: "getLane",
  summary: "Show how a lane stands now",
  ...needs("read"),
  request: { params },
  responses: { 200: answers("The lane", LaneSchema), ...problems("unauthorized", "forbidden", "invalid_payload", "lane_not_found") },
});

const SUMMARIES: Record<LaneVerb, string> = {
  pause: "Hand nothing more of a lane out",
  resume: "Let a lane go on that is paused or held",
  retry_head: "Try the head of a lane at once",
  skip_head: "Take out what a lane stands still for",
};
const DESCRIPTIONS: Record<LaneVerb, string> = {
  pause: "What is under way goes on.",
  resume: "One that is held goes on past the instance that failed, which can be retried out of turn.",
  retry_head: "Whatever the head itself waits for. Refused while the lane waits for an instance: for one that failed, retry that.",
  skip_head: "The head becomes a dead letter. Where the lane waits for an instance that failed, that keeps nobody waiting any more.",
};

const steer = <Verb extends LaneVerb>(verb: Verb) =>
  createRoute({
    method: "post",
    path: `/v1/lanes/{lane}/{key}/${verb.replace("_", "-")}`,
    operationId: `${verb.replace(/_h/, "H")}Lane`,
    summary: SUMMARIES[verb],
    description: DESCRIPTIONS[verb],
    ...needs("operate"),
    request: { params, body: jsonBody(steering) },
    responses: {
      200: answers("It is done", SteeredSchema),
      ...problems(...BODY_REFUSALS, "lane_not_found", "invalid_transition"),
    },
  });

export function lanes() {
  const routes = new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit, ...filter } = req.valid("query");
      const [, lane = "", key = ""] = /^([^/]*)\/(.*)$/s.exec(cursor) ?? [];
      const found = await listLanes(env, caller, { ...filter, after: { lane, key }, limit });
      return json(
        pageBehind(found, (one) => ({ ...view(one), noted_at: iso(one.notedAt) })),
        200,
      );
    })
    .openapi(causes, async ({ env, var: { caller }, json }) => {
      const { groups, more } = await groupLanes(env, caller);
      return json({ items: groups.map(({ since, ...group }) => ({ ...group, since: iso(since) })), more }, 200);
    })
    .openapi(show, async ({ env, req, var: { caller }, json }) => json(view(await describeLane(env, caller, req.valid("param"))), 200));
  for (const verb of LANE_VERBS) {
    routes.openapi(steer(verb), async ({ env, req, var: { caller }, json }) => {
      const { reason, id } = await readBody(req, steering);
      const { actionId, messageId, instanceIds } = await steerLane(env, caller, req.valid("param"), { verb, id, reason });
      return json({ action_id: actionId, message_id: messageId, instance_ids: instanceIds }, 200);
    });
  }
  return routes;
}

function view({ lane, key, state, why, depth, oldestAt, head, ahead }: LaneStanding | NotedLane): z.infer<typeof LaneSchema> {
  return {
    lane,
    key,
    state,
    why,
    depth,
    oldest_at: isoOrNull(oldestAt),
    head: head && {
      id: head.id,
      type: head.type,
      idempotency_key: head.idempotencyKey,
      sent_at: iso(head.sentAt),
      attempts: head.attempts,
      error: head.error,
      next_at: isoOrNull(head.nextAt),
    },
    ahead: ahead.map(({ instanceId, since, failed }) => ({ instance_id: instanceId, since: iso(since), failed })),
  };
}
