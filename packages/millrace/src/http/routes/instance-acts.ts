import type { Context, ToSchema, TypedResponse } from "hono";
import type { JSONParsed } from "hono/utils/types";
import * as z from "zod";
import type { Fields, InstanceAct } from "../../operate/instances/act.ts";
import { INSTANCE_ACTS } from "../../operate/instances/acts.ts";
import { ActionPlan } from "../../operate/instances/plan.ts";
import type { Catalog } from "../../topology/catalog.ts";
import { BODY_REFUSALS, reasoned } from "../actions.ts";
import { needs } from "../auth.ts";
import { jsonBody, readBody } from "../body.ts";
import type { HttpEnv } from "../env.ts";
import { idempotencyKey, keyHeader, replayedHeader, replayedHeaderSchema } from "../idempotency-key.ts";
import { invalidRequest } from "../invalid-request.ts";
import { problems } from "../problem.ts";
import { answers } from "../responses.ts";
import { at, createRoute, type PathOf, Routes } from "../router.ts";

/** The id of an accepted action. If the platform is unavailable now, the keeper executes the action later. */
const action_id = z.string();
const dry_run = z
  .boolean()
  .default(false)
  .meta({ description: "True returns the consequences, as far as they are recorded, and changes nothing." });

/** Builds the routes of the operator actions in `INSTANCE_ACTS`. */
export function instanceActs(catalog: Catalog) {
  const routes = new Routes<HttpEnv>();
  for (const [name, act] of Object.entries<InstanceAct>(INSTANCE_ACTS)) routes.route("/", routeOf(catalog, name, act));
  return routes as ActRoutes<(typeof INSTANCE_ACTS)[keyof typeof INSTANCE_ACTS]>;
}

type ActRoutes<Act> = Act extends InstanceAct<infer Path, infer _, infer Answer> ? ActRoute<Path, Answer> : never;
/** The type of such a route has a name, because the compiler cannot write the inferred type into a declaration. */
type ActRoute<Path extends string, Answer extends Fields> = Routes<
  HttpEnv,
  ToSchema<
    "post",
    PathOf<`/v1/instances/{id}/${Path}`>,
    ById,
    Json<typeof ActionPlan, 200> | Json<z.ZodObject<{ action_id: z.ZodString } & Answer>, 202>
  >,
  "/"
>;
type Json<Of extends z.ZodType, Status extends 200 | 202> = TypedResponse<JSONParsed<z.output<Of>>, Status, "json">;
interface ById {
  in: { param: { id: string } };
  out: { param: { id: string } };
}

function routeOf<Path extends string, Answer extends Fields>(
  catalog: Catalog,
  name: string,
  act: InstanceAct<Path, Fields, Answer>,
): ActRoute<Path, Answer> {
  const { path, key, maxBytes } = act;
  const inPath = ["id", ...path.matchAll(/\{(\w+)\}/g).map(([, parameter = ""]) => parameter)];
  const own = Object.entries(act.body).filter(([field]) => !inPath.includes(field));
  const body = reasoned.extend({ ...Object.fromEntries(own), dry_run });
  const answer = z.object({ action_id, ...act.answer } as { action_id: typeof action_id } & Answer);
  const replays = "replayed" in act.answer;
  const route = createRoute({
    ...at("post", `/v1/instances/{id}/${path}`, act.operationId ?? `${name}Instance`, `instances ${name}`),
    summary: act.summary,
    description: act.description,
    ...needs("operate"),
    request: {
      params: z.object(Object.fromEntries(inPath.map((parameter) => [parameter, z.string()])) as { id: z.ZodString }),
      query: z.strictObject({}),
      ...(key && { headers: z.object(keyHeader(key.says)) }),
      body: jsonBody(body),
    },
    responses: {
      200: answers(`A dry run: the consequences of the ${name.replaceAll("-", " ")}`, ActionPlan),
      202: { ...answers(act.accepted, answer), ...(replays && { headers: replayedHeaderSchema }) },
      ...problems(...BODY_REFUSALS, "instance_not_found", "invalid_transition", ...(act.problems ?? [])),
    },
  });
  return new Routes<HttpEnv>().openapi(route, (async (context: ActContext) => {
    const { env } = context;
    const { id, ...params } = context.req.valid("param");
    const { dry_run: isDry, ...given } = await readBody(context.req, body, { maxBytes });
    const asked = { env, catalog, by: context.var.caller, given: { ...params, ...given } };
    if (isDry) return context.json(await act.plan(asked, id), 200);
    const sent = key && idempotencyKey(context.req.header("idempotency-key"));
    if (key?.isRequired && sent === undefined) {
      const message = `is missing: send a key for the ${name}, so that a repeat is recognized`;
      throw invalidRequest([{ path: "Idempotency-Key", message }]);
    }
    const done = await act.act({ ...asked, key: sent }, id);
    return context.json(done, 202, replayedHeader({ replayed: "replayed" in done && done.replayed === true }));
  }) as never) as never;
}

type ActContext = Context<HttpEnv, string, ById>;
