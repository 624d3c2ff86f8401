import * as z from "zod";
import { hiddenIn, iso } from "../../contract/row.ts";
import { actionsNamed } from "../../inspect/actions.ts";
import { ApprovalRow, approvalsNamed } from "../../inspect/approvals.ts";
import { DeadLetterRow, hideInErrors, lettersNamed } from "../../inspect/dead-letters.ts";
import { Instance } from "../../inspect/instance-row.ts";
import { instancesNamed } from "../../inspect/instances.ts";
import { type Happened, happenedSince, LIVE_KINDS, type LiveKind, type Place } from "../../inspect/live/happened.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { mayStillRead, needs } from "../auth.ts";
import {
  answerEvents,
  type Followed,
  heardLast,
  STREAM_PACE,
  type StreamEvent,
  streamed,
  streamHeaders,
  streamQuery,
} from "../event-stream.ts";
import { invalidRequest } from "../invalid-request.ts";
import { type Asked, operation } from "../operation.ts";

/** Maximum number of events per poll of a stream. If a poll finds more events, only the newest events are sent. */
const TOLD_AT_ONCE = 100;

const kinds = z
  .string()
  .max(100)
  .transform((text, { addIssue }) => {
    const said = [...new Set(text.split(","))];
    const asked = LIVE_KINDS.filter((kind) => said.includes(kind));
    if (asked.length === said.length) return asked;
    addIssue(`must be a list of ${LIVE_KINDS.join(", ")}, separated by commas`);
    return z.NEVER;
  })
  .optional()
  .meta({
    type: "string",
    example: "instance,dead_letter",
    description: `Some of ${LIVE_KINDS.map((kind) => `\`${kind}\``).join(", ")}. Default all.`,
  });

export const stream = operation("get", "/v1/stream", "followEngine", undefined, {
  summary: "Follow the changes of your tenant as server-sent events",
  description:
    "Events: `instance` (the row of an instance that changed since the last poll), `dead_letter`, `doubt` (an unknown outcome), `approval` (a question or its answer) and `action` (a row of the audit). They follow the clock of the database, from now on or after `Last-Event-ID`. With more than 100 events per poll, `skipped { count, at_least }` has the number of omitted older ones. The stream covers the newest 1,000 instances and questions of the tenant; an older instance is reported when it fails, is in doubt, or gets an action. Payloads and outputs are not included. The stream ends after three minutes, or sooner under load: reconnect.",
  ...needs("read"),
  query: { kinds, ...streamQuery },
  headers: streamHeaders.shape,
  answer: { 200: streamed("Events") },
  run(asked) {
    const heard = placeOf(heardLast(asked.context));
    return answerEvents(asked.context, () => followTenant(asked, heard, asked.query.kinds ?? LIVE_KINDS));
  },
});

type Asking = Pick<Asked, "env" | "by" | "catalog" | "context">;

/** A position after every existing event. */
const FROM_NOW: Place = { at: Number.MAX_SAFE_INTEGER };

function followTenant(asked: Asking, heard: Place, kinds: readonly LiveKind[]): Followed {
  let place = heard;
  return {
    ...STREAM_PACE,
    mayRead: () => mayStillRead(asked.context),
    async look() {
      const { happened, more, upTo } = await happenedSince(asked.env, asked.by, place, kinds);
      const told = happened.slice(-TOLD_AT_ONCE);
      const count = happened.length - told.length;
      const events = await eventsOf(asked, told);
      if (count > 0 || more) {
        const last = happened.at(count - 1);
        events.unshift({ id: count > 0 && last ? idOf(last) : String(place.at), event: "skipped", data: { count, at_least: more } });
      }
      place = { at: upTo };
      return { events, place: String(upTo) };
    },
  };
}

/** Returns events in the format of the API's lists. If a row has changed since its event, the next poll sends it. */
async function eventsOf({ env, by, catalog }: Asking, happened: readonly Happened[]): Promise<StreamEvent[]> {
  if (happened.length === 0) return [];
  const idsOf = (kind: LiveKind) => happened.flatMap((one) => (one.kind === kind ? [one.id] : []));
  const read = async <Row>(kind: LiveKind, named: (ids: string[]) => Promise<Row[]>) => {
    const ids = idsOf(kind);
    return ids.length === 0 ? [] : await named(ids);
  };
  const [instances, letters, approvals, actions] = await Promise.all([
    read("instance", (ids) => instancesNamed(env, by, ids)),
    read("dead_letter", (ids) => lettersNamed(env, by, ids)),
    read("approval", (ids) => approvalsNamed(env, by, ids)),
    read("action", (ids) => actionsNamed(env, by, ids)),
  ]);
  const redaction = redactionOf(catalog);
  const failed = instances.filter(({ error, retrying }) => error !== null || retrying !== null).map(({ id }) => id);
  const hidden = [...failed, ...approvals.map((one) => one.instance_id)];
  const [hide, hideIn] = await Promise.all([
    hidden.length === 0 ? undefined : redaction.ofInstances(env, by, hidden),
    hideInErrors(
      env,
      { ...by, scopes: [] },
      redaction,
      letters.map(({ id }) => id),
    ),
  ]);
  const shown = <T>(id: string, view: T): T => (hide ? hide(id)(view) : view);
  const views = new Map<string, unknown>([
    ...instances.map(
      (one) => [`${Date.parse(one.updated_at)} ${one.id}`, hiddenIn(Instance, one, (value) => shown(one.id, value))] as const,
    ),
    ...letters.map((one) => [`${Date.parse(one.captured_at)} ${one.id}`, hiddenIn(DeadLetterRow, one, hideIn(one.id))] as const),
    ...approvals.map(({ details: _, ...one }) => {
      const view = hiddenIn(ApprovalRow, one, (value) => shown(one.instance_id, value));
      return [`${Date.parse(one.decided_at ?? one.asked_at)} ${one.id}`, view] as const;
    }),
    ...actions.map((one) => [`${Date.parse(one.at)} ${one.id}`, one] as const),
  ]);
  return happened.flatMap((one) => {
    const data = one.doubt ? doubtView(one) : views.get(`${one.at} ${one.id}`);
    return data === undefined ? [] : [{ id: idOf(one), event: one.kind, data }];
  });
}

function doubtView({ id, at, doubt }: Happened) {
  return {
    key: id,
    instance_id: doubt?.instanceId,
    workflow: doubt?.workflow,
    step: doubt?.step,
    item: doubt?.item,
    class: doubt?.effectClass,
    since: iso(at),
  };
}

function idOf({ at, kind, id }: Happened): string {
  return `${at}.${kind}.${id}`;
}

function placeOf(heard: string | undefined): Place {
  if (heard === undefined) return FROM_NOW;
  const [, at, , kind, id] = /^([1-9]\d{0,14})(\.([a-z_]+)\.([\w-]+))?$/.exec(heard) ?? [];
  const known = LIVE_KINDS.find((one) => one === kind);
  if (at === undefined || (kind !== undefined && known === undefined)) {
    throw invalidRequest([{ path: "Last-Event-ID", message: "is not an event id of this stream: omit it to start with new events" }]);
  }
  return known === undefined || id === undefined ? { at: Number(at) } : { at: Number(at), last: { kind: known, id } };
}
