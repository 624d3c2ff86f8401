import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Envelope, parseEnvelope } from "../contract/envelope.ts";
import { MillraceError, readable } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { openParams, type Params } from "../contract/params.ts";
import { unpackPayload } from "../contract/payload.ts";
import { advise, betweenSteps } from "../pass/advice.ts";
import { tellEnd } from "./end.ts";
import { asMissing, asPlatformError } from "../pass/failure.ts";
import { asResult } from "../guard/output.ts";
import { Platform } from "./platform.ts";
import { Run } from "../pass/pass.ts";
import { isAborted } from "./step-attempts.ts";
import { Steps } from "./steps.ts";
import type { Stored } from "../guard/stored.ts";
import { Walk } from "./undoing.ts";

/** What a workflow's code is given. */
export interface WorkflowCall<Payload> {
  readonly payload: Payload;
  readonly step: Steps;
  /** The message that started the instance; to be read. */
  readonly envelope: Readonly<Envelope>;
  /** This instance's id: 32 hex characters. */
  readonly instanceId: string;
  readonly env: Cloudflare.Env;
}

/** What the business does: started once per key by a message, its steps in reading order. */
export interface WorkflowDefinition<Payload = unknown, Type extends string = string, Result = unknown> {
  /** Lower case with dashes; bound in `wrangler.jsonc` under the same name in upper case with underscores. */
  readonly name: string;
  /** The command it performs, or the event it follows. */
  readonly on: MessageDefinition<Payload, Type>;
  /**
   * What it returns is the run's result: plain data of at most 1 MiB. What JSON would change of it is kept as JSON has it, and told. Its
   * run ends when every effect that it began has its outcome, also those that it did not wait for; one of these that fails for good is what
   * the run failed of.
   */
  readonly run: (call: WorkflowCall<Payload>) => Promise<Result>;
}

/** A workflow whatever its payload: what lists of them hold. Each checks its own payload when it runs. */
// biome-ignore lint/suspicious/noExplicitAny: a payload type stands on both sides of functions here, so no narrower type takes them all
export type AnyWorkflow = WorkflowDefinition<any>;

const signalled = new WeakMap<AnyWorkflow, ReadonlySet<string>>();

/** Said by the catalog of a workflow: which events its routes signal to waiting runs. A wait for any other would last for nothing. */
export function declareSignals(workflow: AnyWorkflow, types: ReadonlySet<string>): void {
  signalled.set(workflow, types);
}

/** Declares a workflow. Errors: `config_invalid` for a name the platform would refuse. */
export function defineWorkflow<Payload, Type extends string, Result>(
  definition: WorkflowDefinition<Payload, Type, Stored<Result>>,
): WorkflowDefinition<Payload, Type> {
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(definition.name)) {
    throw new MillraceError("config_invalid", `"${definition.name}" is not a workflow name: use lower case letters, digits and dashes.`);
  }
  return definition;
}

/** The class to export from the Worker for a workflow: `export class PublishArticle extends entrypoint(publishArticle) {}`. */
export function entrypoint<Payload>(definition: WorkflowDefinition<Payload>) {
  if (definition === undefined) {
    throw new MillraceError("config_invalid", "entrypoint() was given no workflow: what it is called with is exported nowhere.");
  }
  return class extends WorkflowEntrypoint<EngineEnv, Params> {
    /** The name of the workflow it runs: what holds the wiring against the configuration reads it. */
    static readonly workflow: string = definition.name;

    override run(event: Readonly<WorkflowEvent<Params>>, platform: WorkflowStep): Promise<unknown> {
      return pass(definition, this.env, event, platform);
    }
  };
}

const NOT_AWAITED = "It was not awaited: the code went on, and ended, without it. Write await before it, or give it to Promise.all.";

/** A class that two bindings name runs the work of both. Errors: `config_invalid` for a message that its workflow does not take. */
function assertOwn({ name, on }: AnyWorkflow, { message_type: type }: Envelope): void {
  if (type === on.type) return;
  throw new MillraceError(
    "config_invalid",
    `The class that was started for "${type}" runs the workflow "${name}", which takes "${on.type}". In wrangler.jsonc, a binding of another workflow names its class: correct that class_name, deploy, then retry.`,
  );
}

/** One pass through the workflow's code, to do it or to undo it: open the message, run, note how it ended. */
async function pass<Payload>(
  definition: WorkflowDefinition<Payload>,
  env: EngineEnv,
  event: Readonly<WorkflowEvent<Params>>,
  steps: WorkflowStep,
): Promise<unknown> {
  const { envelope: message, createdAt, undoes } = openParams(event.payload);
  const envelope = parseEnvelope(message);
  const run = new Run(
    env,
    definition.name,
    undoes ?? event.instanceId,
    envelope,
    createdAt,
    signalled.get(definition),
    undoes !== undefined,
  );
  const { instanceId } = run;
  run.begin();
  const allowed = undoes === undefined ? run.assertNotUndone() : run.which.assertUndoes(event.instanceId);
  await allowed.catch((error) => Promise.reject(asPlatformError(error)));
  const platform = new Platform(run, steps);
  const walk = undoes === undefined ? undefined : new Walk(run, platform);
  try {
    assertOwn(definition, envelope);
    const payload = await platform.reading({ label: "open payload" }, () => unpackPayload(env.PAYLOADS, definition.on, envelope));
    const step = new Steps(run, platform, walk);
    const call = { payload, step, envelope: Object.freeze({ ...envelope }), instanceId, env: env as unknown as Cloudflare.Env };
    const code = () => betweenSteps(run, () => definition.run(call)).finally(() => run.catchUp());
    if (walk) {
      const undone = await platform.untilBrokenOff(walk.undo(code));
      await tellEnd(run, platform, "terminated");
      return { undone };
    }
    const { kept, changed } = asResult(await platform.untilBrokenOff(code()).finally(() => run.noteOver()));
    if (changed) advise(run, "", `${changed} Return plain data, such as { at: date.toISOString() } or [...map].`);
    for (const label of run.floating) advise(run, label, NOT_AWAITED);
    await platform.whenDone();
    await tellEnd(run, platform, "complete");
    return kept;
  } catch (thrown) {
    const error = asMissing(readable(thrown));
    if (isAborted(error)) throw error;
    await platform.whenQuiet();
    // Made anew by the platform, a complete run does nothing, and stays complete: also where its code would go another way now.
    if (run.which.isComplete) return undefined;
    const failure = run.reasonFor(error);
    if (failure) await tellEnd(run, platform, "errored", failure);
    throw asPlatformError(error);
  }
}
