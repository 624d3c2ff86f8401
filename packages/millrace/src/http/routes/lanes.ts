import * as z from "zod";
import { describeLane, groupLanes, LaneFilter, LaneGroup, LaneRow, listLanes, NotedLane } from "../../inspect/lanes.ts";
import { LANE_VERBS, type LaneVerb } from "../../lanes/turns-stub.ts";
import { SteeredLane, steerLane } from "../../operate/steer-lane.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";
import { problems } from "../problem.ts";
import { answers, reads } from "../responses.ts";
import { at, createRoute, Routes } from "../router.ts";

const params = z.object({ lane: z.string(), key: z.string().meta({ description: "The subject of the messages." }) });
const steering = reasoned.extend({
  id: z
    .string()
    .min(1)
    .max(100)
    .optional()
    .meta({ description: "The expected head or instance. The request is refused if it has changed." }),
});

const causes = createRoute({
  ...at("get", "/v1/lanes/causes", "listLaneCauses", "lanes causes"),
  summary: "Count stalled lanes by lane, state and cause",
  description: "Returns at most 50 groups, those with the most keys first.",
  ...needs("read"),
  responses: {
    200: answers(
      "Groups of lanes",
      z.object({
        items: z.array(LaneGroup),
        more: z.boolean().meta({ description: "True if there are more than the counted 10,000 lanes." }),
      }),
    ),
    ...problems("unauthorized", "forbidden", "invalid_payload"),
  },
});

const list = createRoute({
  ...at("get", "/v1/lanes", "listLanes", "lanes list"),
  summary: "List stalled lanes, by lane and key",
  description:
    "Lists lanes that are held or paused, or have a message that has waited for ten seconds, as last recorded. A page filtered by `state` or `cause` may be short and still have a next page.",
  ...needs("read"),
  request: {
    query: LaneFilter.extend(nameQuery(50, 200)).strict(),
  },
  responses: reads("A page of lanes", pageOf(NotedLane)),
});

const show = createRoute({
  ...at("get", "/v1/lanes/{lane}/{key}", "getLane", "lanes show"),
  summary: "Get the current state of a lane",
  description: "Returns the state of the lane, its head, its current instances and its depth.",
  ...needs("read"),
  request: { params },
  responses: reads("The lane", LaneRow, "lane_not_found"),
});

const SUMMARIES: Record<LaneVerb, string> = {
  pause: "Pause a lane",
  resume: "Resume a paused or held lane",
  retry_head: "Retry the head of a lane now",
  skip_head: "Skip the head of a lane",
};
const DESCRIPTIONS: Record<LaneVerb, string> = {
  pause: "No further message starts. Running instances continue.",
  resume: "A held lane continues after the failed instance, which can be retried out of order.",
  retry_head: "Ignores the delay of the head. Refused while the lane waits for an instance. Retry a failed instance instead.",
  skip_head: "The head becomes a dead letter. If the lane waits for a failed instance, that instance no longer blocks the lane.",
};

const steer = <Verb extends LaneVerb>(verb: Verb) =>
  createRoute({
    method: "post",
    path: `/v1/lanes/{lane}/{key}/${verb.replace("_", "-")}`,
    operationId: `${verb.replace(/_h/, "H")}Lane`,
    command: `lanes ${verb.replace("_", "-")}`,
    summary: SUMMARIES[verb],
    description: DESCRIPTIONS[verb],
    ...needs("operate"),
    request: { params, body: jsonBody(steering) },
    responses: {
      200: answers("It is done", SteeredLane),
      ...problems(...BODY_REFUSALS, "lane_not_found", "invalid_transition"),
    },
  });

export function lanes() {
  const routes = new Routes<HttpEnv>()
    .openapi(list, async ({ env, req, var: { caller }, json }) => {
      const { cursor = "", limit, ...filter } = req.valid("query");
      const [, lane = "", key = ""] = /^([^/]*)\/(.*)$/s.exec(cursor) ?? [];
      const found = await listLanes(env, caller, { ...filter, after: { lane, key }, limit });
      return json(pageBehind(found), 200);
    })
    .openapi(causes, async ({ env, var: { caller }, json }) => json(await groupLanes(env, caller), 200))
    .openapi(show, async ({ env, req, var: { caller }, json }) => json(await describeLane(env, caller, req.valid("param")), 200));
  for (const verb of LANE_VERBS) {
    routes.openapi(steer(verb), async ({ env, req, var: { caller }, json }) => {
      const { reason, id } = await readBody(req, steering);
      return json(await steerLane(env, caller, req.valid("param"), { verb, id, reason }), 200);
    });
  }
  return routes;
}
