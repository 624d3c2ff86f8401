import { Actions } from "./actions/actions.tsx";
import { Audit } from "./actions/audit.tsx";
import { BulkAction } from "./actions/bulk-action.tsx";
import { Catalog, CatalogItem } from "./catalog/catalog.tsx";
import { DeadLetters } from "./dead-letters/dead-letters.tsx";
import { DeadLetter } from "./dead-letters/letter.tsx";
import { Instance } from "./instance/instance.tsx";
import { Instances } from "./instances/instances.tsx";
import { Job } from "./job/job.tsx";
import { Messages } from "./messages/messages.tsx";
import { Metrics } from "./metrics/metrics.tsx";
import { Now } from "./now/now.tsx";
import { NOWHERE } from "./nowhere/nowhere.tsx";
import { Queues } from "./queues/queues.tsx";
import type { Screen } from "./screen.ts";
import { Send } from "./send/send.tsx";
import { Settings } from "./settings/settings.tsx";
import { ToDo } from "./to-do/to-do.tsx";

export const SCREENS: readonly Screen[] = [
  { path: "", title: "Now", component: Now, key: "n" },
  { path: "to-do", title: "To do", component: ToDo, key: "o" },
  { path: "queues", title: "Queues", component: Queues, key: "q" },
  { path: "messages", title: "Messages", component: Messages, key: "m" },
  { path: "metrics", title: "Metrics", component: Metrics, key: "e" },
  { path: "instances", title: "Instances", component: Instances, key: "i", item: { title: "Instance", component: Instance } },
  { path: "dead-letters", title: "Dead letters", component: DeadLetters, key: "d", item: { title: "Dead letter", component: DeadLetter } },
  { path: "actions", title: "Actions", component: Actions, key: "a", item: { title: "Bulk action", component: BulkAction } },
  { path: "send", title: "Send", component: Send, key: "s" },
  { path: "catalog", title: "Catalog", component: Catalog, key: "c", item: { title: "Catalog", component: CatalogItem } },
  { path: "settings", title: "Settings", component: Settings, key: "t" },
  { path: "audit", title: "Audit", component: Audit, key: "u", under: "actions" },
  { path: "jobs", title: "Job", component: Job, under: "instances" },
];

export function screenAt([noun = "", param = ""]: readonly string[]) {
  const screen = SCREENS.find(({ path }) => path === noun) ?? NOWHERE;
  return { current: screen.under ?? screen.path, param, ...((param && screen.item) || screen) };
}
