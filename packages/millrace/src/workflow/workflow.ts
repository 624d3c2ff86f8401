import type * as z from "zod";
import type { AddressGuard } from "../contract/address-guard.ts";
import { DEFAULT_QUEUE } from "../contract/bindings.ts";
import { assertDeclared, isSchema } from "../contract/declared.ts";
import { type Duration, durationMs, YEAR_MS } from "../contract/duration.ts";
import { type Envelope, isWorkflowName } from "../contract/envelope.ts";
import { type CommandDefinition, type GivenAs, type MessageDefinition, ownCommand } from "../contract/message.ts";
import { defineQueue } from "../contract/queue.ts";
import { assertStepMode, type StepMode } from "../contract/step-mode.ts";
import type { Stored } from "../guard/stored.ts";
import { keepResultsFor, REMEMBERED_DAYS } from "../store/kept-days.ts";
import type { Steps } from "./steps.ts";

/** What a workflow's code is given. */
export interface WorkflowCall<Payload> {
  readonly payload: Payload;
  readonly step: Steps;
  /** The message that started the instance; to be read. */
  readonly envelope: Readonly<Envelope>;
  /** This instance's id: 32 hex characters. */
  readonly instanceId: string;
  readonly env: Cloudflare.Env;
  /** What `entrypoint` was given with it: what `catalog()` made. */
  readonly deployment: Deployment;
}

/** What a workflow is told of the deployment that it is part of. */
export interface Deployment {
  /** The events that a route signals to waiting runs. */
  readonly signalled: ReadonlySet<string>;
}

/** What the business does: started once per key by a message, its steps in reading order. */
export interface WorkflowDefinition<Payload = unknown, Type extends string = string, Result = unknown, Given = NoInfer<Payload>> {
  /** Lower case with dashes; bound in `wrangler.jsonc` under the same name in upper case with underscores. */
  readonly name: string;
  /** The command it performs, or the event it follows. */
  readonly on: MessageDefinition<Payload, Type, Given>;
  /**
   * What it returns is the run's result: plain data of at most 1 MiB. What JSON would change of it is kept as JSON has it, and told. Its
   * run ends when every effect that it began has its outcome, also those that it did not wait for; one of these that fails for good is what
   * the run failed of.
   */
  readonly run: (call: WorkflowCall<Payload>) => Promise<Result>;
  /**
   * How long an instance may take from its acceptance to its end, such as `"2 hours"`, unless its command says otherwise (`must_end_by`).
   * One that takes longer is overdue: somebody is told, and nothing is ended. Default: as long as it takes.
   */
  readonly deadline?: Duration;
  /**
   * How long the platform keeps the result and the history of a complete run: 1 hour to 30 days. Its storage is billed. Default: 2 days. A
   * failed run is kept for 30 days, so that a retry can start from its steps.
   */
  readonly keepResult?: Duration;
  /**
   * How the first attempts at its effects and commits are made: each as a step of the platform's (`"platform"`, the default), or by the
   * pass itself (`"lean"`), which is faster and cheaper; docs/performance.md says when to take which. A step may say otherwise for itself.
   */
  readonly steps?: StepMode;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** A workflow whatever its payload: what lists of them hold. Each checks its own payload when it runs. */
// biome-ignore lint/suspicious/noExplicitAny: a payload type stands on both sides of functions here, so no narrower type takes them all
export type AnyWorkflow = WorkflowDefinition<any>;

/** The workflow that calls the addresses which commands name, and what judges those addresses. */
export interface CallbackSender extends AnyWorkflow {
  /** Asked when a command names an address, and again before each request. Default: none is judged. */
  readonly guard?: AddressGuard | undefined;
}

/** A workflow that declares an `input`: the engine makes its command, of the workflow's name, on the default queue. */
interface OwnCommand<Input, Name extends string, Result, Given = unknown>
  extends Omit<WorkflowDefinition<Input, Name, Result>, "on" | "name" | "run"> {
  readonly name: Name;
  readonly on?: never;
  /** The schema of the command's payload. */
  readonly input: z.ZodType<Input, Given>;
  /** Names the work: the same key is the same instance. Default: each caller must give an idempotency key. */
  readonly key?: (input: Input) => string;
  readonly run: (call: WorkflowCall<Input> & { readonly input: Input }) => Promise<Result>;
}

/** A workflow with its command, for typed callers such as a step that emits it. */
export interface CommandedWorkflow<Input, Name extends string, Result = unknown, Given = NoInfer<Input>>
  extends WorkflowDefinition<Input, Name, Result, Given> {
  readonly command: CommandDefinition<Input, Name, Given>;
}

const defaultQueue = defineQueue({ name: DEFAULT_QUEUE });

/**
 * Declares a workflow `on` a message, or with an `input` that its own command carries: of the workflow's name, on the queue "millrace".
 * Errors: `config_invalid` for a name the platform would refuse, without a message or code, and for a deadline, `keepResult` or `steps`
 * that is none.
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

function commanded({ input, key, run, ...rest }: OwnCommand<unknown, string, unknown>): CommandedWorkflow<unknown, string> {
  const { name } = rest;
  assertDeclared(isSchema(input), `The input of "${name}" must be a zod 4 schema such as z.object({ … }).`);
  assertDeclared(key === undefined || typeof key === "function", `The key of "${name}" must be a function: input => string.`);
  assertDeclared(typeof run === "function", `The workflow "${name}" needs \`run\`: the function that executes its steps.`);
  const command = ownCommand({ type: name, payload: input, key, queue: defaultQueue });
  return { ...rest, on: command, command, run: (call) => run({ ...call, input: call.payload }) };
}

function declared(definition: AnyWorkflow): AnyWorkflow {
  const { name, on, run, deadline } = definition;
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
  assertStepMode(definition.steps, `The workflow "${definition.name}"`);
  return definition;
}
