import { isElsewhere, queueBinding, workflowBinding } from "../contract/bindings.ts";
import { messageOf } from "../contract/errors.ts";
import { sayUnmeant } from "../contract/settings.ts";
import type { Catalog } from "../topology/catalog.ts";
import type { ChannelName } from "./channels.ts";
import { AlertChanged, SEND_ALERT } from "./notice.ts";

/** The workflows that alerts start. Failures of workflows that alerts start must not raise further alerts. */
export function sendersOf(catalog: Catalog | undefined): ReadonlySet<string> {
  return new Set([SEND_ALERT, ...startedOf(catalog)]);
}

/**
 * True if alerts' messages have a receiver: a channel, or a consumer of the deployment. Each missing part is logged once in each
 * environment: an unbound queue or workflow, and channels without a sending workflow.
 */
export function isHeard(env: object, catalog: Catalog | undefined, channels: readonly ChannelName[]): boolean {
  const targets = targetsOf(catalog);
  if (targets.length === 0) {
    if (channels.length > 0) sayUnmeant(env, UNSENT);
    return false;
  }
  // A message of an alert whose workflow is not bound is not lost: after its retries, the message becomes a dead letter.
  for (const workflow of startedOf(catalog).filter((name) => !isElsewhere(env, name, catalog?.elsewhere)))
    said(env, `Alerts do not start "${workflow}"`, () => workflowBinding(env, workflow, catalog?.elsewhere));
  if (!said(env, "Alerts are not sent", () => queueBinding(env, AlertChanged.queue.name))) return false;
  return targets.some((target) => channels.length > 0 || target.do !== "start" || target.workflow.name !== SEND_ALERT);
}

/** True if a binding for alerts exists. Otherwise the function logs the missing binding. */
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
  "Alerts are not sent: a channel is configured, but no workflow sends to it. Add defineConsumer({ queue: AlertChanged.queue, " +
  "routes: [on(AlertChanged, start(alertSender()))] }) to the catalog, and deploy.";

function startedOf(catalog: Catalog | undefined): string[] {
  return targetsOf(catalog).flatMap((target) => (target.do === "start" ? [target.workflow.name] : []));
}

function targetsOf(catalog: Catalog | undefined) {
  return catalog?.kindsOf(AlertChanged.type).includes("event") ? catalog.subscribers(AlertChanged.type).targets : [];
}
