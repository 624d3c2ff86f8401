import type { Context } from "hono";
import { type Hide, hideNothing } from "../../contract/hide.ts";
import { digest } from "../../contract/ids.ts";
import { hiddenIn, iso, isoOrNull } from "../../contract/row.ts";
import { attemptError, calledAs } from "../../inspect/history.ts";
import { Instance, StepProgress } from "../../inspect/instance-row.ts";
import { getInstance, progressOf } from "../../inspect/instances.ts";
import { type HeardStep, STEPS_BEGIN, StepFeed, type StepPlace } from "../../inspect/live/step-feed.ts";
import { redactionOf } from "../../inspect/redaction.ts";
import { standingIn } from "../../inspect/standing.ts";
import { OVER, UNDER_WAY } from "../../store/instances/status.ts";
import { mayStillRead, needs } from "../auth.ts";
import type { HttpEnv } from "../env.ts";
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

export const instanceStream = operation("get", "/v1/instances/{id}/stream", "followInstance", undefined, {
  summary: "Follow an instance as server-sent events",
  description:
    "Events: `status`: the instance as in a list, with its retry and sleep, on every change. `step`: an attempt, sleep or wait that started or ended, from the platform history; an inline (lean) step once it is recorded. If a completed attempt did not finish its step, `state` is `in_doubt`, `paused` or `stopped` before it started, or `waiting` for an event or an answer. `progress`: the last report of a step. A failed attempt has `max_attempts`, and `retry_delay_ms`: null if no attempt follows. `end`: the instance, when its run has ended. With `Last-Event-ID` the stream continues after that event; after `end` it answers 204 until the instance runs again. Payloads and outputs are not included. The stream ends after at most three minutes: reconnect.",
  ...needs("read"),
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

/** What a client of an instance's stream has received: its position in the steps, and the status that was sent last. */
interface Heard {
  readonly place: StepPlace;
  readonly stand: string;
  readonly hasEnded: boolean;
}

function followInstance(asked: Pick<Asked, "env" | "by" | "catalog" | "context">, first: Instance, heard: Heard): Followed {
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
        if (heard.event.type !== "step_started") events.push({ id: idOf(place, stand), event: "step", data: stepView(heard, hide) });
      }
      const reports = instance.progress === null ? [] : await progressOf(env, first.id);
      for (const progress of reports.filter(({ step, at }) => reported.get(step) !== at)) {
        reported.set(progress.step, progress.at);
        events.push({ id: idOf(place, stand), event: "progress", data: hiddenIn(StepProgress, progress, hide) });
      }
      const standing = UNDER_WAY.has(instance.status) ? standingIn([...feed.steps.values()]) : undefined;
      const view = hiddenIn(Instance, { ...instance, ...standing }, hide);
      const { deliveries: _, updated_at: __, progress: ___, ...shown } = view;
      const seen = digest(String(instance.run), JSON.stringify(shown)).slice(0, 16);
      if (seen !== stand && !feed.hasMore) {
        stand = seen;
        events.push({ id: idOf(place, stand), event: "status", data: view });
      }
      if (isOver) events.push({ id: `${idOf(place, endOf(instance))}.end`, event: "end", data: view });
      return { events, isOver };
    },
  };
}

function idOf({ at, eventId, lean }: StepPlace, stand: string): string {
  return `${at}.${eventId}.${lean.at}.${lean.nth}.${stand}`;
}

/** Identifies the end of a run, so that the ends of two runs differ, even if both have the same status. */
function endOf({ run, status, undo_action }: Instance): string {
  return digest("end", String(run), status, String(undo_action)).slice(0, 16);
}

function heardOf(context: Context<HttpEnv>): Heard {
  const id = heardLast(context);
  if (id === undefined) return { place: STEPS_BEGIN, stand: "-", hasEnded: false };
  const [, numbers, stand, end] = /^((?:\d{1,15}\.){4})(-|[0-9a-f]{16})(\.end)?$/.exec(id) ?? [];
  if (numbers === undefined || stand === undefined) {
    throw invalidRequest([{ path: "Last-Event-ID", message: "is not an event id of this stream: omit it to start at the beginning" }]);
  }
  const [at = 0, eventId = 0, leanAt = 0, nth = 0] = numbers.split(".").map(Number);
  return { place: { at, eventId, lean: { at: leanAt, nth } }, stand, hasEnded: end !== undefined };
}

/** The view of a step event in the stream, without input and output. */
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
