import { expect, it } from "vitest";
import type { Step } from "../../demo/api.ts";
import { Timeline } from "../../demo/timeline.ts";
import type { Instance } from "../../packages/millrace/cli/api-client.ts";

const START = Date.parse("2026-10-01T00:00:00.000Z");
const at = (ms: number) => new Date(START + ms).toISOString();
const written: Instance = {
  id: "w",
  workflow: "generate-article",
  version: 1,
  status: "complete",
  message_type: "research.completed",
  idempotency_key: "k",
  correlation_id: "demo",
  causation_id: "c",
  subject: "acme/cold brew",
  deliveries: 1,
  step: "write article",
  waiting_for: [],
  held: null,
  retrying: null,
  sleeping: null,
  due_at: null,
  must_end_by: null,
  overdue: false,
  error: null,
  tags: [],
  parent: null,
  progress: null,
  run: 1,
  undo: null,
  undo_action: null,
  accepted_at: at(10),
  updated_at: at(40),
};
const publishing: Instance = {
  ...written,
  id: "p",
  workflow: "publish-article",
  status: "running",
  message_type: "content.publish",
  subject: "w",
  accepted_at: at(30),
};

it("the demo reports each start and end of an instance once, in order of time, with the instance's keyword", () => {
  const timeline = new Timeline(START);
  expect(timeline.news([publishing, written], new Map()).map((line) => line.replace(/ +/g, " ").trim())).toEqual([
    "10 ms research.completed cold brew generate-article accepted",
    "30 ms content.publish cold brew publish-article accepted",
    "40 ms research.completed cold brew generate-article complete",
  ]);
  expect(timeline.news([publishing, written], new Map())).toEqual([]);
});

it("a failed attempt is reported with the time until the next attempt, and a failed instance with its last step", () => {
  const timeline = new Timeline(START);
  timeline.news([publishing, written], new Map());
  const attempt = { attempt: 1, started_at: at(50), ended_at: at(60), error: { name: "Error", message: "503" }, retry_delay_ms: 2011 };
  const step: Step = {
    type: "do",
    name: "put page",
    own: null,
    mode: "platform",
    kept: false,
    count: 1,
    state: "retrying",
    started_at: at(50),
    ended_at: null,
    attempts: [attempt],
    duration_ms: null,
    event_type: null,
    subject: null,
    approval_id: null,
    child_id: null,
    max_attempts: 6,
    next_attempt_at: null,
    until: null,
    progress: null,
    effects: [],
  };
  expect(timeline.news([publishing, written], new Map([["p", [step]]]))).toEqual([
    expect.stringContaining("“put page” failed at attempt 1; again in 2 s"),
  ]);
  const errored: Instance = {
    ...publishing,
    status: "errored",
    updated_at: at(6000),
    error: { step: "put page", code: "unavailable", message: "503", attempts: 3 },
  };
  expect(timeline.news([errored, written], new Map())).toEqual([expect.stringContaining("errored: “put page” failed 3 times")]);
});
