import type { Context } from "hono";
import * as z from "zod";
import type { Token } from "../../access/tokens.ts";
import { MillraceError } from "../../contract/errors.ts";
import { type RoomEnv, roomObjectOf } from "../../rooms/client.ts";
import { type AnyRoom, MAX_ROOM_KEY_CHARACTERS, plansOf, type RoomPlan } from "../../rooms/definition.ts";
import { ARRIVAL_HEADER, type Arrival, type RoomGuest, readTicket, roomTicket } from "../../rooms/ticket.ts";
import { countedCaller, lacksScope } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import { operationIn } from "../operation.ts";
import { wholeNumber } from "../paging.ts";
import { answerProblem, HttpRefusal } from "../problem.ts";
import { countStranger } from "../request-limits.ts";
import { Routes } from "../router.ts";

interface RoomHttpEnv {
  Bindings: HttpEnv["Bindings"] & RoomEnv;
  Variables: HttpEnv["Variables"];
}

/** The subprotocol of a room, and the prefix of a ticket in the list of subprotocols. */
const PROTOCOL = "millrace.room";
const TICKET = "ticket.";

const FULL_MS = 10_000;

const params = {
  room: z.string().max(100).describe("The kind of the room."),
  key: z.string().min(1).max(MAX_ROOM_KEY_CHARACTERS).describe("The id of the room."),
};
const security = [{ bearer: [] }];

/**
 * The routes of rooms: `engineRoutes(catalog, { routes: [roomRoutes([desk])], knowsCallers: ["rooms"] })`, or mounted at the root of any
 * Hono app. A room belongs to the tenant of its token or ticket.
 */
export function roomRoutes(rooms: readonly AnyRoom[]): Routes<RoomHttpEnv> {
  const plans = plansOf(rooms);
  const planOf = (kind: string): RoomPlan => {
    const plan = plans.get(kind);
    if (plan) return plan;
    throw new HttpRefusal("route_not_found", `There is no room of this kind. Kinds: ${[...plans.keys()].join(", ")}.`);
  };
  const operation = operationIn<RoomHttpEnv>();
  const api = new Routes<RoomHttpEnv>();
  api.onError((error, context) => answerProblem(error, context));
  return api.add(
    operation("post", "/rooms/{room}/{key}/tickets", "mintRoomTicket", "rooms mint-ticket", {
      summary: "Mint a ticket for a room",
      description:
        "For browsers, which cannot send `Authorization` with a WebSocket. The ticket opens this room within 30 seconds, with the identity of your token.",
      ...{ security, params },
      answer: ["The ticket", z.object({ ticket: z.string() })],
      status: 201,
      problems: ["route_not_found"],
      async run({ env, param: { room, key }, context }) {
        const plan = planOf(room);
        const caller = await callerIn(context, plan);
        if (!caller) throw new MillraceError("unauthorized", "Send a valid token: `Authorization: Bearer mr_…`.");
        context.header("cache-control", "no-store");
        return { ticket: roomTicket(env, plan, key, caller.tenantId, guestOf(caller, plan)) };
      },
    }),
    operation("get", "/rooms/{room}/{key}", "enterRoom", undefined, {
      summary: "Open a WebSocket to a room",
      description:
        "Send `Upgrade: websocket` with the subprotocols `millrace.room` and `ticket.<ticket>`. A program may send its token as `Authorization` instead. Answers 101.",
      ...{ security, params },
      query: { since: wholeNumber(0).optional().describe("The last `sequence` received.") },
      answer: { 101: { description: "The socket is open" } },
      problems: ["route_not_found", "invalid_payload", "upgrade_required"],
      async run({ env, param: { room, key }, query: { since }, context }) {
        const plan = planOf(room);
        if (context.req.header("upgrade")?.toLowerCase() !== "websocket") {
          throw new HttpRefusal("upgrade_required", "This route is a WebSocket: send `Upgrade: websocket`.", { upgrade: "websocket" });
        }
        assertOrigin(context, plan);
        const offered = (context.req.header("sec-websocket-protocol") ?? "").split(",").map((each) => each.trim());
        const { tenant, ...guest } = await guestIn(context, plan, key, offered);
        const arrival: Arrival = {
          ...{ name: guest.name, maySend: guest.maySend ?? false, until: guest.until ?? null, since },
          protocol: offered.includes(PROTOCOL) ? PROTOCOL : undefined,
        };
        const answer = await roomObjectOf(env, { room, tenant, key }).fetch("https://room/", {
          headers: { upgrade: "websocket", [ARRIVAL_HEADER]: encodeURIComponent(JSON.stringify(arrival)) },
        });
        if (answer.status === 101) return answer;
        if (answer.status === 404)
          throw new MillraceError("config_invalid", `The object ROOMS has no room "${room}": list it in roomObject([…]).`);
        throw new MillraceError("rate_limited", `${await answer.text()} Try again later.`, { delayMs: FULL_MS });
      },
    }),
  );
}

/** Undefined without a valid token. Errors: `forbidden` for a token that may not join the room, `rate_limited`. */
async function callerIn(context: Context<RoomHttpEnv>, { join }: RoomPlan): Promise<Token | undefined> {
  const caller = await countedCaller(context);
  if (caller && !caller.scopes.includes(join)) throw lacksScope(join);
  return caller;
}

function guestOf({ actor, scopes, expiresAt }: Token, { send }: RoomPlan): RoomGuest {
  return { name: actor, maySend: send !== null && scopes.includes(send), until: expiresAt ?? null };
}

/** The guest of a token in the header, or of a ticket among the subprotocols. Errors: `unauthorized`, `forbidden`, `rate_limited`. */
async function guestIn(
  context: Context<RoomHttpEnv>,
  plan: RoomPlan,
  key: string,
  offered: readonly string[],
): Promise<RoomGuest & { tenant: string }> {
  const caller = await callerIn(context, plan);
  if (caller) return { ...guestOf(caller, plan), tenant: caller.tenantId };
  await countStranger(context, "room");
  const ticket = offered.find((each) => each.startsWith(TICKET));
  const guest = ticket === undefined ? undefined : readTicket(context.env, ticket.slice(TICKET.length));
  if (guest && guest.room === plan.name && guest.key === key) return guest;
  throw new MillraceError(
    "unauthorized",
    ticket === undefined
      ? "Send `Authorization: Bearer mr_…`, or a ticket: the subprotocols `millrace.room` and `ticket.<ticket>`."
      : "The ticket is wrong, for another room, or older than 30 seconds. Mint a new one.",
  );
}

/** Checks the origin, which a page cannot forge. Programs send no origin. Errors: `forbidden`. */
function assertOrigin(context: Context<RoomHttpEnv>, { origins }: RoomPlan): void {
  const origin = context.req.header("origin");
  if (origin === undefined || origin === new URL(context.req.url).origin || origins.has(origin)) return;
  throw new MillraceError("forbidden", "This origin is not allowed. See `origins` of the room.");
}
