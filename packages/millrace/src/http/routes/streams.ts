import type { Context } from "hono";
import * as z from "zod";
import { type Hide, hideNothing } from "../../contract/hide.ts";
import { digest } from "../../contract/ids.ts";
import { hiddenIn, iso, isoOrNull } from "../../contract/row.ts";
import { actionsNamed } from "../../inspect/actions.ts";
import { activityIn } from "../../inspect/activity.ts";
import { ApprovalRow, approvalsNamed } from "../../inspect/approvals.ts";
import { DeadLetterRow, hideInErrors, lettersNamed } from "../../inspect/dead-letters.ts";
import { attemptError, calledAs } from "../../inspect/history.ts";
import { Instance, StepProgress } from "../../inspect/instance-row.ts";
import { getInstance, instancesNamed, progressOf } from "../../inspect/instances.ts";
import { type Happened, happenedSince, LIVE_KINDS, type LiveKind, type Place } from "../../inspect/live/happened.ts";
import { type HeardStep, STEPS_BEGIN, StepFeed, type StepPlace } from "../../inspect/live/step-feed.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { OVER, UNDER_WAY } from "../../store/instances/status.ts";
import { mayStillRead } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
import {
  answerEvents,
  type Followed,
  lastEventId,
  STREAM_PACE,
  type StreamEvent,
  streamed,
  streamHeaders,
  streamQuery,
} from "../event-stream.ts";
import { type Asked, operation } from "../operation.ts";
import { invalidRequest } from "../problem.ts";

type Asking = Pick<Asked, "env" | "by" | "catalog" | "context">;

/** If a poll finds more events, only the newest of them are sent. */
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
  query: { kinds, ...streamQuery },
  headers: streamHeaders.shape,
  answer: { 200: streamed("Events") },
  run(asked) {
    const heard = placeOf(lastEventId(asked.context));
    return answerEvents(asked.context, () => followTenant(asked, heard, asked.query.kinds ?? LIVE_KINDS));
  },
});

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

/** Events in the format of the API's lists. A row that has changed since its event is sent by the next poll. */
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
  const [hide, hideIn] = await Promise.all([
    redaction.ofInstances(env, by, [...failed, ...approvals.map((one) => one.instance_id)]),
    hideInErrors(env, { ...by, scopes: [] }, redaction, idsOf("dead_letter")),
  ]);
  const nameOf = (at: string, { id }: { id: string }) => `${Date.parse(at)} ${id}`;
  const views = new Map<string, object>([
    ...instances.map((one) => [nameOf(one.updated_at, one), hiddenIn(Instance, one, hide(one.id))] as const),
    ...letters.map((one) => [nameOf(one.captured_at, one), hiddenIn(DeadLetterRow, one, hideIn(one.id))] as const),
    ...approvals.map(
      ({ details: _, ...one }) => [nameOf(one.decided_at ?? one.asked_at, one), hiddenIn(ApprovalRow, one, hide(one.instance_id))] as const,
    ),
    ...actions.map((one) => [nameOf(one.at, one), one] as const),
  ]);
  return happened.flatMap((one) => {
    const data = one.doubt ?? views.get(`${one.at} ${one.id}`);
    return data === undefined ? [] : [{ id: idOf(one), event: one.kind, data }];
  });
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

export const instanceStream = operation("get", "/v1/instances/{id}/stream", "followInstance", undefined, {
  summary: "Follow an instance as server-sent events",
  description:
    "Events: `status`: the instance as in a list, with its retry and sleep, on every change. `step`: an attempt, sleep or wait that started or ended, from the platform history; an inline step once it is recorded. If a completed attempt did not finish its step, `state` is `in_doubt`, `paused` or `stopped` before it started, or `waiting` for an event or an answer. `progress`: the last report of a step. A failed attempt has `max_attempts`, and `retry_delay_ms`: null if no attempt follows. `end`: the instance, when its run has ended. With `Last-Event-ID` the stream continues after that event; after `end` it answers 204 until the instance runs again. Payloads and outputs are not included. The stream ends after at most three minutes: reconnect.",
  query: streamQuery,
  headers: streamHeaders.shape,
  answer: { 200: streamed("Events"), 204: { description: "`Last-Event-ID` is the id of the `end` event" } },
  problems: ["instance_not_found"],
  async run(asked) {
    const heard = heardOf(asked.context);
    const instance = await getInstance(asked.env, asked.by, asked.param.id);
    if (heard.hasEnded && OVER.has(instance.status) && heard.stand === endOf(instance)) return asked.context.body(null, 204);
    return answerEvents(asked.context, () => followInstance(asked, instance, heard));
  },
});

function followInstance(asked: Asking, first: Instance, heard: ReturnType<typeof heardOf>): Followed {
  const { env, by, catalog, context } = asked;
  const feed = new StepFeed(env, heard.place);
  let [place, stand, isFirst] = [heard.place, heard.stand, true];
  const reported = new Map<string, string>();

  return {
    ...STREAM_PACE,
    mayRead: () => mayStillRead(context),
    sooner: () => feed.sooner(),
    close: () => feed.close(),
    async look() {
      const instance = isFirst ? first : await getInstance(env, by, first.id);
      isFirst = false;
      const hasEnded = OVER.has(instance.status);
      const happened = await feed.heard(instance, hasEnded);
      // The status is sent after the step events. The stream ends after a final status.
      const isOver = hasEnded && !feed.hasMore;
      const mayTell = instance.error !== null || feed.hasFailed || instance.progress !== null;
      const hide = mayTell ? (await redactionOf(catalog).ofInstances(env, by, [instance.id]))(instance.id) : hideNothing;
      const events: StreamEvent[] = [];
      for (const heard of happened) {
        place = heard.place;
        if (heard.event.type !== "step_started") events.push({ id: idAt(place, stand), event: "step", data: stepView(heard, hide) });
      }
      for (const progress of instance.progress === null ? [] : await progressOf(env, first.id)) {
        if (reported.get(progress.step) === progress.at) continue;
        reported.set(progress.step, progress.at);
        events.push({ id: idAt(place, stand), event: "progress", data: hiddenIn(StepProgress, progress, hide) });
      }
      const activity = UNDER_WAY.has(instance.status) ? activityIn([...feed.steps.values()]) : undefined;
      const view = hiddenIn(Instance, { ...instance, ...activity }, hide);
      const { deliveries: _, updated_at: __, progress: ___, ...shown } = view;
      const seen = digest(String(instance.run), JSON.stringify(shown)).slice(0, 16);
      if (seen !== stand && !feed.hasMore) {
        stand = seen;
        events.push({ id: idAt(place, stand), event: "status", data: view });
      }
      if (isOver) events.push({ id: `${idAt(place, endOf(instance))}.end`, event: "end", data: view });
      return { events, isOver };
    },
  };
}

function idAt({ at, eventId, inline }: StepPlace, stand: string): string {
  return `${at}.${eventId}.${inline.at}.${inline.nth}.${stand}`;
}

/** Identifies the end of a run, so that the ends of two runs differ, even if both have the same status. */
function endOf({ run, status, undo_action }: Instance): string {
  return digest("end", String(run), status, String(undo_action)).slice(0, 16);
}

/** The position in the steps, and the digest of the last sent status (`stand`). */
function heardOf(context: Context<HttpEnv>) {
  const id = lastEventId(context);
  if (id === undefined) return { place: STEPS_BEGIN, stand: "-", hasEnded: false };
  const [, numbers, stand, end] = /^((?:\d{1,15}\.){4})(-|[0-9a-f]{16})(\.end)?$/.exec(id) ?? [];
  if (numbers === undefined || stand === undefined) {
    throw invalidRequest([{ path: "Last-Event-ID", message: "is not an event id of this stream: omit it to start at the beginning" }]);
  }
  const [at = 0, eventId = 0, inlineAt = 0, nth = 0] = numbers.split(".").map(Number);
  return { place: { at, eventId, inline: { at: inlineAt, nth } }, stand, hasEnded: end !== undefined };
}

/** The data of an event `step`. `count` distinguishes several steps of a run that have the same name. */
export type StepEvent = ReturnType<typeof stepView>;

function stepView({ event, awaited, end, maxAttempts }: HeardStep, hide: Hide) {
  const { type, timestamp: at } = event;
  const { name, count } = calledAs(event.stepName);
  return {
    type,
    step: awaited?.name ?? name,
    count,
    at: iso(at),
    ...("attempt" in event && { attempt: event.attempt }),
    ...(end && { state: end }),
    ...(type === "attempt_errored" && {
      error: hide(shownError(event.error)),
      retry_delay_ms: event.retryDelayMs ?? null,
      max_attempts: maxAttempts,
    }),
    ...(type === "sleep_started" && { until: iso(at + event.durationMs) }),
    ...(type.startsWith("wait_") && {
      event_type: awaited?.eventType ?? null,
      subject: awaited?.subject ?? null,
      approval_id: awaited?.approvalId ?? null,
      child_id: awaited?.childId ?? null,
      until: isoOrNull(awaited?.until ?? null),
    }),
  };
}

function shownError(error: Parameters<typeof attemptError>[0]) {
  const { name, message } = attemptError(error);
  return { name, message };
}
