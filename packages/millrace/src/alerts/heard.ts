import { queueBinding, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { sayUnmeant } from "../contract/settings.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { ChannelName } from "./channels.ts";
import { AlertChanged, SEND_ALERT } from "./notice.ts";

/** The workflows that alerts start: what fails in them must not start them again. */
export function sendersOf(catalog: Catalog | undefined): ReadonlySet<string> {
  return new Set([SEND_ALERT, ...startedOf(catalog)]);
}

/**
 * True where somebody takes the messages of alerts: a channel, or something of the deployment's own that follows them. What keeps them from
 * who is meant is said once in the log, in each environment: a queue or a workflow that is not bound, and channels that nothing sends to.
 */
export function isHeard(env: object, catalog: Catalog | undefined, channels: readonly ChannelName[]): boolean {
  const targets = targetsOf(catalog);
  if (targets.length === 0) {
    if (channels.length > 0) sayUnmeant(env, UNSENT);
    return false;
  }
  // A message whose workflow is missing is kept all the same, as a dead letter in the end.
  for (const workflow of startedOf(catalog)) said(env, `Alerts do not start "${workflow}"`, () => workflowBinding(env, workflow));
  if (!said(env, "Alerts are sent to nobody", () => queueBinding(env, AlertChanged.queue.name))) return false;
  return targets.some((target) => channels.length > 0 || target.do !== "start" || target.workflow.name !== SEND_ALERT);
}

/** True where a binding is there; what is missing is said. */
function said(env: object, what: string, find: () => unknown): boolean {
  try {
    find();
    return true;
  } catch (error) {
    sayUnmeant(env, `${what}: ${messageOf(error)}`);
    return false;
  }
}

const UNSENT =
  "Alerts are sent to nobody: a channel is set, and nothing here sends to it. Add defineConsumer({ queue: AlertChanged.queue, " +
  "routes: [on(AlertChanged, start(alertSender()))] }) to the catalog, and deploy.";

function startedOf(catalog: Catalog | undefined): string[] {
  return targetsOf(catalog).flatMap((target) => (target.do === "start" ? [target.workflow.name] : []));
}

/** What follows alerts in a deployment. */
function targetsOf(catalog: Catalog | undefined) {
  return catalog?.kindsOf(AlertChanged.type).includes("event") ? catalog.subscribers(AlertChanged.type).targets : [];
}
