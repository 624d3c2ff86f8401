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
  { name: "now", path: "", title: "Now", component: Now, key: "n" },
  { name: "to-do", path: "to-do", title: "To do", component: ToDo, key: "o" },
  { name: "queues", path: "queues", title: "Queues", component: Queues, key: "q" },
  { name: "messages", path: "messages", title: "Messages", component: Messages, key: "m" },
  { name: "metrics", path: "metrics", title: "Metrics", component: Metrics, key: "e" },
  { name: "instances", path: "instances", title: "Instances", component: Instances, key: "i" },
  { name: "dead-letters", path: "dead-letters", title: "Dead letters", component: DeadLetters, key: "d" },
  { name: "actions", path: "actions", title: "Actions", component: Actions, key: "a" },
  { name: "send", path: "send", title: "Send", component: Send, key: "s" },
  { name: "catalog", path: "catalog", title: "Catalog", component: Catalog, key: "c" },
  { name: "settings", path: "settings", title: "Settings", component: Settings, key: "t" },
  { name: "instance", path: "instances", title: "Instance", component: Instance, takesName: true, under: "instances" },
  { name: "dead-letter", path: "dead-letters", title: "Dead letter", component: DeadLetter, takesName: true, under: "dead-letters" },
  { name: "bulk-action", path: "actions", title: "Bulk action", component: BulkAction, takesName: true, under: "actions" },
  { name: "audit", path: "audit", title: "Audit", component: Audit, key: "u", under: "actions" },
  { name: "catalog-item", path: "catalog", title: "Catalog", component: CatalogItem, takesName: true, under: "catalog" },
  { name: "settings-page", path: "settings", title: "Settings", component: Settings, takesName: true, under: "settings" },
  { name: "to-do-page", path: "to-do", title: "To do", component: ToDo, takesName: true, under: "to-do" },
  { name: "job", path: "jobs", title: "Job", component: Job, takesName: true, under: "instances" },
];

export function screenAt([noun = "", param]: readonly string[]): { screen: Screen; param: string | undefined } {
  const screen =
    SCREENS.find(({ path, takesName = false }) => path === noun && takesName === (param !== undefined)) ??
    SCREENS.find(({ path }) => path === noun) ??
    NOWHERE;
  return { screen, param };
}
