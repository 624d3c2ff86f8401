import { WorkflowEntrypoint, type WorkflowEvent, type WorkflowStep } from "cloudflare:workers";
import type { EngineEnv } from "../contract/bindings.ts";
import { type Envelope, parseEnvelope } from "../contract/envelope.ts";
import { MillraceError } from "../contract/errors.ts";
import type { MessageDefinition } from "../contract/message.ts";
import { dropPayload, unpackPayload } from "../contract/payload.ts";
import { asPlatformError } from "./failure.ts";
import { Run } from "./run.ts";
import { Steps } from "./steps.ts";

/** What a workflow's code is given. */
export interface WorkflowCall<Payload> {
  readonly payload: Payload;
  readonly step: Steps;
  /** The message that started the instance. */
  readonly envelope: Envelope;
  /** This instance's id: 32 hex characters. */
  readonly instanceId: string;
  readonly env: Cloudflare.Env;
}

/** What the business does: started once per key by a message, its steps in reading order. */
export interface WorkflowDefinition<Payload = unknown> {
  /** Lower case with dashes; bound in `wrangler.jsonc` under the same name in upper case with underscores. */
  readonly name: string;
  /** The command it performs, or the event it follows. */
  readonly on: MessageDefinition<Payload>;
  readonly run: (call: WorkflowCall<Payload>) => Promise<unknown>;
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
export function defineWorkflow<Payload>(definition: WorkflowDefinition<Payload>): WorkflowDefinition<Payload> {
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(definition.name)) {
    throw new MillraceError("config_invalid", `"${definition.name}" is not a workflow name: use lower case letters, digits and dashes.`);
  }
  return definition;
}

/** The class to export from the Worker for a workflow: `export class PublishArticle extends entrypoint(publishArticle) {}`. */
export function entrypoint<Payload>(definition: WorkflowDefinition<Payload>) {
  return class extends WorkflowEntrypoint<EngineEnv, Envelope> {
    override run(event: Readonly<WorkflowEvent<Envelope>>, platform: WorkflowStep): Promise<unknown> {
      return pass(definition, this.env, event, platform);
    }
  };
}

/** One pass through the workflow's code: open the message, run, note how it ended. */
async function pass<Payload>(
  definition: WorkflowDefinition<Payload>,
  env: EngineEnv,
  event: Readonly<WorkflowEvent<Envelope>>,
  platform: WorkflowStep,
): Promise<unknown> {
  const envelope = parseEnvelope(event.payload);
  const run = new Run(env, definition.name, event.instanceId, envelope, event.timestamp, signalled.get(definition));
  try {
    const payload = await unpackPayload(env.PAYLOADS, definition.on, envelope);
    const output = await definition.run({
      payload,
      step: new Steps(run, platform),
      envelope,
      instanceId: event.instanceId,
      env: env as unknown as Cloudflare.Env,
    });
    await run.recorder.finish(event.instanceId, "complete", null);
    await dropPayload(env.PAYLOADS, envelope);
    return output;
  } catch (error) {
    const failure = run.failureBehind(error);
    if (failure) await run.recorder.finish(event.instanceId, "errored", JSON.stringify(failure));
    throw asPlatformError(error);
  }
}
