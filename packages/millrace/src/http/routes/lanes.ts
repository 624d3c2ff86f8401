import * as z from "zod";
import { describeLane, groupLanes, LaneFilter, LaneGroup, LaneRow, listLanes, NotedLane } from "../../inspect/lanes.ts";
import type { LaneVerb } from "../../lanes/turns-stub.ts";
import { SteeredLane, steerLane } from "../../operate/steer-lane.ts";
import { operation, reasoned } from "../operation.ts";
import { nameQuery, pageBehind, pageOf } from "../paging.ts";

const params = { lane: z.string(), key: z.string().describe("The subject of the messages.") };

const steer = <const Verb extends string>(path: Verb, verb: LaneVerb, summary: string, description: string) =>
  operation("post", `/v1/lanes/{lane}/{key}/${path}`, `${verb.replace(/_h/, "H")}Lane`, `lanes ${path}`, {
    summary,
    description,
    params,
    body: reasoned.extend({
      id: z.string().min(1).max(100).optional().describe("The expected head or instance. The request is refused if it has changed."),
    }),
    answer: ["It is done", SteeredLane],
    problems: ["lane_not_found", "invalid_transition"],
    run: ({ env, by, param, body }) => steerLane(env, by, param, { verb, ...body }),
  });

export const lanes = [
  operation("get", "/v1/lanes", "listLanes", "lanes list", {
    summary: "List stalled lanes, by lane and key",
    description:
      "Lists lanes that are held or paused, or have a message that has waited for ten seconds, as last recorded. A page filtered by `state` or `cause` may be short and still have a next page.",
    query: { ...LaneFilter.shape, ...nameQuery(50, 200) },
    answer: ["A page of lanes", pageOf(NotedLane)],
    async run({ env, by, query: { cursor = "", ...query } }) {
      const [, lane = "", key = ""] = /^([^/]*)\/(.*)$/s.exec(cursor) ?? [];
      return pageBehind(await listLanes(env, by, { ...query, after: { lane, key } }));
    },
  }),
  operation("get", "/v1/lanes/causes", "listLaneCauses", "lanes causes", {
    summary: "Count stalled lanes by lane, state and cause",
    description: "Returns at most 50 groups, those with the most keys first.",
    answer: [
      "Groups of lanes",
      z.object({
        items: z.array(LaneGroup),
        more: z.boolean().describe("True if there are more than the counted 10,000 lanes."),
      }),
    ],
    run: ({ env, by }) => groupLanes(env, by),
  }),
  operation("get", "/v1/lanes/{lane}/{key}", "getLane", "lanes show", {
    summary: "Get the current state of a lane",
    description: "Returns the state of the lane, its head, its current instances and its depth.",
    params,
    answer: ["The lane", LaneRow],
    problems: ["lane_not_found"],
    run: ({ env, by, param }) => describeLane(env, by, param),
  }),
  steer("pause", "pause", "Pause a lane", "No further message starts. Running instances continue."),
  steer(
    "resume",
    "resume",
    "Resume a paused or held lane",
    "A held lane continues after the failed instance, which can be retried out of order.",
  ),
  steer(
    "retry-head",
    "retry_head",
    "Retry the head of a lane now",
    "Ignores the delay of the head. Refused while the lane waits for an instance. Retry a failed instance instead.",
  ),
  steer(
    "skip-head",
    "skip_head",
    "Skip the head of a lane",
    "The head becomes a dead letter. If the lane waits for a failed instance, that instance no longer blocks the lane.",
  ),
];
