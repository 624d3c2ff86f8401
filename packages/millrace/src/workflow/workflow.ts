import type * as z from "zod";
import type { AddressGuard } from "../contract/address-guard.ts";
import { DEFAULT_QUEUE } from "../contract/bindings.ts";
import { assertDeclared, isSchema, isWhole } from "../contract/declared.ts";
import { type Duration, durationMs, YEAR_MS } from "../contract/duration.ts";
import { type Envelope, isWorkflowName } from "../contract/envelope.ts";
import { type FlowControl, noteFlow } from "../contract/flow.ts";
import { type CommandDefinition, type GivenAs, type MessageDefinition, ownCommand } from "../contract/message.ts";
import { noteVersions } from "../contract/params.ts";
import { defineQueue, laneIn } from "../contract/queue.ts";
import { assertStepMode, type StepMode } from "../contract/step-names.ts";
import type { Stored } from "../guard/step.ts";
import { keepResultsFor, REMEMBERED_DAYS } from "../store/kept-days.ts";
import type { Steps } from "./steps.ts";

/** The argument of a workflow's `run`. */
export interface WorkflowCall<Payload> {
  readonly payload: Payload;
  readonly step: Steps;
  /** The message that started the instance. */
  readonly envelope: Readonly<Envelope>;
  /** The id of this instance: 32 hex characters. */
  readonly instanceId: string;
  readonly env: Cloudflare.Env;
  /** The catalog that `catalog()` returned and that the app passed to `entrypoint`. */
  readonly deployment: Deployment;
}

/** Facts about the deployment that a workflow needs. */
export interface Deployment {
  /** Events that a route signals to waiting runs. */
  readonly signalled: ReadonlySet<string>;
  /** Maximum length of a chain of instances, as in the catalog. Default: the catalog's default. */
  readonly maxHops?: number | undefined;
}

/** A workflow. A message starts one run of the workflow per key, and `run` contains the workflow's steps. */
export interface WorkflowDefinition<Payload = unknown, Type extends string = string, Result = unknown, Given = NoInfer<Payload>>
  extends FlowControl<Payload> {
  /**
   * The name of the workflow in lower case with dashes. The workflow's binding in `wrangler.jsonc` has the same name in upper case with
   * underscores.
   */
  readonly name: string;
  /** The command or event that starts the workflow. */
  readonly on: MessageDefinition<Payload, Type, Given>;
  /**
   * The version of `run`: a whole number from 1, which is the default. Raise the version if an open instance could not continue with the
   * new code, and keep the old function in `previous`. An instance is bound to a version at its start.
   */
  readonly version?: number;
  /**
   * The functions of earlier versions, such as `{ 1: oldRun }`. Instances that began with such a version replay, retry and undo with its
   * function. An instance whose version is missing makes no step until a deployment has the version.
   */
  readonly previous?: Readonly<Record<number, (call: WorkflowCall<Payload>) => Promise<unknown>>>;
  /**
   * Returns the result of the run: plain data, at most 1 MiB. If JSON changes the result, the run stores the changed value with a note. The
   * run ends when every effect that the run started has an outcome, including effects that the code did not await. If one of these effects
   * finally fails, the run fails.
   */
  readonly run: (call: WorkflowCall<Payload>) => Promise<Result>;
  /**
   * Time limit from acceptance to end, such as `"2 hours"`, unless the command sets `must_end_by`. An instance beyond its deadline is
   * reported as overdue, and continues. Default: the workflow has no time limit.
   */
  readonly deadline?: Duration;
  /**
   * How long the platform stores the result and the history of a complete run: 1 hour to 30 days. The platform bills this storage. By
   * default the platform stores the result and the history for 2 days. A failed run is stored for 30 days, so that a retry can reuse the
   * results of the run's steps.
   */
  readonly keepResult?: Duration;
  /**
   * How the engine makes the first attempts at effects and commits. With `"platform"`, the default, each attempt is a platform step. With
   * `"inline"`, the replay itself makes the attempt, which is faster and cheaper. docs/performance.md says when to use which. A step can
   * override the mode of its workflow.
   */
  readonly steps?: StepMode;
  /**
   * Pauses the workflow for a tenant after several of the tenant's instances failed for the same cause within a period, such as
   * `{ failures: 10, within: "5 minutes" }`. An operator resumes the paused workflow. Default: none.
   */
  readonly breaker?: Breaker;
}

export interface Breaker {
  /** The number of failures after which the workflow is paused: 2 to 1000. */
  readonly failures: number;
  /** The period within which the failures count: at most 1 day. */
  readonly within: Duration;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** A workflow with any payload type, for lists. Each workflow validates the payload when the workflow runs. */
// biome-ignore lint/suspicious/noExplicitAny: functions here both accept and return a payload type, so no narrower type fits
export type AnyWorkflow = WorkflowDefinition<any>;

/** The workflow that sends callbacks, with the guard that checks the addresses of callbacks. */
export interface CallbackSender extends AnyWorkflow {
  /**
   * Checks the address of a callback when a command names the address, and again before each request. Default: addresses are not checked.
   */
  readonly guard?: AddressGuard | undefined;
}

/** A workflow that declares an `input`. The engine defines the workflow's command, with the workflow's name, on the default queue. */
interface OwnCommand<Input, Name extends string, Result, Given = unknown>
  extends Omit<WorkflowDefinition<Input, Name, Result>, "on" | "name" | "run" | "previous"> {
  readonly name: Name;
  readonly on?: never;
  /** The schema of the command's payload. */
  readonly input: z.ZodType<Input, Given>;
  /**
   * Derives the idempotency key from the input. Commands with the same key give one instance. By default each caller must send an
   * idempotency key.
   */
  readonly key?: (input: Input) => string;
  /** The tags of the instance, such as "customer:acme": at most 10. */
  readonly tags?: (input: Input) => readonly string[];
  readonly run: (call: WorkflowCall<Input> & { readonly input: Input }) => Promise<Result>;
  readonly previous?: Readonly<Record<number, (call: WorkflowCall<Input> & { readonly input: Input }) => Promise<unknown>>>;
}

/** A workflow with its command, for typed callers such as a step that sends the command. */
export interface CommandedWorkflow<Input, Name extends string, Result = unknown, Given = NoInfer<Input>>
  extends WorkflowDefinition<Input, Name, Result, Given> {
  readonly command: CommandDefinition<Input, Name, Given>;
}

const defaultQueue = defineQueue({ name: DEFAULT_QUEUE });

/**
 * Declares a workflow that a message starts (`on`), or a workflow with its own command (`input`). With `input` the workflow's command has
 * the workflow's name, on the queue "millrace". Errors: `config_invalid` for an invalid name, a missing message or function, or an invalid
 * deadline, `keepResult`, `steps`, `breaker` or flow control.
 */
export function defineWorkflow<Payload, Type extends string, Result, Given>(
  definition: WorkflowDefinition<Payload, Type, Stored<Result>, Given>,
): WorkflowDefinition<Payload, Type, Stored<Result>, Given>;
export function defineWorkflow<Input, Name extends string, Result, Given>(
  definition: OwnCommand<Input, Name, Stored<Result>, Given>,
): CommandedWorkflow<Input, Name, Stored<Result>, GivenAs<Input, Given>>;
export function defineWorkflow(definition: AnyWorkflow | OwnCommand<unknown, string, unknown>): AnyWorkflow {
  const { name } = definition ?? {};
  assertDeclared(isWorkflowName(name), `"${name}" is not a workflow name: use lower case letters, digits and dashes.`);
  return declared("input" in definition && definition.on === undefined ? commanded(definition) : (definition as AnyWorkflow));
}

function commanded({ input, key, tags, run, previous, ...rest }: OwnCommand<unknown, string, unknown>): CommandedWorkflow<unknown, string> {
  const { name } = rest;
  assertDeclared(isSchema(input), `The input of "${name}" must be a zod 4 schema such as z.object({ … }).`);
  assertDeclared(key === undefined || typeof key === "function", `The key of "${name}" must be a function: input => string.`);
  assertDeclared(typeof run === "function", `The workflow "${name}" needs \`run\`: the function that executes its steps.`);
  const command = ownCommand({ type: name, payload: input, key, tags, queue: defaultQueue });
  const withInput = (code: typeof run) => (call: WorkflowCall<unknown>) => code({ ...call, input: call.payload });
  const before = Object.entries(previous ?? {}).map(([version, code]) => [version, typeof code === "function" ? withInput(code) : code]);
  return { ...rest, on: command, command, run: withInput(run), ...(previous && { previous: Object.fromEntries(before) }) };
}

function assertVersions({ name, version = 1, previous = {} }: AnyWorkflow): void {
  assertDeclared(isWhole(version, [1, MAX_VERSION]), `The version of "${name}" must be a whole number from 1 to ${MAX_VERSION}.`);
  for (const [number, run] of Object.entries(previous)) {
    assertDeclared(
      isWhole(Number(number), [1, version - 1]) && String(Number(number)) === number && typeof run === "function",
      `\`previous\` of "${name}" must have functions by their version, below version ${version}: { ${Math.max(1, version - 1)}: oldRun }.`,
    );
  }
}

const MAX_VERSION = 1_000_000;

function declared(definition: AnyWorkflow): AnyWorkflow {
  const { name, on, run, deadline, breaker } = definition;
  const isMessage = on?.kind === "command" || on?.kind === "event";
  assertDeclared(
    isMessage,
    `The workflow "${name}" has no message that starts it: give it a command or an event as \`on\`, or an \`input\`.`,
  );
  assertDeclared(typeof run === "function", `The workflow "${name}" needs \`run\`: the function that executes its steps.`);
  if (deadline !== undefined) {
    const deadlineMs = durationMs(deadline);
    assertDeclared(deadlineMs > 0, `The deadline of "${name}" must be longer than 0.`);
    assertDeclared(deadlineMs <= YEAR_MS, `The deadline of "${name}" must be at most 365 days.`);
  }
  const resultMs = definition.keepResult === undefined ? undefined : durationMs(definition.keepResult);
  assertDeclared(
    resultMs === undefined || (resultMs >= HOUR_MS && resultMs <= REMEMBERED_DAYS * DAY_MS),
    `keepResult of "${name}" must be 1 hour to ${REMEMBERED_DAYS} days, not ${definition.keepResult}.`,
  );
  keepResultsFor(name, resultMs);
  if (breaker !== undefined) {
    assertDeclared(
      isWhole(breaker?.failures, [2, 1000]),
      `The breaker of "${name}" must have \`failures\`: a whole number from 2 to 1000.`,
    );
    const withinMs = durationMs(breaker.within);
    assertDeclared(withinMs > 0 && withinMs <= DAY_MS, `The breaker of "${name}" must have \`within\`: a duration of at most 1 day.`);
  }
  assertStepMode(definition.steps, `The workflow "${definition.name}"`);
  assertVersions(definition);
  noteVersions(definition);
  assertDeclared(
    (definition.concurrency ?? definition.debounce ?? definition.throttle) === undefined || laneIn(on.queue.name) === undefined,
    `The workflow "${name}" gets its commands from a lane, which has its own order: remove its flow control, or the lane.`,
  );
  noteFlow(definition);
  return definition;
}
